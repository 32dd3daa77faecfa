"""The same entries under other indices."""

import torch
import torch.nn.functional as F

from rule_programs._program import Program, Rows

aten = torch.ops.aten

PROGRAMS: Rows = {
    "view": Program("2, 3, 4", lambda h: h.view(2, 3, 2, 4)),
    "view_copy": Program("2, 3, 4", lambda h: aten.view_copy(h, (2, 3, 2, 4))),
    "flatten": Program("4, 6", lambda h: h.transpose(1, 2).reshape(2, 24)),
    "_reshape_alias": Program("4, 6", lambda h: aten._reshape_alias(h, (2, 24), (24, 1))),
    "permute": Program("4, 6", lambda h: h.permute(0, 2, 1)),
    "permute_copy": Program("4, 6", lambda h: aten.permute_copy(h, (0, 2, 1))),
    "transpose": Program("4, 6", lambda h: h.mT),
    "transpose_copy": Program("4, 6", lambda h: aten.transpose_copy(h, 1, 2)),
    "t": Program("4, 6", lambda h: (h[0].t() + h[1].t()).expand(2, 4, 6)),
    "t_copy": Program("4, 6", lambda h: aten.t_copy(h[0]).expand(2, 4, 6)),
    "unsqueeze": Program("4, 6", lambda h: h.unsqueeze(1)),
    "unsqueeze_copy": Program("4, 6", lambda h: aten.unsqueeze_copy(h, 1)),
    "squeeze": Program("4, 6", lambda h: h.unsqueeze(1).squeeze()),
    "squeeze_copy": Program("4, 6", lambda h: aten.squeeze_copy(h.unsqueeze(1), 1)),
    "expand": Program("3, 4, 6", lambda h: h[:, None].expand(2, 3, 6, 4)),
    "expand_copy": Program("3, 4, 6", lambda h: aten.expand_copy(h[:, None], (2, 3, 6, 4))),
    "repeat": Program("2, 4, 6", lambda h: h.repeat(1, 2, 1)),
    "slice": Program("4, 4, 2!no output depends on it", lambda h: h.sum(2)[:, 2:]),
    "slice_copy": Program("2, 4, 4", lambda h: aten.slice_copy(h.sum(2), 1, 2, 6) + h.sum((1, 2))[:, None]),
    "slice with steps": Program("4, 3!slice, 6!slice", lambda h: h.sum(2)[:, ::2]),
    "split": Program("2, 4, 4", lambda h: h.sum(2).split((2, 4), 1)[1] * h.sum()),
    "split evenly": Program("3, 4", lambda h: sum(h.sum(2).split(3, 1))),
    "unsafe_split": Program("2, 2, 2, 4", lambda h: aten.unsafe_split(h.sum(2), 2, 1)[0] * h.sum()),
    "unsafe_split_with_sizes": Program(
        "4, 4, 2!no output depends on it", lambda h: aten.unsafe_split_with_sizes(h.sum(2), (2, 4), 1)[1]
    ),
    "select": Program("1, 1, 4, 4", lambda h: h.sum(2)[:, 1:2] + h.sum(1)),
    "select_copy": Program("1, 1, 4, 4", lambda h: aten.select_copy(h.sum(2), 1, 1)[:, None] * h.sum(1)),
    "unbind": Program("4, 6", lambda h: torch.stack(h.unbind(0))),
    "cat": Program("4, 6", lambda h: torch.cat([h, h * h], 1)),
    "stack": Program("4, 6", lambda h: torch.stack([h, h * h], 1)),
    "pad": Program("4, 6", lambda h: F.pad(h, (0, 0, 1, 1))),
    "pad positions": Program(
        "6, 4!avg_pool2d in middle, which runs along it", lambda h: F.pad(F.avg_pool1d(h, 2), (1, 1))
    ),
    "pad positions with numbers": Program(
        "6, 4!avg_pool2d in middle, which runs along it",
        lambda h: F.pad(F.avg_pool1d(h, 2), (1, 1), value=2.0),
    ),
    "empty parts": Program(
        "4, 6", lambda h: torch.cat([h[:, :0], h, h.split((6, 0), 1)[1].view(2, 0, 4)], 1)
    ),
    "pixel_shuffle": Program(
        "2, 6", lambda h, w: F.pixel_shuffle((w @ h).view(2, 8, 2, 2), 2), {"w": (8, 6)}
    ),
    "pixel_unshuffle": Program("2, 2, 6", lambda h: F.pixel_unshuffle(h.view(2, 6, 2, 2), 2)),
    "channel_shuffle": Program("2, 3, 4", lambda h: F.channel_shuffle(h[:, :, :, None], 2)),
    "view as itself": Program("4, 6", lambda h: h.swapaxes(1, 2).swapaxes_(1, 2)),
}
