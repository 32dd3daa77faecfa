"""Graph networks of torch_geometric."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_add_pool

from architectures.known import Known


def ring() -> tuple[Tensor, Tensor]:
    """Six nodes with features, on a ring with a chord."""
    return torch.randn(6, 3), torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])


class Layers(nn.Module):
    """Graph convolutions with ReLU between them."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = self.layers[0](x, edges)
        for layer in self.layers[1:]:
            x = layer(torch.relu(x), edges)
        return x


def gin(inputs: int, inner: int, outputs: int) -> GINConv:
    mlp = nn.Sequential(nn.Linear(inputs, inner), nn.LeakyReLU(), nn.Linear(inner, outputs))
    return GINConv(mlp, train_eps=True)


class GraphIsomorphismNetwork(nn.Module):
    """Two layers and a readout of the whole graph (arXiv:1810.00826)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = gin(3, 4, 5), gin(5, 6, 5)
        self.norm, self.head = nn.BatchNorm1d(5), nn.Linear(5, 2)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = F.leaky_relu(self.norm(self.first(x, edges)))
        x = F.leaky_relu(self.second(x, edges))
        return self.head(global_add_pool(x, torch.zeros(len(x), dtype=torch.long)))


ROWS = {
    "gcn": Known(
        lambda: Layers(GCNConv(3, 5), GCNConv(5, 4), GCNConv(4, 2)),
        ring,
        "4 5",
        """
        axes  h1: 5 hidden relu positive  h2: 4 hidden relu positive  x: 3 input  y: 2 output
        layers.0.bias        h1
        layers.0.lin.weight  h1 x
        layers.1.bias        h2
        layers.1.lin.weight  h2 h1
        layers.2.bias        y
        layers.2.lin.weight  y h2
        scaling: h1 positive layers.0.lin.weight+1 layers.0.bias+1 layers.1.lin.weight-1
        scaling: h2 positive layers.1.lin.weight+1 layers.1.bias+1 layers.2.lin.weight-1
        """,
    ),
    "gin": Known(GraphIsomorphismNetwork, ring, "4 5^2 6"),
    "sage": Known(
        lambda: Layers(SAGEConv(3, 5), SAGEConv(5, 2)),
        ring,
        "5",
        """
        axes  h1: 5 hidden relu positive  x: 3 input  y: 2 output
        layers.0.lin_l.weight  h1 x
        layers.0.lin_l.bias    h1
        layers.0.lin_r.weight  h1 x
        layers.1.lin_l.weight  y h1
        layers.1.lin_l.bias    y
        layers.1.lin_r.weight  y h1
        scaling: h1 positive layers.0.lin_l.weight+1 layers.0.lin_l.bias+1 layers.0.lin_r.weight+1 layers.1.lin_l.weight-1 layers.1.lin_r.weight-1
        """,  # noqa: E501
    ),
    "gat": Known(lambda: Layers(GATConv(3, 4, heads=3), GATConv(12, 2)), ring, "3 4|3"),
}
