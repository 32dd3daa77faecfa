"""Pickles that name foreign classes: harmless ones, as configurations are published, and a hostile one."""

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


@contextmanager
def omegaconf_stand_in() -> Iterator[Callable[[Any], Any]]:
    """Classes that pickle under OmegaConf's names; gives a function that wraps a plain value in them."""
    names = {
        "omegaconf.dictconfig": ("DictConfig",), "omegaconf.listconfig": ("ListConfig",),
        "omegaconf.base": ("ContainerMetadata", "Metadata"), "omegaconf.nodes": ("AnyNode",),
    }  # fmt: skip
    classes: dict[str, type] = {}
    modules = {name: ModuleType(name) for name in ("omegaconf", *names)}
    for module, members in names.items():
        for member in members:
            classes[member] = type(member, (), {"__module__": module})
            setattr(modules[module], member, classes[member])

    def make(kind: str, **state: Any) -> Any:
        made = classes[kind]()
        made.__dict__.update(state)
        return made

    def wrap(value: Any, parent: Any = None) -> Any:
        metadata = make("Metadata", ref_type=Any, object_type=dict, flags={}, optional=True)
        if isinstance(value, dict):
            made = make("DictConfig", _metadata=metadata, _parent=parent, _content=None)
            made._content = {key: wrap(item, made) for key, item in value.items()}
        elif isinstance(value, list):
            made = make("ListConfig", _metadata=metadata, _parent=parent, _content=None)
            made._content = [wrap(item, made) for item in value]
        else:
            made = make("AnyNode", _metadata=metadata, _parent=parent, _val=value)
        return made

    sys.modules.update(modules)
    try:
        yield wrap
    finally:
        for name in modules:
            del sys.modules[name]


def evil_pickle(marker: Path) -> bytes:
    """A pickle that would make a file if it were unpickled."""

    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (marker,))

    return pickle.dumps({"weight": Evil()}, protocol=2)
