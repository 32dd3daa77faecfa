"""Files of optimizers: round trips, what does not fit, and files that are damaged or hostile."""

import inspect
import json
import random
import struct
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

import wsl
from wsl.learnopt import (
    SGD,
    Adam,
    AdamW,
    Card,
    GraphNowcaster,
    Muon,
    Nowcasting,
    Optimizer,
    OptimizerFileError,
    PerLane,
    UNFOptimizer,
    cosine,
    load,
    pretrained,
    read_optimizer,
    save,
)
from wsl.learnopt import _file as file_module
from wsl.learnopt._stored import KINDS
from wsl.spec import SpecError

CARD = Card("descent", "by hand,\nin no time", "quadratics", "everywhere else", "1.0")
INPUTS = torch.zeros(2, 5)


def network(hidden=6):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, 2))


def made(kind):
    """An optimizer of each kind, with parameters that no constructor gives."""
    takes_spec = kind.__name__.endswith("Optimizer")
    optimizer = kind(*([wsl.trace(network(), INPUTS)] if takes_spec else []))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in optimizer.parameters():
            value += 0.01 * torch.randn(value.shape, generator=generator, dtype=value.dtype)
    return optimizer


def trained(optimizer, steps=3):
    module = network()
    inputs = torch.randn(9, 5, generator=torch.Generator().manual_seed(2))
    optimizer = optimizer(module)
    for _ in range(steps):
        optimizer.zero_grad()
        module(inputs).square().sum().backward()
        optimizer.step()
    return module.state_dict()


@pytest.fixture
def path(tmp_path):
    save(made(Adam), tmp_path / "made.safetensors", CARD)
    return tmp_path / "made.safetensors"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_file_gives_the_same_optimizer_back(kind, tmp_path):
    optimizer = made(kind)
    save(optimizer, tmp_path / "o.safetensors", CARD)
    found = read_optimizer(tmp_path / "o.safetensors")
    assert found.card == CARD and found.kind == kind.__name__
    before = torch.get_rng_state()
    again = found.build()
    assert torch.equal(torch.get_rng_state(), before), "reading a file draws random numbers"
    assert type(again) is kind
    for name, value in optimizer.state_dict().items():
        assert torch.equal(again.state_dict()[name], value) and again.state_dict()[name].dtype == value.dtype
    one = trained(lambda m: wsl.learnopt.TorchOptimizer(optimizer, m, INPUTS))
    two = trained(lambda m: load(tmp_path / "o.safetensors", m, INPUTS))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert list(tmp_path.iterdir()) == [tmp_path / "o.safetensors"]


def test_arguments_that_are_no_defaults_are_kept(tmp_path):
    optimizer = SGD(0.5, momentum=0.9, nesterov=True, weight_decay=0.1)
    save(optimizer, tmp_path / "o.safetensors", CARD)
    found = read_optimizer(tmp_path / "o.safetensors")
    assert found.build().nesterov
    assert found.arguments["weight_decay"] == 0.1
    shown = str(found)
    assert "nesterov=True" in shown and "in no time" in shown and "3 numbers" in shown
    other = AdamW(0.1, betas=(0.5, 0.6))
    save(other, tmp_path / "o.safetensors", CARD)
    assert read_optimizer(tmp_path / "o.safetensors").arguments["betas"] == [0.5, 0.6]


def test_architectures_of_other_sizes_are_taken_and_others_refused(tmp_path):
    save(made(KINDS["UNFOptimizer"]), tmp_path / "unf.safetensors", CARD)
    save(made(KINDS["SmallFCOptimizer"]), tmp_path / "fc.safetensors", CARD)
    deeper = nn.Sequential(network(), nn.Tanh(), nn.Linear(2, 3))
    assert load(tmp_path / "unf.safetensors", network(hidden=11), INPUTS).param_groups
    assert load(tmp_path / "fc.safetensors", deeper, INPUTS).param_groups
    with pytest.raises(
        SpecError,
        match=r"(?s)unf.safetensors does not fit the module: the parameters of UNF depend on the "
        r"architecture; those fit that have the same layers in the same order, of any width.*"
        r"own: 0.weight \(6, 5\), .*given: .*2.weight \(3, 2\).*Celo2Optimizer and GraphOptimizer take any",
    ):
        load(tmp_path / "unf.safetensors", deeper, INPUTS)


