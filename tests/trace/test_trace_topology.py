"""Node sets and edges derived by hand, which the tracer has to find."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import wsl
from wsl.spec import WeightSpec


def written(spec: WeightSpec) -> list[str]:
    """The topology as text: a line of node sets, and a line for all edges into each."""
    nodes = [
        f"{node.name}({' '.join(node.axes)}){':' + node.activation if node.activation else ''}"
        for node in spec.topology.nodes
    ]
    lines = ["  ".join(nodes)]
    for node in spec.topology.nodes:
        edges = sorted(
            " ".join(filter(None, (edge.source or "-", edge.block, edge.ends)))
            for edge in spec.topology.edges
            if edge.target == node.name
        )
        lines += [f"{node.name} <- {', '.join(edges)}"] if edges else []
    return lines


def _read(lines: list[str]) -> list[list[str]]:
    """The words of the first line, then for each line its target and its edges in order."""
    parts = [line.strip().partition(" <- ") for line in lines[1:]]
    return [lines[0].split(), *([target, *sorted(edges.split(", "))] for target, _, edges in parts)]


def check(module: nn.Module, inputs: object, text: str) -> None:
    spec = wsl.trace(module, inputs)
    assert _read(written(spec)) == _read(text.strip().splitlines())
    assert WeightSpec.parse(str(spec)) == spec


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(30.0 * x)


class Bag(nn.Module):
    """Embeddings that are added up, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.values, self.head = nn.Embedding(7, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.values(x).relu().sum(1))


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1)), (7, 2)),
        (nn.Sequential(nn.Linear(2, 5), Sine(), nn.Linear(5, 4), Sine(), nn.Linear(4, 3)), (7, 2)),
        (
            nn.Sequential(
                nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3),
                nn.ReLU(inplace=True), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(36, 5), nn.Tanh(),
                nn.Dropout(), nn.Linear(5, 2),
            ),
            (2, 1, 12, 12),
        ),
        (
            nn.Sequential(
                nn.Conv2d(3, 4, 1), nn.GELU(), nn.Conv2d(4, 6, 3, groups=2), nn.GELU(), nn.Conv2d(6, 2, 1)
            ),
            (2, 3, 4, 4),
        ),
    ],
    ids=["mlp", "siren", "convolutions", "groups"],
)  # fmt: skip
def test_plain_networks_have_the_default_topology(module: nn.Module, inputs: tuple[int, ...]) -> None:
    assert not wsl.trace(module, torch.randn(inputs)).nodes


def test_indices_into_an_embedding_are_input_nodes() -> None:
    check(
        Bag(),
        torch.randint(7, (3, 4)),
        """
        f1(f1) h1(h1):relu y(y)
        h1 <- f1 values.weight st
        y <- h1 head.weight, - head.bias
        """,
    )


class Residual(nn.Module):
    """A basic block with a shortcut convolution, and one without."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 5, 3, stride=2, padding=1)
        self.short, self.norm = nn.Conv2d(4, 5, 1, stride=2), nn.BatchNorm2d(5)
        self.c, self.d = nn.Conv2d(5, 6, 3, padding=1, bias=False), nn.Conv2d(6, 5, 3, padding=1, bias=False)
        self.head = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.a(x))
        y = self.norm(self.b(x))
        y += self.short(x)
        x = F.relu(y, inplace=True)
        x = F.relu(x + self.d(F.relu(self.c(x))))
        return self.head(x.mean((2, 3)))


def test_shortcuts_lead_into_the_residual_node_sets() -> None:
    check(
        Residual(),
        torch.randn(2, 3, 8, 8),
        """
        x(x) c1(c1):relu c2(c2):relu c3(c3):relu c2.2(c2):relu y(y)
        c1 <- x a.weight, - a.bias
        c2 <- c1 b.weight, c1 short.weight, - b.bias, - norm.running_mean, - norm.running_var, \
