"""The moves of verify generate the whole group: permutations, families, scalings, signs."""

import re

import pytest
import torch
from described_families import FAMILIES
from described_modules import MODULES as PLAIN
from torch import Tensor, nn

from wsl._verify import SymmetryError, verify
from wsl.spec import WeightSpec

MODULES = {**PLAIN, **FAMILIES}


def _spec(text: str) -> WeightSpec:
    return WeightSpec.parse(text)


class Cyclic(nn.Module):
    """Symmetric under shifts of its three neurons, as every cycle of three is, and under no swap."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.weight * self.weight.roll(1) ** 2).sum()


def test_cyclic_symmetry_is_not_enough():
    with pytest.raises(SymmetryError, match="swapping two neurons of axis h1"):
        verify(Cyclic(), _spec("axes h1: 3 hidden\nweight h1"), torch.ones(2))


class SignProduct(nn.Module):
    """Unchanged when an even number of its neurons flip sign, but not for one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight.prod()


def test_even_sign_flips_are_not_enough():
    verify(SignProduct(), _spec("axes h1: 4 hidden\nweight h1"), torch.ones(2))
    for seed in range(5):
        with pytest.raises(SymmetryError, match="flipping signs along axis h1"):
            claimed = _spec("axes h1: 4 hidden tanh sign\nweight h1\nscaling: h1 sign weight+1")
            verify(SignProduct(), claimed, torch.ones(2), seed=seed)


def _wrong(name: str, *changes: tuple[str, str]) -> WeightSpec:
    text = str(MODULES[name].spec)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return _spec(text)


def test_coarser_families_are_true():
    coarser = (("a[b]", "a"), ("r[b,a]", "r[b]")), (("r[b,a]", "r"),)
    for changes in coarser:
        verify(MODULES["experts"].build(), _wrong("experts", *changes), MODULES["experts"].inputs)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("slots", ("s: 2 fixed", "s: 2 hidden"), r"permuting axis s changes the function.*\n.*write dim 0"),
        (
            "low_rank",
            ("1.weight-1", "1.weight+1"),
            r"a matrix acting along axis r1 .*\n.*0.weight\+1, 1.weig",
        ),
        ("low_rank", ("positive", "linear"), "a matrix acting along axis h1 changes"),
        ("attention", ("k.weight-1\nscaling:  e", "k.weight+1\nscaling:  e"), "a matrix acting along axis d"),
        ("lstm", ("[1]@1+1", "[1]@0+1"), r"flipping signs along axis h1 .*\n.*weight_hh_l0\[1\]@0\+1"),
    ],
)
def test_wrong_contexts_matrices_and_repeated_axes_are_named(name, change, message):
    wrong = _wrong(name, change)
    with pytest.raises(SymmetryError, match=message):
        verify(MODULES[name].build(), wrong, MODULES[name].inputs)


class Shared(nn.Module):
    """Units that all groups share: they look like a family over the groups, but each is one unit."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(3, units)), nn.Parameter(torch.ones(3, units))

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.tanh(self.a).sum(0) * torch.tanh(self.b).sum(0)).sum()


@pytest.mark.parametrize("units", [2, 3])
@pytest.mark.parametrize("kind", ["fixed", "hidden"])
def test_units_that_others_follow_are_no_family(units, kind):
    module = Shared(units)
    text = f"axes g: 3 {kind}  u: {units} hidden tanh sign\na g u\nb g u\nscaling: u sign a+1 b+1"
    verify(module, _spec(text), torch.ones(2))
    for seed in range(5):
        with pytest.raises(SymmetryError) as caught:
            verify(module, _spec(text.replace(" u\n", " u[g]\n")), torch.ones(2), seed=seed)
        message = str(caught.value)
        assert re.search("flipping signs along axis u at (one index|some indices) of g changes", message)
        found = re.search("(permuting|swapping two neurons of) axis u( at .* of g)? changes", message)
        assert found and (units > 2 or found[2]), "all cycles of two neurons are the same swap"


class PartlyShared(nn.Module):
    """Three groups, of which two share their units."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(3, units))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.a[0].square().sum() + (self.a[1] * self.a[2]).sum())


@pytest.mark.parametrize("units", [2, 3])
def test_some_units_of_fixed_groups_are_no_family(units):
    for seed in range(10):
        with pytest.raises(SymmetryError) as caught:
            claimed = f"axes g: 3 fixed  u: {units} hidden tanh sign\na g u[g]\nscaling: u sign a+1"
            verify(PartlyShared(units), _spec(claimed), torch.ones(2), seed=seed)
        assert re.search("(permuting|swapping two neurons of) axis u", str(caught.value))
        assert "flipping signs along axis u" in str(caught.value)


class Gated(nn.Module):
    """Products of units: factors cancel, matrices do not."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.v, self.out = (nn.Linear(*size, bias=False) for size in ((3, 4), (3, 4), (4, 2)))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.w(x) * self.v(x))


def test_factors_without_matrices_are_no_linear_scaling():
    tensors = "x: 3 input  y: 2 output\nw.weight h1 x\nv.weight h1 x\nout.weight y h1"
    factors = f"""axes h1: 4 hidden positive  {tensors}
        scaling: h1 positive w.weight+1 v.weight-1
        scaling: h1 positive v.weight+1 out.weight-1
        scaling: h1 sign w.weight+1 v.weight+1"""
    verify(Gated(), _spec(factors), torch.ones(2, 3))
    matrices = f"axes h1: 4 hidden linear  {tensors}\nscaling: h1 linear w.weight+1 v.weight-1"
    with pytest.raises(SymmetryError, match="a matrix acting along axis h1 changes"):
        verify(Gated(), _spec(matrices), torch.ones(2, 3))
