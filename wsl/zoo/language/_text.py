"""Texts that language models learn from: where they come from, and their characters as numbers."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wsl.zoo._errors import ZooError


class TextSource(ABC):
    """Where a text comes from; a builder calls :meth:`load` once."""

    @abstractmethod
    def load(self) -> str:
        """Read the text. Raises ZooError when it is missing or not what the class documents."""


@dataclass(frozen=True)
class PydocText(TextSource):
    """Python's own documentation of its language, part of every CPython: the topics of ``help()``, by name.

    Each paragraph is there once, though several topics may quote it: a test text would else repeat what came
    before. Python's versions have different texts.
    """

    def load(self) -> str:
        from pydoc_data.topics import topics  # 700 KB that only this needs

        paragraphs = (paragraph for name in sorted(topics) for paragraph in topics[name].split("\n\n"))
        return "\n\n".join(dict.fromkeys(stripped for p in paragraphs if (stripped := p.strip("\n"))))


@dataclass(frozen=True)
class TextFile(TextSource):
    """A text file.

    Args:
        path: the file.
        encoding: of its characters.
    """

    path: Path
    encoding: str = "utf-8"

    def load(self) -> str:
        try:
            return Path(self.path).read_text(encoding=self.encoding)
        except OSError as err:
            raise ZooError(f"{self.path} cannot be read: {err.strerror}. It should be a text file.") from err
        except (UnicodeError, LookupError) as err:
            raise ZooError(
                f"{self.path} is not text in {self.encoding}: {err}. Say its encoding, or convert the file."
            ) from err


@dataclass(frozen=True, eq=False)
class CharacterText:
    """A text cut into one to train on and one to test on, which share no character.

    Args:
        vocabulary: the distinct characters, sorted; a character's number is its place among them.
        train, test: ``(n,)`` int64, the numbers of the characters.
        identity: hash of the whole text.
    """

    vocabulary: str
    train: Tensor
    test: Tensor
    identity: str


def character_text(text: str, test_fraction: float, length: int) -> CharacterText:
    """Number the characters of a text and cut off its end to test on.

    Args:
        test_fraction: share of the text to test on.
        length: characters of a sequence; both parts have at least one more.

    Raises:
        ZooError: the text is too short or has only one character.
    """
    data = text.encode("utf-32-le", errors="surrogatepass")
    points, numbers = np.unique(np.frombuffer(data, "<u4"), return_inverse=True)
    codes = torch.from_numpy(numbers.astype(np.int64))
    cut = len(codes) - round(test_fraction * len(codes))
    if min(cut, len(codes) - cut) <= length or len(points) < 2:
        raise ZooError(
            f"The text has {len(codes)} characters, {len(points)} of them distinct, and is cut at {cut}: too "
            f"few for sequences of {length} in both parts. Take a longer text or shorter sequences."
        )
    identity = hashlib.sha256(data).hexdigest()[:32]
    return CharacterText("".join(map(chr, points.tolist())), codes[:cut], codes[cut:], identity)


def windows(codes: Tensor, length: int) -> Tensor:
    """``(n, length + 1)``: consecutive sequences, each with the character that follows it."""
    return codes.unfold(0, length + 1, length)
