"""What must hold of a zoo before it is written."""

from collections.abc import Mapping

import numpy as np
import torch

from wsl.spec import WeightSpec
from wsl.zoo._errors import ZooError
from wsl.zoo._forward import ForwardDefinition
from wsl.zoo._layout import Tables
from wsl.zoo._splits import check_splits


def check_forward(spec: WeightSpec, forward: ForwardDefinition) -> None:
    """Raise ZooError unless the module, where this package can build it, has the tensors of the spec."""
    if not forward.is_allowed:
        return
    with torch.random.fork_rng(devices=[]):
        module = forward.build()
    given = {name: tuple(tensor.shape) for name, tensor in spec.tensors.items()}
    parameters = {name for name, _ in module.named_parameters()}
    built = {
        name: tuple(tensor.shape)
        for name, tensor in module.state_dict().items()
        if name in parameters or name in given  # other buffers are constants of the class
    }
    if built != given:
        raise ZooError(
            "The forward definition does not build the network of the spec: its weights could not be run.\n"
            f"  spec: {given}\n  forward: {built}"
        )


def check_tables(tables: Tables) -> None:
    """Raise ZooError for splits that leak, an architecture without rows, or a checkpoint given twice."""
    check_splits(tables.splits, tables.columns, tables.rows)
    for architecture, count in zip(tables.architectures, tables.counts, strict=True):
        if count == 0:
            raise ZooError(f"Architecture {architecture.name} has no rows. Leave it out.")
    check_checkpoints(tables.columns)


def check_checkpoints(columns: Mapping[str, np.ndarray]) -> None:
    """Raise ZooError when the columns ``model`` and ``step``, where both exist, do not identify a row."""
    if "model" not in columns or "step" not in columns:
        return
    model, step = columns["model"], columns["step"]
    order = np.lexsort((step, model))
    again = (model[order][1:] == model[order][:-1]) & (step[order][1:] == step[order][:-1])
    if again.any():
        first = int(np.flatnonzero(again)[0])
        rows = sorted(order[first : first + 2].tolist())
        raise ZooError(
            f"Rows {rows[0]} and {rows[1]} both hold step {step[rows[0]]} of model {model[rows[0]]}, but "
            "(model, step) identify a checkpoint. Number the models apart, or rename one of the columns."
        )