class Named(nn.Module):
    """A CNN whose layers have names."""

    def __init__(self):
        super().__init__()
        self.filters, self.classes = nn.Conv2d(1, 3, 3), nn.Linear(3, 2)

    def forward(self, images):
        return self.classes(self.filters(images).relu().mean((2, 3)))


@pytest.mark.parametrize("kind", ["UNFOptimizer", "NFNOptimizer"])
def test_names_of_layers_do_not_matter(kind, tmp_path):
    class Numbered(nn.Sequential):
        def forward(self, images):
            return self[1](self[0](images).relu().mean((2, 3)))

    torch.manual_seed(5)
    named, images = Named(), torch.randn(4, 1, 5, 5)
    numbered = Numbered(nn.Conv2d(1, 3, 3), nn.Linear(3, 2))
    numbered.load_state_dict(dict(zip(numbered.state_dict(), named.state_dict().values(), strict=True)))
    save(KINDS[kind](wsl.trace(named, images), gain=0.5), tmp_path / "o.safetensors", CARD)
    for module in (named, numbered):
        optimizer = load(tmp_path / "o.safetensors", module, images)
        for _ in range(3):
            optimizer.zero_grad()
            module(images).square().sum().backward()
            optimizer.step()
    for one, other in zip(named.parameters(), numbered.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_parameters_keep_their_type(dtype, tmp_path):
    optimizer = made(KINDS["UNFOptimizer"]).to(dtype)
    save(optimizer, tmp_path / "o.safetensors", CARD)
    again = read_optimizer(tmp_path / "o.safetensors").build().state_dict()
    for name, value in optimizer.state_dict().items():
        assert again[name].dtype == dtype and torch.equal(again[name], value)


def test_a_type_that_no_file_holds_is_named(tmp_path):
    with pytest.raises(OptimizerFileError, match=r"log_rate is of torch.bfloat16, .* optimizer.float\(\)"):
        save(SGD().bfloat16(), tmp_path / "o.safetensors", CARD)
    assert not list(tmp_path.iterdir())


def test_a_broken_off_save_leaves_the_file_as_it_was(path, monkeypatch):
    before = path.read_bytes()

    def broken(partial, *_):
        partial.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(file_module, "write_safetensors", broken)
    with pytest.raises(KeyboardInterrupt):
        save(SGD(), path, CARD)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]


def test_several_may_write_one_file(path):
    def write(rate):
        for _ in range(10):
            save(SGD(rate), path, CARD)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(write, 0.1 * (i + 1)) for i in range(4)]
        while not all(one.done() for one in waiting):
            assert isinstance(read_optimizer(path).build(), Optimizer)
        for one in waiting:
            one.result()
    assert read_optimizer(path).kind == "SGD" and list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_is_an_error_of_one_kind(path):
    (path.parent / "folder.safetensors").mkdir()
    with pytest.raises(OptimizerFileError, match="folder.safetensors could not be written: Is a directory"):
        save(SGD(), path.parent / "folder.safetensors", CARD)
    with pytest.raises(OptimizerFileError, match="could not be written"):
        save(SGD(), path / "below.safetensors", CARD)
    with pytest.raises(OptimizerFileError, match="learning_rate is 2097152, larger"):  # nothing would read it
        save(SGD(1 << 21), path.parent / "other.safetensors", CARD)
    assert {one.name for one in path.parent.iterdir()} == {path.name, "folder.safetensors"}


def test_any_reader_of_safetensors_reads_it(path):
    safetensors = pytest.importorskip("safetensors.torch")
    found = safetensors.load_file(path)
    for name, value in made(Adam).state_dict().items():
        assert torch.equal(found[name], value)


