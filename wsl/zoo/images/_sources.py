"""Image sources: scikit-learn's digits, IDX files, arrays, folders of image files."""

import gzip
import math
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wsl.zoo._errors import ZooError
from wsl.zoo.images._set import ImageSet, ImageSource

_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class DigitsImages(ImageSource):
    """The 1,797 handwritten 8x8 digits in scikit-learn's wheel (17 gray levels); nothing is downloaded."""

    def load(self) -> ImageSet:
        from sklearn.datasets import load_digits  # slow to import

        digits = load_digits()
        return ImageSet(
            (digits.images / 16).astype(np.float32), digits.target.astype(np.int64), tuple("0123456789")
        )


@dataclass(frozen=True)
class IdxImages(ImageSource):
    """IDX files as MNIST and Fashion-MNIST come in: ``{part}-images-idx3-ubyte``, plain or with ``.gz``.

    Args:
        folder: holds the images, and the labels as ``{part}-labels-idx1-ubyte`` if there are any.
        part: ``train`` or ``t10k``, the first word of the file names.
    """

    folder: Path
    part: str = "train"

    def load(self) -> ImageSet:
        folder = Path(self.folder)
        images = _idx_file(folder, f"{self.part}-images-idx3-ubyte", required=True)
        labels = _idx_file(folder, f"{self.part}-labels-idx1-ubyte", required=False)
        assert images is not None
        return ImageSet(read_idx(images), None if labels is None else _integers(read_idx(labels), labels), ())


@dataclass(frozen=True)
class ArrayImages(ImageSource):
    """One array file: ``.npy`` with images, or ``.npz`` with ``images`` and, optionally, ``labels``.

    Args:
        path: the file. It is read without pickle.
        labels_path: ``.npy`` of integer labels, for images in a ``.npy``.
    """

    path: Path
    labels_path: Path | None = None

    def load(self) -> ImageSet:
        content = _load_array(Path(self.path))
        if isinstance(content, np.ndarray):
            images, labels = content, None
        else:
            if "images" not in content:
                raise ZooError(f"{self.path} has the entries {sorted(content)}, expected one called images.")
            images, labels = content["images"], content.get("labels")
        if self.labels_path is not None:
            given = _load_array(Path(self.labels_path))
            if not isinstance(given, np.ndarray):
                raise ZooError(f"{self.labels_path} holds several arrays, expected a .npy with one.")
            labels = given
        return ImageSet(images, None if labels is None else _integers(labels, self.path))


@dataclass(frozen=True)
class FolderImages(ImageSource):
    """Image files of one size in a folder; when they lie in subfolders, these name their classes.

    Still images of 8 bits a channel, or gray ones of 16 bits; transparency is left out.

    Args:
        folder: searched with its subfolders, in the order of the sorted paths.
        color: read as RGB (True) or gray (False); by default gray if every file is stored as gray.
    """

    folder: Path
    color: bool | None = None

    def load(self) -> ImageSet:
        folder = _existing(Path(self.folder), kind="folder")
        files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _IMAGE_SUFFIXES)
        if not files:
            raise ZooError(
                f"{folder} has no image files ({', '.join(_IMAGE_SUFFIXES)}), also not in its subfolders."
            )
        arrays = [_read_image(path) for path in files]
        for path, array in zip(files, arrays, strict=True):
            if array.shape[:2] != arrays[0].shape[:2]:
                raise ZooError(
                    f"Images must be of one size, but {files[0]} is {_size(arrays[0])} and {path} is "
                    f"{_size(array)}. Resize or crop them first."
                )
            if array.dtype != arrays[0].dtype:
                raise ZooError(
                    f"Images must be of one depth, but {files[0]} is {arrays[0].dtype} and {path} is "
                    f"{array.dtype}. Convert them first."
                )
        gray = all(array.ndim == 2 for array in arrays) if self.color is None else not self.color
        pixels = np.stack([_as_gray(array) if gray else _as_rgb(array) for array in arrays])
        classes = [path.relative_to(folder).parts[0] for path in files if path.parent != folder]
        if len(classes) != len(files):
            if classes:
                raise ZooError(
                    f"{folder} has images both directly in it and in subfolders such as {classes[0]}. "
                    "Put every image in a class subfolder, or none."
                )
            return ImageSet(pixels)
        names = sorted(set(classes))
        return ImageSet(pixels, np.array([names.index(name) for name in classes], dtype=np.int64), names)


