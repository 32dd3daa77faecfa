"""The page that compares runs: all in one file, all runs' figures there, and what was read is not trusted."""

import csv
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from wsl.cli import main
from wsl.report import ReportError, write_page
from wsl.report.runs import differing, flatten, read_run, read_runs

VOID = {"meta", "img", "br", "hr", "link", "input"}
EVIL = '<script>alert(1)</script>&"'


class Page(HTMLParser):
    """The elements of a page; what is opened must be closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words, self.headings = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def write_run(folder, seed=0, kind="classes", channels=32, epochs=6, classes=4, count=120):
    rng = np.random.default_rng(seed)
    metrics = folder / "metrics" / "version_0"
    metrics.mkdir(parents=True)
    score = "accuracy" if kind == "classes" else "tau"
    lines = [f"epoch,step,train/loss,val/loss,val/{score}"]
    for epoch in range(epochs):
        loss = np.exp(-epoch / 2) + rng.random() / 10
        lines.append(f"{epoch},{epoch * 9},,{loss * 1.2!s},{1 - loss / 2!s}")
        lines.append(f"{epoch},{epoch * 9},{loss!s},,")
    (metrics / "metrics.csv").write_text("\n".join(lines) + "\n")
    (metrics / "hparams.yaml").write_text("zoo: 0123456789abcdef01234567\nparameters: 12345\n")
    (folder / "config.yaml").write_text(
        f"seed_everything: {seed}\nname: {folder.name}\nmodel:\n  class_path: wsl.tasks.INRClassification\n"
        "  init_args:\n    encoder:\n      class_path: wsl.encoders.StatNet\n"
        f"      init_args:\n        channels: {channels}\n"
    )
    (folder / "test.json").write_text(f'{{"test/{score}": {0.5 + seed / 10}, "test/loss": 0.25}}')
    if kind == "classes":
        labels = np.arange(count) % classes
        predicted = np.where(rng.random(count) < 0.7, labels, rng.integers(0, classes, count))
        rows = [f"{i},{a},{b},1" for i, (a, b) in enumerate(zip(labels, predicted, strict=True))]
        text = "row,label,prediction,p0\n"
    else:
        truth = rng.random(count)
        guessed = truth + 0.1 * rng.normal(size=count)
        rows = [f"{i},{a!s},{b!s}" for i, (a, b) in enumerate(zip(truth, guessed, strict=True))]
        text = "row,label,prediction\n"
    (folder / "predictions.csv").write_text(text + "\n".join(rows) + "\n")
    return folder


def add_pictures(folder, height=90, width=240):
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    about = PngInfo()
    about.add_text("rows", "given <b>, decoded")
    Image.fromarray(pixels).save(folder / "pictures.png", pnginfo=about)


def page_of(tmp_path, *folders):
    return write_page(folders, tmp_path / "report.html").read_text("utf-8")


def assert_stands_alone(page):
    loads = [value for _, attrs in page.elements for key, value in attrs.items() if key in ("src", "href")]
    assert all(value.startswith(("data:image/png;base64,", "#")) for value in loads), loads
    assert not any(page.all(tag) for tag in ("script", "link", "iframe", "object", "form", "base"))
    assert not any(key.startswith("on") for _, attrs in page.elements for key in attrs)


def test_each_runs_figures_are_on_the_page(tmp_path):
    runs = [write_run(tmp_path / name, seed, channels=8 * (seed + 1)) for seed, name in enumerate("ab")]
    runs += [write_run(tmp_path / "numbers", 3, "numbers")]
    add_pictures(runs[1])
    text = page_of(tmp_path, *runs)
    page = Page(text)
    assert_stands_alone(page)
    assert "@import" not in text and "url(" not in text
    assert "<p>given &lt;b&gt;, decoded</p>" in text
    assert page.headings == [
        "Runs",
        "Learning curves",
        "Confusion matrices",
        "Predicted against true",
        "Pictures",
        "Settings that differ",
    ]
    words = "".join(page.words)
    for shown in ("12,345", "StatNet", "INRClassification", "0123456789ab…", "model.encoder.channels"):
        assert shown in words, shown
    for title in ("a, val", "a, train", "b, val", "numbers, train"):
        assert title in page.words, title
    assert len(page.all("polyline")) == 2 * 3 + 3 + 1, "losses of both stages, a score each, calibration"
    tables = [attrs for attrs in page.all("table") if attrs.get("class") == "confusion"]
    assert len(tables) == 2 and len(page.all("img")) == 1
    assert page_of(tmp_path, *runs) == text, "the same runs give the same bytes"


def test_the_best_values_stand_out(tmp_path):
    runs = [write_run(tmp_path / name, seed) for seed, name in enumerate("abc")]
    text = page_of(tmp_path, *runs)
    assert '<td class="n"><b>0.7</b></td>' in text and '<td class="n">0.6</td>' in text
    assert '<td class="n">0.25</td>' in text, "of equal values none is the best"
    found = read_run(runs[0]).validated()
    with open(runs[0] / "metrics/version_0/metrics.csv", newline="") as file:
        losses = [float(row["val/loss"]) for row in csv.DictReader(file) if row["val/loss"]]
    assert found["loss"] == (min(losses), losses.index(min(losses)) + 1, losses[-1])


def test_only_settings_that_differ_are_listed(tmp_path):
    runs = [write_run(tmp_path / name, channels=c) for name, c in (("a", 8), ("b", 16))]
    assert differing(read_runs(runs)) == {"model.encoder.channels": ["8", "16"]}
    assert "The configurations are the same." in page_of(tmp_path, runs[0], runs[0])
    assert flatten({"a": {"init_args": {"b": [1, {"c": 2}]}, "d": {}}, "init_args": 1}) == {
        "a.b": '[1, {"c": 2}]',
        "a.d": "{}",
        "init_args": "1",
    }


def test_runs_of_one_name_are_told_apart(tmp_path):
    folders = [write_run(tmp_path / group / "mine") for group in ("x", "y")]
    assert [run.name for run in read_runs(folders)] == list(map(str, folders))


def test_a_folder_above_runs_stands_for_them(tmp_path, capsys):
    for seed in (0, 1):
        write_run(tmp_path / "bench" / "sets" / f"seed{seed}")
    (tmp_path / "bench" / "killed" / "seed0").mkdir(parents=True)
    page = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "bench"), "--html", str(page)]) == 0
    assert all(name in page.read_text() for name in ("seed0", "seed1")) and "killed" not in page.read_text()
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty"), "--html", str(page)]) == 2
    assert "empty has no metrics" in capsys.readouterr().err


def test_text_of_files_is_only_text(tmp_path):
    run = write_run(tmp_path / "a")
    for path in ("config.yaml", "metrics/version_0/hparams.yaml"):
        name = "zoo" if "hparams" in path else "evil"
        (run / path).write_text(f"{name}: '{EVIL}'\n")
    (run / "metrics/version_0/metrics.csv").write_text(
        f'epoch,step,"val/{EVIL.replace(chr(34), "")}"\n0,1,2\n'
    )
    (run / "test.json").write_text('{"test/<b>": 1}')
    page = Page(page_of(tmp_path, run, write_run(tmp_path / "b")))
    assert_stands_alone(page)
    assert not any("<b>" in name for name, _ in page.elements)
    assert any("alert" in word for word in page.words)


def test_what_is_missing_is_left_out(tmp_path):
    run = tmp_path / "a" / "metrics" / "version_0"
    run.mkdir(parents=True)
    (run / "metrics.csv").write_text("epoch,step,val/loss\n0,1,nan\n1,2,inf\n")
    assert Page(page_of(tmp_path, tmp_path / "a")).headings == ["Runs"]
    (run / "metrics.csv").write_text("epoch,step,val/loss\n0,1,nan\n1,2,0.5\n")
    page = Page(page_of(tmp_path, tmp_path / "a"))
    assert page.headings == ["Runs", "Learning curves"] and "a, val" in page.words


def test_curves_of_any_values(tmp_path):
    for i, values in enumerate([[0, 0], [-1, 5], [1e-9, 1e9], [3, 3], [1e300, -1e300]]):
        run = tmp_path / str(i) / "metrics" / "version_0"
        run.mkdir(parents=True)
        lines = "".join(f"{epoch},{epoch},{value}\n" for epoch, value in enumerate(values))
        (run / "metrics.csv").write_text("epoch,step,val/loss\n" + lines)
        text = page_of(tmp_path, tmp_path / str(i))
        (points,) = re.findall(r'points="([^"]*)"', text)
        places = np.array([pair.split(",") for pair in points.split()], dtype=float)
        assert places.shape == (2, 2) and np.isfinite(places).all() and (places >= 0).all()


@pytest.mark.parametrize(
    "name", ["config.yaml", "metrics/version_0/hparams.yaml", "test.json", "pictures.png"]
)
@pytest.mark.parametrize("content", [b"[1", b"\xff\xfe", b"- 1"])
def test_damaged_files_are_named(tmp_path, name, content):
    run = write_run(tmp_path / "a")
    (run / name).write_bytes(content)
    with pytest.raises(ReportError, match=re.escape(str(run / name))):
        page_of(tmp_path, run)


def test_ten_runs_with_much_to_show_stay_small(tmp_path):
    runs = [write_run(tmp_path / f"c{i}", i, classes=200, count=3000, epochs=300) for i in range(5)]
    runs += [write_run(tmp_path / f"n{i}", i, "numbers", count=20_000, epochs=300) for i in range(5)]
    for run in runs[:2]:
        add_pictures(run, 700, 900)
    page = write_page(runs, tmp_path / "report.html")
    assert page.stat().st_size < 5e6
    assert len(Page(page.read_text("utf-8")).all("img")) == 7, "large confusion matrices are pictures"


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        write_run(tmp_path / name)
    assert main(["report", "a", "b"]) == 0 and (tmp_path / "report.html").is_file()
    assert main(["report", "a", "--html", "pages/a.html"]) == 0
    assert capsys.readouterr().out.splitlines() == ["report.html", os.path.join("pages", "a.html")]
    assert "Report of a" in (tmp_path / "pages" / "a.html").read_text()
    assert main(["report", "a", "--html", "pages"]) == 2
    assert "pages cannot be used: Is a directory" in capsys.readouterr().err
    assert not (tmp_path / "pages.partial").exists()
    assert main(["report", "a", "b", "--out", "x"]) == 2
    assert "Name it with --html" in capsys.readouterr().err
    assert main(["report", "a", "nowhere"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err


def test_figures_of_a_run_with_a_damaged_configuration(tmp_path, capsys):
    run = write_run(tmp_path / "a", kind="numbers")
    (run / "config.yaml").write_text("data: {")
    assert main(["report", str(run)]) == 2
    assert "does not read as YAML" in capsys.readouterr().err
    (run / "config.yaml").write_text("data: 1")
    assert main(["report", str(run)]) == 0


@pytest.mark.slow
def test_a_browser_shows_it(tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs Chromium")
    runs = [write_run(tmp_path / name, seed) for seed, name in enumerate("ab")]
    runs += [write_run(tmp_path / "numbers", 3, "numbers")]
    add_pictures(runs[1])
    page = write_page(runs, tmp_path / "report.html")
    picture = tmp_path / "page.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shot = [f"--screenshot={picture}", "--window-size=1300,1900", page.as_uri()]
    subprocess.run([browser, *options, *shot], check=True, capture_output=True, timeout=120)
    with Image.open(picture) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert pixels.shape == (1900, 1300, 3)
    for color in ((0x1F, 0x77, 0xB4), (0xD9, 0x73, 0x0D), (0x2E, 0x9C, 0x47)):
        assert (np.abs(pixels - color).max(axis=-1) < 12).sum() > 300, f"the run of colour {color} shows"
