"""Image sources: what they read, and what they say about files that they cannot read."""

import gzip

import numpy as np
import pytest
from PIL import Image

from wsl.zoo import ZooError
from wsl.zoo.images import ArrayImages, Coloured, DigitsImages, FolderImages, IdxImages, ImageSet

PIXELS = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
LABELS = np.array([2, 0, 1], dtype=np.uint8)


def idx(array):
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture(params=["", ".gz"], ids=["plain", "gzipped"])
def idx_folder(tmp_path, request):
    pack = gzip.compress if request.param else bytes
    (tmp_path / f"train-images-idx3-ubyte{request.param}").write_bytes(pack(idx(PIXELS)))
    (tmp_path / f"train-labels-idx1-ubyte{request.param}").write_bytes(pack(idx(LABELS)))
    return tmp_path


def test_digits():
    images = DigitsImages().load()
    assert (len(images), images.grid, images.channels) == (1797, (8, 8), 1)
    assert images.pixels.max() == 1
    assert np.bincount(images.labels).min() > 150


def test_idx(idx_folder):
    images = IdxImages(idx_folder).load()
    assert np.array_equal(images.pixels, PIXELS)
    assert images.labels.tolist() == [2, 0, 1]


def test_idx_without_labels(idx_folder):
    next(idx_folder.glob("*labels*")).unlink()
    assert IdxImages(idx_folder).load().labels is None


def test_idx_truncated(idx_folder):
    path = next(idx_folder.glob("*images*"))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ZooError, match=r"truncated"):
        IdxImages(idx_folder).load()


@pytest.mark.parametrize("content", [b"hello, world", bytes([0, 0, 8, 200]) + bytes(800)])
def test_not_idx(tmp_path, content):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(ZooError, match="not an IDX file"):
        IdxImages(tmp_path).load()


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_arrays(tmp_path, name):
    path = tmp_path / name
    if name.endswith("y"):
        np.save(path, PIXELS)
        np.save(tmp_path / "labels.npy", LABELS)
        images = ArrayImages(path, tmp_path / "labels.npy").load()
    else:
        np.savez(path, images=PIXELS, labels=LABELS)
        images = ArrayImages(path).load()
    assert np.array_equal(images.pixels, PIXELS)
    assert images.labels.tolist() == [2, 0, 1]


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ZooError, match="without pickle"):
        ArrayImages(tmp_path / "a.npy").load()


@pytest.mark.parametrize("change", ["cut", "flipped"])
def test_damaged_npz(tmp_path, change):
    np.savez(tmp_path / "a.npz", images=PIXELS)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    if change == "cut":
        del data[-40:]
    else:
        data[data.index(PIXELS.tobytes())] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(ZooError, match=r"a\.npz cannot be read"):
        ArrayImages(tmp_path / "a.npz").load()


def test_npy_that_announces_more_than_memory_holds(tmp_path):
    np.save(tmp_path / "a.npy", PIXELS)
    data = (
        (tmp_path / "a.npy")
        .read_bytes()
        .replace(b"(3, 4, 5), }" + b" " * 20, b"(3, 99999999999999999), }" + b" " * 7)
    )
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(ZooError, match=r"a\.npy cannot be read"):
        ArrayImages(tmp_path / "a.npy").load()


def test_npz_without_images(tmp_path):
    np.savez(tmp_path / "a.npz", data=PIXELS)
    with pytest.raises(ZooError, match="data"):
        ArrayImages(tmp_path / "a.npz").load()


def save_image(path, array):
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(array).save(path)


def test_folder_with_classes(tmp_path):
    save_image(tmp_path / "dog" / "1.png", PIXELS[0])
    save_image(tmp_path / "cat" / "2.png", PIXELS[1])
    images = FolderImages(tmp_path).load()
    assert np.array_equal(images.pixels, PIXELS[[1, 0]])
    assert images.labels.tolist() == [0, 1]
    assert list(images.label_names) == ["cat", "dog"]


