"""Zoos pushed to and pulled from a hub on the loopback address, with the hub's own client."""

import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopback_hub import LoopbackHub
from small_zoos import build_zoo, mixed_zoo

from wsl.cli import main
from wsl.zoo import Zoo, ZooError, pull_from_hub, push_to_hub
from wsl.zoo._card import MARK

REPO = "somebody/small-zoo"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    constants = pytest.importorskip("huggingface_hub.constants")
    hub = LoopbackHub()
    template = f"{hub.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the client's pauses between attempts
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", hub.token)
    yield hub
    hub.close()


@pytest.fixture
def zoo(tmp_path: Path) -> Zoo:
    return build_zoo(tmp_path / "mine.h5")


def test_what_is_pushed_comes_back(hub: LoopbackHub, zoo: Zoo, tmp_path: Path) -> None:
    address = push_to_hub(zoo, REPO, license="mit")
    assert address == f"{hub.endpoint}/datasets/{REPO}/commit/{hub.commit(REPO)}"
    assert hub.datasets[REPO]["zoo.h5"] == zoo.path.read_bytes()
    assert hub.messages == [f"Zoo of 16 networks, {zoo.fingerprint}"]
    pulled = pull_from_hub(REPO, tmp_path / "folder" / "yours.h5")
    assert pulled.path.read_bytes() == zoo.path.read_bytes()
    assert [path.name for path in pulled.path.parent.iterdir()] == ["yours.h5"]


def test_the_card_says_what_the_zoo_holds(hub: LoopbackHub, zoo: Zoo, tmp_path: Path) -> None:
    push_to_hub(zoo, REPO, license="cc-by-4.0", name="sirens.h5")
    card = hub.datasets[REPO]["README.md"].decode()
    assert card.startswith('---\nlicense: "cc-by-4.0"\nsize_categories: ["n<1K"]\n')
    assert "tags: [weight-space-learning, model-zoo" in card
    assert "A zoo of 16 trained neural networks of one architecture, stored as float32 in `sirens.h5`" in card
    assert f'wsl.zoo.pull_from_hub("{REPO}", "sirens.h5", name="sirens.h5")' in card
    for fact in (zoo.fingerprint, "wsl.models:Siren(hidden=[5], w0=20.0)", "train 8", "psnr", "noise"):
        assert fact in card
    assert str(tmp_path) not in card, "nothing of this machine"


def test_a_card_of_ones_own_is_kept(hub: LoopbackHub, zoo: Zoo, tmp_path: Path) -> None:
    push_to_hub(zoo, REPO)
    mixed = mixed_zoo(tmp_path / "mixed.h5")
    push_to_hub(mixed, REPO)
    card = hub.datasets[REPO]["README.md"].decode()
    assert mixed.fingerprint in card, "a card that was made is made anew"
    hub.datasets[REPO]["README.md"] = mine = card.replace(MARK, "").encode()
    push_to_hub(zoo, REPO)
    assert hub.datasets[REPO]["README.md"] == mine
    assert hub.datasets[REPO]["zoo.h5"] == zoo.path.read_bytes()


def test_what_cannot_be_pushed(hub: LoopbackHub, zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZooError, match="hub refuses somebody/small-zoo: .*set HF_TOKEN"):
        push_to_hub(zoo, REPO, token="hf_other")
    with pytest.raises(ZooError, match="names no repository: give user/dataset"):
        push_to_hub(zoo, "a/b/c")
    for name in ("zoo.bin", "/zoo.h5", "../zoo.h5"):
        with pytest.raises(ZooError, match="cannot name a zoo on the hub"):
            push_to_hub(zoo, REPO, name=name)
    content = bytearray(zoo.path.read_bytes())
    content[zoo.stored[0].offset + 4] ^= 1
    zoo.path.write_bytes(content)
    with pytest.raises(ZooError, match=r"is damaged and was not pushed: rows \[0\]"):
        push_to_hub(zoo, REPO)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ZooError, match=r"needs huggingface_hub, .* pip install 'weightspace\[hub\]'"):
        push_to_hub(zoo, REPO)
    assert hub.datasets == {}


def test_what_cannot_be_pulled(hub: LoopbackHub, zoo: Zoo, tmp_path: Path) -> None:
    out = tmp_path / "pulled" / "z.h5"
    with pytest.raises(ZooError, match="There is no dataset somebody/small-zoo on the hub"):
        pull_from_hub(REPO, out)
    push_to_hub(zoo, REPO)
    with pytest.raises(ZooError, match="Name a file of somebody/small-zoo that is a zoo"):
        pull_from_hub(REPO, out, name="other.h5")
    damaged = bytearray(zoo.path.read_bytes())
    damaged[zoo.stored[0].offset + 4] ^= 1
    for content, message in ((b"no zoo", "is not a zoo"), (bytes(damaged), r"rows \[0\] do not match")):
        hub.datasets[REPO]["zoo.h5"] = content
        with pytest.raises(ZooError, match=message):
            pull_from_hub(REPO, out)
        assert list(out.parent.iterdir()) == []
    hub.datasets[REPO]["zoo.h5"] = zoo.path.read_bytes()
    pull_from_hub(REPO, out)
    with pytest.raises(ZooError, match="exists and is not overwritten"):
        pull_from_hub(REPO, out)


def test_a_hub_that_is_not_there(hub: LoopbackHub, zoo: Zoo, tmp_path: Path) -> None:
    hub.close()
    with pytest.raises(ZooError, match="could not be reached: .*Check the connection"):
        pull_from_hub(REPO, tmp_path / "z.h5")
    assert list(tmp_path.glob("z.h5*")) == []


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond ``size`` bytes: as on a full disk, a write fails midway."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_is_full(
    hub: LoopbackHub, zoo: Zoo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    push_to_hub(zoo, REPO)
    out, content = tmp_path / "pulled" / "z.h5", zoo.path.read_bytes()
    with largest_file(len(content) // 2):
        assert main(["zoo", "pull", REPO, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert f"What the hub sent of {REPO} could not be written: File too large. Make room" in said
    assert "Traceback" not in said and "connection" not in said
    assert not out.exists()
    assert main(["zoo", "pull", REPO, "--out", str(out)]) == 0
    assert out.read_bytes() == content
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_lost_connection(
    hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("huggingface_hub.HfApi.hf_hub_download", refuse)
    with pytest.raises(ZooError, match=f"could not be written: {os.strerror(number)}. Make room"):
        pull_from_hub(REPO, tmp_path / "z.h5")
    assert list(tmp_path.glob("z.h5*")) == []


def test_the_commands(hub: LoopbackHub, zoo: Zoo, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "z.h5"
    assert main(["zoo", "push", str(zoo.path), REPO, "--license", "mit", "--private"]) == 0
    assert f"16 networks pushed, {hub.endpoint}/datasets/{REPO}/commit/" in capsys.readouterr().out
    assert main(["zoo", "pull", REPO, "--out", str(out)]) == 0
    assert f"16 networks, fingerprint {zoo.fingerprint}" in capsys.readouterr().out
    assert out.read_bytes() == zoo.path.read_bytes()
    assert main(["zoo", "pull", "somebody/else", "--out", str(tmp_path / "other.h5")]) == 2
    assert "There is no dataset somebody/else" in capsys.readouterr().err
