"""Writes every table of the documents from the result lines; with `--check` it only compares.

`docs/results.md` is the whole report. In README.md, what stands between `<!-- name -->` and `<!-- /name -->`
is the first table of that experiment.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """# Results

Rendered from `results/*.jsonl` by `make tables`; every figure is a mean ± sample standard deviation over
seeds, the paper's figure in parentheses where it has one. `deltauq report --html page.html` shows the
same with figures.
"""
BLOCK = re.compile(r"<!-- (?P<name>[a-z0-9-]+) -->\n.*?<!-- /(?P=name) -->", re.DOTALL)


def report(*names: str) -> str:
    """Return the report of these experiments in Markdown."""
    command = [
        sys.executable,
        "-m",
        "deltauq.cli",
        "report",
        *names,
        "--format",
        "markdown",
        "--profile",
        "paper",
    ]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def first_table(match: re.Match[str]) -> str:
    """Return a block of the README with the first table of its experiment."""
    name = match["name"]
    rows = re.search(r"(?:^\|.*\n?)+", report(name) + "\n", re.MULTILINE)
    if rows is None:
        raise SystemExit(f"{name} has no table")
    return f"<!-- {name} -->\n{rows[0].strip()}\n<!-- /{name} -->"


def main() -> int:
    """Write the documents, or tell which of them differs from the lines."""
    readme = ROOT / "README.md"
    documents = {
        ROOT / "docs" / "results.md": f"{HEAD}\n{report()}\n",
        readme: BLOCK.sub(first_table, readme.read_text(encoding="utf-8")),
    }
    old = [
        path
        for path, text in documents.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv:
        for path in old:
            print(f"{path.relative_to(ROOT)} differs from the result lines: make tables")
        return 1 if old else 0
    for path in old:
        path.write_text(documents[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
