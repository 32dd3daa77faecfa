"""The networks of the ModelZoos: which class they are follows from the parameters of their trial."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import Architecture
from wsl.zoo.formats._architectures import described, shapes_of, traced
from wsl.zoo.formats._networks import match, tensors_of
from wsl.zoo.formats._protocol import ImportOptions
from wsl.zoo.formats._torch_file import read_torch_file

_ACTIVATIONS = {
    "gelu": "gelu",
    "leakyrelu": "leaky_relu",
    "relu": "relu",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "tanh": "tanh",
}


class Recipe(NamedTuple):
    """How the networks of a trial are built; the size of their inputs follows from the first kernel."""

    forward: ForwardDefinition | None
    side: int
    first: str
    """The tensor whose second dimension is the channels of the images."""
    channels: int
    given: Architecture | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any], options: ImportOptions) -> "Recipe":
        """From the parameters of a trial, or the module that the user named; raises ZooError."""
        if options.module is not None:
            return cls(None, 0, "", 0, described(options.module))
        kind, channels = config.get("model::type"), config.get("model::channels_in")
        activation, dropout = config.get("model::nlin"), config.get("model::dropout", 0)
        if type(channels) is not int or not 1 <= channels <= 1000:
            raise ZooError(
                f"model::channels_in is {str(channels)[:60]}, expected the channels of the images."
            )
        if kind in ("CNN", "CNN2", "CNN3"):
            if activation not in _ACTIVATIONS or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
                raise ZooError(
                    f"model::nlin {str(activation)[:60]} or model::dropout {str(dropout)[:60]} is unknown."
                )
            arguments: dict[str, Any] = {
                "kind": kind, "in_channels": channels, "activation": _ACTIVATIONS[activation],
                "dropout": float(dropout),
            }  # fmt: skip
            forward = ForwardDefinition("wsl.models:ModelZooCNN", arguments)
            return cls(forward, 32 if kind == "CNN3" else 28, "module_list.0.weight", channels)
        if (
            kind == "Resnet18"
            and type(config.get("model::o_dim")) is int
            and 1 <= config["model::o_dim"] <= 10**5
        ):
            arguments = {"in_channels": channels, "classes": config["model::o_dim"]}
            return cls(ForwardDefinition("wsl.models:ResNet18", arguments), 32, "conv1.weight", channels)
        raise ZooError(
            f"model::type is {str(kind)[:60]!r}, and the known ones are CNN, CNN2, CNN3 and Resnet18 with "
            "model::o_dim. Name the module of these networks with --module and --input."
        )

    def network(self, path: Path, notes: list[str]) -> tuple[Architecture, Any]:
        """The architecture and the tensors of a checkpoint; ``notes`` takes what is not kept."""
        where = str(path)
        tensors = tensors_of(read_torch_file(path), where)
        if all(name.startswith("module.") for name in tensors):
            tensors = {name.removeprefix("module."): value for name, value in tensors.items()}
        if self.given is None:
            first = tensors.get(self.first)
            if first is None or first.ndim != 4 or first.shape[1] != self.channels:
                raise ZooError(
                    f"{where}: {self.first} is missing or has other channels than params.json says."
                )
            assert self.forward is not None
            title = self.forward.arguments.get("kind", "resnet18").lower()
            words = [title, self.forward.arguments.get("activation", "relu")]
            architecture = traced("-".join(words), self.forward, (2, self.channels, self.side, self.side))
        else:
            architecture = self.given
        shapes = shapes_of(architecture)
        counters = [n for n in tensors if n.endswith(".num_batches_tracked") and n not in shapes]
        if counters:
            sentence = "num_batches_tracked, which has no part in the function, is not kept."
            notes += [sentence] if sentence not in notes else []
        kept = {name: value for name, value in tensors.items() if name not in counters}
        return architecture, match(kept, {name: name for name in shapes}, shapes, where)


def check_config(config: Mapping[str, Any], architecture: Architecture, row: int) -> None:
    """Raise ZooError unless the parameters of a model say how it runs, as the reader needs it."""
    built = Recipe.of(config, ImportOptions()).forward
    if built != architecture.forward:
        raise ZooError(
            f"row {row}: its parameters (model::type, model::nlin, …) do not say how it runs, and this "
            "format keeps it there. Formats that hold any zoo are state_dicts and safetensors."
        )
