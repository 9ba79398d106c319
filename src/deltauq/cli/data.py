"""`deltauq data list` and `deltauq data check`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from deltauq.cli.complaints import BadInput
from deltauq.cli.folders import use_data
from deltauq.data.files import cache_dir, data_dir
from deltauq.data.inventory import DATA_DIRECTORY, Dataset, list_datasets
from deltauq.utils.progress import progress_bar

GENUINE, ABSENT, CORRUPT, UNCHECKED = "genuine", "absent", "corrupt", "not checked"


@dataclass(frozen=True)
class Finding:
    """What a check says of one data set."""

    data: Dataset
    verdict: str
    reason: str = ""


def register(app: Any) -> None:
    """Add the commands to the app."""
    import typer

    group = typer.Typer(add_completion=False)
    Data = Annotated[Path | None, typer.Option(help="The folder of data sets; DELTAUQ_DATA by default.")]
    Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

    @group.callback(invoke_without_command=True)
    def explain(context: typer.Context) -> None:
        """Say where data sets are, and whether they are genuine."""
        if context.invoked_subcommand is None:
            print(context.get_help())

    @group.command("list")
    def list_(data: Data = None, as_json: Json = False) -> None:
        """Say where each data set was found, or where it comes from."""
        use_data(data)
        show_list(list_datasets(), as_json)

    @group.command()
    def check(data: Data = None, as_json: Json = False) -> None:
        """Compare what is here with its checksums; exit code 2 if anything is corrupt."""
        use_data(data)
        show_check(list_datasets(), as_json)

    app.add_typer(group, name="data")


def show_list(sets: Sequence[Dataset], as_json: bool) -> None:
    """Print the data sets, as a table or as JSON."""
    if as_json:
        print(json.dumps([_plain(data) for data in sets]))
        return
    rows = [(data.name, _size(data), _place(data), _where(data)) for data in sets]
    _print_table(("data set", "size", "location", "file or server"), rows)
    print(f"Data directory: {data_dir() or 'none; --data or DELTAUQ_DATA names one'}")
    print(f"Cache: {cache_dir()}")


def show_check(sets: Sequence[Dataset], as_json: bool) -> None:
    """Check every data set and print the verdicts, as a table or as JSON; complain about corrupt ones."""
    findings = _check_all(sets)
    if as_json:
        plain = [
            {**_plain(finding.data), "verdict": finding.verdict, "reason": finding.reason}
            for finding in findings
        ]
        print(json.dumps(plain))
    else:
        rows = [
            (
                finding.data.name,
                _size(finding.data),
                f"{finding.verdict}: {finding.reason}" if finding.reason else finding.verdict,
            )
            for finding in findings
        ]
        _print_table(("data set", "size", "verdict"), rows)
    if corrupt := [finding.data.name for finding in findings if finding.verdict == CORRUPT]:
        raise BadInput(f"{len(corrupt)} of {len(sets)} data sets are corrupt: {', '.join(corrupt)}")


def _check_all(sets: Sequence[Dataset]) -> list[Finding]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn

    columns = (BarColumn(), DownloadColumn(), TextColumn("{task.description}"))
    findings = []
    with progress_bar(*columns) as progress:
        task = progress.add_task("", total=sum(data.size for data in sets))
        for data in sets:
            progress.update(task, description=data.name)
            findings.append(_check(data))
            progress.update(task, advance=data.size)
    return findings


def _check(data: Dataset) -> Finding:
    if not data.files:
        return Finding(data, ABSENT)
    try:
        data.check()
    except ImportError as error:
        return Finding(data, UNCHECKED, str(error))
    except Exception as error:  # a damaged file makes its reader fail in any way it likes
        return Finding(data, CORRUPT, str(error) or type(error).__name__)
    return Finding(data, GENUINE)


def _plain(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "kind": data.kind,
        "location": data.location,
        "files": [str(path) for path in data.files],
        "bytes": data.size,
        "sources": list(data.sources),
    }


def _place(data: Dataset) -> str:
    return data.location or ("not here: download" if data.downloads else "not here: by hand")


def _where(data: Dataset) -> str:
    """Return the file, or the folder of several, below its place; what is not here, its server."""
    if not data.files:
        return urlsplit(data.sources[0]).netloc
    path = data.files[0] if len(data.files) == 1 else data.files[0].parent
    root = data_dir() if data.location == DATA_DIRECTORY else cache_dir()
    return str(path.relative_to(root)) if root is not None and path.is_relative_to(root) else str(path)


def _size(data: Dataset) -> str:
    if not data.files:
        return ""
    megabytes = data.size / 1e6
    return f"{megabytes:.1f} MB" if megabytes >= 0.1 else f"{data.size / 1e3:.1f} kB"


def _print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number == 1 else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
