"""Compares two reports number by number: tables, summaries and figures.

Each folder contains what one commit renders from the same result lines::

    python -m experiments report --profile paper --format markdown > FOLDER/report.md
    python -m experiments report --profile paper --json > FOLDER/report.json
    python -m experiments report --profile paper --html FOLDER/report.html

`python -m experiments.compare_tables BEFORE AFTER` prints every difference, also renamed rows and columns,
and exits with 1 if a number differs, is missing or is new.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from PIL import Image

Section = dict[str, list[Any]]


def tables(folder: Path) -> Section:
    """Return the tables of every experiment in report.md, each a list of rows of cells."""
    sections: Section = {}
    table: list[list[str]] | None = None
    for line in (folder / "report.md").read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## ([a-z0-9-]+): ", line):
            sections[heading[1]] = []
        if not line.startswith("|"):
            table = None
            continue
        if table is None:
            table = []
            sections[list(sections)[-1]].append(table)
        table.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return sections


def figures(folder: Path) -> Section:
    """Return the numbers of every figure in report.html, by section."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    names = re.findall(r'<a href="#section-\d+">([a-z0-9-]+):', page)
    parts = re.split(r"<section\b", page)[1:]
    return {
        name: [
            list(_numbers(json.loads(data)["data"]))
            for data in re.findall(r'<script type="application/json">(.*?)</script>', part, re.DOTALL)
        ]
        for name, part in zip(names, parts, strict=True)
    }


def _numbers(value: Any, key: str = "") -> Iterator[Any]:
    """Yield the data of plotly traces: numbers, arrays and images, but no colours, widths or names."""
    if isinstance(value, dict):
        for name in sorted(value):
            if name not in ("marker", "line", "hovertemplate", "name", "text", "customdata"):
                yield from _numbers(value[name], name)
    elif isinstance(value, list):
        for each in value:
            yield from _numbers(each, key)
    elif key == "source":
        png = io.BytesIO(base64.b64decode(value.partition(",")[2]))
        yield Image.open(png).convert("RGBA").tobytes()
    elif isinstance(value, (int, float)) or key == "bdata":
        yield value


def compare_tables(name: str, before: list[Any], after: list[Any]) -> tuple[int, int, list[str]]:
    """Return how many cells were compared, how many differ, and the messages."""
    compared, messages, renamed = 0, [], []
    if len(before) != len(after):
        messages.append(f"{name}: {len(before)} tables before, {len(after)} after")
    for number, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        where = f"{name}, table {number}"
        if [len(row) for row in old] != [len(row) for row in new]:
            messages.append(f"{where}: another shape")
            continue
        for old_row, new_row in zip(old[2:], new[2:], strict=True):
            for a, b in zip(old_row[1:], new_row[1:], strict=True):
                compared += 1
                if a != b:
                    messages.append(f"{where}, {old_row[0]}: {a} before, {b} after")
        old_names, new_names = ([*table[0], *(row[0] for row in table[2:])] for table in (old, new))
        pairs = zip(old_names, new_names, strict=True)
        renamed += [f"(renamed) {where}: {a} -> {b}" for a, b in pairs if a != b]
    return compared, len(messages), messages + renamed


def compare(before: Path, after: Path) -> int:
    """Compare two folders, print every difference and return the number of numbers that differ."""
    wrong = 0

    old_tables, new_tables = tables(before), tables(after)
    cells = 0
    for name in dict.fromkeys([*old_tables, *new_tables]):
        compared, differing, messages = compare_tables(
            name, old_tables.get(name, []), new_tables.get(name, [])
        )
        cells, wrong = cells + compared, wrong + differing
        print("\n".join(messages), end="\n" if messages else "")
    count = sum(map(len, new_tables.values()))
    print(f"{cells} cells in {count} tables of {len(new_tables)} experiments compared")

    old, new = (
        {
            (each["experiment"], json.dumps(row["cell"], sort_keys=True), metric): values
            for each in json.loads((folder / "report.json").read_text(encoding="utf-8"))["experiments"]
            for row in each["summary"]
            for metric, values in row["metrics"].items()
        }
        for folder in (before, after)
    )
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            wrong += 1
            print(f"{key}: {old.get(key)} before, {new.get(key)} after")
    print(f"{len(new)} summaries compared")

    old_figures, new_figures = figures(before), figures(after)
    for name in dict.fromkeys([*old_figures, *new_figures]):
        pairs = zip_longest(old_figures.get(name, []), new_figures.get(name, []))
        for number, (a, b) in enumerate(pairs, start=1):
            if a != b:
                wrong += 1
                print(f"{name}, figure {number}: the data differ")
    print(f"{sum(map(len, new_figures.values()))} figures compared")
    print(f"{wrong} differences" if wrong else "no number differs")
    return wrong


if __name__ == "__main__":
    sys.exit(compare(Path(sys.argv[1]), Path(sys.argv[2])) > 0)
