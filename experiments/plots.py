"""Plotly figures that only the experiments draw; the others are in `deltauq.plots`."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.plots import colors, empty_figure, series_styles

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GAP = 2
"""Pixels between two images."""
# Cividis has even lightness and looks the same with any kind of colour vision.
HEAT = "Cividis"
HEAT_POINT = "rgba(255, 255, 255, 0.7)"
HEAT_CROSS = "#ff8c42"
LABEL_SIZE = 13
"""Font size of the names of points."""
ANCHORS = {-1: "right", 0: "center", 1: "left"}
"""Side of a point to the end of its name that is next to it."""


def box_plot(
    groups: Sequence[str], series: Mapping[str, np.ndarray], *, x_title: str, y_title: str
) -> Figure:
    """Draw a box per group and series: quartiles, median, and whiskers from the minimum to the maximum.

    Parameters
    ----------
    groups : sequence of g strings
        Labels of the x axis, each with one box of every series.
    series : mapping of name to array of shape (m, g)
        m values in each group; at most eight series. NaN is ignored, and a group of NaN only has no box.
    """
    figure = empty_figure(x_title=x_title, y_title=y_title)
    for (name, values), (colour, _) in zip(series.items(), series_styles(len(series)), strict=True):
        columns = [column[~np.isnan(column)] for column in np.asarray(values, dtype=np.float64).T]
        drawn = [k for k, column in enumerate(columns) if len(column)]
        # The quartiles are computed here, so that the page does not store every value.
        low, q1, median, q3, high = (
            np.array([np.quantile(columns[k], (0.0, 0.25, 0.5, 0.75, 1.0)) for k in drawn]).reshape(-1, 5).T
        )
        figure.add_box(
            x=[groups[k] for k in drawn],
            lowerfence=low,
            q1=q1,
            median=median,
            q3=q3,
            upperfence=high,
            name=name,
            offsetgroup=name,
            line={"width": 1.5, "color": colour},
            hoverinfo="x+y+name",
        )
    figure.update_layout(boxmode="group", boxgap=0.2, boxgroupgap=0.15)
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=list(groups))
    return figure


def labelled_points(
    points: Mapping[str, tuple[float, float]],
    *,
    highlighted: Sequence[str],
    x_title: str,
    y_title: str,
    reference: float,
    size: tuple[int, int],
) -> Figure:
    """Draw named points over a logarithmic x axis, each with its name where it hides nothing.

    Parameters
    ----------
    points : mapping of name to (x, y)
        x is positive.
    highlighted : sequence of str
        Names of points in another colour and symbol, and in bold.
    reference : float
        Position of a horizontal line.
    size : (width, height) in pixels
        At which names do not overlap.
    """
    figure = empty_figure(x_title=x_title, y_title=y_title)
    margin = {"l": 64, "r": 16, "t": 12, "b": 54}
    figure.update_layout(margin={**margin, "autoexpand": False}, showlegend=False)
    if not points:
        return figure
    names = sorted(points, key=lambda name: (name not in highlighted, points[name]))
    x, y = np.array([points[name] for name in names]).T
    is_ours = np.isin(names, list(highlighted))
    area = np.array([size[0] - margin["l"] - margin["r"], size[1] - margin["t"] - margin["b"]])
    at = np.column_stack([np.log10(x), y])
    # The reference is visible, and there is space for names at all sides.
    low, high = np.minimum(at.min(0), (np.inf, reference)), np.maximum(at.max(0), (-np.inf, reference))
    space = 0.1 * np.maximum(high - low, (0.5, 0.05))
    low, high = low - space, high + space
    # A trace, because a shape would be hidden by the grid or would hide points.
    dotted = {"dash": "dot", "width": 2, "color": colors.MUTED}
    figure.add_scatter(
        x=10 ** np.array([low[0], high[0]]), y=[reference] * 2, mode="lines", line=dotted, hoverinfo="skip"
    )
    for selected, colour, symbol in ((~is_ours, colors.MUTED, "circle"), (is_ours, colors.BLUE, "square")):
        figure.add_scatter(
            x=x[selected],
            y=y[selected],
            mode="markers",
            marker={"size": 9, "symbol": symbol, "color": colour},
            text=np.array(names)[selected],
            hovertemplate="%{text}: %{y:.3f}, %{x:.3g} s<extra></extra>",
        )
    pixels = (at - low) / (high - low) * area * (1, -1) + (0, area[1])
    line = (high[1] - reference) / (high[1] - low[1]) * area[1]
    for k, label in enumerate(_place_labels(names, pixels, area, line)):
        figure.add_annotation(
            x=at[k, 0],
            y=at[k, 1],
            ax=label.shift[0],
            ay=label.shift[1],
            xanchor=ANCHORS[label.side],
            text=f"<b>{names[k]}</b>" if is_ours[k] else names[k],
            font={"size": LABEL_SIZE, "color": colors.BLUE if is_ours[k] else colors.INK},
            borderpad=0,
            arrowhead=0,
            arrowwidth=1,
            arrowcolor="rgba(0, 0, 0, 0)" if label.is_near else colors.MUTED,
            standoff=6,
        )
    ticks = [n * 10.0**k for k in range(-3, 5) for n in (1, 2, 5)]
    figure.update_xaxes(
        type="log", range=[low[0], high[0]], tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks]
    )
    figure.update_yaxes(range=[low[1], high[1]])
    return figure


@dataclass(frozen=True)
class _Label:
    """Where the name of a point is: pixels to its anchor, the side of the text, and its box."""

    shift: tuple[float, float]
    side: int
    box: np.ndarray
    is_near: bool


def _place_labels(
    names: Sequence[str], points: np.ndarray, area: np.ndarray, reference: float
) -> list[_Label]:
    """Return a position for each name, one after the other, in pixels.

    Of positions around the point, nearer ones first, the one is taken that overlaps least with points, other
    names, the reference line and the margin, and is nearer to its own point than to others.
    """
    line = np.array([0, reference - 2, area[0], reference + 2])
    taken = [line, *(np.concatenate([point - 7, point + 7]) for point in points)]
    labels = []
    for k, name in enumerate(names):

        def cost(label: _Label, k: int = k) -> float:
            outside = np.maximum(0, -label.box[:2]).sum() + np.maximum(0, label.box[2:] - area).sum()
            gaps = np.linalg.norm(points - np.clip(points, label.box[:2], label.box[2:]), axis=1)
            is_ambiguous = gaps[k] > gaps.min()
            return _overlap(label.box, taken) + 100 * outside + 60 * is_ambiguous + abs(label.shift[1])

        labels.append(min(_candidates(points[k], LABEL_SIZE * np.array([0.6 * len(name), 1.3])), key=cost))
        taken.append(labels[-1].box)
    return labels


def _candidates(point: np.ndarray, size: np.ndarray) -> Iterator[_Label]:
    """Yield positions for a text of this size around a point, nearer ones first."""
    for distance in range(10, 90, 8):
        for side, vertical in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)):
            shift = (side * distance / (1 + abs(vertical)), vertical * (distance + size[1] / 3))
            left = point[0] + shift[0] - size[0] * (1 - side) / 2
            top = point[1] + shift[1] - size[1] / 2
            yield _Label(shift, side, np.array([left, top, left + size[0], top + size[1]]), distance == 10)


def _overlap(box: np.ndarray, others: Sequence[np.ndarray]) -> float:
    """Return the area that a box shares with others, each as (left, top, right, bottom)."""
    boxes = np.array(others)
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    return float(np.prod(np.maximum(sides, 0), axis=1).sum())


def contact_sheet(images: np.ndarray, row_names: Sequence[str], column_names: Sequence[str]) -> Figure:
    """Draw images as a sheet, with a name for every row and column.

    Parameters
    ----------
    images : uint8 array of shape (rows, columns, height, width, 3)
    """
    from PIL import Image

    rows, columns, height, width = images.shape[:4]
    sheet = np.zeros((rows, height + GAP, columns, width + GAP, 4), dtype=np.uint8)
    sheet[:, :height, :, :width, :3] = images.swapaxes(1, 2)
    sheet[:, :height, :, :width, 3] = 255
    # The gaps are transparent: the background of the page is visible there, light or dark.
    sheet = sheet.reshape(rows * (height + GAP), columns * (width + GAP), 4)[:-GAP, :-GAP]
    png = io.BytesIO()
    Image.fromarray(sheet).save(png, "PNG")
    figure = empty_figure(x_title="", y_title="")
    figure.add_image(
        source="data:image/png;base64," + base64.b64encode(png.getvalue()).decode(), hoverinfo="skip"
    )
    bare = {"showgrid": False, "showline": False, "ticks": "", "constrain": "domain"}
    figure.update_xaxes(
        **bare,
        range=[-0.5, sheet.shape[1] - 0.5],
        side="top",
        tickangle=0,
        constraintoward="left",
        tickvals=_centers(columns, width),
        ticktext=list(column_names),
    )
    figure.update_yaxes(
        **bare,
        range=[sheet.shape[0] - 0.5, -0.5],
        scaleanchor="x",
        constraintoward="top",
        tickvals=_centers(rows, height),
        ticktext=list(row_names),
    )
    return figure


def _centers(n: int, size: int) -> list[float]:
    return [(size - 1) / 2 + k * (size + GAP) for k in range(n)]


def class_map(
    grid: tuple[np.ndarray, np.ndarray],
    predicted: np.ndarray,
    points: tuple[np.ndarray, np.ndarray],
    names: Sequence[str],
) -> Figure:
    """Draw points of three classes over a map of the predicted class.

    Parameters
    ----------
    grid : arrays of shape (nx,) and (ny,)
    predicted : int array of shape (ny, nx)
        0, 1 or 2.
    points : arrays of shape (n, 2) and (n,)
    """
    figure = _empty_plane(grid)
    figure.add_heatmap(
        x=grid[0],
        y=grid[1],
        z=predicted,
        zmin=-0.5,
        zmax=2.5,
        colorscale=_steps(colors.REGION_COLORS),
        showscale=False,
        hoverinfo="skip",
    )
    X, y = points
    styles = zip(names, colors.CLASS_COLORS, ("circle", "square", "triangle-up"), strict=True)
    for label, (name, colour, symbol) in enumerate(styles):
        marker = {"size": 6, "symbol": symbol, "color": colour}
        rows = X[y == label]
        figure.add_scatter(x=rows[:, 0], y=rows[:, 1], name=name, mode="markers", marker=marker)
    return figure


def uncertainty_map(
    grid: tuple[np.ndarray, np.ndarray],
    uncertainty: np.ndarray,
    points: np.ndarray,
    *,
    anchors: np.ndarray | None = None,
    largest: float | None = None,
) -> Figure:
    """Draw an uncertainty as a heat map, with the training points on it.

    Parameters
    ----------
    grid : arrays of shape (nx,) and (ny,)
    uncertainty : array of shape (ny, nx)
    points : array of shape (n, 2)
    anchors : array of shape (K, 2), optional
        Drawn as crosses.
    largest : float, optional
        The value of the brightest colour; maps to be compared need the same one.
    """
    figure = _empty_plane(grid)
    figure.add_heatmap(
        x=grid[0],
        y=grid[1],
        z=uncertainty,
        zmin=0.0,
        zmax=float(uncertainty.max()) if largest is None else largest,
        zsmooth="best",
        colorscale=HEAT,
        colorbar={
            "orientation": "h",
            "y": 1.02,
            "yanchor": "bottom",
            "thickness": 12,
            "len": 1.0,
            "outlinewidth": 0,
        },
        hovertemplate="%{z:.3f}<extra></extra>",
    )
    marker = {"size": 3.5, "color": HEAT_POINT}
    figure.add_scatter(
        x=points[:, 0], y=points[:, 1], mode="markers", marker=marker, showlegend=False, hoverinfo="skip"
    )
    if anchors is not None:
        cross = {"size": 11, "symbol": "x-thin", "line": {"width": 3, "color": HEAT_CROSS}}
        figure.add_scatter(
            x=anchors[:, 0], y=anchors[:, 1], mode="markers", marker=cross, showlegend=False, name="anchor"
        )
    return figure


def probability_map(
    grid: tuple[np.ndarray, np.ndarray],
    predicted: np.ndarray,
    probability: np.ndarray,
    points: np.ndarray,
    *,
    anchor: np.ndarray,
) -> Figure:
    """Draw the class predicted with one anchor; the less probable it is, the paler.

    Parameters
    ----------
    grid : arrays of shape (nx,) and (ny,)
    predicted : int array of shape (ny, nx)
        0, 1 or 2.
    probability : array of shape (ny, nx)
        Probability of the predicted class, at least 1/3.
    points : array of shape (n, 2)
    anchor : array of shape (2,)
    """
    figure = _empty_plane(grid)
    # One heat map for three classes: each has one unit of the scale, from the page's colour to its own.
    confidence = np.clip((probability - 1 / 3) * 1.5, 0.0, 0.999)
    scale = []
    for label, colour in enumerate(colors.CLASS_COLORS):
        scale += [[label / 3, colors.PAPER], [(label + 1) / 3, colour]]
    figure.add_heatmap(
        x=grid[0],
        y=grid[1],
        z=predicted + confidence,
        customdata=np.stack([predicted, probability], axis=-1),
        zmin=0.0,
        zmax=3.0,
        colorscale=scale,
        showscale=False,
        hovertemplate="class %{customdata[0]}, probability %{customdata[1]:.2f}<extra></extra>",
    )
    marker = {"size": 3, "color": colors.MUTED}
    figure.add_scatter(
        x=points[:, 0], y=points[:, 1], mode="markers", marker=marker, showlegend=False, hoverinfo="skip"
    )
    cross = {"size": 15, "symbol": "x-thin", "line": {"width": 4, "color": colors.INK}}
    figure.add_scatter(
        x=anchor[:1], y=anchor[1:], mode="markers", marker=cross, showlegend=False, name="anchor"
    )
    figure.update_layout(margin={"l": 48, "r": 14, "t": 10, "b": 52, "autoexpand": False})
    return figure


def _empty_plane(grid: tuple[np.ndarray, np.ndarray]) -> Figure:
    """Return a figure of two inputs with equal units on both axes."""
    figure = empty_figure(x_title="x₁", y_title="x₂")
    # The same space for a legend as for a colour bar, so that maps side by side have the same size.
    figure.update_layout(margin={"l": 48, "r": 14, "t": 48, "b": 52, "autoexpand": False})
    figure.update_xaxes(constrain="domain", showgrid=False, range=[float(grid[0][0]), float(grid[0][-1])])
    figure.update_yaxes(constrain="domain", showgrid=False, range=[float(grid[1][0]), float(grid[1][-1])])
    figure.update_yaxes(scaleanchor="x", constraintoward="top")
    return figure


def _steps(palette: Sequence[str]) -> list[list[Any]]:
    """Return a colour scale of equal steps, one for each colour."""
    edges = np.linspace(0, 1, len(palette) + 1)
    scale = []
    for colour, start, end in zip(palette, edges[:-1], edges[1:], strict=True):
        scale += [[float(start), colour], [float(end), colour]]
    return scale
