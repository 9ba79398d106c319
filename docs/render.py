"""Writes the result tables of the documentation; with `--check` it only compares.

`docs/results.md` is the report on all experiments, with the discussions in `docs/results/`. In README.md, the
text between `<!-- name -->` and `<!-- /name -->` is the first table of that experiment.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """# Results

Rendered from `results/*.jsonl` by `make tables`. Every number is a mean ± sample standard deviation over
random seeds, followed by the paper's number in parentheses if there is one.
`python -m experiments report --html page.html` writes the same with figures.
"""
BLOCK = re.compile(r"<!-- (?P<name>[a-z0-9-]+) -->\n.*?<!-- /(?P=name) -->", re.DOTALL)


def render_report() -> str:
    """Return the report of all experiments in Markdown."""
    command = [sys.executable, "-m", "experiments", "report", "--format", "markdown", "--profile", "paper"]
    report = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    sections = re.split(r"^(?=## )", report, flags=re.MULTILINE)[1:]
    return "\n\n".join(_with_discussion(section.strip()) for section in sections)


def _with_discussion(section: str) -> str:
    """Return the section of an experiment with its discussion at the end, if there is one."""
    name = section[3 : section.index(":")]
    file = ROOT / "docs" / "results" / f"{name}.md"
    if not file.exists():
        return section
    return f"{section}\n\n### Discussion of {name}\n\n{file.read_text('utf-8').strip()}"


def with_tables(text: str, report: str) -> str:
    """Return a document whose blocks contain the first table of each experiment in a report."""
    sections = dict(re.findall(r"^## ([a-z0-9-]+): (.*?)(?=^## |\Z)", report, re.DOTALL | re.MULTILINE))

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        rows = re.search(r"(?:^\|.*\n?)+", sections.get(name, ""), re.MULTILINE)
        if rows is None:
            raise SystemExit(f"{name} has no table")
        return f"<!-- {name} -->\n{rows[0].strip()}\n<!-- /{name} -->"

    return BLOCK.sub(block, text)


def main() -> int:
    """Write the documents; with `--check`, return 1 if one of them is not up to date."""
    readme, results = ROOT / "README.md", render_report()
    documents = {
        ROOT / "docs" / "results.md": f"{HEAD}\n{results}\n",
        readme: with_tables(readme.read_text(encoding="utf-8"), results),
    }
    outdated = [
        path
        for path, text in documents.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv:
        for path in outdated:
            print(f"{path.relative_to(ROOT)} is not up to date: make tables")
        return 1 if outdated else 0
    for path in outdated:
        path.write_text(documents[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
