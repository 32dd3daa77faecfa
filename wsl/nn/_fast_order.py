"""In which order the nodes of a computational graph are computed, and from what."""

from dataclasses import dataclass
from functools import lru_cache

from wsl.graph import GraphBlock, GraphLayout, Use, arrange

_NORM_ROLES = ("running_mean", "running_var", "weight", "bias", "other")


@dataclass(frozen=True)
class NodeStep:
    """How the nodes of one set are computed.

    Args:
        name: of the node set.
        activation: of the node set.
        inputs: the blocks, and which of their uses, that lead here from sets that were computed before.
        identities: edges without weights that do.
        held: the blocks on these nodes, in the order in which they act.
    """

    name: str
    activation: str | None
    inputs: tuple[tuple[GraphBlock, int], ...]
    identities: tuple[Use, ...]
    held: tuple[GraphBlock, ...]

    @property
    def is_input(self) -> bool:
        """Whether nothing leads here."""
        return not self.inputs and not self.identities


@lru_cache(maxsize=256)
def run_order(layout: GraphLayout) -> tuple[NodeStep, ...]:
    """The node sets of a graph from inputs to outputs; edges that close a cycle are left out."""
    arrangement = arrange(layout.spec)
    sets = {nodes.name: nodes for nodes in layout.spec.topology.nodes}
    depth = arrangement.layer_of()

    def forward(use: Use, name: str) -> bool:
        return use.source is not None and use.target.nodes == name and depth[use.source.nodes] < depth[name]

    modules = {block.key.rsplit(".", 1)[0]: i for i, block in reversed(list(enumerate(layout.nodes)))}

    def acts(block: GraphBlock) -> tuple[int, int]:
        return modules[block.key.rsplit(".", 1)[0]], _NORM_ROLES.index(block.role)

    return tuple(
        NodeStep(
            name,
            sets[name].activation,
            tuple((b, i) for b in layout.edges for i, use in enumerate(b.uses) if forward(use, name)),
            tuple(use for use in layout.identities if forward(use, name)),
            tuple(sorted((b for b in layout.nodes if any(u.target.nodes == name for u in b.uses)), key=acts)),
        )
        for layer in arrangement.layers
        for name in layer
    )