def test_what_no_file_can_hold_is_refused(tmp_path):
    class Own(SGD):
        pass

    target = tmp_path / "o.safetensors"
    with pytest.raises(OptimizerFileError, match="Own is not one of SGD, Adam"):
        save(Own(), target, CARD)
    with pytest.raises(OptimizerFileError, match="PerLane is not one of"):
        save(PerLane(SGD(), {"log_rate": torch.zeros(2)}), target, CARD)
    with pytest.raises(OptimizerFileError, match=r"schedule is a partial, and .* give one of torch to the"):
        save(SGD(schedule=cosine(10)), target, CARD)
    with pytest.raises(
        OptimizerFileError, match=r"others is a AdamW, and files .* no optimizers within others"
    ):
        save(Muon(others=AdamW()), target, CARD)
    nowcaster = GraphNowcaster(wsl.trace(network(), INPUTS), 2, channels=4)
    with pytest.raises(
        OptimizerFileError, match=r"Nowcasting is not one .* within others, save the inner one"
    ):
        save(Nowcasting(SGD(), nowcaster, every=4, horizon=8), target, CARD)
    bad = SGD()
    with torch.no_grad():
        bad.log_rate.fill_(torch.nan)
    with pytest.raises(OptimizerFileError, match="log_rate: values that are not finite"):
        save(bad, target, CARD)
    assert not list(tmp_path.iterdir())


def test_arguments_are_found_where_python_shows_new_in_place_of_init(tmp_path, monkeypatch):
    monkeypatch.setattr(UNFOptimizer, "__new__", staticmethod(Optimizer.__new__))  # as in Python 3.11.2
    assert list(inspect.signature(UNFOptimizer).parameters) == ["args", "kwargs"]
    target = tmp_path / "new.safetensors"
    save(UNFOptimizer(wsl.trace(network(), INPUTS), hidden=8), target, CARD)
    found = read_optimizer(target)
    assert found.arguments["hidden"] == 8 and found.spec is not None


def test_cards_say_something_that_can_be_printed():
    with pytest.raises(OptimizerFileError, match="fails is no text"):
        Card("a", "b", "c", " ", "e")
    with pytest.raises(OptimizerFileError, match="about holds control characters"):
        Card("\x1b[2J", "b", "c", "d", "e")


def test_names_are_those_that_come_with_the_package(path, monkeypatch):
    monkeypatch.setattr(file_module, "pretrained", lambda: {"known": path})
    assert read_optimizer("known").kind == "Adam"
    assert load("known", network(), INPUTS).param_groups
    with pytest.MonkeyPatch.context() as patch:  # a folder of this name, such as that of a run
        patch.chdir(path.parent)
        (path.parent / "known").mkdir()
        assert read_optimizer("known").kind == "Adam"
    with pytest.raises(OptimizerFileError, match="File name too long"):
        read_optimizer("a" * 400)
    with pytest.raises(OptimizerFileError, match="no file other, and no optimizer of this name .*: known"):
        read_optimizer("other")


def test_what_comes_with_the_package_is_in_its_wheels():
    root = Path(wsl.__file__).resolve().parents[1]
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {one.resolve() for glob in settings["package-data"]["wsl"] for one in (root / "wsl").glob(glob)}
    assert root / "wsl" / "py.typed" in found
    assert {one.resolve() for one in pretrained().values()} <= found
    assert "learnopt/pretrained/*.safetensors" in settings["package-data"]["wsl"]


@pytest.mark.parametrize("name", pretrained())
def test_what_comes_with_the_package_is_small_and_can_be_built(name):
    assert pretrained()[name].stat().st_size < 1_000_000
    assert isinstance(read_optimizer(name).build(), Optimizer)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(OptimizerFileError, match=r"nowhere\.safetensors is not there"):
        read_optimizer(tmp_path / "nowhere.safetensors")
    (tmp_path / "text.safetensors").write_text("hello, this is no such file")
    with pytest.raises(OptimizerFileError, match="is no safetensors file, or is cut off"):
        read_optimizer(tmp_path / "text.safetensors")
    wsl.zoo.formats.write_safetensors(
        tmp_path / "other.safetensors", {"w": torch.zeros(2).numpy()}, {"format": "pt"}
    )
    with pytest.raises(OptimizerFileError, match="other.safetensors: no optimizer of wsl.learnopt.save"):
        read_optimizer(tmp_path / "other.safetensors")


