"""Texts: where they come from, their characters as numbers, and the cut between training and test."""

import pytest
import torch

from wsl.zoo import ZooError
from wsl.zoo.language import PydocText, TextFile
from wsl.zoo.language._text import character_text, windows


def test_the_documentation_of_python_repeats_no_paragraph():
    text = PydocText().load()
    assert len(text) > 300_000
    assert '"for" statement' in text
    paragraphs = text.split("\n\n")
    assert len(set(paragraphs)) == len(paragraphs)
    assert PydocText().load() == text
    cut = len(text) * 9 // 10
    lines = set(text[:cut].split("\n"))
    long = [line for line in text[cut:].split("\n") if len(line) > 50]
    assert sum(line in lines for line in long) < 0.01 * len(long)


def test_texts_come_back_from_their_numbers():
    text = "für \U0001f600 abc, " * 9
    found = character_text(text, 0.2, 4)
    assert "".join(found.vocabulary[code] for code in torch.cat([found.train, found.test])) == text
    assert list(found.vocabulary) == sorted(set(text))
    assert len(found.test) == round(0.2 * len(text))
    assert found.identity != character_text(text + "x", 0.2, 4).identity


def test_sequences_follow_one_another_and_overlap_in_one_character():
    codes = torch.arange(23)
    found = windows(codes, 5)
    assert found.tolist() == [list(range(start, start + 6)) for start in (0, 5, 10, 15)]


@pytest.mark.parametrize(("text", "fraction"), [("abcdef" * 2, 0.1), ("aaaaaaaaaaaa" * 9, 0.5), ("", 0.5)])
def test_texts_that_are_too_short_are_refused(text, fraction):
    with pytest.raises(ZooError, match="few for sequences of 4"):
        character_text(text, fraction, 4)


def test_files(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("Möbius".encode("latin-1"))
    assert TextFile(path, "latin-1").load() == "Möbius"
    with pytest.raises(ZooError, match="not text in utf-8"):
        TextFile(path).load()
    with pytest.raises(ZooError, match="not text in klingon"):
        TextFile(path, "klingon").load()
    with pytest.raises(ZooError, match="cannot be read"):
        TextFile(tmp_path).load()
