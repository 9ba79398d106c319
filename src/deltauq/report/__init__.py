"""Figures, tables and self-contained HTML pages."""

from deltauq.report.page import Block, Code, Details, Figure, Section, Table, render_page
from deltauq.report.tables import Grid, make_grid
from deltauq.report.views import Spread, Summary, TableView

__all__ = [
    "Block",
    "Code",
    "Details",
    "Figure",
    "Grid",
    "Section",
    "Spread",
    "Summary",
    "Table",
    "TableView",
    "make_grid",
    "render_page",
]
