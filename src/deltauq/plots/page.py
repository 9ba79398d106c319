"""Self-contained HTML pages: one file with everything in it, which opens offline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deltauq.plots import colors
from deltauq.utils.install import import_optional

_NUMBER = re.compile(r"[↓↑]? ?[-−+<≈]? ?[\d.,]+(e[-+]?\d+)? ?[%×]?( ± [\d.,e+-]+)?(\n.*)?|–(\n.*)?|nan|inf")


@dataclass(frozen=True)
class Table:
    """A table of strings.

    Attributes
    ----------
    header : sequence of c strings
    rows : sequence of sequences of c strings
        What follows a line break in a cell is set small below it.
    caption : str
    bold : set of (row, column)
        Cells whose first line is bold, counted from 0.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    bold: frozenset[tuple[int, int]] = frozenset()

    def numeric_columns(self) -> list[bool]:
        """Return for each column whether it has only numbers, which are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else ([""] for _ in self.header)
        return [all(_NUMBER.fullmatch(cell) for cell in cells) for cells in columns]


@dataclass(frozen=True)
class Figure:
    """A plotly figure with a title and a caption.

    Attributes
    ----------
    figure : plotly Figure
    title, caption : str
    height : int
        Height in pixels; less on narrow screens. The width is that of the page.
    tall : bool
        Whether to keep the height on narrow screens, for figures with a row per item.
    """

    figure: Any
    title: str
    caption: str = ""
    height: int = 400
    tall: bool = False


@dataclass(frozen=True)
class Code:
    """Lines of code."""

    text: str


@dataclass(frozen=True)
class Details:
    """Blocks that can be collapsed.

    Attributes
    ----------
    summary : str
        The line that remains visible.
    blocks : sequence of Block
    open : bool
        Whether the blocks are visible at first.
    """

    summary: str
    blocks: Sequence[Block]
    open: bool = False


Block = str | Table | Code | Figure | list[Figure] | Details
"""A paragraph, a table, code, a figure, figures side by side on wide screens, or a collapsible part."""


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading."""

    title: str
    blocks: Sequence[Block] = field(default_factory=list)


def render_page(
    title: str, lead: str, sections: Sequence[Section], *, footer: str = "", contents: bool = False
) -> str:
    """Return a complete HTML page.

    In all text, `backticks` mark code; everything else is literal.

    Parameters
    ----------
    title, lead : str
    sections : sequence of Section
    footer : str, optional
    contents : bool, default=False
        Whether to put a list of links to the sections at the top.

    Returns
    -------
    html : str
    """
    jinja2: Any = import_optional("jinja2", "HTML pages need jinja2", "report")
    loader = jinja2.PackageLoader("deltauq.plots")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"inline": _inline, "plotly": _plotly_json}
    kinds = {"table": Table, "code": Code, "details": Details, "figure": Figure}
    environment.tests |= {
        name: lambda block, kind=kind: isinstance(block, kind) for name, kind in kinds.items()
    }
    return environment.get_template("page.html").render(
        title=title,
        lead=lead,
        sections=sections,
        footer=footer,
        contents=contents,
        colors={
            "ink": colors.INK,
            "muted": colors.MUTED,
            "line": colors.GRID,
            "paper": colors.PAPER,
            "soft": colors.SOFT,
            "link": colors.BLUE,
        },
        dark_partners=colors.DARK_PARTNERS,
        plotly_js=_plotly_js() if any(_has_figures(section.blocks) for section in sections) else "",
    )


def _has_figures(blocks: Sequence[Block]) -> bool:
    return any(
        _has_figures(block.blocks) if isinstance(block, Details) else isinstance(block, (Figure, list))
        for block in blocks
    )


def _inline(text: str) -> Any:
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _plotly_json(figure: Any) -> Any:
    """Return a figure as JSON that cannot end its script element."""
    from markupsafe import Markup

    return Markup(figure.to_json().replace("<", "\\u003c"))


def _plotly_js() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
