"""Computational graphs with weights: dense blocks, and their exchange with torch_geometric."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from wsl.graph._layout import GraphLayout, graph_layout
from wsl.graph._tables import GraphTables, graph_tables
from wsl.spec import WeightSpec

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data

_TABLES = (
    "edge_index", "node_type", "node_activation", "node_layer", "node_position", "edge_type", "edge_kind",
    "weight_id",
)  # fmt: skip


class GraphError(ValueError):
    """A graph does not belong to the specification that it is read with."""


@dataclass(frozen=True, eq=False)
class ComputationalGraph:
    """The computational graphs of ``B`` networks of one architecture: neurons as nodes, weights as edges.

    Args:
        layout: what each block is: edges, node features, or features of the whole network.
        values: for every block key its weights, ``(B, n_1, ..., n_k, K)``: the neurons of its ``k`` axes,
            then its ``K`` kernel positions.
    """

    layout: GraphLayout
    values: Mapping[str, Tensor]

    @classmethod
    def from_weights(cls, spec: WeightSpec, weights: Mapping[str, Tensor]) -> "ComputationalGraph":
        """Make the graphs of weights ``(B, *shape)``.

        Raises:
            SpecError: the weights do not fit ``spec``.
        """
        spec.check_weights(weights)
        layout, blocks = graph_layout(spec), spec.split(weights)
        return cls(layout, {block.key: block.to_graph(blocks[block.key]) for block in layout.blocks})

    def to_weights(self) -> dict[str, Tensor]:
        """The weights ``(B, *shape)`` that the graphs were made from."""
        blocks = {block.key: block.from_graph(self.values[block.key]) for block in self.layout.blocks}
        return self.layout.spec.join(blocks)

    def to_pyg(self) -> "Batch":
        """One ``torch_geometric`` graph for each network, in a ``Batch``.

        * ``x`` ``(nodes, F)``: weights that belong to nodes, a column for each role (``weight``, ``bias``,
          ``running_mean``, ``running_var``, ``other``), occurrence and position; zero where a node set has
          none. Norms are such: their parameters and statistics lie on the nodes that they normalise.
        * ``node_type``: index of the node set in ``spec.topology.nodes``.
        * ``node_activation``: index in ``wsl.graph.ACTIVATIONS`` of the node set's activation; 0 for none.
        * ``node_layer``: graph distance of the node set from the inputs, -1 where there is no path.
        * ``node_position``: index of an input, output or fixed neuron in its axis; -1 for hidden neurons,
          which have no order.
        * ``edge_index``: from the node that a weight reads to the node that it feeds, by the topology.
          Forward edges only: add ``edge_index.flip(0)`` for messages in both directions.
        * ``edge_attr`` ``(edges, K)``: the weight, at all kernel positions, zero-padded; zeros where there is
          none.
        * ``edge_kind``: index in ``wsl.graph.EDGE_KINDS``: 0 for weights, 1 for identities (residual
          connections, and from neurons to their combinations), 2 for links of hyperedges.
        * ``edge_type``: numbers what the edges are: every use of a block, every identity edge of the
          topology, and every end of a hyperedge has a type of its own.
        * ``weight_id``: numbers the stored weights; edges that share a weight have the same; -1 for none.
        * ``u`` ``(1, G)``: weights that belong to no node and no edge.
        * ``spec``: text of the specification, for :meth:`from_pyg`.

        Where the ends of a block's edges cannot be told apart by pairs of nodes (it is added at nodes in one
        place and multiplies in another, or is not used at all), it becomes a star for each of its entries: a
        node of its own type that holds the entry in ``x``, with edges from and to the nodes at its ends.

        Raises:
            GraphError: there are no networks; an empty batch has no shapes.
        """
        if not next(iter(self.values.values())).shape[0]:
            raise GraphError(
                "there are 0 networks here, and a Batch of none has no shapes; give at least one."
            )
        from torch_geometric.data import Batch, Data

        tables = graph_tables(self.layout)
        device = next(iter(self.values.values())).device
        x, edge_attr, u = self._node_table(tables), self._edge_table(tables), self._global_table()
        shared = {name: getattr(tables, name).to(device) for name in _TABLES}
        text = str(self.layout.spec)
        graphs = [
            Data(x=x[b], edge_attr=edge_attr[b], u=u[b : b + 1], spec=text, **shared) for b in range(len(x))
        ]
        return Batch.from_data_list(graphs)

    @classmethod
    def from_pyg(cls, data: "Data | Batch", spec: WeightSpec | None = None) -> "ComputationalGraph":
        """Read graphs that :meth:`to_pyg` made; nodes and edges must be in its order. Exact.

        Args:
            data: a ``Data`` or a ``Batch``; all graphs of one architecture.
            spec: the specification; by default the one that the graphs carry as text.

        Raises:
            GraphError: graphs of several architectures, of other sizes than the specification's, or without
                the attributes that :meth:`to_pyg` writes.
            SpecError: the graphs carry a text that is no specification.
        """
        needed = ["x", "edge_attr", "u", *([] if spec else ["spec"])]
        if missing := [name for name in needed if getattr(data, name, None) is None]:
            raise GraphError(
                f"the graphs have no {', '.join(missing)}; only graphs that to_pyg() made can be read back."
            )
        if spec is not None:
            return cls._read(data, spec)
        texts = {data.spec} if isinstance(data.spec, str) else set(data.spec)
        if len(texts) > 1:
            raise GraphError(
                f"the batch holds {len(texts)} architectures; split it with to_data_list() and read the "
                "graphs of each architecture on their own."
            )
        return cls._read(data, WeightSpec.parse(texts.pop()))

    @classmethod
    def _read(cls, data: "Data | Batch", spec: WeightSpec) -> "ComputationalGraph":
        layout = graph_layout(spec)
        tables = graph_tables(layout)
        count = getattr(data, "num_graphs", 1)
        given = (tuple(data.x.shape), tuple(data.edge_attr.shape), tuple(data.u.shape))
        expected = (
            (count * len(tables.node_type), tables.node_width),
            (count * len(tables.edge_type), tables.edge_width),
            (count, sum(block.position_count for block in layout.globals)),
        )
        if given != expected:
            raise GraphError(
                f"x, edge_attr and u of {count} graphs have shapes {given}; the spec says {expected}.\n"
                "  The graphs come from another architecture, or nodes or features were added or removed."
            )
        x = data.x.reshape(count, len(tables.node_type), tables.node_width)
        edge_attr = data.edge_attr.reshape(count, len(tables.edge_type), tables.edge_width)
        values = {}
        for block in layout.blocks:
            if block.key in tables.edge_rows:
                first = tables.first_edges(block).to(data.x.device)
                flat = edge_attr[:, first, : block.position_count]
            elif block.key in tables.node_rows:
                first = tables.node_rows[block.key][0].to(data.x.device)
                flat = x[:, first, tables.columns[block.key]]
            else:
                flat = data.u[:, tables.columns[block.key]]
            values[block.key] = flat.reshape(count, *block.sizes, block.position_count)
        return cls(layout, values)

    def _node_table(self, tables: GraphTables) -> Tensor:
        like = next(iter(self.values.values()))
        x = like.new_zeros(like.shape[0], len(tables.node_type), tables.node_width)
        for key, rows in tables.node_rows.items():
            values = self.values[key].reshape(len(like), 1, rows.shape[1], -1)
            x[:, rows.to(x.device), tables.columns[key]] = values
        return x

    def _edge_table(self, tables: GraphTables) -> Tensor:
        like = next(iter(self.values.values()))
        parts = [like.new_zeros(like.shape[0], 0, tables.edge_width)]
        for key, entries in tables.edge_entries.items():
            stored = self.values[key]
            part = stored.reshape(len(stored), -1, stored.shape[-1])[:, entries.to(stored.device)]
            parts.append(F.pad(part, (0, tables.edge_width - part.shape[-1])))
        attr = torch.cat(parts, dim=1)
        return F.pad(attr, (0, 0, 0, len(tables.edge_type) - attr.shape[1]))

    def _global_table(self) -> Tensor:
        like = next(iter(self.values.values()))
        parts = [self.values[block.key].flatten(1) for block in self.layout.globals]
        return torch.cat([like.new_zeros(like.shape[0], 0), *parts], dim=1)
