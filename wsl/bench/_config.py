"""Configurations of a bench: one for all, with an encoder's laid over it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonargparse import get_loader

from wsl.bench._errors import BenchError


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file's mapping, read as ``python -m wsl fit`` reads it.

    Raises:
        BenchError: there is no such file, or it holds no mapping.
    """
    try:
        found = get_loader("yaml")(path.read_text("utf-8"))
    except OSError as err:
        raise BenchError(f"{path} cannot be read: {err.strerror}. Check --configs and --encoders.") from err
    except Exception as err:  # of the YAML reader, which has no base class of its own in jsonargparse
        raise BenchError(f"{path} is no YAML file: {' '.join(str(err).split())}.") from err
    if not isinstance(found, dict):
        raise BenchError(f"{path} holds {type(found).__name__}; expected a mapping such as model: ….")
    return found


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` over ``below``: mappings merge, lists join (those of ``above`` first), all else is replaced.

    Arguments of a class stay with it: another ``class_path`` replaces the whole mapping.
    """
    if "class_path" in below and above.get("class_path", below["class_path"]) != below["class_path"]:
        return dict(above)
    merged = dict(below)
    for key, value in above.items():
        old = below.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = overlay(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            merged[key] = [*value, *old]
        else:
            merged[key] = value
    return merged


def digest(config: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that tell configurations apart, whatever the order of their keys."""
    text = json.dumps(config, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
