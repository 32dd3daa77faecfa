"""Operators along positions: windows, pooling, resizing, padding, sampling, Fourier transforms."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rule_programs._program import Program, Rows

aten = torch.ops.aten


def _image(h: Tensor, size: int = 4) -> Tensor:
    return h[:, :, :, None].expand(-1, -1, -1, size)


def _volume(h: Tensor) -> Tensor:
    return _image(h)[:, :, :, None].expand(-1, -1, -1, 4, -1)


def _sampled(h: Tensor, grid: Tensor) -> Tensor:
    source = _image(h) if grid.dim() == 3 else _volume(h)
    return F.grid_sample(source, grid.expand(2, *grid.shape), align_corners=False)


def _resized(h: Tensor, mode: str) -> Tensor:
    aligned = None if "nearest" in mode else False
    source = h if mode == "linear" else _volume(h) if mode == "trilinear" else _image(h)
    return F.interpolate(source, scale_factor=2, mode=mode, align_corners=aligned)


def _padded(h: Tensor, mode: str) -> Tensor:
    parts = [
        F.pad(value, (1,) * (2 * rank), mode=mode)
        for rank, value in ((1, h), (2, _image(h)), (3, _volume(h)))
    ]
    return parts[0] + sum(part.flatten(3).sum(3) for part in parts[1:])


def _nearest(h: Tensor, mode: str) -> Tensor:
    parts = [F.interpolate(value, scale_factor=2, mode=mode) for value in (h, _image(h), _volume(h))]
    return sum(part.flatten(3).sum(3) if part.dim() > 3 else part for part in parts)


def _pooled(h: Tensor) -> Tensor:
    one, two, three = F.avg_pool1d(h, 2), F.avg_pool2d(_image(h), 2), F.avg_pool3d(_volume(h), 2)
    return one + two.sum(3) + three.sum((3, 4))


def _maxima(h: Tensor) -> Tensor:
    one, two, three = F.max_pool1d(h, 2), F.max_pool2d(_image(h), 2), F.max_pool3d(_volume(h), 2)
    return one + two.sum(3) + three.sum((3, 4))


def _adapted(h: Tensor) -> Tensor:
    one, two = F.adaptive_avg_pool1d(h, 2), F.adaptive_avg_pool2d(_image(h), 2)
    return one + two.sum(3) + F.adaptive_avg_pool3d(_volume(h), 2).sum((3, 4))


def _adapted_maxima(h: Tensor) -> Tensor:
    one, two = F.adaptive_max_pool1d(h, 2), F.adaptive_max_pool2d(_image(h), 2)
    return one + two.sum(3) + F.adaptive_max_pool3d(_volume(h), 2).sum((3, 4))


def _unpooled(h: Tensor) -> Tensor:
    flat = F.max_unpool2d(*F.max_pool2d(_image(h), 2, return_indices=True), 2)
    return flat.sum(3) + F.max_unpool3d(*F.max_pool3d(_volume(h), 2, return_indices=True), 2).sum((3, 4))


def _antialiased(h: Tensor, mode: str) -> Tensor:
    return F.interpolate(_image(h), scale_factor=0.5, mode=mode, antialias=True)


PROGRAMS: Rows = {
    "unfold apart": Program("2, 2, 6", lambda h: h.unfold(2, 2, 2)),
    "unfold": Program("6, 4!unfold in middle, which runs along it", lambda h: h.unfold(2, 3, 1)),
    "im2col": Program("6, 4!im2col in middle, which runs along it", lambda h: F.unfold(_image(h), 2)),
    "im2col unbatched": Program(
        "6, 4!im2col in middle, which runs along it", lambda h: F.unfold(_image(h)[0], 2).expand(2, 24, 9)
    ),
    "col2im": Program(
        "4, 6, 6", lambda h, w: F.fold((h.flatten(1) @ w).view(2, 24, 4), (3, 3), 2), {"w": (24, 96)}
    ),
    "grid_sample": Program(
        "2, 2, 6, 4!grid_sampler_2d in middle, which runs along it", _sampled, {"grid": (2, 2, 2)}
    ),
    "grid_sample volume": Program(
        "2, 2, 2, 6, 4!grid_sampler_3d in middle, which runs along it", _sampled, {"grid": (2, 2, 2, 3)}
    ),
    "avg_pool": Program("6, 4!avg_pool2d in middle, which runs along it", _pooled),
    "avg_pool along one": Program(
        "6, 4!avg_pool2d in middle, which runs along it", lambda h: F.avg_pool2d(h[:, None], (1, 2))
    ),
    "max_pool": Program("6, 4!max_pool2d_with_indices in middle, which runs along it", _maxima),
    "max_pool along one": Program(
        "6, 4!max_pool2d_with_indices in middle, which runs along it",
        lambda h: F.max_pool2d(h[:, None], (1, 2)),
    ),
    "max_pool index": Program(
        "6, 4!max_pool2d_with_indices in middle, which runs along it",
        lambda h: F.max_pool1d(h, 2, return_indices=True)[1],
    ),
    "lp_pool": Program("6, 4!avg_pool2d in middle, which runs along it", lambda h: F.lp_pool1d(h, 2, 2)),
    "adaptive_avg_pool": Program("6, 4!_adaptive_avg_pool2d in middle, which runs along it", _adapted),
    "adaptive_max_pool": Program("6, 4!adaptive_max_pool2d in middle, which runs along it", _adapted_maxima),
    "max_unpool": Program("6, 4!max_pool2d_with_indices in middle, which runs along it", _unpooled),
    "local_response_norm": Program(
        "4, 6!avg_pool2d in middle, which runs along it", lambda h: F.local_response_norm(h, 3)
    ),
    "reflection": Program(
        "6, 4!reflection_pad1d in middle, which runs along it", lambda h: _padded(h, "reflect")
    ),
    "replication": Program(
        "6, 4!replication_pad1d in middle, which runs along it", lambda h: _padded(h, "replicate")
    ),
    "nearest": Program(
        "6, 4!upsample_nearest1d in middle, which runs along it", lambda h: _nearest(h, "nearest")
    ),
    "nearest exact": Program(
        "6, 4!_upsample_nearest_exact1d in middle, which runs along it",
        lambda h: _nearest(h, "nearest-exact"),
    ),
    "linear": Program(
        "6, 4!upsample_linear1d in middle, which runs along it", lambda h: _resized(h, "linear")
    ),
    "bilinear": Program(
        "6, 4!upsample_bilinear2d in middle, which runs along it", lambda h: _resized(h, "bilinear")
    ),
    "bicubic": Program(
        "6, 4!upsample_bicubic2d in middle, which runs along it", lambda h: _resized(h, "bicubic")
    ),
    "trilinear": Program(
        "6, 4!upsample_trilinear3d in middle, which runs along it", lambda h: _resized(h, "trilinear")
    ),
    "bilinear smoothed": Program(
        "6, 4!_upsample_bilinear2d_aa in middle, which runs along it", lambda h: _antialiased(h, "bilinear")
    ),
    "bicubic smoothed": Program(
        "6, 4!_upsample_bicubic2d_aa in middle, which runs along it", lambda h: _antialiased(h, "bicubic")
    ),
    "fft": Program("6, 4!_fft_r2c, 4!_fft_r2c", lambda h: torch.fft.fft(h, dim=2).abs()),
    "rfft": Program(
        "4, 6!_fft_c2r, 6!_fft_r2c", lambda h: torch.fft.irfft(torch.fft.rfft(h, dim=1).tanh(), dim=1)
    ),
    "fft2": Program(
        "4!_fft_c2c, 4!_fft_c2c, 6!_fft_c2c, 6!_fft_c2c", lambda h: torch.fft.fft2(torch.complex(h, h * h))
    ),
    "ifft": Program(
        "6, 4!_fft_c2c, 4!_fft_c2c",
        lambda h: torch.view_as_real(torch.fft.ifft(torch.polar(h, h.tanh()), dim=2)),
    ),
    "hfft": Program("4, 10!_fft_c2r, 6!_fft_c2r", lambda h: torch.fft.hfft(h, dim=1)),
    "complex": Program("6", lambda h: torch.view_as_complex(h.unflatten(2, (2, 2))) * h[:, :, :2]),
    "conj": Program("4, 6", lambda h: torch.complex(h, h * h).conj().imag),
    "angle": Program("4, 6", lambda h: torch.complex(h, h * h).angle()),
    "diagonal": Program("4, 6", lambda h: torch.diagonal(h @ h.mT, dim1=1, dim2=2)),
    "diagonal above": Program(
        "4, 5!diagonal, 6!diagonal", lambda h: torch.diagonal(h @ h.mT, 1, dim1=1, dim2=2)
    ),
    "diag_embed": Program("4, 6", lambda h: torch.diag_embed(h) @ h[:, :, :, None].tanh()),
    "diag_embed above": Program(
        "6, 4!diag_embed, 5!diag_embed, 5!diag_embed", lambda h: torch.diag_embed(h, 1)
    ),
    "tril": Program("4!tril, 6!tril", lambda h: h.tril()),
    "triu": Program("6, 4!triu, 4!triu", lambda h: _image(h).triu()),
    "trace": Program("4, 6", lambda h: h * torch.trace(h[0] @ h[0].mT)),
    "as_strided": Program("4, 6", lambda h: h.contiguous().as_strided((2, 4, 6), (24, 1, 4))),
    "convolution": Program(
        "5, 6, 4!convolution in middle, which runs along it",
        lambda h, w: F.conv1d(h, w, padding=1),
        {"w": (5, 6, 3)},
    ),
    "convolution of points": Program("4, 5, 6", lambda h, w: F.conv1d(h, w), {"w": (5, 6, 1)}),
}
