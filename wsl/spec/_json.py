"""The JSON form of a specification."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from wsl.spec._dims import dim_from_lists
from wsl.spec._topology import Edge, NodeSet
from wsl.spec._values import Axis, Note, Scaling, SpecError, TensorSpec

if TYPE_CHECKING:
    from wsl.spec._weight_spec import WeightSpec

_FORMAT = "wsl.WeightSpec"
_VERSION = 2


def to_json(spec: "WeightSpec") -> str:
    """Write ``spec`` as a JSON object."""
    record: dict[str, object] = {"format": _FORMAT, "version": _VERSION}
    record["axes"] = [asdict(axis) for axis in spec.axes.values()]
    record["tensors"] = {
        name: {"shape": tensor.shape, "dims": tensor.dims} for name, tensor in spec.tensors.items()
    }
    for field in ("scalings", "notes", "nodes", "edges"):
        record[field] = [asdict(entry) for entry in getattr(spec, field)]
    return json.dumps(record)


def from_json(cls: "type[WeightSpec]", text: str) -> "WeightSpec":
    """Read what :func:`to_json` wrote.

    Raises:
        SpecError: the text is no JSON, or not this object in a version that this package knows.
    """
    try:
        record = json.loads(text)
        if (record["format"], record["version"]) != (_FORMAT, _VERSION):
            raise SpecError(
                f"expected {_FORMAT} version {_VERSION}, got {record['format']} {record['version']}."
            )
        axes = [Axis(**{**axis, "family": tuple(axis["family"])}) for axis in record["axes"]]
        return cls(
            axes,
            dict(_tensors(record["tensors"], {axis.name: axis.size for axis in axes})),
            scalings=[Scaling(**scaling) for scaling in record["scalings"]],
            notes=[Note(**note) for note in record["notes"]],
            nodes=[NodeSet(**{**node, "axes": tuple(node["axes"])}) for node in record["nodes"]],
            edges=[Edge(**edge) for edge in record["edges"]],
        )
    except SpecError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise SpecError(
            f"this is no specification in JSON ({type(err).__name__}: {err}); write it with to_json()."
        ) from err


def _tensors(records: dict[str, Any], sizes: dict[str, int]) -> Iterator[tuple[str, TensorSpec]]:
    for name, entry in records.items():
        tensor = TensorSpec.from_dims(tuple(map(dim_from_lists, entry["dims"])), sizes)
        if list(tensor.shape) != entry["shape"]:
            raise SpecError(f"{name} is stored as {entry['shape']}, but its axes make {tensor.shape}.")
        yield name, tensor
