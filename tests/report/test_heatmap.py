"""Heat maps of columns over a grid of two others."""

import numpy as np
import pytest
from PIL import Image

from wsl.report import ReportError, heatmap, plot_heatmaps

X = np.array([4, 4, 2, 2, 2, 4])
Y = np.array([8, 8, 8, 16, 8, 16])


def test_means_of_numbers_that_are_finite():
    found = heatmap(X, Y, np.array([1.0, 3.0, 5.0, np.nan, np.inf, -2.0]))
    assert found.x.tolist() == [2, 4]
    assert found.y.tolist() == [8, 16]
    assert np.array_equal(found.values, [[5, 2], [np.nan, -2]], equal_nan=True)


def test_the_most_frequent_text_and_cells_without_rows():
    x, y = np.array([1, 1, 1, 2]), np.array([1, 1, 1, 2])
    found = heatmap(x, y, np.array(["I", "IV-A", "IV-A", "II"]))
    assert found.values.tolist() == [["IV-A", ""], ["", "II"]]


def test_no_rows():
    with pytest.raises(ReportError, match="no rows"):
        heatmap(X[:0], Y[:0], np.array([]))


@pytest.mark.parametrize("count", [1, 5])
def test_figures(tmp_path, count):
    columns = [
        np.array([1.0, 2, -3, 4, 5, 6]),
        np.array(["I", "I", "II", "II", "", "I"]),
        np.array([1e-3, 1, 10, 100, 1e3, 1]),
        np.full(6, np.nan),
        np.zeros(6),
    ][:count]
    maps = {f"m{i}": heatmap(X, Y, values) for i, values in enumerate(columns)}
    path = plot_heatmaps(maps, "width", "batch_size", tmp_path / "new" / "maps.png")
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20
    if count == 5:  # the last places of the second row stay empty
        assert (pixels[-pixels.shape[0] // 2 :, -pixels.shape[1] // 3 :] == 255).all()
