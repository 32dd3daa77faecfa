"""What `trace` accepts: several examples, a part of the output, the meta device; and what it refuses, how."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wsl import SymmetryError, TraceError, trace, verify


class Named:
    """An output with attributes, as of transformers."""

    def __init__(self, logits: Tensor, hidden: Tensor) -> None:
        self.logits, self.hidden = logits, hidden


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.first, self.last = nn.Embedding(9, 4), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Named:
        hidden = torch.relu(self.first(self.embed(tokens)))
        if mask is not None and not mask.all():
            hidden = hidden * mask.unsqueeze(-1)
        return Named(self.last(hidden), hidden)


TOKENS = torch.tensor([[1, 2, 3], [4, 5, 6]])


def sizes(spec) -> list[int]:
    return [axis.size for axis in spec.hidden_axes]


def test_a_selected_output_frees_the_hidden_states_that_are_returned_beside_it():
    module = Classifier()
    whole = trace(module, TOKENS)
    assert sizes(whole) == [4]
    part = trace(module, TOKENS, output=lambda out: out.logits)
    assert sorted(sizes(part)) == [4, 5]
    assert verify(module, part, TOKENS, output=lambda out: out.logits).worst_error <= 1e-10
    with pytest.raises(SymmetryError):
        verify(module, part, TOKENS)


class Branching(nn.Module):
    """The first branch permits every permutation, the second reads neurons in order."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor, *, ordered: bool = False) -> Tensor:
        hidden = torch.tanh(self.first(x))
        if ordered or x.shape[0] > 4:
            hidden = hidden.cumsum(-1)
        return self.last(hidden)


def test_several_examples_are_traced_and_unified():
    module = Branching()
    few, many = torch.randn(2, 3), torch.randn(6, 3)
    assert sizes(trace(module, few)) == [4]
    both = trace(module, [few, (many,)])
    assert sizes(both) == []
    assert [note.reason for note in both.notes] == ["cumsum in Branching"]
    assert trace(module, [many, few]) == both
    assert trace(module, [few, few], [{"ordered": False}, {"ordered": True}]) == both
    assert sizes(trace(module, [few, few], {"ordered": False})) == [4]
    with pytest.raises(SymmetryError):
        verify(module, trace(module, few), [few, many])
    assert verify(module, both, [few, many]).worst_error <= 1e-10


@pytest.mark.parametrize(
    ("examples", "kwargs", "message"),
    [
        ([], None, "empty list"),
        ([torch.zeros(2, 3)], [{}, {}], "1 examples, but 2 kwargs"),
        (torch.zeros(2, 3), "ordered", "kwargs must be a mapping .* got str"),
        ([torch.zeros(2, 3), 3], None, "a list of such examples, got int"),
    ],
)
def test_lists_of_examples_that_do_not_fit(examples, kwargs, message):
    with pytest.raises(TraceError, match=message):
        trace(Branching(), examples, kwargs)


def test_on_the_meta_device_control_flow_may_depend_on_inputs_and_constants():
    class Masked(Classifier):
        def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
            assert (positions.diff() == 1).all()
            filled = torch.zeros(3, device=tokens.device)
            filled[1:] += 2
            assert filled.sum().item() == 4
            kept = torch.nonzero(tokens[0] > 1)
            assert kept.shape == (2, 1)
            return super().forward(tokens, mask).logits

    mask = torch.tensor([[True, True, True], [True, True, False]])
    real = trace(Masked(), (TOKENS, mask))
    with torch.device("meta"):
        module = Masked()
    assert trace(module, (TOKENS, mask)) == real
    assert all(parameter.is_meta for parameter in module.parameters())


def test_on_the_meta_device_control_flow_may_not_depend_on_weights():
    class Judged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Gated()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    class Gated(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            known = torch.zeros(2, device=x.device)
            view = known[:1]
            known += self.bias
            return super().forward(x) if view.sum() > 0 else x

        def __init__(self) -> None:
            super().__init__(2, 2)

    trace(Judged(), torch.zeros(3, 2))
    with pytest.raises(TraceError, match=r"needs the entries of a tensor in inner.*\n.*depend on data"):
        trace(Judged().to("meta"), torch.zeros(3, 2))


def test_on_the_meta_device_shapes_may_not_depend_on_weights():
    class Chosen(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            return out[out > 0]

    module = nn.Sequential(nn.ReLU(), Chosen(3, 2, device="meta"))
    with pytest.raises(TraceError, match=r"needs the entries of a tensor in 1.*\n.*depend on data"):
        trace(module, torch.zeros(2, 3))


def test_a_module_half_on_the_meta_device():
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2, device="meta"))
    with pytest.raises(TraceError, match=r"1\.weight is on the meta device, but 0\.weight is not"):
        trace(module, torch.zeros(2, 2))


