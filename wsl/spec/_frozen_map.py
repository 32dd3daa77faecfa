"""An immutable mapping, for values that are hashed and compared."""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class FrozenMap(Mapping[str, _Value], Generic[_Value]):
    """An immutable, hashable mapping that keeps its order and compares like any mapping."""

    def __init__(self, items: Mapping[str, _Value]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> _Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)
