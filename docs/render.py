"""Writes what the documents say of results, names and commands; with `--check` it only compares.

`docs/results.md` is the whole report on the result lines. In README.md, what stands between `<!-- name -->`
and `<!-- /name -->` is the first table of that experiment. `docs/api/` and `docs/commands.md` are the
reference.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from reference import api_pages, commands_page

ROOT = Path(__file__).parent.parent
HEAD = """# Results

Rendered from `results/*.jsonl` by `make tables`; every figure is a mean ± sample standard deviation over
seeds, the paper's figure in parentheses where it has one. `python -m experiments report --html page.html`
shows the same with figures.
"""
BLOCK = re.compile(r"<!-- (?P<name>[a-z0-9-]+) -->\n.*?<!-- /(?P=name) -->", re.DOTALL)


def report() -> str:
    """Return the report of all experiments in Markdown."""
    command = [sys.executable, "-m", "experiments", "report", "--format", "markdown", "--profile", "paper"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def with_tables(text: str, told: str) -> str:
    """Return a document with its blocks filled: the first table of each experiment that a report tells of."""
    sections = dict(re.findall(r"^## ([a-z0-9-]+): (.*?)(?=^## |\Z)", told, re.DOTALL | re.MULTILINE))

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        rows = re.search(r"(?:^\|.*\n?)+", sections.get(name, ""), re.MULTILINE)
        if rows is None:
            raise SystemExit(f"{name} has no table")
        return f"<!-- {name} -->\n{rows[0].strip()}\n<!-- /{name} -->"

    return BLOCK.sub(block, text)


def main() -> int:
    """Write the documents, or tell which of them differs from the lines."""
    readme, told = ROOT / "README.md", report()
    documents = {
        ROOT / "docs" / "results.md": f"{HEAD}\n{told}\n",
        readme: with_tables(readme.read_text(encoding="utf-8"), told),
        **api_pages(),
        **commands_page(),
    }
    old = [
        path
        for path, text in documents.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv:
        for path in old:
            print(f"{path.relative_to(ROOT)} is not what it is rendered from: make tables")
        return 1 if old else 0
    for path in old:
        path.parent.mkdir(exist_ok=True)
        path.write_text(documents[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
