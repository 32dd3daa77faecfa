"""Reading an image at places that are computed: ``grid_sample``.

Dims: channels stay free; the image's positions and the coordinates of a place are fixed, and the grid's
other dims become positions of the output. Mixing: the image's positions, and the coordinates. Homogeneity:
linear in the image; the grid may not be scaled.
"""

from wsl.trace._axes import is_fixed
from wsl.trace._facts import Operand, Value
from wsl.trace._operators import Call
from wsl.trace._recorder import Recorder, Rule


def _grid_sample(trace: Recorder, call: Call) -> None:
    image, grid = trace.value(call["input"]), trace.value(call["grid"])
    count = len(image.dims) - 2
    for dim in (*image.dims[2:], grid.dims[-1]):
        if not is_fixed(dim):
            trace.fix(dim, "position")
    batch = trace.unify(image.dims[0], grid.dims[0])
    places = tuple(f"at{axis}" for axis in range(count))
    shares = Value(grid.dims[:-1])  # of the pixels around each place
    trace.facts.apply(Operand(grid, ("n", *places, None)), Operand(shares, ("n", *places)))
    out = trace.assign(call.out, (batch, image.dims[1], *grid.dims[1:-1]))
    trace.facts.multiply(
        [Operand(image, ("n", "c", *(None,) * count)), Operand(shares, ("n", *places))],
        Operand(out, ("n", "c", *places)),
    )


RULES: dict[str, Rule] = dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d"), _grid_sample)
