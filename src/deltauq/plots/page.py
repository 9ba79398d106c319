"""One HTML file that holds everything it shows: it opens offline and asks no server for anything."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from deltauq.plots import colours

_NUMBER = re.compile(r"[-−+<≈]? ?[\d.,]+(e[-+]?\d+)? ?[%×]?( ± [\d.,e+-]+)?(\n.*)?|–(\n.*)?|nan|inf")


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
        Cells whose first line is set in bold, counted from 0.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    bold: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A plotly figure with a title and a caption, both plain text.

    Attributes
    ----------
    figure : plotly Figure
    title, caption : str
    height : int
        In pixels; less on narrow screens. The width follows the page.
    tall : bool
        Keeps its height on narrow screens too: for figures whose height holds a list.
    """

    figure: Any
    title: str
    caption: str = ""
    height: int = 400
    tall: bool = False


@dataclass(frozen=True)
class Code:
    """Lines of code, shown as they are."""

    text: str


@dataclass(frozen=True)
class Details:
    """A part that opens and closes.

    Attributes
    ----------
    summary : str
        What is read while it is closed.
    blocks : sequence of Block
    open : bool
    """

    summary: str
    blocks: Sequence[Block]
    open: bool = False


Block = str | Table | Code | Figure | list[Figure] | Details
"""A paragraph, a table, code, a figure, figures side by side where the screen is wide enough, or a part that
opens and closes."""


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading."""

    title: str
    blocks: Sequence[Block] = field(default_factory=list)


def render_page(
    title: str, lead: str, sections: Sequence[Section], *, footer: str = "", contents: bool = False
) -> str:
    """Return a complete HTML page.

    Text may mark code by `backticks`; everything else in it is shown literally.

    Parameters
    ----------
    title, lead : str
    sections : sequence of Section
    footer : str, optional
    contents : bool, default=False
        Whether a list of links to the sections stands at the top.

    Returns
    -------
    html : str
    """
    body = "\n".join(_section(section, number) for number, section in enumerate(sections, start=1))
    return _PAGE.format(
        title=escape(title),
        policy=_POLICY,
        css=_variables() + _CSS,
        lead=_inline(lead),
        contents=_contents(sections) if contents else "",
        body=body,
        footer=f"<footer><p>{_inline(footer)}</p></footer>" if footer else "",
        scripts=_scripts() if any(_has_figures(section.blocks) for section in sections) else "",
    )


def _has_figures(blocks: Sequence[Block]) -> bool:
    return any(
        _has_figures(block.blocks) if isinstance(block, Details) else isinstance(block, (Figure, list))
        for block in blocks
    )


def _contents(sections: Sequence[Section]) -> str:
    items = "\n".join(
        f'<li><a href="#section-{number}">{escape(section.title)}</a></li>'
        for number, section in enumerate(sections, start=1)
    )
    return f'<nav aria-label="Contents"><ul>\n{items}\n</ul></nav>'


def _section(section: Section, number: int) -> str:
    return (
        f'<section id="section-{number}">\n<h2>{escape(section.title)}</h2>\n{_blocks(section.blocks)}\n'
        "</section>"
    )


def _blocks(blocks: Sequence[Block]) -> str:
    return "\n".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{_inline(block)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Code):
        return f"<pre><code>{escape(block.text)}</code></pre>"
    if isinstance(block, Details):
        state = " open" if block.open else ""
        summary = f"<summary>{_inline(block.summary)}</summary>"
        return f"<details{state}>{summary}\n{_blocks(block.blocks)}\n</details>"
    figures = block if isinstance(block, list) else [block]
    return '<div class="figures">\n' + "\n".join(_figure(figure) for figure in figures) + "\n</div>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _table(table: Table) -> str:
    kinds = [_column_kind(cells) for cells in zip(*table.rows, strict=True)] or [""] * len(table.header)
    head = "".join(
        f'<th scope="col"{kind}>{_inline(cell)}</th>' for cell, kind in zip(table.header, kinds, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{_cell(cell, (i, j) in table.bold)}</td>"
            for j, (cell, kind) in enumerate(zip(row, kinds, strict=True))
        )
        + "</tr>"
        for i, row in enumerate(table.rows)
    )
    # The frame scrolls, so that a wide table does not widen a narrow page; its caption stays where it is.
    caption = f'<p class="caption">{_inline(table.caption)}</p>\n' if table.caption else ""
    return (
        f'{caption}<div class="table" tabindex="0"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _cell(text: str, bold: bool) -> str:
    first, _, second = text.partition("\n")
    shown = f"<b>{_inline(first)}</b>" if bold else _inline(first)
    return f"{shown}<br><small>{_inline(second)}</small>" if second else shown


def _column_kind(cells: Sequence[str]) -> str:
    """Return the attribute that aligns a column of numbers, or nothing."""
    return ' class="number"' if all(_NUMBER.fullmatch(cell) for cell in cells) else ""


def _figure(figure: Figure) -> str:
    caption = f"<p>{_inline(figure.caption)}</p>" if figure.caption else ""
    height = f"{figure.height}px" if figure.tall else f"min({figure.height}px, 110vw)"
    return (
        f"<figure><figcaption><h3>{_inline(figure.title)}</h3>{caption}</figcaption>\n"
        f'<div class="plot" role="img" aria-label="{escape(figure.title)}" '
        f'style="height:{height}"></div>\n'
        f'<script type="application/json">{_json(figure.figure)}</script></figure>'
    )


def _json(figure: Any) -> str:
    """Return a figure as JSON that cannot end the script element it stands in."""
    return str(figure.to_json()).replace("<", "\\u003c")


def _variables() -> str:
    """Return the colours of the page as CSS variables, for light and for dark."""
    names = {"ink": colours.INK, "muted": colours.MUTED, "line": colours.GRID, "paper": colours.PAPER}
    names |= {"soft": colours.SOFT, "link": colours.BLUE}
    light = " ".join(f"--{name}: {colour};" for name, colour in names.items())
    dark = " ".join(f"--{name}: {colours.DARK_PARTNERS[colour]};" for name, colour in names.items())
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    )


def _scripts() -> str:
    from plotly.offline import get_plotlyjs

    draw = _DRAW.replace("DARK_PARTNERS", json.dumps(colours.DARK_PARTNERS))
    return f"<script>{get_plotlyjs()}</script>\n<script>{draw}</script>"


# Nothing may be fetched from anywhere, whatever a script tries.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">{lead}</p>
{contents}
<noscript><p>The figures on this page are drawn by the script inside it: allow it to see them.</p></noscript>
{body}
</main>
{footer}
{scripts}
</body>
</html>
"""