def test_folder_with_colour(tmp_path):
    colour = np.stack([PIXELS[0], PIXELS[1], PIXELS[2]], axis=-1)
    save_image(tmp_path / "a.png", colour)
    save_image(tmp_path / "b.png", PIXELS[0])
    images = FolderImages(tmp_path).load()
    assert images.labels is None
    assert np.array_equal(images.pixels[0], colour)
    assert images.signals([0, 1]).shape == (2, 3, 4, 5)
    assert FolderImages(tmp_path, color=False).load().pixels.shape == (2, 4, 5)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_gray_images_of_16_bits_keep_their_depth(tmp_path, name):
    deep = PIXELS[0].astype(np.uint16) * 3000
    save_image(tmp_path / name, deep)
    images = FolderImages(tmp_path).load()
    assert images.pixels.dtype == np.uint16 and np.array_equal(images.pixels[0], deep)
    assert images.signals([0])[0, 0, 0, 1].item() == pytest.approx(3000 / 65535)
    assert np.array_equal(FolderImages(tmp_path, color=True).load().pixels[0, ..., 2], deep)
    save_image(tmp_path / "b.png", PIXELS[0])
    with pytest.raises(ZooError, match=r"of one depth, but .* is uint16 and .* is uint8"):
        FolderImages(tmp_path).load()


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_images_of_32_bits_are_refused(tmp_path, kind):
    save_image(tmp_path / "a.tif", PIXELS[0].astype(kind))
    with pytest.raises(ZooError, match=r"a\.tif has 32 bits a pixel"):
        FolderImages(tmp_path).load()


def test_animations_are_refused(tmp_path):
    frames = [Image.fromarray(pixels) for pixels in PIXELS]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(ZooError, match=r"a\.gif has 3 frames"):
        FolderImages(tmp_path).load()


def test_images_of_absurd_size_are_refused(tmp_path, monkeypatch):
    save_image(tmp_path / "a.png", PIXELS[0])
    for limit in (11, 8):  # a warning and an error of Pillow
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ZooError, match=r"a\.png is not a readable image: .*exceeds limit"):
            FolderImages(tmp_path).load()


def test_folder_with_two_sizes(tmp_path):
    save_image(tmp_path / "a.png", PIXELS[0])
    save_image(tmp_path / "b.png", PIXELS[0].T.copy())
    with pytest.raises(ZooError, match=r"4 x 5 .*b\.png is 5 x 4"):
        FolderImages(tmp_path).load()


def test_folder_with_a_broken_image(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG, or not")
    with pytest.raises(ZooError, match=r"a\.png is not a readable image"):
        FolderImages(tmp_path).load()


def test_folder_that_mixes_classes_and_none(tmp_path):
    save_image(tmp_path / "a.png", PIXELS[0])
    save_image(tmp_path / "cat" / "b.png", PIXELS[1])
    with pytest.raises(ZooError, match="cat"):
        FolderImages(tmp_path).load()


@pytest.mark.parametrize("source", [IdxImages, ArrayImages, FolderImages])
def test_missing_paths(tmp_path, source):
    with pytest.raises(ZooError, match=r"nowhere does not exist"):
        source(tmp_path / "nowhere").load()


@pytest.mark.parametrize("source", [IdxImages, FolderImages])
def test_empty_folders(tmp_path, source):
    with pytest.raises(ZooError, match=r"has no|has neither"):
        source(tmp_path).load()


@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        (np.zeros((3, 4), np.uint8), r"\(3, 4\), expected \(n, H, W\)"),
        (np.zeros((3, 4, 4, 2), np.uint8), "C = 1 or 3"),
        (np.zeros((0, 4, 4), np.uint8), "no images"),
        (np.zeros((3, 1, 4), np.uint8), "2 x 2"),
        (np.zeros((3, 4, 4), np.int32), "int32"),
        (np.full((3, 4, 4), 2.0), r"from 2 to 2"),
        (np.where(np.arange(48).reshape(3, 4, 4) == 20, np.nan, 0.0), "Image 1 holds NaN"),
    ],
)
def test_unusable_pixels(pixels, said):
    with pytest.raises(ZooError, match=said):
        ImageSet(pixels)


def test_byte_order_is_no_matter():
    swapped = ImageSet(PIXELS.astype(">u2"))
    assert swapped.identity == ImageSet(PIXELS.astype("<u2")).identity
    assert swapped.signals([1])[0, 0, 0, 0].item() == pytest.approx(20 / 65535)


def test_labels_of_another_number():
    with pytest.raises(ZooError, match="3 images"):
        ImageSet(PIXELS, np.array([1, 2]))


def test_identity_follows_content_and_labels(idx_folder):
    one, again = ImageSet(PIXELS, LABELS.astype(np.int64)), IdxImages(idx_folder).load()
    assert one.identity == again.identity
    changed = PIXELS.copy()
    changed[0, 0, 0] += 1
    others = [ImageSet(changed, one.labels), ImageSet(PIXELS, one.labels[::-1].copy()), ImageSet(PIXELS)]
    assert len({one.identity, *(other.identity for other in others)}) == 4


