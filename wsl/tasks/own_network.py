"""A trained task on a network of the user's own."""

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wsl import trace, verify
from wsl.spec import WeightSpec
from wsl.tasks.base import BaseTask
from wsl.tasks.factories import Recipe, TaskError
from wsl.tasks.invariant import InvariantTask
from wsl.zoo import ZooError

logger = logging.getLogger(__name__)

_ALIKE = 1e-6  # as a share of the largest output, in float64


def load_task(path: Path) -> InvariantTask:
    """The trained task of a checkpoint, in evaluation mode.

    Raises:
        TaskError: the file is no checkpoint of a task that predicts something of each network.
    """
    try:
        stored = torch.load(path, weights_only=True, map_location="cpu")
        class_path = stored["hyper_parameters"]["class_path"]
    except FileNotFoundError as err:
        raise TaskError(f"there is no checkpoint {path}.\n  Give runs/NAME/checkpoints/best.ckpt.") from err
    except Exception as err:  # whatever reading an arbitrary file raises
        raise TaskError(
            f"{path} is no checkpoint of `python -m wsl fit`, or it is damaged ({type(err).__name__}).\n"
            "  Give runs/NAME/checkpoints/best.ckpt."
        ) from err
    kind = Recipe(class_path, {}).load(BaseTask)
    if not issubclass(kind, InvariantTask):
        raise TaskError(
            f"{path} is a {kind.__name__}, which predicts nothing of a network by itself.\n"
            "  Give a checkpoint of a task such as GeneralizationPrediction."
        )
    task: InvariantTask = kind.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    return task.eval()


def predict_network(
    task: InvariantTask,
    module: nn.Module,
    example_inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
) -> dict[str, Tensor]:
    """What a trained task predicts for one network.

    The network's specification is traced and proven by numbers. A task for one architecture takes networks
    of that architecture, however their tensors are named, if they also run as those that it was trained on,
    as far as their zoo said how; one that was trained on several takes any.

    Args:
        task: from :func:`load_task`.
        module: the network with its trained weights.
        example_inputs, kwargs: inputs that it runs on, as for :func:`wsl.trace`.

    Returns:
        What the task reads out, such as ``predictions``, without the dimension of networks.

    Raises:
        TaskError: the network has another architecture than the one that the task reads, or makes something
            else of the same weights, as a SIREN of another frequency does; or its weights are not finite.
        TraceError, SymmetryError: the network cannot be traced.
    """
    if bad := [name for name, value in module.named_parameters() if not value.isfinite().all()]:
        raise TaskError(
            f"the network's weights are not finite: {', '.join(bad)}. Nothing can be predicted of it.\n"
            "  Give an earlier checkpoint of it, from before its training diverged."
        )
    spec = trace(module, example_inputs, kwargs)
    verify(module, spec, example_inputs, kwargs)
    state = module.state_dict()
    weights = {name: state[name].detach().float()[None] for name in spec.tensors}
    with torch.no_grad():
        if task.reads_any:
            with task.running(spec, module):
                outputs = task(((spec, weights),))
        else:
            names = same_architecture(spec, task.spec)
            _check_runs_alike(task, module, names, example_inputs, kwargs or {})
            outputs = task({names[name]: value for name, value in weights.items()})
    return {name: value[0] for name, value in task.read_out(outputs).items()}


def _check_runs_alike(
    task: InvariantTask, module: nn.Module, names: Mapping[str, str], inputs: Any, kwargs: Mapping[str, Any]
) -> None:
    """Raise TaskError if the weights, run as the task's own networks run, give other outputs.

    Nothing is compared where the zoo did not say how its networks run, or not on such inputs.
    """
    definition = task.forward_definition
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    doubled = [
        value.double() if value.is_floating_point() else value for value in given if isinstance(value, Tensor)
    ]
    if definition is None or len(doubled) != len(given):
        return
    own = deepcopy(module).eval().double()
    state = own.state_dict()
    try:
        other = definition.build().eval().double()
        other.load_state_dict({theirs: state[ours] for ours, theirs in names.items()}, strict=False)
        with torch.no_grad():
            found, expected = own(*doubled, **kwargs), other(*doubled)
    except (ZooError, RuntimeError, TypeError) as err:  # what torch raises on inputs of other shapes
        logger.info("whether the network runs as those of training was not compared: %s", err)
        return
    if not isinstance(found, Tensor) or not isinstance(expected, Tensor) or found.shape != expected.shape:
        same = False
    else:
        same = any(
            torch.allclose(found, wanted, rtol=0.0, atol=_ALIKE * float(wanted.abs().max()))
            for wanted in (expected, definition.signal(expected))
        )
    if not same:
        raise TaskError(
            "the network has the architecture that the model was trained on, but makes something else of "
            f"its weights than {definition.factory} with {dict(definition.arguments)}, as which the networks "
            "of training ran.\n"
            "  Give the module that the model's zoo names, e.g. with the same frequency (w0), and without "
            "what follows its outputs; or train on networks that run as yours."
        )


def same_architecture(spec: WeightSpec, wanted: WeightSpec) -> dict[str, str]:
    """The name in ``wanted`` of each tensor of ``spec``, which says the same of tensors in the same order.

    Raises:
        TaskError: it does not; the message shows the lines that differ.
    """
    names = dict(zip(spec.tensors, wanted.tensors, strict=False))
    if len(spec.tensors) == len(wanted.tensors):
        found, expected = _renamed(spec, names), replace(wanted, notes=())
        if found == expected:
            return names
    else:
        found, expected = spec, wanted
    ours, theirs = str(found).splitlines(), str(expected).splitlines()
    raise TaskError(
        "the network has another architecture than those that the model was trained on.\n"
        f"  model:   {'; '.join(line.strip() for line in theirs if line not in ours)}\n"
        f"  network: {'; '.join(line.strip() for line in ours if line not in theirs)}\n"
        "  A model that was trained on several architectures reads any."
    )


def _renamed(spec: WeightSpec, names: Mapping[str, str]) -> WeightSpec:
    """The specification with other names of tensors, and without notes, which tell of modules."""

    def block(key: str) -> str:
        name, bracket, number = (key, "", "") if key in names else key.rpartition("[")
        return names[name] + bracket + number

    return WeightSpec(
        spec.axes,
        {names[name]: tensor for name, tensor in spec.tensors.items()},
        tuple(
            replace(one, exponents=tuple(power._replace(key=block(power.key)) for power in one.exponents))
            for one in spec.scalings
        ),
        nodes=spec.nodes,
        edges=tuple(replace(edge, block=edge.block and block(edge.block)) for edge in spec.edges),
    )
