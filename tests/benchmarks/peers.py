"""The original models of other authors, built as their scripts build them, for side-by-side benchmarks.

The package ``nfn`` is installed with the tests. The others are repositories that do not install: clone them
into one folder, with what they need beside torch (``random-fourier-features-pytorch``, ``hydra-core``,
``torchvision``, ``einops``, ``pyyaml``), and give the folder to ``bench_encoders.py --peers``::

    git clone https://github.com/mkofinas/neural-graphs        # 1f2b671
    git clone https://github.com/jkalogero/scalegmn            # 9cffd4d
    git clone https://github.com/AvivNavon/DWSNets             # 2001d52
    git clone https://github.com/AllanYangZhou/nfn             # ce78322

Every builder gets the name of the reference work and its weights ``(B, *shape)``, and returns the model and a
function from a number of networks to its outputs. Statistics of weights are left at 0 and 1; dropout is as
the scripts set it.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Model = tuple[nn.Module, Callable[[int], Tensor]]
CLASSES = 10
LAYOUT = [2, 32, 32, 1]


class Peer(NamedTuple):
    """A model of other authors.

    Args:
        ours: the label of our encoder that it is compared with.
        build: makes it.
        repository: its folder; none for what is installed.
        batch: fewer networks where 64 take more than a few GB or minutes.
    """

    ours: str
    build: Callable[[str, Mapping[str, Tensor]], Model]
    repository: str | None = None
    works: tuple[str, ...] = ("siren",)
    batch: int = 64


def at_hand(peer: Peer, folder: Path | None) -> bool:
    """Whether the peer can run."""
    return peer.repository is None or (folder is not None and (folder / peer.repository).is_dir())


def python_path(peer: Peer, folder: Path | None) -> list[Path]:
    """What the peer needs on the Python path."""
    return [] if folder is None or peer.repository is None else [(folder / peer.repository).resolve()]


def neural_functional(kind: str, channels: int, frequencies: int) -> Callable[..., Model]:
    """NFN with three layers, pooling and an MLP; NP with encodings of inputs and outputs for INRs."""

    def build(work: str, weights: Mapping[str, Tensor]) -> Model:
        from nfn import layers

        network, features = _nfn_weights(weights)
        stack: list[nn.Module] = []
        width = 1
        if frequencies:
            stack.append(layers.GaussianFourierFeatureTransform(network, 1, frequencies))
            width = 2 * frequencies
        if kind == "NP" and work == "siren":
            stack.append(layers.IOSinusoidalEncoding(network))
            width = stack[-1].num_out_chan(width)
        for _ in range(3):
            layer = getattr(layers, f"{kind}Linear")(network, width, channels)
            stack += [layer, layers.TupleOp(nn.ReLU())]
            width = channels
        pool = getattr(layers, f"{kind}Pool")
        pooled = channels * pool.get_num_outs(network)
        head = [nn.Flatten(-2), nn.Linear(pooled, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, CLASSES)]
        model = nn.Sequential(*stack, pool(network), *head)
        return model, lambda rows: model(features(rows))

    return build


def neural_functional_transformer(work: str, weights: Mapping[str, Tensor]) -> Model:
    """NFT as its classifier of SIRENs has it; pooled by means, as its Perceiver is no part of the layers."""
    from nfn import layers

    network, features = _nfn_weights(weights)
    channels = 256

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = layers.SimpleLayerNorm(network, channels)
            self.norm2 = layers.SimpleLayerNorm(network, channels)
            self.attention = layers.NPAttention(network, channels, 8, 0.1)
            self.drop = layers.TupleOp(nn.Dropout(0.1))
            self.feedforward = nn.Sequential(
                layers.Pointwise(network, channels, 2 * channels),
                layers.TupleOp(nn.GELU()),
                layers.Pointwise(network, 2 * channels, channels),
                layers.TupleOp(nn.Dropout(0.1)),
            )

        def forward(self, x: Any) -> Any:
            x = x + self.drop(self.attention(self.norm1(x)))
            return x + self.feedforward(self.norm2(x))

    model = nn.Sequential(
        layers.GaussianFourierFeatureTransform(network, 1, channels // 2, 3),
        *(Block() for _ in range(4)),
        layers.NPPool(network),
        nn.Flatten(-2),
        nn.Linear(channels * layers.NPPool.get_num_outs(network), CLASSES),
    )
    return model, lambda rows: model(features(rows))


def _nfn_weights(weights: Mapping[str, Tensor]) -> tuple[Any, Callable[[int], Any]]:
    """The specification of ``nfn``, and its weights with one channel, by number of networks."""
    from nfn.common import ArraySpec, NetworkSpec, WeightSpaceFeatures

    matrices = [tensor for name, tensor in weights.items() if name.endswith("weight")]
    biases = [tensor for name, tensor in weights.items() if name.endswith("bias")]
    network = NetworkSpec(
        [ArraySpec(tuple(w.shape[1:])) for w in matrices], [ArraySpec(tuple(b.shape[1:])) for b in biases]
    )

    def features(rows: int) -> Any:
        return WeightSpaceFeatures(
            [w[:rows].unsqueeze(1) for w in matrices], [b[:rows].unsqueeze(1) for b in biases]
        )

    return network, features


def _transposed(weights: Mapping[str, Tensor], rows: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Matrices ``(B, in, out, 1)`` and biases ``(B, out, 1)``, as the other repositories read them."""
    return (
        tuple(w[:rows].mT.unsqueeze(-1) for name, w in weights.items() if name.endswith("weight")),
        tuple(b[:rows].unsqueeze(-1) for name, b in weights.items() if name.endswith("bias")),
    )


