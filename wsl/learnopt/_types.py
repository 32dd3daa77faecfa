"""What the parts of learned optimization hand to one another."""

from typing import TypeAlias

from torch import Tensor

Tensors: TypeAlias = dict[str, Tensor]
"""Parameters or gradients of ``L`` lanes, by name: each ``(L, *shape)``."""

State: TypeAlias = "dict[str, Tensor | State]"
"""State of an optimizer: nested dictionaries of tensors ``(L, ...)`` and of nothing else."""