def test_the_error_of_a_failing_module_names_the_part_and_what_it_takes():
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(4, 2)])

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x + edges

    with pytest.raises(TraceError, match=r"in layers\.1: RuntimeError"):
        trace(Outer(), (torch.zeros(2, 3), torch.zeros(2)))
    with pytest.raises(TraceError, match=r"It takes forward\(x: .*edges"):
        trace(Outer(), torch.zeros(2, 3))


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions:UserWarning")
def test_quantised_weights_are_refused():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    module.register_buffer("table", torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8))
    with pytest.raises(TraceError, match="the module is a quantised Sequential"):
        trace(module, torch.zeros(2, 3))
    packed = nn.Sequential(torch.ao.nn.quantized.Linear(3, 4))
    with pytest.raises(TraceError, match=r"0 is a quantised Linear.*\n.*floating-point module"):
        trace(packed, torch.zeros(2, 3))


def test_parameters_of_other_kinds_are_refused():
    class Scaled(Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    module = nn.Linear(3, 4)
    module.register_buffer("table", torch.zeros(3).as_subclass(Scaled))
    with pytest.raises(TraceError, match="table is a Scaled, whose entries are not stored one by one"):
        trace(module, torch.zeros(2, 3))


class Two(nn.Module):
    """Two layers, one of them under a name of choice."""

    def __init__(self, name: str = "first", first: nn.Module | None = None) -> None:
        super().__init__()
        self.name = name
        self.add_module(name, nn.Linear(3, 4) if first is None else first)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(getattr(self, self.name)(x)))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.* is deprecated:DeprecationWarning")
def test_torchscript_within_a_module_is_refused():
    module = Two(first=torch.jit.trace(nn.Linear(3, 4), torch.zeros(2, 3)))
    with pytest.raises(TraceError, match="first is a TorchScript module"):
        trace(module, torch.zeros(2, 3))


def test_what_is_no_module_is_named():
    with pytest.raises(TraceError, match=r"expected a torch.nn.Module, got the class Two; call it to make"):
        trace(Two, torch.zeros(2, 3))
    exported = torch.export.export(Two(), (torch.zeros(2, 3),))
    with pytest.raises(TraceError, match=r"got ExportedProgram; its module\(\) is one"):
        trace(exported, torch.zeros(2, 3))


def test_exported_and_compiled_modules_run_as_they_are_written():
    example = torch.randn(2, 3)
    plain = trace(Two(), example)
    assert trace(torch.export.export(Two(), (example,)).module(), example).axes == plain.axes
    compiled = torch.compile(Two(), backend=lambda *_: pytest.fail("compiled while it is traced"))
    assert trace(compiled, example).axes == plain.axes


def test_under_autocast_no_weights_of_earlier_runs_are_read():
    module, example = Two(), torch.randn(2, 3)
    plain = trace(module, example)
    with torch.autocast("cpu", torch.bfloat16):
        assert trace(module, example) == plain
        module(example)  # casts the weights and keeps them
        assert trace(module, example) == plain
        assert torch.is_autocast_cache_enabled()


def test_nested_tensors_are_refused():
    nested = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)], layout=torch.jagged)
    with pytest.raises(TraceError, match="an example holds a nested tensor"):
        trace(Two(), nested)


def test_names_that_no_text_can_hold_are_refused():
    with pytest.raises(TraceError, match=r"'my layer.weight' cannot be written(.|\n)*another name"):
        trace(Two("my layer"), torch.zeros(2, 3))


def test_a_selection_that_fails_is_no_failure_of_the_module():
    for output in (lambda out: out.logits, "logits"):
        with pytest.raises(TraceError, match="output= fails on the Tensor that the module returns"):
            trace(Two(), torch.zeros(2, 3), output=output)  # type: ignore[arg-type]


def test_gradients_within_a_module_are_named():
    class Field(Two):
        def forward(self, x: Tensor) -> Tensor:
            x = x.requires_grad_()
            return torch.autograd.grad(super().forward(x).sum(), x)[0]

    with pytest.raises(TraceError, match="Field takes gradients, .*\n.*what is differentiated"):
        trace(Field(), torch.zeros(2, 3))


def test_gradients_are_left_as_they_were():
    class Clearing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            self.zero_grad()
            return F.relu(super().forward(x))

    module = Clearing(3, 4)
    nn.Linear.forward(module, torch.randn(2, 3)).sum().backward()
    before = copy.deepcopy([parameter.grad for parameter in module.parameters()])
    held = [parameter.grad for parameter in module.parameters()]
    trace(module, torch.zeros(2, 3))
    for parameter, grad, copied in zip(module.parameters(), held, before, strict=True):
        assert parameter.grad is grad
        assert torch.equal(grad, copied)


def test_operators_that_take_functions_are_refused_with_a_way_out():
    class Conditional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.higher_order.cond(x.sum() > 0, torch.relu, torch.tanh, (self.layer(x),))

    with pytest.raises(TraceError, match=r"calls cond, an operator that takes functions.*\n.*an if"):
        trace(Conditional(), torch.randn(4, 3))
