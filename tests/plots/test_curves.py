import re

import numpy as np
import pytest

from deltauq import plots
from deltauq.utils.install import install_command


def test_bin_by_spread_sorts_rows_by_std():
    std = np.array([4.0, 1.0, 3.0, 2.0])
    error = np.array([-8.0, 1.0, 6.0, -2.0])
    spread, rms, standard_error = plots.bin_by_spread(error, std, 2)
    np.testing.assert_allclose(spread, np.sqrt([(1 + 4) / 2, (9 + 16) / 2]))
    np.testing.assert_allclose(rms, np.sqrt([(1 + 4) / 2, (36 + 64) / 2]))
    assert np.all(standard_error > 0)


def test_bin_by_spread_with_few_rows_and_zero_errors():
    spread, rms, standard_error = plots.bin_by_spread(np.zeros(3), np.ones(3), 10)
    assert len(spread) == 3
    np.testing.assert_array_equal(rms, 0)
    np.testing.assert_array_equal(standard_error, 0)


def test_standard_error_of_the_rms():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(2000, 50))
    actual = np.std(np.sqrt(np.mean(samples**2, axis=1)))
    estimated = np.mean([plots.bin_by_spread(row, np.ones(50), 1)[2][0] for row in samples])
    assert estimated == pytest.approx(actual, rel=0.1)


def test_band_is_mean_plus_and_minus_half_width():
    x, mean, half = np.arange(4.0), np.arange(4.0) ** 2, np.array([1.0, 2.0, 3.0, 4.0])
    figure = plots.mean_and_band(x, mean, {"band": half}, train=(x, mean), anchors=x)
    (band,) = (trace for trace in figure.data if trace.name == "band")
    np.testing.assert_allclose(band.y[:4], mean - half)
    np.testing.assert_allclose(band.y[4:][::-1], mean + half)
    low, high = figure.layout.yaxis.range
    assert low < (mean - half).min() and high > (mean + half).max()


def test_traces_of_each_figure():
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
    assert [trace.name for trace in width.data] == ["groups", "nominal"]


def test_errors_by_width_with_outliers():
    rng = np.random.default_rng(0)
    half = rng.uniform(1, 9, 20_000)
    error = rng.normal(size=20_000) * half / 1.645
    error[::200] = 1e9
    groups = plots.errors_by_width(error, half, 0.9).data[0]
    assert len(groups.x) == 10
    np.testing.assert_allclose(groups.y, groups.x, rtol=0.12)


def test_too_many_series():
    x = np.linspace(0.1, 0.9, 5)
    with pytest.raises(ValueError, match="at most 8"):
        plots.coverage_curves(x, {str(number): x for number in range(9)})
    with pytest.raises(ValueError, match="at most two"):
        plots.mean_and_band(x, x, {"a": x, "b": x, "c": x}, train=(x, x))


def test_series_differ_by_colour_and_by_symbol():
    x = np.linspace(0.1, 0.9, 5)
    figure = plots.coverage_curves(x, {str(number): x for number in range(8)})
    markers = [trace.marker for trace in figure.data[:8]]
    assert len({m.color for m in markers}) == len({m.symbol for m in markers}) == 8


def test_without_plotly_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=re.escape(install_command("report"))):
        plots.coverage_curves(np.array([0.5]), {})
