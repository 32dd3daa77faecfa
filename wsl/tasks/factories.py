"""Classes with some of their arguments fixed, described by plain values so that checkpoints can hold them."""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

# A checkpoint may name classes of these packages, and of modules that are imported already.
TRUSTED = ("torch", "wsl")


class TaskError(ValueError):
    """A task cannot be set up from what it was given."""


@dataclass(frozen=True)
class Recipe:
    """The import path of a class, and keyword arguments to call it with.

    Args:
        class_path: ``"package.module.Class"``.
        init_args: values that ``torch.load(weights_only=True)`` reads back: numbers, strings, lists,
            dicts, None.
    """

    class_path: str
    init_args: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The form that configuration files use."""
        return {"class_path": self.class_path, "init_args": self.init_args}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Recipe":
        """Inverse of :meth:`to_dict`; ``init_args`` may be missing.

        Raises:
            TaskError: other entries than these.
        """
        if not isinstance(value.get("class_path"), str) or not set(value) <= {"class_path", "init_args"}:
            raise TaskError(f"{dict(value)} is no recipe; expected the entries class_path and init_args.")
        return cls(value["class_path"], dict(value.get("init_args") or {}))

    def load(self, base: type) -> type:
        """Import the class, a subclass of ``base``.

        Raises:
            TaskError: there is no such class, or it lies in a package that a file must not choose to import.
        """
        module, _, name = self.class_path.rpartition(".")
        if module not in sys.modules and module.partition(".")[0] not in TRUSTED:
            raise TaskError(
                f"{self.class_path} is of a module that is not imported yet, and a checkpoint does not choose"
                f" what is imported.\n  If you trust it, import {module or 'it'} and load again."
            )
        try:
            loaded = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as err:
            raise TaskError(
                f"{self.class_path} cannot be imported ({err}).\n"
                "  The checkpoint may come from another version of its package."
            ) from err
        if not (isinstance(loaded, type) and issubclass(loaded, base)):
            raise TaskError(f"{self.class_path} is no {base.__name__}, which is expected here.")
        return loaded

    def factory(self, base: type) -> Callable[..., Any]:
        """The class with its arguments fixed; raises as :meth:`load`."""
        return partial(self.load(base), **self.init_args)


def describe(argument: str, factory: Callable[..., Any]) -> Recipe:
    """The recipe of a class, of a ``functools.partial`` of one, or of a class configured by jsonargparse.

    Args:
        argument: what the factory is an argument for, for the message.

    Raises:
        TaskError: anything else, e.g. a lambda, or a fixed argument that is no plain value.
    """
    fixed: dict[str, Any] = {}
    kinds: list[type] = [factory] if isinstance(factory, type) else []
    if isinstance(factory, partial):
        fixed = factory.keywords
        # jsonargparse: partial(call, instantiator, class, **init_args)
        kinds = [value for value in (factory.func, *factory.args) if isinstance(value, type)]
    if len(kinds) != 1:
        raise TaskError(
            f"{argument} is {str(factory).partition(chr(10))[0]}; expected a class, or functools.partial of "
            "one with keyword arguments.\n"
            "  Checkpoints store import path and arguments, so that they load without running foreign code."
        )
    return Recipe(
        import_path(kinds[0]), {name: plain(f"{argument}.{name}", value) for name, value in fixed.items()}
    )


def import_path(kind: type) -> str:
    """Where a class is imported from: the shortest package that exports it, else its own module."""
    parts = kind.__module__.split(".")
    for end in range(1, len(parts) + 1):
        module = sys.modules.get(".".join(parts[:end]))
        if getattr(module, kind.__qualname__, None) is kind:
            return ".".join([*parts[:end], kind.__qualname__])
    return f"{kind.__module__}.{kind.__qualname__}"


def plain(name: str, value: Any) -> Any:
    """``value`` with tuples as lists, if it consists of numbers, strings, lists, dicts and None only.

    Raises:
        TaskError: it holds anything else.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(name, item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(name, item) for key, item in value.items()}
    raise TaskError(
        f"{name} is a {type(value).__name__}, which a checkpoint does not hold; "
        "expected numbers, strings, lists, dicts or None."
    )


def value_to_plain(value: Any) -> dict[str, Any]:
    """Class path and arguments of a dataclass such as an edit or an augmentation, for checkpoints.

    Its fields may be such dataclasses in turn.

    Raises:
        TaskError: it is no dataclass, or a field is no plain value.
    """
    path = import_path(type(value))
    if not is_dataclass(value) or isinstance(value, type):
        raise TaskError(f"{path} is no dataclass, whose fields a checkpoint could hold.")
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    arguments = {
        name: value_to_plain(part) if is_dataclass(part) else plain(f"{path}.{name}", part)
        for name, part in found.items()
    }
    return {"class_path": path, "init_args": arguments}


def value_from_plain(stored: Mapping[str, Any], base: type) -> Any:
    """Inverse of :func:`value_to_plain` for subclasses of ``base``; raises TaskError for anything else."""
    recipe = Recipe.from_dict(stored)
    inner = {
        name: value_from_plain(part, object)
        for name, part in recipe.init_args.items()
        if isinstance(part, Mapping) and "class_path" in part
    }
    return recipe.factory(base)(**inner)
