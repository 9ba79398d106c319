import base64
import io

import numpy as np
import pytest

from deltauq import plots
from deltauq.plots.contact_sheet import GAP, to_png


@pytest.fixture
def pictures():
    return np.random.default_rng(0).integers(0, 256, (3, 2, 5, 4, 3), dtype=np.uint8)


def test_the_file_is_read_back_by_pillow():
    Image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 4), dtype=np.uint8)
    with Image.open(io.BytesIO(to_png(pixels))) as picture:
        assert picture.mode == "RGBA"
        np.testing.assert_array_equal(np.asarray(picture), pixels)


def test_every_picture_stands_at_the_names_of_its_row_and_column(pictures):
    Image = pytest.importorskip("PIL.Image")
    figure = plots.contact_sheet(pictures, ["a", "b", "c"], ["0", "1"])
    kind, content = figure.data[0].source.split(",")
    assert kind == "data:image/png;base64"
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))
    assert sheet.shape == (3 * 5 + 2 * GAP, 2 * 4 + GAP, 4)
    rows, columns = figure.layout.yaxis, figure.layout.xaxis
    assert list(rows.ticktext) == ["a", "b", "c"] and list(columns.ticktext) == ["0", "1"]
    for i, y in enumerate(rows.tickvals):
        for j, x in enumerate(columns.tickvals):
            top, left = int(y - 2), int(x - 1.5)
            np.testing.assert_array_equal(sheet[top : top + 5, left : left + 4, :3], pictures[i, j])
            assert (sheet[top : top + 5, left : left + 4, 3] == 255).all()
    assert (sheet[..., 3] == 255).sum() == 3 * 2 * 5 * 4, "nothing is drawn between them"
