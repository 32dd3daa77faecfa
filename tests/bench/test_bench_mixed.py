"""A bench on a zoo of several architectures: encoders that read any are compared, the others say so."""

import json

import tiny_zoo
from small_benches import BENCH_WARNINGS, FLAT, small_bench, write_encoder

from wsl.zoo import merge_zoos

pytestmark = BENCH_WARNINGS
SETS = {
    "class_path": "wsl.encoders.DeepSets",
    "init_args": {"channels": 8, "layers": 1, "frequencies": 2},
}


def test_encoders_of_one_architecture_say_so_and_the_others_are_compared(tmp_path):
    shapes = {"a": (6, 5), "b": (4, 7)}
    parts = [tiny_zoo.build(tmp_path / f"{n}.h5", images=30, hidden=hidden) for n, hidden in shapes.items()]
    zoo = merge_zoos(parts, tmp_path / "both.h5")
    assert len(zoo.architectures) == 2 and len(zoo.split("train")) == 72
    encoders = [write_encoder(tmp_path, name, kind) for name, kind in (("flat", FLAT), ("sets", SETS))]
    text, failed = small_bench(str(zoo.path), tmp_path, encoders=encoders)
    assert failed == 1 and "| flat | - | - | - | - | - (0 of 1 runs; 1 failed, see runs.csv) |" in text
    runs = (tmp_path / "out/runs.csv").read_text()
    assert "FlatMLP reads one architecture only, and the data hold several. Choose an encoder that" in runs
    result = json.loads((tmp_path / "out/sets/seed0/result.json").read_text())
    whole, rest = divmod(result["networks"], 72)
    assert result["steps"] == 12 and (whole, rest) == (6, 0), "two steps an epoch, of 64 and of 8 networks"
