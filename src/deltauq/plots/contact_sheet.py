"""Small pictures in rows and columns."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deltauq.plots._layout import empty_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GAP = 2
"""Pixels between two pictures."""


def contact_sheet(pictures: np.ndarray, row_names: Sequence[str], column_names: Sequence[str]) -> Figure:
    """Show pictures as a sheet, with a name to every row and column.

    Parameters
    ----------
    pictures : uint8 array of shape (rows, columns, height, width, 3)
    row_names, column_names : sequences of str

    Returns
    -------
    figure : plotly Figure
    """
    rows, columns, height, width = pictures.shape[:4]
    sheet = np.zeros((rows, height + GAP, columns, width + GAP, 4), dtype=np.uint8)
    sheet[:, :height, :, :width, :3] = pictures.swapaxes(1, 2)
    sheet[:, :height, :, :width, 3] = 255
    # Nothing is drawn between the pictures: the page's own colour shows there, light or dark.
    sheet = sheet.reshape(rows * (height + GAP), columns * (width + GAP), 4)[:-GAP, :-GAP]
    source = "data:image/png;base64," + base64.b64encode(to_png(sheet)).decode()
    figure = empty_figure(x_title="", y_title="")
    figure.add_image(source=source, hoverinfo="skip")
    bare = {"showgrid": False, "showline": False, "ticks": "", "constrain": "domain"}
    figure.update_xaxes(
        **bare,
        range=[-0.5, sheet.shape[1] - 0.5],
        side="top",
        tickangle=0,
        constraintoward="left",
        tickvals=_middles(columns, width),
        ticktext=list(column_names),
    )
    figure.update_yaxes(
        **bare,
        range=[sheet.shape[0] - 0.5, -0.5],
        scaleanchor="x",
        constraintoward="top",
        tickvals=_middles(rows, height),
        ticktext=list(row_names),
    )
    return figure


def to_png(pixels: np.ndarray) -> bytes:
    """Return a picture as a PNG file.

    Parameters
    ----------
    pixels : uint8 array of shape (height, width, 4)
        Red, green, blue, opacity.

    Returns
    -------
    file : bytes
    """
    height, width = pixels.shape[:2]
    # Every row begins with the number of its filter: none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    """Return a part of a PNG file: its length, its kind, what it holds, a checksum."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _middles(n: int, size: int) -> list[float]:
    return [(size - 1) / 2 + k * (size + GAP) for k in range(n)]
