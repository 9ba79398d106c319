"""One HTML file that holds everything it shows: it opens offline and asks no server for anything."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from deltauq.report import _colours as colours

_NUMBER = re.compile(r"[-−+<≈]? ?[\d.,]+ ?[%×]?|–")


@dataclass(frozen=True)
class Table:
    """A table of strings.

    Attributes
    ----------
    header : sequence of c strings
    rows : sequence of sequences of c strings
    caption : str
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A plotly figure with a title and a caption, both plain text.

    Attributes
    ----------
    figure : plotly Figure
    title, caption : str
    height : int
        In pixels; less on narrow screens. The width follows the page.
    """

    figure: Any
    title: str
    caption: str = ""
    height: int = 400


@dataclass(frozen=True)
class Code:
    """Lines of code, shown as they are."""

    text: str


Block = str | Table | Code | Figure | list[Figure]
"""A paragraph, a table, code, a figure, or figures side by side where the screen is wide enough."""


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading."""

    title: str
    blocks: Sequence[Block] = field(default_factory=list)


def render_page(title: str, lead: str, sections: Sequence[Section], *, footer: str = "") -> str:
    """Return a complete HTML page.

    Text may mark code by `backticks`; everything else in it is shown literally.

    Parameters
    ----------
    title, lead : str
    sections : sequence of Section
    footer : str, optional

    Returns
    -------
    html : str
    """
    body = "\n".join(_section(section) for section in sections)
    return _PAGE.format(
        title=escape(title),
        policy=_POLICY,
        css=_variables() + _CSS,
        lead=_inline(lead),
        body=body,
        footer=f"<footer><p>{_inline(footer)}</p></footer>" if footer else "",
        scripts=_scripts() if _has_figures(sections) else "",
    )


def _has_figures(sections: Sequence[Section]) -> bool:
    return any(isinstance(block, (Figure, list)) for section in sections for block in section.blocks)


def _section(section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>"


def _block(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{_inline(block)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Code):
        return f"<pre><code>{escape(block.text)}</code></pre>"
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
        + "".join(f"<td{kind}>{_inline(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in table.rows
    )
    # The frame scrolls, so that a wide table does not widen a narrow page; its caption stays where it is.
    caption = f'<p class="caption">{_inline(table.caption)}</p>\n' if table.caption else ""
    return (
        f'{caption}<div class="table" tabindex="0"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _column_kind(cells: Sequence[str]) -> str:
    """Return the attribute that aligns a column of numbers, or nothing."""
    return ' class="number"' if all(_NUMBER.fullmatch(cell) for cell in cells) else ""


def _figure(figure: Figure) -> str:
    caption = f"<p>{_inline(figure.caption)}</p>" if figure.caption else ""
    return (
        f"<figure><figcaption><h3>{_inline(figure.title)}</h3>{caption}</figcaption>\n"
        f'<div class="plot" role="img" aria-label="{escape(figure.title)}" '
        f'style="height:min({figure.height}px, 110vw)"></div>\n'
        f'<script type="application/json">{_json(figure.figure)}</script></figure>'
    )


def _json(figure: Any) -> str:
    """Return a figure as JSON that cannot end the script element it stands in."""
    return str(figure.to_json()).replace("<", "\\u003c")


def _variables() -> str:
    """Return the colours of the page as CSS variables, for light and for dark."""
    names = {"ink": colours.INK, "muted": colours.MUTED, "line": colours.GRID, "paper": colours.PAPER}
    names["soft"] = colours.SOFT
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
th, td { text-align: left; padding: .38em 1.4em .38em 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; vertical-align: bottom; }
.number { text-align: right; }
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
  draw();
  dark.addEventListener("change", draw);
})();
"""
