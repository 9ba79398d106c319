"""Small images in rows and columns."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deltauq.plots.layout import empty_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GAP = 2
"""Pixels between two images."""


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
