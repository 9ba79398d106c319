"""`deltauq reproduce`."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deltauq.cli.backend import Backend, backend_options, chosen_run
from deltauq.cli.complaints import BadInput, complaint_about, what_to_install
from deltauq.cli.folders import use_data
from deltauq.data import CorruptFileError, DataUnavailableError
from deltauq.utils.progress import progress_bar
from experiments import Experiment, ResultStore, get_experiment, run_experiment
from experiments.report_command import Profile, check_names
from experiments.runner import chosen, words_of
from experiments.summary import take_account

if TYPE_CHECKING:
    from deltauq.distributed.running import Run


def register(app: Any) -> None:
    """Add the command to the app."""
    import typer

    where, at = backend_options()

    @app.command()
    def reproduce(
        name: Annotated[str, typer.Argument(help="An experiment, such as table1.")],
        profile: Annotated[
            Profile, typer.Option(help="A small version in minutes, or the paper's.")
        ] = Profile.quick,
        jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
        only: Annotated[
            list[str] | None,
            typer.Option(
                metavar="WORD=VALUE",
                help="Run only cells with this value, such as method=plain; may be given again.",
            ),
        ] = None,
        out: Annotated[Path, typer.Option(help="The folder of the result lines.")] = Path("results"),
        data: Annotated[Path | None, typer.Option(help="The folder of data sets.")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
        backend: Annotated[Backend, where] = Backend.local,
        address: Annotated[str | None, at] = None,
    ) -> None:
        """Compute what is missing of a table or figure, and show it beside the paper's."""
        check_names([name])
        use_data(data)
        run = chosen_run(backend, address, jobs)
        run_reproduce(get_experiment(name), profile.value, jobs, out, run, only or [], as_json)


def run_reproduce(
    experiment: Experiment,
    profile: str,
    jobs: int,
    out: Path,
    run: "Run | None" = None,
    only: Sequence[str] = (),
    as_json: bool = False,
) -> None:
    """Run the cells that have no valid line yet, then print the experiment's tables.

    Parameters
    ----------
    experiment : Experiment
    profile : {"quick", "paper"}
    jobs : int
        Processes.
    out : Path
        The folder of the result lines.
    run : callable, optional
        Where cells are run, instead of by processes of this machine.
    only : sequence of str
        Words of the cells to run, such as "method=plain"; all cells by default.
    as_json : bool
        Print JSON for machines instead of tables.
    """
    from rich.console import Console

    from deltauq.distributed import ClusterError
    from experiments.showing import show

    store = ResultStore(out / f"{experiment.name}.jsonl")
    try:
        words = words_of(only)
        wanted = chosen(experiment.cells(profile), words)
    except ValueError as error:
        raise BadInput(f"--only: {error}") from error
    try:
        with complaint_about(out):
            out.mkdir(parents=True, exist_ok=True)
        pending = experiment.pending(store, profile)
        with _progress(len(wanted), sum(cell not in pending for cell in wanted)) as progress:
            for line in run_experiment(experiment, store, profile, jobs, words, run):
                progress(" ".join(str(value) for value in line.cell.values()))
    except ImportError as error:
        raise BadInput(what_to_install(error) or str(error)) from error
    except (DataUnavailableError, CorruptFileError, ClusterError, OSError) as error:
        raise BadInput(str(error)) from error
    except KeyboardInterrupt:
        total = len(experiment.cells(profile))
        done = total - len(experiment.pending(store, profile))
        print(
            f"deltauq: interrupted; {done} of {total} cells are kept in {store.path}, "
            "and the same command goes on from there",
            file=sys.stderr,
        )
        raise
    account = take_account(experiment, store, profile)
    if as_json:
        told = {"experiments": [account.as_json()], "file": str(store.path.resolve())}
        print(json.dumps(told, allow_nan=False))
        return
    show(account, Console())
    print(f"Lines: {store.path.resolve()}")


@contextmanager
def _progress(total: int, done: int) -> Iterator[Any]:
    """Show a progress bar on stderr, and yield the function that moves it after each cell."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    # The estimate looks far back: cells differ much in how long they take.
    with progress_bar(*columns, speed_estimate_period=600) as progress:
        task = progress.add_task("", total=total, completed=done)
        yield lambda cell: progress.update(task, advance=1, description=cell)
