"""The state of a module, kept during a trace and put back afterwards."""

import itertools
from types import TracebackType

import torch
from torch import Tensor, nn


class ModuleState:
    """Puts a module into evaluation mode, and on exit back exactly as it was.

    Restores training flags, buffers that were replaced, parameters and buffers that were written to (which
    must be announced with :meth:`save`), and the random states.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._saved: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self._storages: dict[int, list[Tensor]] = {}

    def __enter__(self) -> "ModuleState":
        self._training = [(part, part.training) for part in self._module.modules()]
        self._buffers = [(part, dict(part._buffers)) for part in self._module.modules()]
        tensors = [*self._module.parameters(), *self._module.buffers()]
        for tensor in tensors:
            self._storages.setdefault(tensor.untyped_storage()._cdata, []).append(tensor)
        devices = sorted({t.device.index or 0 for t in tensors if t.is_cuda})
        self._random = torch.random.fork_rng(devices=devices)
        self._random.__enter__()
        self._fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        self._module.eval()
        return self

    def save(self, tensor: Tensor) -> None:
        """Keep a copy of the parameter or buffer that ``tensor`` is a view of, if it is one."""
        key = tensor.untyped_storage()._cdata
        if key in self._storages and key not in self._saved:
            self._saved[key] = [(stored, stored.detach().clone()) for stored in self._storages[key]]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        torch.backends.mha.set_fastpath_enabled(self._fast_path)
        for part, training in self._training:
            part.training = training
        for part, buffers in self._buffers:
            part._buffers.clear()
            part._buffers.update(buffers)
        with torch.no_grad():
            for stored, copy in itertools.chain.from_iterable(self._saved.values()):
                stored.copy_(copy)
        self._random.__exit__(kind, error, traceback)
