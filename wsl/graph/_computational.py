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

        * ``x`` ``(nodes, F)``: weights with one neuron axis, a column for each role (``weight``, ``bias``,
          ``running_mean``, ``running_var``, ``other``), occurrence and position; zero where an axis lacks it.
        * ``node_type``: index of the neuron's axis in ``spec.axes``.
        * ``node_layer``: graph distance of that axis from the inputs, -1 where there is no path.
        * ``node_position``: index of an input, output or fixed neuron in its axis; -1 for hidden neurons,
          which have no order.
        * ``edge_index``: from the neuron that a weight reads to the neuron that it feeds, by the convention
          of ``Linear`` and ``Conv`` that stored dimension 0 is fed. Forward edges only (tensors stored the
          other way round, as of transposed convolutions, give backward ones): add ``edge_index.flip(0)``
          for messages in both directions.
        * ``edge_attr`` ``(edges, K)``: the weight, at all kernel positions; zero-padded.
        * ``edge_type``: numbers the blocks that hold the edges.
        * ``u`` ``(1, G)``: weights without neurons.
        * ``spec``: text of the specification, for :meth:`from_pyg`.

        A block with three or more neuron axes becomes a star for each of its entries: a node of its own type
        that holds the entry in ``x``, with edges (of zeros, a type for each axis) from and to its neurons.

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
        shared = {
            "edge_index": tables.edge_index.to(device),
            "node_type": tables.node_type.to(device),
            "node_layer": tables.node_layer.to(device),
            "node_position": tables.node_position.to(device),
            "edge_type": tables.edge_type.to(device),
            "spec": str(self.layout.spec),
        }
        graphs = [Data(x=x[b], edge_attr=edge_attr[b], u=u[b : b + 1], **shared) for b in range(len(x))]
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
            sizes = [spec.axes[axis].size for axis in block.axes]
            if not block.axes:
                flat = data.u[:, tables.columns[block.key]]
            elif block.key in tables.edge_rows:
                flat = edge_attr[:, tables.edge_rows[block.key], : block.position_count]
            else:
                flat = x[:, tables.node_rows[block.key], tables.columns[block.key]]
            values[block.key] = flat.reshape(count, *sizes, block.position_count)
        return cls(layout, values)

    def _node_table(self, tables: GraphTables) -> Tensor:
        like = next(iter(self.values.values()))
        x = like.new_zeros(like.shape[0], len(tables.node_type), tables.node_width)
        for key, rows in tables.node_rows.items():
            x[:, rows, tables.columns[key]] = self.values[key].flatten(1, -2)
        return x

    def _edge_table(self, tables: GraphTables) -> Tensor:
        like = next(iter(self.values.values()))
        parts = [like.new_zeros(like.shape[0], 0, tables.edge_width)]
        for key in tables.edge_rows:
            part = self.values[key].flatten(1, -2)
            parts.append(F.pad(part, (0, tables.edge_width - part.shape[-1])))
        attr = torch.cat(parts, dim=1)
        return F.pad(attr, (0, 0, 0, len(tables.edge_type) - attr.shape[1]))

    def _global_table(self) -> Tensor:
        like = next(iter(self.values.values()))
        parts = [self.values[block.key].flatten(1) for block in self.layout.globals]
        return torch.cat([like.new_zeros(like.shape[0], 0), *parts], dim=1)
