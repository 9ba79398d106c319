"""`deltauq data list` and `deltauq data check`."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from deltauq.cli import options
from deltauq.cli.output import print_table
from deltauq.data.files import cache_dir, data_dir
from deltauq.data.inventory import DATA_DIRECTORY, Dataset, list_datasets
from deltauq.plots.page import Table
from deltauq.utils.errors import InputError
from deltauq.utils.progress import progress_bar

INTACT, MISSING, CORRUPT, NOT_CHECKED = "intact", "missing", "corrupt", "not checked"

Folder = Annotated[Path | None, typer.Option("--data", help="Folder of datasets; by default DELTAUQ_DATA.")]

app = options.new_app()


@app.callback(invoke_without_command=True)
def data(context: typer.Context) -> None:
    """List the known datasets, and check their files."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_(folder: Folder = None, as_json: options.Json = False) -> None:
    """List the known datasets, with their files or their source."""
    _use(folder)
    datasets = list_datasets()
    if as_json:
        print(json.dumps([_to_dict(dataset) for dataset in datasets]))
        return
    rows = [(dataset.name, _size(dataset), _location(dataset), _file(dataset)) for dataset in datasets]
    print_table(Table(("dataset", "size", "location", "file or server"), rows))
    print(f"Data directory: {data_dir() or 'none; set it by --data or DELTAUQ_DATA'}")
    print(f"Cache: {cache_dir()}")


@app.command()
def check(folder: Folder = None, as_json: options.Json = False) -> None:
    """Compare the files of the datasets with their checksums; exit code 2 if any is corrupt."""
    _use(folder)
    datasets = list_datasets()
    results = _check_all(datasets)
    if as_json:
        numbers = [
            {**_to_dict(dataset), "status": status, "reason": reason}
            for dataset, (status, reason) in zip(datasets, results, strict=True)
        ]
        print(json.dumps(numbers))
    else:
        rows = [
            (dataset.name, _size(dataset), f"{status}: {reason}" if reason else status)
            for dataset, (status, reason) in zip(datasets, results, strict=True)
        ]
        print_table(Table(("dataset", "size", "status"), rows))
    corrupt = [d.name for d, (status, _) in zip(datasets, results, strict=True) if status == CORRUPT]
    if corrupt:
        raise InputError(f"{len(corrupt)} of {len(datasets)} datasets are corrupt: {', '.join(corrupt)}")


def _use(folder: Path | None) -> None:
    if folder is not None:
        if not folder.is_dir():
            raise InputError(f"cannot read data: {folder} is not a folder")
        os.environ["DELTAUQ_DATA"] = str(folder.absolute())


def _check_all(datasets: Sequence[Dataset]) -> list[tuple[str, str]]:
    """Return the status of each dataset and, if it is not intact, the reason."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn

    columns = (BarColumn(), DownloadColumn(), TextColumn("{task.description}"))
    results = []
    with progress_bar(*columns) as progress:
        task = progress.add_task("", total=sum(dataset.size for dataset in datasets))
        for dataset in datasets:
            progress.update(task, description=dataset.name)
            results.append(_check(dataset))
            progress.update(task, advance=dataset.size)
    return results


def _check(dataset: Dataset) -> tuple[str, str]:
    if not dataset.files:
        return MISSING, ""
    try:
        dataset.check()
    except ImportError as error:
        return NOT_CHECKED, str(error)
    except Exception as error:  # a damaged file can raise any error in its reader
        return CORRUPT, str(error) or type(error).__name__
    return INTACT, ""


def _to_dict(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "kind": dataset.kind,
        "location": dataset.location,
        "files": [str(path) for path in dataset.files],
        "bytes": dataset.size,
        "sources": list(dataset.sources),
    }


def _location(dataset: Dataset) -> str:
    source = "download" if dataset.downloads else "manual"
    return dataset.location or f"missing: {source}"


def _file(dataset: Dataset) -> str:
    """Return the path of the file, or of the folder of several; for a missing dataset its server."""
    if not dataset.files:
        return urlsplit(dataset.sources[0]).netloc
    path = dataset.files[0] if len(dataset.files) == 1 else dataset.files[0].parent
    root = data_dir() if dataset.location == DATA_DIRECTORY else cache_dir()
    return str(path.relative_to(root)) if root is not None and path.is_relative_to(root) else str(path)


def _size(dataset: Dataset) -> str:
    if not dataset.files:
        return ""
    megabytes = dataset.size / 1e6
    return f"{megabytes:.1f} MB" if megabytes >= 0.1 else f"{dataset.size / 1e3:.1f} kB"