def test_signals_are_channels_first_in_the_unit_interval():
    signals = ImageSet(PIXELS[..., None].repeat(3, -1)).signals([2, 0])
    assert signals.shape == (2, 3, 4, 5)
    assert signals[0, 1, 3, 4].item() == pytest.approx(59 / 255)


def test_coloured_images_lie_between_their_two_colours():
    gray, images = DigitsImages().load(), Coloured(DigitsImages(), seed=3).load()
    assert (images.channels, images.pixels.dtype) == (3, np.uint8)
    assert np.array_equal(images.labels, gray.labels)
    columns = np.stack([images.columns[name] for name in images.columns], axis=1)
    front, back = columns[:, :3], columns[:, 3:]
    assert list(images.columns) == [
        *("red", "green", "blue"),
        *("background_red", "background_green", "background_blue"),
    ]
    assert np.linalg.norm(front - back, axis=1).min() >= 0.6
    for image in (0, 1500):  # the second is of another block
        shares = gray.pixels[image][..., None]
        expected = shares * front[image] + (1 - shares) * back[image]
        np.testing.assert_allclose(images.pixels[image] / 255, expected, atol=0.503 / 255)
    assert abs(np.corrcoef(front[:, 0], gray.labels)[0, 1]) < 0.1


def test_colours_depend_on_seed_and_number_alone(tmp_path):
    np.save(tmp_path / "a.npy", PIXELS[:2])
    np.save(tmp_path / "b.npy", PIXELS)
    few, many, other = (
        Coloured(ArrayImages(tmp_path / name), seed).load()
        for name, seed in (("a.npy", 0), ("b.npy", 0), ("b.npy", 1))
    )
    assert np.array_equal(few.columns["red"], many.columns["red"][:2])
    assert few.identity == many.limited(2).identity
    assert len({few.identity, many.identity, other.identity}) == 3


def test_only_gray_images_can_be_coloured():
    with pytest.raises(ZooError, match="3 channels"):
        Coloured(Coloured(DigitsImages())).load()
    with pytest.raises(ZooError, match="seed is -1"):
        Coloured(DigitsImages(), seed=-1).load()


def test_columns_have_a_value_for_each_image():
    with pytest.raises(ZooError, match="column red"):
        ImageSet(PIXELS, columns={"red": np.zeros(2)})


def class_folder(folder):
    """Three classes of 4, 8 and 12 images; each image's gray level is its number."""
    numbers = iter(range(24))
    for name, count in (("ants", 4), ("bees", 8), ("cats", 12)):
        (folder / name).mkdir()
        for number in range(count):
            pixels = np.full((2, 2), next(numbers), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:02}.png")
    return FolderImages(folder).load()


def test_a_limit_keeps_the_share_of_each_class_of_a_folder(tmp_path):
    images = class_folder(tmp_path)
    few = images.limited(6)
    assert few.labels.tolist() == [0, 1, 1, 2, 2, 2]
    assert few.pixels[:, 0, 0].tolist() == [0, 4, 8, 12, 16, 20]
    assert few.label_names == images.label_names
    assert images.limited(24) is images.limited(100) is images.limited(None) is images
    with pytest.raises(ZooError, match="limit is 0"):
        images.limited(0)


@pytest.mark.parametrize("order", [[1, 1, 1, 0, 0, 2, 2, 2, 2], [2, 0, 1, 2, 0, 1, 0, 1, 2]])
def test_a_limit_takes_the_first_images_unless_classes_follow_one_another(order):
    numbers = np.arange(9, dtype=np.uint8)
    pixels = np.broadcast_to(numbers[:, None, None], (9, 2, 2))
    images = ImageSet(pixels, np.array(order), columns={"number": numbers})
    few = images.limited(3)
    taken = [0, 3, 6] if order[0] == order[1] else [0, 1, 2]
    assert few.columns["number"].tolist() == few.pixels[:, 0, 0].tolist() == taken
    assert few.labels.tolist() == [order[row] for row in taken]


def test_a_limit_takes_the_first_images_without_labels():
    pixels = np.arange(5 * 4, dtype=np.uint8).reshape(5, 2, 2)
    assert np.array_equal(ImageSet(pixels).limited(2).pixels, pixels[:2])
