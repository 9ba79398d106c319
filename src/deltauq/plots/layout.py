"""The layout, colours and symbols that all figures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltauq.plots import colors
from deltauq.utils.install import import_optional

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def empty_figure(*, x_title: str, y_title: str) -> Figure:
    """Return a figure with the common layout and nothing in it."""
    go: Any = import_optional("plotly.graph_objects", "figures need plotly", "report")
    axis: dict[str, Any] = {
        "gridcolor": colors.GRID,
        "linecolor": colors.MUTED,
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "tickcolor": colors.MUTED,
        "automargin": True,
    }
    return go.Figure(
        layout={
            "template": "none",
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 14, "color": colors.INK},
            "margin": {"l": 10, "r": 26, "t": 10, "b": 10},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "hoverlabel": {"font": {"size": 13}},
            # Disables zooming by drag, which would catch touch scrolling.
            "dragmode": False,
            "xaxis": {**axis, "title": {"text": x_title, "standoff": 6}},
            "yaxis": {**axis, "title": {"text": y_title, "standoff": 6}},
        }
    )


def add_series(
    figure: Figure, x: Any, y: Any, name: str, style: tuple[str, str], hovertemplate: str, std: Any = None
) -> None:
    """Draw points joined by a line, with an error bar of one standard deviation where it is given."""
    colour, symbol = style
    figure.add_scatter(
        x=x,
        y=y,
        name=name,
        mode="markers+lines",
        marker={"size": 8, "symbol": symbol, "color": colour},
        line={"width": 1.5, "color": colour},
        error_y=None if std is None else error_bars(std, colour),
        hovertemplate=hovertemplate,
    )


def error_bars(std: Any, colour: str) -> dict[str, Any]:
    """Return the bars of one standard deviation."""
    return {"type": "data", "array": std, "color": colour, "thickness": 1.2, "width": 2}


def add_diagonal(figure: Figure, start: float, end: float, name: str) -> None:
    """Draw the dotted line on which both axes agree."""
    line = {"dash": "dot", "width": 1.5, "color": colors.MUTED}
    figure.add_scatter(x=[start, end], y=[start, end], name=name, mode="lines", line=line, hoverinfo="skip")


def series_styles(n: int) -> tuple[tuple[str, str], ...]:
    """Return a colour and a symbol for each of n series."""
    if n > len(colors.SERIES):
        raise ValueError(f"A figure has at most {len(colors.SERIES)} series, got {n}.")
    return colors.SERIES[:n]
