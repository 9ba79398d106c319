"""Figures and self-contained HTML pages."""

from deltauq.report.page import Block, Code, Figure, Section, Table, render_page

__all__ = ["Block", "Code", "Figure", "Section", "Table", "render_page"]
