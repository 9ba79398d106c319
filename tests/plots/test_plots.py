import re

import numpy as np
import pytest

from deltauq import plots
from deltauq.utils.install import install_command


@pytest.fixture
def grid():
    return np.linspace(-1, 1, 5), np.linspace(-2, 2, 7)


def test_bins_hold_equally_many_rows_in_the_order_of_sigma():
    std = np.array([4.0, 1.0, 3.0, 2.0])
    error = np.array([-8.0, 1.0, 6.0, -2.0])
    spread, rms, doubt = plots.bin_by_spread(error, std, 2)
    np.testing.assert_allclose(spread, np.sqrt([(1 + 4) / 2, (9 + 16) / 2]))
    np.testing.assert_allclose(rms, np.sqrt([(1 + 4) / 2, (36 + 64) / 2]))
    assert np.all(doubt > 0)


def test_bins_never_outnumber_rows_and_survive_errors_of_zero():
    spread, rms, doubt = plots.bin_by_spread(np.zeros(3), np.ones(3), 10)
    assert len(spread) == 3
    np.testing.assert_array_equal(rms, 0)
    np.testing.assert_array_equal(doubt, 0)


def test_doubt_is_the_standard_error_of_the_rms():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(2000, 50))
    actual = np.std(np.sqrt(np.mean(samples**2, axis=1)))
    claimed = np.mean([plots.bin_by_spread(row, np.ones(50), 1)[2][0] for row in samples])
    assert claimed == pytest.approx(actual, rel=0.1)


def test_the_band_is_mean_plus_and_minus_its_half_width():
    x, mean, half = np.arange(4.0), np.arange(4.0) ** 2, np.array([1.0, 2.0, 3.0, 4.0])
    figure = plots.mean_and_band(x, mean, {"band": half}, train=(x, mean), anchors=x)
    (band,) = (trace for trace in figure.data if trace.name == "band")
    np.testing.assert_allclose(band.y[:4], mean - half)
    np.testing.assert_allclose(band.y[4:][::-1], mean + half)
    low, high = figure.layout.yaxis.range
    assert low < (mean - half).min() and high > (mean + half).max()


def test_every_figure_shows_what_it_was_given(grid):
    x = np.linspace(0, 1, 6)
    band = plots.mean_and_band(
        x, x, {"wide": x + 1, "narrow": x}, train=(x, x), anchors=x[:2], truth=x, gap=(0.2, 0.4)
    )
    assert [trace.name for trace in band.data] == ["wide", "narrow", "truth", "mean", "data", "anchors"]
    curves = plots.coverage_curves(x, {"raw": x / 2, "calibrated": x})
    assert [trace.name for trace in curves.data] == ["raw", "calibrated", "nominal"]
    spread = plots.error_by_spread(x, {"raw": x}, n_bins=3)
    assert [trace.name for trace in spread.data] == ["raw", "σ = error"]
    width = plots.errors_by_width(x, x, 0.9, n_bins=3)
    assert [trace.name for trace in width.data] == ["groups", "as claimed"]
    points = np.array([[0.0, 0.0], [0.5, 1.0], [-0.5, -1.0]])
    classes = plots.class_map(grid, np.zeros((7, 5), dtype=int), (points, np.array([0, 1, 2])), "abc")
    assert [trace.name for trace in classes.data[1:]] == ["a", "b", "c"]
    heat = plots.uncertainty_map(grid, np.ones((7, 5)), points, anchors=points[:1], largest=2.0)
    assert heat.data[0].zmin == 0 and heat.data[0].zmax == 2 and len(heat.data[2].x) == 1


def test_groups_by_width_are_on_the_diagonal_where_intervals_hold_and_not_moved_by_outliers():
    rng = np.random.default_rng(0)
    half = rng.uniform(1, 9, 20_000)
    error = rng.normal(size=20_000) * half / 1.645
    error[::200] = 1e9
    groups = plots.errors_by_width(error, half, 0.9).data[0]
    assert len(groups.x) == 10
    np.testing.assert_allclose(groups.y, groups.x, rtol=0.12)


def test_maps_put_the_first_input_across_and_the_second_up(grid):
    values = np.arange(35.0).reshape(7, 5)
    heat = plots.uncertainty_map(grid, values, np.zeros((1, 2)))
    assert len(heat.data[0].x) == 5 and len(heat.data[0].y) == 7
    assert list(heat.layout.xaxis.range) == [-1, 1] and list(heat.layout.yaxis.range) == [-2, 2]


def test_more_series_than_can_be_told_apart_are_refused():
    x = np.linspace(0.1, 0.9, 5)
    with pytest.raises(ValueError, match="At most 8"):
        plots.coverage_curves(x, {str(number): x for number in range(9)})
    with pytest.raises(ValueError, match="At most two"):
        plots.mean_and_band(x, x, {"a": x, "b": x, "c": x}, train=(x, x))


def test_series_differ_by_colour_and_by_symbol():
    x = np.linspace(0.1, 0.9, 5)
    figure = plots.coverage_curves(x, {str(number): x for number in range(8)})
    series = figure.data[:8]
    assert (
        len({trace.marker.color for trace in series}) == len({trace.marker.symbol for trace in series}) == 8
    )


def test_dots_stand_in_the_row_they_belong_to_and_never_on_each_other():
    nothing = [np.nan, np.nan]
    series = {"a": ([1.0, 2.0], [0.1, 0.2]), "none": (nothing, nothing), "b": ([1.0, np.nan], [0.1, np.nan])}
    figure = plots.dot_plot(["first", "second"], series, x_title="x", reference=1.0)
    a, b = figure.data
    assert (a.name, b.name) == ("a", "b")
    assert list(a.error_x.array) == [0.1, 0.2]
    # The one without numbers keeps its style from the others.
    assert (
        b.marker.color
        == plots.dot_plot(["r"], {str(k): ([1.0], [0.1]) for k in range(3)}, x_title="x").data[2].marker.color
    )
    low, high = sorted(figure.layout.yaxis.range)
    for trace in (a, b):
        assert [round(y) for y in trace.y] == [0, 1] and low < min(trace.y) and max(trace.y) < high
    assert abs(a.y[0] - b.y[0]) > 0.2
    names = {note.text: note.y for note in figure.layout.annotations}
    assert names == {"first": -0.5, "second": 0.5}


def test_lines_over_a_number_have_ticks_at_its_values():
    figure = plots.line_plot(
        [2, 10, 100], {"a": ([1.0, 2.0, 3.0], [0.1] * 3)}, x_title="K", y_title="m", log_x=True
    )
    assert list(figure.layout.xaxis.tickvals) == [2, 10, 100] and figure.layout.xaxis.type == "log"
    (line,) = figure.data
    assert list(line.x) == [2, 10, 100] and list(line.error_y.array) == [0.1] * 3


def test_without_plotly_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.graph_objects", None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(install_command("report"))):
        plots.coverage_curves(np.array([0.5]), {})