def read_idx(path: Path) -> np.ndarray:
    """Read one IDX file, plain or gzipped.

    Raises:
        ZooError: it is missing, not an IDX file, or its size is not what its header says (truncated).
    """
    path = _existing(path, kind="file")
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as err:
        raise ZooError(
            f"{path} cannot be decompressed: {err}. It is truncated or damaged; fetch it again."
        ) from err
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES or not 1 <= data[3] <= 4:
        raise ZooError(f"{path} is not an IDX file: it starts with {data[:4].hex() or 'nothing'}.")
    start = 4 + 4 * data[3]
    shape = tuple(int.from_bytes(data[i : i + 4], "big") for i in range(4, start, 4))
    dtype = np.dtype(_IDX_TYPES[data[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise ZooError(
            f"{path} has {len(data)} bytes, but its header announces {shape}, which needs {expected}. "
            "It is truncated or damaged; fetch it again."
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def _idx_file(folder: Path, name: str, *, required: bool) -> Path | None:
    _existing(folder, kind="folder")
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    if required:
        raise ZooError(
            f"{folder} has neither {name} nor {name}.gz. "
            "Point to the folder with the IDX files, or choose another part."
        )
    return None


def _load_array(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    _existing(path, kind="file")
    try:
        with open(path, "rb") as file:  # numpy itself leaves it open when it is damaged
            content = np.load(file, allow_pickle=False)
            return content if isinstance(content, np.ndarray) else {name: content[name] for name in content}
    except (OSError, ValueError, EOFError, MemoryError, zlib.error, zipfile.BadZipFile) as err:
        raise ZooError(
            f"{path} cannot be read as .npy or .npz without pickle: {err}. "
            "If it is truncated or damaged, copy or make it again."
        ) from err


def _integers(labels: np.ndarray, path: Path) -> np.ndarray:
    if labels.dtype.kind not in "iu":
        raise ZooError(f"The labels of {path} have type {labels.dtype}, expected integers.")
    return labels.astype(np.int64)


def _existing(path: Path, *, kind: str) -> Path:
    if not path.exists():
        raise ZooError(f"{path} does not exist; it should be a {kind} with images or labels.")
    if path.is_dir() != (kind == "folder"):
        raise ZooError(f"{path} is not a {kind}.")
    return path


def _read_image(path: Path) -> np.ndarray:
    """One image file as ``(H, W)`` for gray, uint8 or uint16, or ``(H, W, 3)`` uint8 for colour."""
    from PIL import Image  # slow to import

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                frames = getattr(image, "n_frames", 1)
                if frames > 1:
                    raise ZooError(f"{path} has {frames} frames. Store each as an image of its own.")
                deep = image.mode == "I" and image.format in ("PNG", "PPM")  # these have 16 bits at most
                if deep or image.mode.startswith("I;16"):
                    return np.asarray(image).astype(np.uint16)
                if image.mode in ("I", "F"):
                    raise ZooError(
                        f"{path} has 32 bits a pixel, of which the largest possible value is not known. "
                        "Convert it to 8 or 16 bits, or store an array of floats in [0, 1] as .npy."
                    )
                return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    except ZooError:
        raise
    except (OSError, EOFError, ValueError, SyntaxError, Image.DecompressionBombError, Warning) as err:
        raise ZooError(f"{path} is not a readable image: {err}. Remove or replace it.") from err


def _as_gray(array: np.ndarray) -> np.ndarray:
    from PIL import Image  # slow to import

    return array if array.ndim == 2 else np.asarray(Image.fromarray(array).convert("L"))


def _as_rgb(array: np.ndarray) -> np.ndarray:
    return array if array.ndim == 3 else np.repeat(array[..., None], 3, axis=-1)


def _size(array: np.ndarray) -> str:
    return f"{array.shape[0]} x {array.shape[1]}"
