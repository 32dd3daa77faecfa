"""The state of a module and of the random generators, kept during a trace and put back afterwards."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType

import numpy as np
import torch
from torch import Tensor, nn

from wsl.trace._values import storage_key

_backends = torch.backends
# Otherwise torch runs whole layers as one operator: attention, and recurrent ones by oneDNN or cuDNN. And
# under autocast it reads weights that were cast in an earlier run.
_SETTINGS: tuple[tuple[Callable[[], bool], Callable[[bool], object], bool], ...] = (
    (_backends.mha.get_fastpath_enabled, _backends.mha.set_fastpath_enabled, False),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, False),
    (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled, False),
    (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled, False),
    (_backends.cuda.math_sdp_enabled, _backends.cuda.enable_math_sdp, True),
    (_backends.cuda.flash_sdp_enabled, _backends.cuda.enable_flash_sdp, False),
    (_backends.cuda.mem_efficient_sdp_enabled, _backends.cuda.enable_mem_efficient_sdp, False),
    (_backends.cuda.cudnn_sdp_enabled, _backends.cuda.enable_cudnn_sdp, False),
)


class ModuleState:
    """Puts a module into evaluation mode, and on exit back exactly as it was.

    Restores training flags, buffers, parameters and gradients that were written to (which must be announced
    with :meth:`save`) or replaced, the global random states of torch, numpy and Python, and the settings of
    torch's backends.
    """

    def __init__(self, module: nn.Module) -> None:
        self._parts = list(module.modules())
        self._module = module
        self._saved: dict[tuple[str, int], list[tuple[Tensor, Tensor]]] = {}
        self._stored: dict[tuple[str, int], list[Tensor]] = {}
        self._undo = ExitStack()

    def __enter__(self) -> ModuleState:
        self._training = [part.training for part in self._parts]
        self._buffers = [dict(part._buffers) for part in self._parts]
        self._gradients = [(parameter, parameter.grad) for parameter in self._module.parameters()]
        tensors = [*self._module.parameters(), *self._module.buffers()]
        for tensor in (*tensors, *(gradient for _, gradient in self._gradients if gradient is not None)):
            self._stored.setdefault(storage_key(tensor), []).append(tensor)
        for buffer in self._module.buffers():
            self.save(buffer)  # some operators update running statistics without saying so
        devices = sorted({tensor.get_device() for tensor in tensors if tensor.is_cuda})
        self._undo.enter_context(torch.random.fork_rng(devices))
        self._undo.callback(random.setstate, random.getstate())
        self._undo.callback(np.random.set_state, np.random.get_state())
        for read, write, wanted in _SETTINGS:
            self._undo.callback(write, read())
            write(wanted)
        if "torch._dynamo" in sys.modules:  # else nothing is compiled
            self._undo.enter_context(torch.compiler.set_stance("force_eager"))
        with suppress(NotImplementedError):  # exported modules have no modes
            self._module.eval()
        return self

    def save(self, tensor: Tensor) -> None:
        """Keep a copy of the parameters or buffers that share the storage of ``tensor``, if there are any."""
        key = storage_key(tensor)
        if key in self._stored and key not in self._saved:
            self._saved[key] = [(stored, stored.detach().clone()) for stored in self._stored[key]]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for part, training, buffers in zip(self._parts, self._training, self._buffers, strict=True):
            part.training = training
            part._buffers.clear()
            part._buffers.update(buffers)
        with torch.no_grad():
            for stored, copy in itertools.chain.from_iterable(self._saved.values()):
                if stored.is_meta or not torch.equal(stored, copy):
                    stored.copy_(copy)
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        self._undo.close()