def dws_net(work: str, weights: Mapping[str, Tensor]) -> Model:
    """DWSNets' classifier with the defaults of its script: four hidden layers of 32, attention blocks."""
    from nn.models import DWSModelForClassification

    matrices, biases = _transposed(weights, 1)
    model = DWSModelForClassification(
        weight_shapes=tuple(w.shape[1:3] for w in matrices),
        bias_shapes=tuple(b.shape[1:2] for b in biases),
        input_features=1,
        hidden_dim=32,
        n_hidden=4,
        reduction="max",
        n_fc_layers=1,
        set_layer="sab",
        n_out_fc=1,
        dropout_rate=0.0,
        n_classes=CLASSES,
        bn=True,
    )
    return model, lambda rows: model(_transposed(weights, rows))


_CONSTRUCTOR = {
    "_target_": "nn.graph_constructor.GraphConstructor",
    "_recursive_": False,
    "_convert_": "all",
    "d_in": 1,
    "d_edge_in": 1,
    "zero_out_bias": False,
    "zero_out_weights": False,
    "sin_emb": True,
    "sin_emb_dim": 128,
    "use_pos_embed": True,
    "input_layers": 1,
    "num_probe_features": 0,
    "inr_model": None,
    "stats": None,
}


def neural_graph_gnn(reverse: bool, dropout: float) -> Callable[..., Model]:
    """NG-GNN as its configuration has it, or with the reverse edges and the dropout of its scripts."""

    def build(work: str, weights: Mapping[str, Tensor]) -> Model:
        moved = "torch_geometric.utils.trim_to_layer"  # what torch_geometric has made private since
        sys.modules.setdefault(moved, importlib.import_module("torch_geometric.utils._trim_to_layer"))
        from nn.gnn import GNNForClassification

        backbone = {
            "_target_": "nn.gnn.PNA",
            "_convert_": "all",
            "in_channels": 32,
            "hidden_channels": 32,
            "out_channels": 32,
            "num_layers": 4,
            "aggregators": ["mean", "min", "max", "std"],
            "scalers": ["identity", "amplification"],
            "edge_dim": 32,
            "dropout": dropout,
            "norm": "layernorm",
            "act": "silu",
            "deg": None,
            "update_edge_attr": True,
            "modulate_edges": True,
            "gating_edges": False,
            "final_edge_update": False,
        }
        constructor = {**_CONSTRUCTOR, "inp_factor": 3}
        model = GNNForClassification(32, CLASSES, constructor, backbone, LAYOUT, reverse, "cat", "last")
        return model, lambda rows: model(_transposed(weights, rows))

    return build


