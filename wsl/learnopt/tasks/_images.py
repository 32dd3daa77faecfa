"""Classifiers of small images."""

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from wsl.learnopt._types import Tensors
from wsl.learnopt.tasks._image_data import labelled_images
from wsl.learnopt.tasks._module_task import ModuleTask, stacked_layers
from wsl.models import MLP, SmallCNN
from wsl.zoo.images import DigitsImages, ImageSource

_CEILING = 10.0  # nats; a guess among ten classes costs 2.3


class ImageTask(ModuleTask):
    """Mean cross-entropy in nats of a classifier of images.

    Args:
        build: from channels, size and number of classes to a function that builds the network.
        train, test: labelled images; without ``test`` every fifth of ``train`` is one to test on.
        size: ``(H, W)`` that images are reduced to, each pixel the mean of its area.
        batch_size: images of a step.
        limit: takes the first so many images of each source.
    """

    def __init__(
        self,
        build: Callable[[int, tuple[int, int], int], Callable[[], nn.Module]],
        train: ImageSource,
        test: ImageSource | None,
        size: Sequence[int],
        batch_size: int,
        limit: int | None,
    ) -> None:
        height, width = size
        images, others = labelled_images(train, test, (height, width), limit)
        self.classes = int(max(images[1].max(), others[1].max())) + 1
        make = build(images[0].shape[1], (height, width), self.classes)
        super().__init__(make, F.cross_entropy, images, others, batch_size, _CEILING)


class MlpImages(ImageTask):
    """A multilayer perceptron that classifies images, :class:`wsl.models.MLP`.

    By default that of Zhou et al. 2024 (arXiv:2402.05232, appendix C.1): 8x8 pixels and 32 hidden neurons.

    Args:
        train, test: labelled images; without ``test`` every fifth of ``train`` is one to test on.
        size: ``(H, W)`` that images are reduced to, each pixel the mean of its area.
        hidden: widths of the hidden layers.
        activation: name of the activation, see :data:`wsl.models.ACTIVATIONS`.
        batch_size: images of a step.
        limit: takes the first so many images of each source.
    """

    def __init__(
        self,
        train: ImageSource | None = None,
        test: ImageSource | None = None,
        size: Sequence[int] = (8, 8),
        hidden: Sequence[int] = (32,),
        activation: str = "relu",
        batch_size: int = 128,
        limit: int | None = None,
    ) -> None:
        def build(channels: int, size: tuple[int, int], classes: int) -> Callable[[], nn.Module]:
            return partial(MLP, channels * size[0] * size[1], tuple(hidden), classes, activation)

        super().__init__(build, train or DigitsImages(), test, size, batch_size, limit)

    def values(self, params: Tensors, batch: tuple[Tensor, Tensor]) -> Tensor:
        assert isinstance(self.module, MLP)
        images, labels = batch
        logits = stacked_layers(params, self.module.activations, images.flatten(2))
        return F.cross_entropy(logits, labels, reduction="none").mean(1)


class CnnImages(ImageTask):
    """A convolutional network that classifies images, :class:`wsl.models.SmallCNN`.

    Args:
        train, test: labelled images, gray or coloured, such as :class:`wsl.zoo.images.Coloured`; without
            ``test`` every fifth of ``train`` is one to test on.
        size: ``(H, W)`` that images are reduced to, each pixel the mean of its area.
        channels: of each convolution.
        activation: name of the activation, see :data:`wsl.models.ACTIVATIONS`.
        batch_size: images of a step.
        limit: takes the first so many images of each source.
    """

    def __init__(
        self,
        train: ImageSource,
        test: ImageSource | None = None,
        size: Sequence[int] = (16, 16),
        channels: Sequence[int] = (16, 16, 16),
        activation: str = "relu",
        batch_size: int = 64,
        limit: int | None = None,
    ) -> None:
        def build(colours: int, size: tuple[int, int], classes: int) -> Callable[[], nn.Module]:
            return partial(SmallCNN, colours, tuple(channels), classes, activation)

        super().__init__(build, train, test, size, batch_size, limit)