_CSS = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 17px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main, footer { max-width: 1100px; margin: 0 auto; padding: 0 20px; }
main { padding-top: 24px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5em; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 2.2em 0 .4em; padding-top: .8em;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 0; }
p { margin: .6em 0; max-width: 44em; }
.lead { font-size: 1.08rem; }
code { font: .92em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; background: var(--soft);
  padding: .1em .3em; border-radius: 4px; }
pre { background: var(--soft); padding: 12px 14px; border-radius: 8px; overflow-x: auto; line-height: 1.45; }
pre code { padding: 0; background: none; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr));
  gap: 24px 28px; margin: 1.2em 0; }
/* Plots side by side start at one height, however long the captions above them are. */
figure { margin: 0; min-width: 0; display: grid; grid-template-rows: subgrid; grid-row: span 2; row-gap: 0; }
figcaption p { color: var(--muted); font-size: .93rem; line-height: 1.45; margin: .2em 0 .5em; }
.plot { width: 100%; }
.table { overflow-x: auto; margin: 1.2em 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
.caption { color: var(--muted); font-size: .93rem; line-height: 1.45; margin: 1.2em 0 0; }
.caption + .table { margin-top: .4em; }
th, td { text-align: left; padding: .38em 1.1em .38em 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; vertical-align: bottom; }
.number { text-align: right; }
td.number { white-space: nowrap; }
td small { color: var(--muted); }
/* Row names stay in sight while the figures scroll under them. */
td:first-child, th:first-child { position: sticky; left: 0; background: var(--paper); }
nav ul { display: flex; flex-wrap: wrap; gap: .3em 1.4em; margin: 1em 0; padding: 0; list-style: none; }
a { color: var(--link); text-underline-offset: .15em; }
a, summary { padding: .3em 0; }
a:focus-visible, summary:focus-visible, .table:focus-visible { outline: 2px solid var(--link);
  outline-offset: 2px; }
details { margin: .8em 0; }
summary { cursor: pointer; font-weight: 600; }
details > .table { margin-top: .3em; }
footer { color: var(--muted); font-size: .9rem; padding-top: 2em; padding-bottom: 2em; }
@media (max-width: 600px) {
  body { font-size: 16px; }
  main, footer { padding-left: 14px; padding-right: 14px; }
  h1 { font-size: 1.55rem; }
  table { font-size: .9rem; }
  th, td { padding-right: .7em; }
}
"""

_DRAW = """
(() => {
  const partners = DARK_PARTNERS;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const recolour = value => {
    if (typeof value === "string") return dark.matches && partners[value] || value;
    if (Array.isArray(value)) return value.map(recolour);
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, recolour(inner)]));
    return value;
  };
  const draw = () => {
    for (const plot of document.querySelectorAll(".plot")) {
      const spec = JSON.parse(plot.nextElementSibling.textContent);
      const options = { responsive: true, displayModeBar: false };
      Plotly.react(plot, recolour(spec.data), recolour(spec.layout), options);
    }
  };
  // A plot in a closed part has no width to fill until the part opens.
  for (const part of document.querySelectorAll("details"))
    part.addEventListener("toggle", () => {
      if (part.open) for (const plot of part.querySelectorAll(".plot")) Plotly.Plots.resize(plot);
    });
  draw();
  dark.addEventListener("change", draw);
})();
"""
