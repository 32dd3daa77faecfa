"""Canonical JSON: the text that is stored, hashed and compared."""

import json
from typing import Any

from wsl.zoo._errors import ZooError


def dump_json(what: str, value: Any) -> str:
    """Canonical text: sorted keys, no spaces, no NaN. Raises ZooError for a value without a JSON form."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as err:
        raise ZooError(
            f"The {what} cannot be stored as JSON: {err}. "
            "Use only text, finite numbers, booleans, None, lists and dictionaries with text keys."
        ) from err


def load_json(what: str, text: str) -> dict[str, Any]:
    """Parse stored text; raises ZooError unless it is one JSON object without NaN."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        value = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as err:
        raise ZooError(
            f"The {what} is not valid JSON: {err}. The file is damaged or was not written by wsl."
        ) from err
    if not isinstance(value, dict):
        raise ZooError(f"The {what} is a JSON {type(value).__name__}, expected an object.")
    return value


def differences(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """One line for each leaf where two JSON values differ: ``recipe.steps: 200 here, 150 there``."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        lines = []
        for key in sorted(ours.keys() | theirs.keys()):
            path = f"{at}.{key}" if at else key
            lines += differences(ours.get(key, "nothing"), theirs.get(key, "nothing"), path)
        return lines
    if ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool):
        return []
    return [f"{at}: {_short(ours)} now, {_short(theirs)} there"]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:57]}..."
