"""Packages that only some uses of a zoo need."""

from importlib import import_module
from typing import Any

from wsl.zoo._errors import ZooError


def optional(package: str, extra: str, otherwise: str = "") -> Any:
    """The module of an optional package.

    Args:
        extra: this package's extra that brings it.
        otherwise: what to do without it, for the message.

    Raises:
        ZooError: it is not installed.
    """
    try:
        return import_module(package)
    except ImportError as err:
        install = f"pip install 'weightspace[{extra}]'"
        message = f"This needs {package}, which is not installed: {install}. {otherwise}"
        raise ZooError(message.rstrip()) from err
