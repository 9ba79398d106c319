"""Figures and self-contained HTML pages."""

from deltauq.report.page import Block, Code, Figure, Section, Table, render_page
from deltauq.report.views import TableView

__all__ = ["Block", "Code", "Figure", "Section", "Table", "TableView", "render_page"]
