import numpy as np

from deltauq import plots


def test_dot_plot_separates_the_dots_of_a_row():
    nothing = [np.nan, np.nan]
    series = {"a": ([1.0, 2.0], [0.1, 0.2]), "none": (nothing, nothing), "b": ([1.0, np.nan], [0.1, np.nan])}
    figure = plots.dot_plot(["first", "second"], series, x_title="x", reference=1.0)
    a, b = figure.data
    assert (a.name, b.name) == ("a", "b")
    assert list(a.error_x.array) == [0.1, 0.2]
    # A series without numbers is not drawn, but the others keep their colours.
    three = plots.dot_plot(["r"], {str(k): ([1.0], [0.1]) for k in range(3)}, x_title="x")
    assert b.marker.color == three.data[2].marker.color
    low, high = sorted(figure.layout.yaxis.range)
    for trace in (a, b):
        assert [round(y) for y in trace.y] == [0, 1] and low < min(trace.y) and max(trace.y) < high
    assert abs(a.y[0] - b.y[0]) > 0.2
    names = {note.text: note.y for note in figure.layout.annotations}
    assert names == {"first": -0.5, "second": 0.5}


def test_line_plot_has_ticks_at_its_values():
    figure = plots.line_plot(
        [2, 10, 100], {"a": ([1.0, 2.0, 3.0], [0.1] * 3)}, x_title="K", y_title="m", log_x=True
    )
    assert list(figure.layout.xaxis.tickvals) == [2, 10, 100] and figure.layout.xaxis.type == "log"
    (line,) = figure.data
    assert list(line.x) == [2, 10, 100] and list(line.error_y.array) == [0.1] * 3


def test_best_so_far_skips_failed_evaluations():
    figure = plots.best_so_far(np.array([1.0, np.nan, 0.0, 3.0]), n_initial=2)
    best = figure.data[1]
    assert list(best.y) == [1, 1, 1, 3] and best.line.shape == "hv"
    assert len(figure.layout.shapes) == 1
