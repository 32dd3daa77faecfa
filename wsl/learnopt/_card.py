"""What people should know of an optimizer that lies in a file."""

from dataclasses import asdict, dataclass, fields
from typing import Any

LONGEST = 10_000


class OptimizerFileError(ValueError):
    """A file holds no optimizer that can be used, or an optimizer cannot be put into a file."""


@dataclass(frozen=True)
class Card:
    """What people should know of an optimizer before they use it.

    Args:
        about: what it is, in a line.
        trained: how: command, estimator, number of meta-steps, time.
        tasks: on what.
        fails: where it does worse than a tuned optimizer, or diverges.
        code: the version of the code that trained it.

    Raises:
        OptimizerFileError: an entry says nothing, is longer than 10,000 characters, or is not printable.
    """

    about: str
    trained: str
    tasks: str
    fails: str
    code: str

    def __post_init__(self) -> None:
        for name, text in asdict(self).items():
            if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
                raise OptimizerFileError(f"card: {name} is no text of 1 to {LONGEST} characters.")
            if not text.replace("\n", " ").isprintable():
                raise OptimizerFileError(f"card: {name} holds control characters.")

    def __str__(self) -> str:
        width = max(len(field.name) for field in fields(self)) + 2
        return "\n".join(
            f"{name:<{width}}" + text.strip().replace("\n", "\n" + " " * width)
            for name, text in asdict(self).items()
        )


def printable(text: str) -> str:
    """A text of a file, or about one, with question marks for all that is neither printed nor a new line."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def shortened(value: Any) -> str:
    """A value of a file as a short line of printable characters."""
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= 200 else f"{text[:200]}…"