def neural_graph_transformer(work: str, weights: Mapping[str, Tensor]) -> Model:
    """NG-T as its configuration and scripts have it."""
    from nn.relational_transformer import RelationalTransformer

    sizes = {"d_attn_hid": 128, "d_node_hid": 128, "d_edge_hid": 64, "d_out_hid": 128}
    constructor = {**_CONSTRUCTOR, "inp_factor": 1}
    model = RelationalTransformer(
        d_node=64,
        d_edge=32,
        **sizes,
        d_out=CLASSES,
        n_layers=4,
        n_heads=8,
        layer_layout=LAYOUT,
        graph_constructor=constructor,
        use_cls_token=False,
        dropout=0.2,
    )
    return model, lambda rows: model(_transposed(weights, rows))


def scale_gmn(configuration: str) -> Callable[..., Model]:
    """ScaleGMN by one of its configurations of MNIST INRs, with the masks that its script asks for."""

    def build(work: str, weights: Mapping[str, Tensor]) -> Model:
        import src.data.base_datasets as datasets
        import src.scalegmn.models as models
        import torch_geometric
        import yaml

        root = Path(models.__file__).parents[2]
        options = yaml.safe_load((root / "configs" / "mnist_cls" / configuration).read_text())
        arguments = {**options["scalegmn_args"], "layer_layout": LAYOUT}
        model = models.ScaleGMN(arguments)
        hidden = torch.tensor([0] * LAYOUT[0] + [1] * sum(LAYOUT[1:-1]) + [0] * LAYOUT[-1]).bool()
        edges = datasets.nn_to_edge_index(LAYOUT, "cpu")
        matrices, biases = _transposed(weights, len(next(iter(weights.values()))))
        graphs = []
        for i in range(len(matrices[0])):
            nodes, dense = datasets.BaseDataset.batch_to_graphs(
                None, [w[i] for w in matrices], [b[i] for b in biases]
            )
            graph, _ = datasets.to_pyg_batch(
                nodes,
                dense,
                edges,
                node2type=datasets.get_node_types(LAYOUT),
                edge2type=datasets.get_edge_types(LAYOUT) if arguments["edge_pos_embed"] else None,
                direction=arguments["direction"],
                label=0,
                hidden_nodes=hidden.unsqueeze(-1),
            )
            graphs.append(graph)

        def run(rows: int) -> Tensor:
            output: Tensor = model(torch_geometric.data.Batch.from_data_list(graphs[:rows]))
            return output

        return model, run

    return build


PEERS = {
    "NFN-HNP-3x512-(nfn)": Peer("NFNHNP-3x512", neural_functional("HNP", 512, 256), batch=16),
    "NFN-HNP-3x32-(nfn)": Peer("NFNHNP-3x32", neural_functional("HNP", 32, 16), works=("siren", "cnn")),
    "NFN-HNP-3x16-(nfn)": Peer("NFNHNP-3x16", neural_functional("HNP", 16, 0), works=("cnn",)),
    "NFN-NP-3x512-(nfn)": Peer("NFNNP-3x512", neural_functional("NP", 512, 256), batch=16),
    "NFN-NP-3x32-(nfn)": Peer("NFNNP-3x32", neural_functional("NP", 32, 16), works=("siren", "cnn")),
    "NFN-NP-3x16-(nfn)": Peer("NFNNP-3x16", neural_functional("NP", 16, 0), works=("cnn",)),
    "NFT-4x256": Peer("NFT-4x256", neural_functional_transformer, "nfn", batch=8),
    "NG-GNN": Peer("NeuralGraphGNN-4x32", neural_graph_gnn(False, 0.0), "neural-graphs"),
    "NG-GNN-as-run": Peer("NeuralGraphGNN-4x32", neural_graph_gnn(True, 0.2), "neural-graphs"),
    "NG-T": Peer("NeuralGraphTransformer-4x64", neural_graph_transformer, "neural-graphs", batch=16),
    "ScaleGMN": Peer("ScaleGMN-4x128", scale_gmn("scalegmn.yml"), "scalegmn", batch=16),
    "ScaleGMN-B": Peer("ScaleGMNBidirectional-4x128", scale_gmn("scalegmn_bidir.yml"), "scalegmn", batch=16),
    "DWSNets": Peer("DWSNet-5x32", dws_net, "DWSNets"),
}
