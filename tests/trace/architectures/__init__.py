"""Tables of architectures with groups that were derived by hand, by family; what a trace has to find.

``hugging_face`` is left to the tests that import it, for it takes seconds.
"""

from architectures import (
    attention,
    concatenating,
    convolutional,
    decoders,
    equivariant,
    graphs,
    grouped,
    implicit,
    mixtures,
    perceptrons,
    recurrent,
    residual,
    sharing,
)
from architectures.known import Known, hidden_axes, written_axes

__all__ = ["KNOWN", "Known", "hidden_axes", "written_axes"]

_TABLES = (
    perceptrons,
    equivariant,
    implicit,
    convolutional,
    grouped,
    residual,
    concatenating,
    attention,
    decoders,
    recurrent,
    graphs,
    mixtures,
    sharing,
)
KNOWN: dict[str, Known] = {name: row for table in _TABLES for name, row in table.ROWS.items()}
assert len(KNOWN) == sum(len(table.ROWS) for table in _TABLES), "two rows share a name"
