"""Running a module in float64 throughout, also where it asks for something else."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_WIDER = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64}
_WIDER |= {torch.complex32: torch.complex128, torch.complex64: torch.complex128}


def widen(value: Tensor) -> Tensor:
    """Floating-point and complex tensors in the widest type; others as they are."""
    return value.to(_WIDER.get(value.dtype, value.dtype))


def _grouped_mm(
    a: Tensor, b: Tensor, offs: Tensor, bias: Tensor | None = None, out_dtype: torch.dtype | None = None
) -> Tensor:
    """Rows of ``a`` ``(T, K)``, in groups that end at ``offs`` times matrices ``b`` ``(G, K, N)``."""
    if (a.dim(), b.dim(), bias) != (2, 3, None):
        raise NotImplementedError("products by groups in float64 take rows and one matrix for each group")
    stops = offs.tolist()
    parts = [a[start:stop] @ b[i] for i, (start, stop) in enumerate(zip([0, *stops], stops, strict=False))]
    return torch.cat([*parts, a.new_zeros(len(a) - stops[-1], b.shape[2])])


_GROUPED = getattr(torch.ops.aten, "_grouped_mm", None)  # not in every version of torch, never for float64
_REPLACED: dict[Any, Callable[..., Any]] = {_GROUPED.default: _grouped_mm} if _GROUPED else {}


class Float64Inside(TorchDispatchMode):
    """While active, whatever asks for float32 or less gets float64, and so do constants without a type.

    Norms and softmaxes of many models compute in float32 whatever they are given, which leaves rounding
    errors in their outputs. Values that leave torch (NumPy) are beyond reach.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operator imports torch._dynamo, which takes seconds

    def __enter__(self) -> "Float64Inside":
        self._before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        torch.set_default_dtype(self._before)
        super().__exit__(kind, error, traceback)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        asked = dict(kwargs or {})
        if "dtype" in asked:
            asked["dtype"] = _WIDER.get(asked["dtype"], asked["dtype"])
        result = _REPLACED.get(func, func)(*args, **asked)
        # The only operator that torch.tensor(...) shows of itself.
        return widen(result) if func is torch.ops.aten.lift_fresh.default else result
