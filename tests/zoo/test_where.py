"""Choosing rows by their metadata, and computing numbers from it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_zoos import FORWARD, SPEC, mixed_zoo, row_weights

from wsl.zoo import Architecture, Zoo, ZooError, ZooWriter
from wsl.zoo._where import compute, where

COLUMNS = {
    "step": np.array([0, 86, 86, 3, 86, 20]),
    "activation": np.array(["relu", "relu", "tanh", "tanh", "gelu", "it's"]),
    "loss": np.array([2.5, 0.1, np.nan, np.inf, 0.1, -1.0]),
    "config.w_init": np.array(["a", "b", "a", "b", "a", "b"]),
    "test acc": np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
}
STEP, ACTIVATION, LOSS = COLUMNS["step"], COLUMNS["activation"], COLUMNS["loss"]


def chosen(expression: str) -> list[int]:
    return where(expression, COLUMNS, 6).tolist()


@pytest.mark.parametrize(
    ("expression", "rows"),
    [
        ("step == 86 and activation == 'relu'", [1]),
        ('step == 86 or not activation != "tanh"', [1, 2, 3, 4]),
        ("activation in ['relu', 'gelu']", [0, 1, 4]),
        ("activation not in ('relu', 'gelu') and step > 3", [2, 5]),
        ("step in [3, 20.0]", [3, 5]),
        ("step in []", []),
        ("0 < step <= 20", [3, 5]),
        ("loss != loss", [2]),
        ("loss < 1", [1, 4, 5]),
        ("loss > 1e999", []),
        ("loss == 1e999", [3]),
        ("not loss < 1", [0, 2, 3]),
        ("-loss == 1", [5]),
        ("(step + 4) * 2 - 1 == 179 / 1", [1, 2, 4]),
        ("step / 0 > 1", [1, 2, 3, 4, 5]),
        ("activation == 'it\\'s'", [5]),
        ('activation == "it\'s"', [5]),
        ("config.w_init == 'a' and step", [2, 4]),
        ("`test acc` >= 0.5", [4, 5]),
        ("`config.w_init` == '`b`' or `test acc` < .15", [0]),
        ("activation < 'h'", [4]),
        ("True", [0, 1, 2, 3, 4, 5]),
        ("1 == 2", []),
        ("  step == 3  ", [3]),
        ("(step == 86) + (loss < 1) == 2", [1, 4]),
        ("step == 9223372036854775807", []),
    ],
)
def test_conditions(expression: str, rows: list[int]) -> None:
    assert chosen(expression) == rows


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "stepp == 86",
            r"no metadata column 'stepp': the zoo has activation, config.w_init, loss, step, test acc",
        ),
        ("config.lr == 1", "no metadata column 'config.lr'"),
        ("`a b` == 1", "no metadata column 'a b'"),
        ("step = 86", "cannot be read"),
        ("", "cannot be read"),
        ("step ==", "cannot be read"),
        ("step == 'late'", "'step' is a number and .* is text"),
        ("activation == 1", "'activation' is text and '1' is a number"),
        ("activation in ['relu', 1]", "is text and '1' is a number"),
        ("activation + 'x' == 'relux'", "arithmetic takes numbers"),
        ("-activation == 1", "arithmetic takes numbers"),
        ("activation", "compare it with something"),
        ("step is 86", "use =="),
        ("step in step", "after `in` comes a list"),
        ("step ** 2 == 4", "not part of the language"),
        ("step % 2 == 0", "not part of the language"),
        ("None == step", "not part of the language"),
        ("step == 1j", "not part of the language"),
        ("step == b'x'", "not part of the language"),
        ("step[0] == 1", "not part of the language"),
        ("(lambda: 1)() == 1", "not part of the language"),
        ("__import__('os').system('true') == 0", "not part of the language"),
        ("().__class__ == 1", "not part of the language"),
        ("step.__class__ == 1", "no metadata column 'step.__class__'"),
        ("[step for step in [1]] == 1", "not part of the language"),
        ("f'{step}' == '1'", "not part of the language"),
        ("(x := 3) == 3", "not part of the language"),
        ("step == 10000000000000000000000", "too large"),
        ("step * 9223372036854775807 == 1", "overflows"),
        ("(" * 5000 + "step" + ")" * 5000, "cannot be read"),
        ("not " * 20000 + "step", "cannot be read"),
        ("+".join(["step"] * 15000) + " == 1", "cannot be read"),
        ("step == 1\0", "cannot be read"),
        ("step == 1" + " " * 100_000, "at most 100000"),
        (3, "is no text"),
    ],
)
def test_what_is_not_of_the_language(expression: Any, message: str) -> None:
    with pytest.raises(ZooError, match=message) as caught:
        where(expression, COLUMNS, 6)
    assert len(str(caught.value)) < 800


@given(st.text(max_size=40) | st.text("step loss()[]+-*/<>=!and'\"`in not86.,", max_size=40))
def test_any_text_chooses_rows_or_is_refused(expression: str) -> None:
    try:
        rows = where(expression, COLUMNS, 6)
    except ZooError:
        return
    assert rows.dtype == np.int64
    assert set(rows.tolist()) <= set(range(6))


@given(a=st.integers(-100, 100), b=st.floats(-3, 3), text=st.sampled_from(["relu", "tanh", "x"]))
def test_conditions_mean_what_numpy_means(a: int, b: float, text: str) -> None:
    with np.errstate(invalid="ignore"):
        scaled = LOSS * b
    expected = ((a < STEP) & ~(scaled <= a)) | (text == ACTIVATION)
    found = chosen(f"step - {a} > 0 and not loss * {b!r} <= {a} or activation == {text!r}")
    assert found == np.flatnonzero(expected).tolist()


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """Three models of two to three checkpoints, not in order."""
    out = tmp_path_factory.mktemp("zoo") / "steps.h5"
    with ZooWriter(out, provenance={}) as writer:
        writer.add(Architecture("net", SPEC, FORWARD))
        metadata = {"model": ["b", "a", "b", "a", "c", "b"], "step": [86, 0, 0, 3, 0, 9], "loss": [0.5] * 6}
        writer.append("net", row_weights(range(6)), metadata)
        return writer.finish()


def test_trajectories(checkpoints: Zoo) -> None:
    assert checkpoints.trajectory("b").tolist() == [2, 5, 0]
    assert checkpoints.trajectory("c").tolist() == [4]
    with pytest.raises(ZooError, match=r"steps.h5 has no model 'd'; it has 3 models, such as 'b'"):
        checkpoints.trajectory("d")
    with pytest.raises(ZooError, match="no model 3"):
        checkpoints.trajectory(3)


def test_trajectories_need_their_columns(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="no metadata column 'model': .* has image, label, psnr, title"):
        mixed_zoo(tmp_path / "z.h5").trajectory(0)


def test_a_zoo_answers(checkpoints: Zoo, tmp_path: Path) -> None:
    assert checkpoints.where("step > 0 and model != 'a'").tolist() == [0, 5]
    mixed = mixed_zoo(tmp_path / "z.h5")
    assert mixed.where("architecture == 'wide' and row < 9").tolist() == [2, 5, 8]
    assert len(mixed.where("label == 1")) == len(np.flatnonzero(mixed.metadata["label"] == 1))
    with pytest.raises(ZooError, match="no metadata column 'step': .*z.h5 has architecture, image, label"):
        mixed.where("step == 1")


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("step", COLUMNS["step"]),
        ("`test acc` - 2 * loss", COLUMNS["test acc"] - 2 * LOSS),
        ("3", [3] * 6),
        ("activation", ACTIVATION),
        ("step == 86", [0, 1, 1, 0, 1, 0]),
    ],
)
def test_numbers_are_computed_for_every_row(expression: str, values: Any) -> None:
    np.testing.assert_array_equal(compute(expression, COLUMNS, 6), values)


def test_a_column_of_the_zoo_by_name_or_expression(tmp_path: Path) -> None:
    zoo = mixed_zoo(tmp_path / "zoo.h5")
    name = next(name for name, column in zoo.metadata.items() if column.dtype.kind in "if")
    np.testing.assert_array_equal(zoo.column(name), zoo.metadata[name])
    np.testing.assert_array_equal(zoo.column(f"`{name}` + row"), zoo.metadata[name] + np.arange(len(zoo)))
    with pytest.raises(ZooError, match="no metadata column 'missing'"):
        zoo.column("missing * 2")
