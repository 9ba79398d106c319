"""Colour-blind safe colours, each as a pair for light and for dark pages.

The hues are those of Okabe and Ito's palette, darkened for light pages and lightened for dark ones. A figure
is drawn with the light colours; the page replaces them in dark mode.
"""

from __future__ import annotations

INK = "#1b1f24"
MUTED = "#5c6670"
GRID = "#d9dde1"
PAPER = "#ffffff"
SOFT = "#f3f5f7"

BLUE = "#0072b2"
ORANGE = "#c24e00"
GREEN = "#00805d"
PURPLE = "#a8457f"
OCHRE = "#8a6d00"
SKY = "#2b8fc9"

BAND = "rgba(0, 114, 178, 0.42)"
WIDE_BAND = "rgba(0, 114, 178, 0.15)"
GAP_SHADE = "rgba(92, 102, 112, 0.10)"

# Each series of a figure has its own symbol, so that none depends on colour alone.
SERIES = (
    (ORANGE, "circle"),
    (BLUE, "square"),
    (GREEN, "diamond"),
    (PURPLE, "triangle-up"),
    (OCHRE, "triangle-down"),
    (INK, "x"),
    (SKY, "star"),
    (MUTED, "cross"),
)

CLASS_COLORS = (GREEN, BLUE, ORANGE)
REGION_COLORS = ("#cfe9e1", "#cfe4f2", "#f7dcc9")

DARK_PARTNERS = {
    INK: "#e6e9ec",
    MUTED: "#9aa5b0",
    GRID: "#333b44",
    PAPER: "#14181d",
    SOFT: "#1d232a",
    BLUE: "#56b4e9",
    ORANGE: "#f0883e",
    GREEN: "#2fc49a",
    PURPLE: "#e08fc0",
    OCHRE: "#e3c33b",
    SKY: "#a9d8f2",
    BAND: "rgba(86, 180, 233, 0.45)",
    WIDE_BAND: "rgba(86, 180, 233, 0.18)",
    GAP_SHADE: "rgba(154, 165, 176, 0.12)",
    "#cfe9e1": "#1d3a32",
    "#cfe4f2": "#1b3347",
    "#f7dcc9": "#472b18",
}
"""Light colour to dark colour; a colour that is not listed is used for both."""