def rewritten(path, change):
    """The file with other metadata."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    entries = json.loads(header["__metadata__"]["wsl.learnopt"])
    told = change(entries)
    header["__metadata__"]["wsl.learnopt"] = told if isinstance(told, str) else json.dumps(entries)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    return path


def put(*keys, value):
    def change(entries):
        for key in keys[:-1]:
            entries = entries[key]
        entries[keys[-1]] = value

    return change


HOSTILE = {
    "no json": (lambda _: "{", "the metadata are no JSON"),
    "deep json": (lambda _: "[" * 100_000, "the metadata are no JSON"),
    "long json": (lambda _: " " * (1 << 21), "longer than 1048576 characters"),
    "a huge integer": (lambda _: "1" * 10_000, "the metadata are no JSON"),
    "a list": (lambda _: "[]", "do not have the entries"),
    "an extra entry": (put("class_path", value="os.system"), "do not have the entries"),
    "a later format": (put("format", value=2), "has the version 2, and this code reads 1"),
    "a class path": (put("kind", value="os.system"), "it holds a os.system; files hold optimizers of wsl"),
    "a class of the package": (put("kind", value="PerLane"), "it holds a PerLane"),
    "a terminal code": (put("kind", value="\x1b[2J"), "kind holds control characters"),
    "a number as class": (put("kind", value=3), "kind is a int"),
    "an unknown argument": (put("arguments", "eval", value="1"), "unexpected keyword argument 'eval'"),
    "a text as rate": (put("arguments", "learning_rate", value="1"), "no Adam can be made of"),
    "a negative rate": (put("arguments", "learning_rate", value=-1.0), "learning_rate is -1.0"),
    "nan": (put("arguments", "learning_rate", value=float("nan")), "learning_rate is nan"),
    "a large number": (put("arguments", "learning_rate", value=1 << 40), "larger than that of any"),
    "many layers": (
        put("arguments", "layers", value=1 << 20),
        "layers is 1048576, and the file has 4 tensors",
    ),
    "a long list": (put("arguments", "betas", value=[0.5] * 20_000), "betas is larger than"),
    "a deep list": (put("arguments", "betas", value=[[[[[[[[[[1]]]]]]]]]]), "betas is larger than"),
    "other tensors": (put("arguments", "weight_decay", value=0.5), "log_weight_decay has the shape None"),
    "a spec": (put("spec", value="axes x: 3 input\nw x"), "no Adam can be made of"),
    "a broken spec": (put("spec", value="w ("), "no Adam can be made of"),
    "no card": (put("card", value={}), "the card does not have the entries"),
    "a card of numbers": (put("card", "fails", value=3), "fails is no text"),
    "a spec that erases": (put("spec", value="w x\x1b[2J"), "spec holds control characters"),
    "a version that erases": (put("version", value="\x1b[2J"), "version holds control characters"),
    "an argument that erases": (
        put("arguments", "\x1b[2J", value=1),
        r"unexpected keyword argument '\?\[2J'",
    ),
    "a card that erases": (put("card", "about", value="\x1b[2J"), "control characters"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_metadata_are_named_and_run_nothing(path, name):
    change, said = HOSTILE[name]
    with pytest.raises(OptimizerFileError, match=said) as caught:
        read_optimizer(rewritten(path, change)).build()
    assert len(str(caught.value)) < 1000


def test_values_that_are_not_finite_are_refused(path):
    data = bytearray(path.read_bytes())
    data[-8:] = struct.pack("<d", float("inf"))
    path.write_bytes(data)
    with pytest.raises(OptimizerFileError, match="values that are not finite"):
        read_optimizer(path)


def test_truncated_and_mutated_files_give_an_optimizer_or_a_clear_error(path):
    whole, draw = path.read_bytes(), random.Random(0)
    cases = [whole[:stop] for stop in range(0, len(whole), 29)]
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 1, 4))):
            data[draw.randrange(len(data))] = draw.randrange(256)
        cases.append(bytes(data))
    refused = 0
    for data in cases:
        path.write_bytes(data)
        try:
            assert isinstance(read_optimizer(path).build(), Optimizer)
        except OptimizerFileError:
            refused += 1
    assert refused > len(cases) / 3
