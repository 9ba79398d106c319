"""`deltauq report`."""

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from deltauq.cli.complaints import BadInput, check_writable, complaint_about
from deltauq.utils.progress import counting_bar
from experiments import NAMES, ResultStore, get_experiment
from experiments.summary import Account, take_account


class Profile(StrEnum):
    """Which cells an experiment has."""

    quick = "quick"
    paper = "paper"


class Format(StrEnum):
    """What tables are printed in."""

    terminal = "terminal"
    markdown = "markdown"
    latex = "latex"


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    @app.command()
    def report(
        names: Annotated[
            list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments; all by default.")
        ] = None,
        results: Annotated[
            Path, typer.Option(help="The folder of the result lines, as `deltauq reproduce` writes it.")
        ] = Path("results"),
        profile: Annotated[
            Profile | None, typer.Option(help="By default paper where it has lines, otherwise quick.")
        ] = None,
        format: Annotated[Format, typer.Option(help="What tables are printed in.")] = Format.terminal,
        html: Annotated[Path | None, typer.Option(help="Write one HTML page instead of printing.")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON.")] = False,
    ) -> None:
        """Show results beside the paper's, made from the lines that `deltauq reproduce` writes."""
        run_report(names or [], results, profile and profile.value, format.value, html, as_json)


def run_report(
    names: Sequence[str],
    results: Path,
    profile: str | None,
    format: str,
    html: Path | None,
    as_json: bool,
) -> None:
    """Read result lines and show them.

    Parameters
    ----------
    names : sequence of str
        Experiments; all that have valid lines when empty.
    results : Path
        The folder of the result lines.
    profile : {"quick", "paper"} or None
        None: paper where it has lines, otherwise quick.
    format : {"terminal", "markdown", "latex"}
    html : Path or None
        A page to write instead.
    as_json : bool
        Print JSON for machines instead of tables.
    """
    check_names(names)
    if html is not None:
        check_writable(html)
        import_module("plotly")
    accounts = read_accounts(names, results, profile)
    if html is not None:
        _write_page(accounts, html)
    if as_json:
        page = {} if html is None else {"page": str(html.resolve())}
        summaries = [account.as_json() for account in accounts]
        about = {"results": str(results.resolve()), "experiments": summaries, **page}
        print(json.dumps(about, allow_nan=False))
    elif html is not None:
        print(f"Page: {html.resolve()}")
    else:
        _print(accounts, format, results)


def check_names(names: Sequence[str]) -> None:
    """Refuse names that are no experiment's."""
    for name in names:
        if name not in NAMES:
            raise BadInput(f"there is no experiment {name!r}; there are {', '.join(NAMES)}")


def read_accounts(names: Sequence[str], results: Path, profile: str | None) -> list[Account]:
    """Return what the folder holds of the experiments, those without any valid line left out."""
    if not results.is_dir():
        raise BadInput(
            f"there are no results in {results.resolve()}, which is not a folder: name one by --results, "
            "such as that of deltauq's sources, or write one by deltauq reproduce NAME"
        )
    accounts = []
    with counting_bar("experiments read") as progress:
        for name in names or NAMES:
            accounts.append(_account(name, results, profile))
            progress(len(accounts), len(names or NAMES))
    valid = [account for account in accounts if account.lines]
    if empty := [account for account in accounts if not account.lines and (names or not valid)]:
        stale = sum(account.stale for account in empty)
        ignored = f" ({stale} stale ones ignored)" if stale else ""
        what = ", ".join(account.experiment.name for account in empty) if names else "any experiment"
        raise BadInput(f"{results} has no valid lines of {what}{ignored}: run deltauq reproduce NAME")
    return valid


def _account(name: str, results: Path, profile: str | None) -> Account:
    experiment = get_experiment(name)
    store = ResultStore(results / f"{name}.jsonl")
    try:
        account = take_account(experiment, store, profile or "paper")
        return account if profile or account.lines else take_account(experiment, store, "quick")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {store.path}: {error}") from error


def _write_page(accounts: Sequence[Account], html: Path) -> None:
    from experiments.page import render_results

    text = render_results(accounts)
    with complaint_about(html):
        html.write_text(text, encoding="utf-8")


def _print(accounts: Sequence[Account], format: str, results: Path) -> None:
    from rich.console import Console

    from experiments import showing

    if format == "terminal":
        print(f"Results: {results.resolve()}\n")
        for account in accounts:
            showing.show(account, Console())
        return
    render: Callable[[Account], str] = showing.as_markdown if format == "markdown" else showing.as_latex
    print("\n\n".join(render(account) for account in accounts))
