import base64
import io
import json
import statistics

import numpy as np
import pytest

from experiments.plots import (
    GAP,
    box_plot,
    class_map,
    contact_sheet,
    labelled_points,
    probability_map,
    uncertainty_map,
)

GRID = (np.linspace(-1, 1, 5), np.linspace(-2, 2, 7))
POINTS = np.array([[0.0, 0.0], [0.5, 1.0], [-0.5, -1.0]])


def test_box_plot_draws_quartiles_and_extremes():
    values = np.random.default_rng(0).gamma(2.0, size=(16, 3))
    figure = box_plot(["1", "2", "3"], {"a": values, "b": 2 * values}, x_title="s", y_title="m")
    a, b = figure.data
    assert list(a.x) == ["1", "2", "3"] and figure.layout.boxmode == "group"
    for k in range(3):
        column = values[:, k].tolist()
        quartiles = statistics.quantiles(column, n=4, method="inclusive")
        np.testing.assert_allclose([a.q1[k], a.median[k], a.q3[k]], quartiles)
        assert (a.lowerfence[k], a.upperfence[k]) == (min(column), max(column))
    np.testing.assert_allclose(b.median, 2 * np.array(a.median))
    assert a.line.color != b.line.color


def test_box_plot_ignores_missing_values():
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 5.0]])
    none = np.full((2, 3), np.nan)
    figure = box_plot(["x", "y", "z"], {"a": values, "none": none}, x_title="s", y_title="m")
    a, empty = figure.data
    assert list(a.x) == ["x", "z"] and list(a.median) == [1.0, 4.0] and list(a.lowerfence) == [1.0, 3.0]
    assert len(empty.x) == len(empty.q1) == 0
    assert list(figure.layout.xaxis.categoryarray) == ["x", "y", "z"]


def test_box_plot_with_too_many_series():
    with pytest.raises(ValueError, match="at most 8"):
        box_plot(["x"], {str(k): np.ones((2, 1)) for k in range(9)}, x_title="s", y_title="m")


def test_contact_sheet_places_images_at_their_row_and_column():
    Image = pytest.importorskip("PIL.Image")
    images = np.random.default_rng(0).integers(0, 256, (3, 2, 5, 4, 3), dtype=np.uint8)
    figure = contact_sheet(images, ["a", "b", "c"], ["0", "1"])
    kind, content = figure.data[0].source.split(",")
    assert kind == "data:image/png;base64"
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))
    assert sheet.shape == (3 * 5 + 2 * GAP, 2 * 4 + GAP, 4)
    rows, columns = figure.layout.yaxis, figure.layout.xaxis
    assert list(rows.ticktext) == ["a", "b", "c"] and list(columns.ticktext) == ["0", "1"]
    for i, y in enumerate(rows.tickvals):
        for j, x in enumerate(columns.tickvals):
            top, left = int(y - 2), int(x - 1.5)
            np.testing.assert_array_equal(sheet[top : top + 5, left : left + 4, :3], images[i, j])
            assert (sheet[top : top + 5, left : left + 4, 3] == 255).all()
    assert (sheet[..., 3] == 255).sum() == 3 * 2 * 5 * 4, "gaps are transparent"


def test_maps_of_classes():
    classes = class_map(GRID, np.zeros((7, 5), dtype=int), (POINTS, np.array([0, 1, 2])), "abc")
    assert [trace.name for trace in classes.data[1:]] == ["a", "b", "c"]
    predicted = np.zeros((7, 5), dtype=int)
    map_ = probability_map(GRID, predicted, np.full((7, 5), 0.5), POINTS, anchor=POINTS[0])
    np.testing.assert_allclose(map_.data[0].z, 0.25)


def test_uncertainty_map_has_the_first_input_on_the_x_axis():
    values = np.arange(35.0).reshape(7, 5)
    figure = uncertainty_map(GRID, values, POINTS, anchors=POINTS[:1], largest=2.0)
    heat, _, anchors = figure.data
    assert (heat.zmin, heat.zmax, len(anchors.x)) == (0, 2, 1)
    assert len(heat.x) == 5 and len(heat.y) == 7
    assert list(figure.layout.xaxis.range) == [-1, 1] and list(figure.layout.yaxis.range) == [-2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_names_of_points_do_not_overlap(browser, seed):
    from plotly.offline import get_plotlyjs

    rng = np.random.default_rng(seed)
    lengths = (7, 12, 16, 23)
    names = [f"{'method ' * 4}"[: lengths[k % 4] - 2] + f"{k:2d}" for k in range(14)]
    points = dict(
        zip(names, zip(10 ** rng.uniform(-1, 1, 14), rng.uniform(0.7, 1.4, 14), strict=True), strict=True)
    )
    figure = labelled_points(
        points, highlighted=names[:3], x_title="x", y_title="y", reference=1.0, size=(760, 440)
    )
    page = browser.new_page(viewport={"width": 800, "height": 480})
    page.set_content("<div id=plot style='width: 760px; height: 440px'></div>")
    page.add_script_tag(content=get_plotlyjs())
    page.evaluate("figure => Plotly.newPlot('plot', figure)", json.loads(figure.to_json()))

    def boxes(selector):
        return page.evaluate(
            "s => [...document.querySelectorAll(s)].map(e => e.getBoundingClientRect())"
            ".map(r => [r.left, r.top, r.right, r.bottom])",
            selector,
        )

    drawn = boxes(".annotation-text"), boxes(".scatterlayer .points path")
    assert [len(kind) for kind in drawn] == [14, 14]
    everything = np.array([*drawn[0], *drawn[1]])
    for k, box in enumerate(everything[:14]):
        others = np.delete(everything, k, axis=0)
        sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
        assert not np.any((sides > 1).all(axis=1))
        assert box[0] >= 0 and box[2] <= 800
    page.close()


def test_points_without_lines_are_an_empty_figure():
    figure = labelled_points({}, highlighted=[], x_title="x", y_title="y", reference=1.0, size=(760, 440))
    assert not figure.data
