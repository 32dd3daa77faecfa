"""Strict reading of one HDF5 file: nothing outside it, and every dataset in one piece at a known offset."""

import math
import os
from typing import Any, NamedTuple

import numpy as np

from wsl.zoo._errors import ZooError


class Dataset(NamedTuple):
    """Where a dataset's bytes lie, and what they are."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


class StrictFile:
    """Groups, datasets and attributes of one open file, by HDF5's own identifiers.

    They are a tenth of the work of h5py's objects, of which a zoo of many architectures would make thousands.
    Damaged files raise nearly every type of exception; the caller wraps those that are no ZooError.

    Args:
        h5py: the module; imported by the caller, where it is needed.
        file: an open ``h5py.File`` of the default driver.
        size: bytes of the file.
    """

    def __init__(self, h5py: Any, file: Any, size: int) -> None:
        self._h5py, self._size = h5py, size
        self.root = h5py.h5g.open(file.id, b"/")
        self._descriptor: int = file.id.get_vfd_handle()

    def group(self, parent: Any, name: str) -> Any:
        """The identifier of a group in another."""
        return self._child(parent, name, self._h5py.h5g.GroupID)

    def names(self, group: Any) -> list[str]:
        """The names in a group, sorted as text."""
        return sorted(name.decode("utf-8") for name in group)

    def attribute(self, owner: Any, name: str) -> Any:
        """A text or a number that is attached to a group or dataset; ``""`` if it is missing."""
        if not self._h5py.h5a.exists(owner, name.encode()):
            return ""
        attribute = self._h5py.h5a.open(owner, name.encode())
        if attribute.shape != () or attribute.dtype.hasobject:
            return ""
        value = np.empty((), attribute.dtype)
        attribute.read(value)
        return bytes(value[()]).decode("utf-8") if attribute.dtype.kind == "S" else value[()]

    def attribute_of(self, parent: Any, dataset: str, name: str) -> Any:
        """As :meth:`attribute`, of a dataset in a group."""
        return self.attribute(self._child(parent, dataset, self._h5py.h5d.DatasetID), name)

    def dataset(self, parent: Any, name: str) -> Dataset:
        """A dataset whose bytes certainly lie inside this file, as one piece."""
        item, offset = self._piece(parent, name)
        found = Dataset(f"{self._path(parent)}/{name}", item.dtype, item.shape or (), offset)
        if not found.size or found.dtype.hasobject or item.get_storage_size() != found.size:
            raise ZooError(
                f"{found.name} is empty or has no fixed size ({found.shape}, {found.dtype}), or has been cut."
            )
        return found

    def bytes_of(self, parent: Any, name: str) -> bytes:
        """All bytes of a dataset, whatever its type."""
        item, offset = self._piece(parent, name)
        return self._bytes(name, offset, item.get_storage_size()).tobytes()

    def read(self, dataset: Dataset) -> np.ndarray:
        """All values of a dataset."""
        content = self._bytes(dataset.name, dataset.offset, dataset.size)
        return content.view(dataset.dtype).reshape(dataset.shape)

    def array(self, parent: Any, name: str, dtype: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """All values of a dataset of a given type, and shape if one is given."""
        item = self.dataset(parent, name)
        if item.dtype != np.dtype(dtype) or (shape is not None and item.shape != shape):
            raise ZooError(
                f"{item.name} is {item.dtype} {item.shape}, expected {np.dtype(dtype)} {shape or ''}."
            )
        return self.read(item)

    def text(self, parent: Any, name: str) -> str:
        """The text that a dataset holds."""
        item = self.dataset(parent, name)
        if item.dtype.kind != "S" or item.shape != ():
            raise ZooError(f"{item.name} is {item.dtype} {item.shape}, expected one text.")
        return bytes(self.read(item)[()]).decode("utf-8")

    def _bytes(self, name: str, offset: int, size: int) -> np.ndarray:
        content, done = np.empty(size, dtype=np.uint8), 0
        target = content.data
        while done < size:
            count = os.preadv(self._descriptor, (target[done:],), offset + done)
            if not count:
                raise ZooError(f"{name} ends early: the file was cut while it was read.")
            done += count
        return content

    def _piece(self, parent: Any, name: str) -> tuple[Any, int]:
        """The identifier of a dataset, and where its bytes lie in this file."""
        item = self._child(parent, name, self._h5py.h5d.DatasetID)
        layout = item.get_create_plist()
        if layout.get_layout() != self._h5py.h5d.CONTIGUOUS or layout.get_external_count():
            raise ZooError(
                f"{self._path(parent)}/{name} is not stored as one contiguous piece, as every dataset of a "
                "zoo is."
            )
        offset, size = item.get_offset(), item.get_storage_size()
        if not offset or not size:
            raise ZooError(f"{self._path(parent)}/{name} is empty or has no fixed size.")
        if offset + size > self._size:
            raise ZooError(
                f"{self._path(parent)}/{name} claims {size} bytes from {offset} on, but the file has "
                f"{self._size}. It is truncated or damaged: copy it again, or build it again."
            )
        return item, offset

    def _child(self, parent: Any, name: str, kind: type) -> Any:
        encoded = name.encode()
        if not parent.links.exists(encoded):
            raise ZooError(
                f"it has no {self._path(parent)}/{name}. The file is damaged: copy or build it again."
            )
        # A soft or external link could lead out of this file.
        if parent.links.get_info(encoded).type != self._h5py.h5l.TYPE_HARD:
            raise ZooError(f"{name} is a link in {self._path(parent) or '/'}, which a zoo never has.")
        item = self._h5py.h5o.open(parent, encoded)
        if not isinstance(item, kind):
            given, expected = (each.__name__.removesuffix("ID") for each in (type(item), kind))
            raise ZooError(f"{self._path(parent)}/{name} is a {given}, expected a {expected}.")
        return item

    def _path(self, group: Any) -> str:
        """A group's name in the file, without a slash at the end."""
        return (self._h5py.h5i.get_name(group) or b"").decode("utf-8", "replace").rstrip("/")
