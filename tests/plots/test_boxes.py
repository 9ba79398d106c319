import statistics

import numpy as np
import pytest

from deltauq import plots


def test_boxes_hold_the_quartiles_and_whiskers_reach_the_extremes():
    values = np.random.default_rng(0).gamma(2.0, size=(16, 3))
    figure = plots.box_plot(["1", "2", "3"], {"a": values, "b": 2 * values}, x_title="s", y_title="m")
    a, b = figure.data
    assert list(a.x) == ["1", "2", "3"] and figure.layout.boxmode == "group"
    for column in range(3):
        figures = values[:, column].tolist()
        expected = statistics.quantiles(figures, n=4, method="inclusive")
        found = [trace[column] for trace in (a.q1, a.median, a.q3)]
        np.testing.assert_allclose(found, expected)
        assert (a.lowerfence[column], a.upperfence[column]) == (min(figures), max(figures))
    np.testing.assert_allclose(b.median, 2 * np.array(a.median))
    assert a.line.color != b.line.color


def test_what_is_missing_has_no_box_and_moves_no_other():
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 5.0]])
    none = np.full((2, 3), np.nan)
    figure = plots.box_plot(["x", "y", "z"], {"a": values, "none": none}, x_title="s", y_title="m")
    a, empty = figure.data
    assert list(a.x) == ["x", "z"] and list(a.median) == [1.0, 4.0] and list(a.lowerfence) == [1.0, 3.0]
    assert len(empty.x) == len(empty.q1) == 0
    assert list(figure.layout.xaxis.categoryarray) == ["x", "y", "z"]


def test_more_series_than_can_be_told_apart_are_refused():
    with pytest.raises(ValueError, match="At most 8"):
        plots.box_plot(["x"], {str(k): np.ones((2, 1)) for k in range(9)}, x_title="s", y_title="m")
