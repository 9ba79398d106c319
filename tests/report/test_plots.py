import numpy as np
import pytest

from deltauq.report import plots


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
    points = np.array([[0.0, 0.0], [0.5, 1.0], [-0.5, -1.0]])
    classes = plots.class_map(grid, np.zeros((7, 5), dtype=int), (points, np.array([0, 1, 2])), "abc")
    assert [trace.name for trace in classes.data[1:]] == ["a", "b", "c"]
    heat = plots.uncertainty_map(grid, np.ones((7, 5)), points, anchors=points[:1], largest=2.0)
    assert heat.data[0].zmin == 0 and heat.data[0].zmax == 2 and len(heat.data[2].x) == 1


def test_maps_put_the_first_input_across_and_the_second_up(grid):
    values = np.arange(35.0).reshape(7, 5)
    heat = plots.uncertainty_map(grid, values, np.zeros((1, 2)))
    assert len(heat.data[0].x) == 5 and len(heat.data[0].y) == 7
    assert list(heat.layout.xaxis.range) == [-1, 1] and list(heat.layout.yaxis.range) == [-2, 2]


def test_more_series_than_can_be_told_apart_are_refused():
    x = np.linspace(0.1, 0.9, 5)
    with pytest.raises(ValueError, match="At most two"):
        plots.coverage_curves(x, {"a": x, "b": x, "c": x})
    with pytest.raises(ValueError, match="At most two"):
        plots.mean_and_band(x, x, {"a": x, "b": x, "c": x}, train=(x, x))


def test_without_plotly_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.graph_objects", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'deltauq\[report\]'"):
        plots.coverage_curves(np.array([0.5]), {})
