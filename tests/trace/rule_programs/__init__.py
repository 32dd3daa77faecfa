"""Tiny programs for all rules of the tracer, by the kind of operator."""

from rule_programs import indexing, moving, ordering, pointwise, positions, products

PROGRAMS = {
    f"{kind}: {name}": program
    for kind, rows in (
        ("pointwise", pointwise.PROGRAMS),
        ("products", products.PROGRAMS),
        ("positions", positions.PROGRAMS),
        ("ordering", ordering.PROGRAMS),
        ("indexing", indexing.PROGRAMS),
        ("moving", moving.PROGRAMS),
    )
    for name, program in rows.items()
}
