"""One page that compares runs: a file of its own, without scripts, that loads nothing from elsewhere."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from wsl._files import write_text
from wsl._scores import SCORES, scores
from wsl.report.errors import ReportError
from wsl.report.numbers import NumberPredictions, calibration
from wsl.report.predictions import Predictions
from wsl.report.runs import RunRecord, differing, falls, read_runs
from wsl.report.style import COLORS, STYLE
from wsl.report.svg import Line, line_chart, scatter_chart

_MOST_NAMED = 20  # classes whose confusions are told in a table; more are drawn
_LARGEST = 320_000  # bytes of a picture; larger ones are made smaller
_QUANTITIES = ("loss", "copy_loss", "accuracy", *SCORES)


def write_page(folders: Sequence[Path], path: Path) -> Path:
    """Write the page that compares the runs in these folders; the same runs give the same bytes.

    Raises:
        ReportError: a folder is no run's, or one of its files does not read as what it should be.
    """
    write_text(path, compare(read_runs(list(folders))))
    return path


def compare(runs: Sequence[RunRecord]) -> str:
    """The page as text."""
    sections = {
        "Runs": _overview(runs),
        "Learning curves": _curves(runs),
        "Confusion matrices": _cards(
            runs, [_confusion(run.classes) if run.classes else None for run in runs]
        ),
        "Predicted against true": _cards(
            runs, [_scatter(run.numbers, _color(i)) if run.numbers else None for i, run in enumerate(runs)]
        ),
        "Pictures": _cards(runs, [_picture(run.pictures) if run.pictures else None for run in runs]),
        "Settings that differ": _settings(runs),
    }
    shown = {title: content for title, content in sections.items() if content}
    links = " ".join(f'<a href="#s{i}">{title}</a>' for i, title in enumerate(shown))
    body = "".join(
        f'<section id="s{i}"><h2>{title}</h2>{content}</section>'
        for i, (title, content) in enumerate(shown.items())
    )
    title = f"Report of {len(runs)} runs" if len(runs) > 1 else f"Report of {escape(runs[0].name)}"
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n"
        f"<body><header><h1>{title}</h1><nav>{links}</nav></header>\n{body}</body></html>\n"
    )


def _overview(runs: Sequence[RunRecord]) -> str:
    """A row for each run; the best value of each metric stands out."""
    validated = [run.validated() for run in runs]
    measured = _ordered(name for found in validated for name in found)
    tested = _ordered(name.partition("/")[2] for run in runs for name in run.tested)
    facts = [
        name
        for name in ("task", "encoder", "parameters", "seed", "zoo", "code")
        if any(name in r.facts for r in runs)
    ]
    head = [*(f"<th>{name}</th>" for name in ("run", *facts))]
    head += [f'<th class="n">val {escape(name)}<small>best (epoch), last</small></th>' for name in measured]
    head += [f'<th class="n">test {escape(name)}</th>' for name in tested]
    rows = [[f"<th>{_mark(i)}{escape(run.name)}</th>"] for i, run in enumerate(runs)]
    for row, run in zip(rows, runs, strict=True):
        row += [f"<td>{_fact(name, run.facts.get(name, '-'))}</td>" for name in facts]
    for name in measured:
        best = _best([found[name].best if name in found else None for found in validated], name)
        for i, found in enumerate(validated):
            text = "-"
            if name in found:
                text = f"{found[name].best:.4g} ({found[name].epoch}), {found[name].last:.4g}"
            rows[i].append(_number(text, i in best))
    for name in tested:
        values = [run.tested.get(f"test/{name}") for run in runs]
        best = _best(values, name)
        for i, value in enumerate(values):
            rows[i].append(_number("-" if value is None else f"{value:.4g}", i in best))
    return _table(head, rows)


def _curves(runs: Sequence[RunRecord]) -> str:
    """A chart for each quantity, of all runs together."""
    charts = []
    for quantity in _ordered(name.partition("/")[2] for run in runs for name in run.curves):
        lines = [
            Line(*run.curves[name], _color(i), stage == "train", f"{run.name}, {stage}")
            for i, run in enumerate(runs)
            for stage in ("train", "val")
            if (name := f"{stage}/{quantity}") in run.curves and len(run.curves[name][0])
        ]
        if lines:
            chart = line_chart(lines, "epoch", quantity)
            charts.append(f"<figure><figcaption>{escape(quantity)}</figcaption>{chart}</figure>")
    if not charts:
        return ""
    names = " ".join(f"<span>{_mark(i)}{escape(run.name)}</span>" for i, run in enumerate(runs))
    return (
        '<p class="legend">Solid: validation. Dashed: training.</p>'
        f'<p class="legend">{names}</p><div class="cards">{"".join(charts)}</div>'
    )


def _confusion(found: Predictions) -> str:
    size = int(max(found.labels.max(), found.predicted.max())) + 1
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (found.labels, found.predicted), 1)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    caption = f"<p>{found.accuracy:.1%} of {len(found.rows)} right; rows are true, columns predicted</p>"
    if size > _MOST_NAMED:
        zoom = max(1, 400 // size)
        pixels = ((1 - shares) * 255).astype(np.uint8).repeat(zoom, axis=0).repeat(zoom, axis=1)
        return caption + _image(Image.fromarray(pixels), "confusion matrix")
    lines = ["<th></th>" + "".join(f"<th>{c}</th>" for c in range(size))]
    for label in range(size):
        cells = "".join(
            f'<td style="background:rgba(38,110,190,{share:.2f})"{" class=w" if share > 0.55 else ""}>'
            f"{count or ''}</td>"
            for count, share in zip(counts[label], shares[label], strict=True)
        )
        lines.append(f"<th>{label}</th>{cells}")
    return f'{caption}<table class="confusion">{"".join(f"<tr>{line}</tr>" for line in lines)}</table>'


def _scatter(found: NumberPredictions, color: str) -> str:
    shown = scores(found.predicted, found.labels)
    text = ", ".join(f"{name} {shown[name]:.3f}" for name in SCORES)
    chart = scatter_chart(
        found.labels, found.predicted, calibration(found), color, f"{len(found.rows)} networks"
    )
    return f"<p>{text}; the line joins means of tenths</p>{chart}"


def _picture(path: Path) -> str:
    try:
        with Image.open(path) as image:
            rows = escape(str(image.info.get("rows", "")))
            return f"<p>{rows}</p>" + _image(image.convert("RGB"), "pictures")
    except (OSError, ValueError, Image.DecompressionBombError) as err:
        raise ReportError(f"{path} does not read as a picture ({err}). Was it cut off?") from err


def _image(image: Image.Image, title: str) -> str:
    """An image within the page, made smaller until it is small enough."""
    while True:
        stored = io.BytesIO()
        image.save(stored, "PNG", optimize=True)
        if stored.tell() <= _LARGEST or min(image.size) < 64:
            break
        image = image.resize((image.width * 3 // 4, image.height * 3 // 4))
    data = base64.b64encode(stored.getvalue()).decode("ascii")
    return f'<img alt="{title}" src="data:image/png;base64,{data}">'


def _settings(runs: Sequence[RunRecord]) -> str:
    differences = differing(list(runs))
    if len(runs) == 1:
        return ""
    if not differences:
        return "<p>The configurations are the same.</p>"
    head = ["<th>setting</th>", *(f"<th>{_mark(i)}{escape(run.name)}</th>" for i, run in enumerate(runs))]
    rows = [
        [f"<th>{escape(key)}</th>", *(f"<td>{'-' if v is None else escape(v)}</td>" for v in values)]
        for key, values in sorted(differences.items())
    ]
    return _table(head, rows)


def _cards(runs: Sequence[RunRecord], contents: Sequence[str | None]) -> str:
    figures = [
        f"<figure><figcaption>{_mark(i)}{escape(run.name)}</figcaption>{content}</figure>"
        for i, (run, content) in enumerate(zip(runs, contents, strict=True))
        if content
    ]
    return f'<div class="cards">{"".join(figures)}</div>' if figures else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    top = f"<thead><tr>{''.join(head)}</tr></thead>"
    return f'<div class="wide"><table>{top}<tbody>{body}</tbody></table></div>'


def _ordered(names: Iterable[str]) -> list[str]:
    """Each once: those that are known first, then the others by name."""
    found = set(names)
    return [name for name in _QUANTITIES if name in found] + sorted(found - set(_QUANTITIES))


def _best(values: Sequence[float | None], name: str) -> set[int]:
    """Which of several values are the best."""
    known = [value for value in values if value is not None and np.isfinite(value)]
    if len(set(known)) < 2:
        return set()
    wanted = min(known) if falls(name) else max(known)
    return {i for i, value in enumerate(values) if value == wanted}


def _number(text: str, best: bool) -> str:
    return f'<td class="n">{f"<b>{text}</b>" if best else text}</td>'


def _fact(name: str, value: str) -> str:
    if name == "parameters" and value.isdigit():
        return f"{int(value):,}"
    if name in ("zoo", "code") and len(value) > 12:
        return f'<code title="{escape(value)}">{escape(value[:12])}…</code>'
    return escape(value)


def _color(i: int) -> str:
    return COLORS[i % len(COLORS)]


def _mark(i: int) -> str:
    return f'<i style="background:{_color(i)}"></i>'