- norm.weight, - norm.bias, - short.bias
        c3 <- c2 c.weight
        c2.2 <- c3 d.weight, c2
        y <- c2.2 head.weight, - head.bias
        """,
    )


class Dense(nn.Module):
    """Pre-activation: every layer normalises anew what all before it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.Conv2d(4, 3, 3, padding=1, bias=False)
        self.first, self.second = nn.BatchNorm2d(4, affine=False), nn.BatchNorm2d(7, affine=False)
        self.head = nn.Linear(7, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        x = torch.cat([x, self.b(F.relu(self.first(x)))], 1)
        return self.head(F.relu(self.second(x)).mean((2, 3)))


def test_concatenations_are_several_node_sets() -> None:
    check(
        Dense(),
        torch.randn(2, 1, 6, 6),
        """
        x(x) c1(c1) c1.2(c1):relu c2(c2):relu c1.3(c1):relu y(y)
        c1 <- x a.weight
        c1.2 <- c1, - first.running_mean, - first.running_var
        c2 <- c1.2 b.weight, - second.running_mean[1], - second.running_var[1]
        c1.3 <- c1, - second.running_mean[0], - second.running_var[0]
        y <- c1.3 head.weight[0], c2 head.weight[1], - head.bias
        """,
    )


class Skip(nn.Module):
    """A U-Net of one level."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(6, 5, 2, stride=2), nn.Conv2d(9, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.silu(self.down(x))
        x = F.silu(self.middle(F.max_pool2d(skip, 2)))
        return self.out(torch.cat([self.up(x), skip], 1))


def test_a_skip_connection_feeds_the_layer_after_the_concatenation() -> None:
    check(
        Skip(),
        torch.randn(2, 2, 8, 8),
        """
        x(x) c1(c1):silu c2(c2):silu c3(c3) y(y)
        c1 <- x down.weight, - down.bias
        c2 <- c1 middle.weight, - middle.bias
        c3 <- c2 up.weight st, - up.bias
        y <- c3 out.weight[0], c1 out.weight[1], - out.bias
        """,
    )


class Excitation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1)
        self.squeeze, self.excite = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return self.out(x * gate)


def test_gates_make_products() -> None:
    check(
        Excitation(),
        torch.randn(2, 3, 8, 8),
        """
        x(x) c1(c1):relu c2(c2):relu c1.2(c1):sigmoid c1.3(c1):product y(y)
        c1 <- x conv.weight, - conv.bias
        c2 <- c1 squeeze.weight, - squeeze.bias
        c1.2 <- c2 excite.weight, - excite.bias
        c1.3 <- c1, c1.2
        y <- c1.3 out.weight, - out.bias
        """,
    )


class Filters(nn.Module):
    """A multiplicative filter network."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.ModuleList([nn.Linear(2, 5), nn.Linear(2, 4), nn.Linear(2, 3)])
        self.layers = nn.ModuleList([nn.Linear(5, 4), nn.Linear(4, 3)])

    def forward(self, x: Tensor) -> Tensor:
        z = torch.sin(self.filters[0](x))
        for layer, filtered in zip(self.layers, self.filters[1:], strict=True):
            z = layer(z) * torch.sin(filtered(x))
        return z


def test_one_line_of_code_makes_a_product_for_each_layer() -> None:
    check(
        Filters(),
        torch.randn(7, 2),
        """
        x(x) h1(h1):sin h2(h2) h2.2(h2):sin h2.3(h2):product y(y) y.2(y):sin y.3(y):product
        h1 <- x filters.0.weight, - filters.0.bias
        h2 <- h1 layers.0.weight, - layers.0.bias
        h2.2 <- x filters.1.weight, - filters.1.bias
        h2.3 <- h2, h2.2
        y <- h2.3 layers.1.weight, - layers.1.bias
        y.2 <- x filters.2.weight, - filters.2.bias
        y.3 <- y, y.2
        """,
    )


class Experts(nn.Module):
    """A dense mixture of experts."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(3, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 3, 5)), nn.Parameter(torch.randn(4, 5, 2))

    def forward(self, x: Tensor) -> Tensor:
        gates = self.router(x).softmax(-1)
        y = torch.relu(torch.einsum("bi,eih->beh", x, self.up))
        return torch.einsum("be,beh,eho->bo", gates, y, self.down)


def test_experts_are_an_axis_of_the_node_sets() -> None:
    check(
        Experts(),
        torch.randn(7, 3),
        """
        x(x) h1(h1):softmax h2(h1 h2):relu h2.2(h1 h2):product y(y)
        h1 <- x router.weight, - router.bias
        h2 <- x up tst
        h2.2 <- h1, h2
        y <- h2.2 down sst
        """,
    )


class Adapted(nn.Module):
    """A low-rank update of a layer: of its output, or of its weight."""

    def __init__(self, merged: bool) -> None:
        super().__init__()
        self.merged = merged
        self.weight = nn.Parameter(torch.randn(5, 3))
        self.a, self.b = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(5, 2))
        self.head = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.merged:
            return self.head(torch.relu(F.linear(x, self.weight + self.b @ self.a)))
        return self.head(torch.relu(F.linear(x, self.weight) + F.linear(F.linear(x, self.a), self.b)))


@pytest.mark.parametrize("merged", [False, True])
def test_the_rank_of_an_adapter_is_a_node_set(merged: bool) -> None:
    spec = wsl.trace(Adapted(merged), torch.randn(7, 3))
    rank = next(name for name in spec.axes if spec.axes[name].size == 2)
    hidden = next(name for name in spec.axes if spec.axes[name].size == 5)
    found = {(edge.source, edge.target, edge.block) for edge in spec.topology.edges}
    assert found == {
        ("x", hidden, "weight"), ("x", rank, "a"), (rank, hidden, "b"),
        (hidden, "y", "head.weight"), (None, "y", "head.bias"),
    }  # fmt: skip


def test_all_parameters_of_a_derived_weight_are_on_its_edge() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 5))
    check(
        nn.Sequential(layer, nn.ReLU(), nn.Linear(5, 2)),
        torch.randn(7, 3),
        """
        h1(h1):relu x(x) y(y)
        h1 <- - 0.bias, - 0.parametrizations.weight.original0, x 0.parametrizations.weight.original1
        y <- h1 2.weight, - 2.bias
        """,
    )


class Compared(nn.Module):
    """A product of parameters for each group: what it is summed over is a family, and fed by nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Parameter(torch.randn(3, 4, 5))
        self.right = nn.Parameter(torch.randn(3, 5, 6))
        self.scale = nn.Parameter(torch.randn(3, 4, 6))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tanh(torch.bmm(self.left, self.right) * self.scale).sum()


def test_what_a_derived_weight_of_families_is_summed_over_tells_members_apart() -> None:
    check(
        Compared(),
        torch.randn(2, 1),
        """
        h3(h1 h3)  h4(h1 h2 h4):tanh  s()
        h4 <- - scale, h3 left tts, h3 right tst
        s <- h4
        """,
    )


class WrittenOut(nn.Module):
    """RMSNorm and the approximate GELU of GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 5), nn.Linear(5, 2)
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        x = self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        return self.b(0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * torch.pow(x, 3)))))


def test_norms_and_activations_that_are_written_out_are_single_node_sets() -> None:
    check(
        WrittenOut(),
        torch.randn(7, 3),
        """
        x(x) h1(h1):rms_norm h1.2(h1):gelu y(y)
        h1 <- x a.weight, - a.bias, - scale
        h1.2 <- h1
        y <- h1.2 b.weight, - b.bias
        """,
    )
    assert wsl.trace(WrittenOut(), torch.randn(7, 3)).axes["h1"].activation == "gelu"


class Twice(nn.Module):
    """One layer that is applied twice, on two lines."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.loop, self.head = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        return self.head(torch.tanh(self.loop(torch.tanh(self.loop(x)))))


def test_a_layer_that_is_applied_twice_is_one_node_set() -> None:
    check(
        Twice(),
        torch.randn(7, 3),
        """
        x(x) h1(h1):tanh h1.2(h1):tanh y(y)
        h1 <- x first.weight, - first.bias
        h1.2 <- h1 loop.weight, - loop.bias, h1.2 loop.weight
        y <- h1.2 head.weight, - head.bias
        """,
    )


class Unknown(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.a, self.b, self.head = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.function(torch.relu(self.a(x)), torch.tanh(self.b(x))))


def _unknown(x: Tensor, y: Tensor) -> Tensor:
    return torch.linalg.lstsq(x.T @ y + 9 * torch.eye(4), x.T).solution.T


def _written(x: Tensor, y: Tensor) -> Tensor:
    target = torch.zeros(x.shape)
    target[:, :2] = x[:, :2]
    target[:, 2:] = y[:, 2:]
    return target


def test_what_no_rule_describes_is_connected_with_all_its_operands() -> None:
    spec = wsl.trace(Unknown(_unknown), torch.randn(5, 3))
    reached = {"x"}
    for _ in spec.topology.nodes:
        reached |= {edge.target for edge in spec.topology.edges if edge.source in reached}
    assert reached == {node.name for node in spec.topology.nodes}
    feeding = {edge.target: edge.source for edge in spec.topology.edges if edge.block is None}
    assert feeding, "identity edges into what the operator made"


def test_parts_that_are_written_to_a_tensor_are_followed() -> None:
    spec = wsl.trace(Unknown(_written), torch.randn(5, 3))
    sources = {edge.source for edge in spec.topology.edges if (edge.block or "").startswith("head.weight")}
    blocks = {edge.block for edge in spec.topology.edges if edge.target in sources}
    assert {"a.weight[0]", "b.weight[1]"} <= blocks


def test_several_examples_make_one_topology() -> None:
    module = Residual()
    one = wsl.trace(module, torch.randn(2, 3, 8, 8))
    both = wsl.trace(module, [torch.randn(2, 3, 8, 8), torch.randn(3, 3, 6, 6)])
    assert written(both) == written(one)
