"""`python -m experiments NAME` runs an experiment; `python -m experiments report` shows the results."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from pathlib import Path

from deltauq.data import CorruptFileError, DataUnavailableError
from deltauq.distributed import ClusterError
from deltauq.utils import InputError, counting_bar
from experiments import NAMES, PROFILES, ResultStore, get_experiment, run_experiment
from experiments.report import load_all, print_report, render_results
from experiments.runner import select_cells
from experiments.store import ResultLine
from experiments.summary import load_results


def main(arguments: list[str] | None = None) -> int:
    """Run an experiment or report results; return an exit code."""
    options = _parser().parse_args(arguments)
    try:
        _report(options) if options.name == "report" else _run(options)
    except ImportError as error:
        hint = f": pip install {error.name}" if error.name else ""
        print(f"experiments: error: {error}{hint}", file=sys.stderr)
    except (InputError, DataUnavailableError, CorruptFileError, ClusterError, OSError) as error:
        print(f"experiments: error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    else:
        return 0
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Run an experiment, or show the results of all.",
        epilog="\n  ".join(("experiments:", *NAMES)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(
        dest="name", metavar="NAME", required=True, help="an experiment or report"
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--results", type=Path, default=Path("results"), help="folder of the result lines")
    for name in NAMES:
        run = commands.add_parser(name, parents=[shared], description="Run the cells without a result line.")
        run.add_argument(
            "--profile", choices=PROFILES, default="quick", help="a small version, or the paper's"
        )
        run.add_argument("--jobs", type=_positive, default=1, metavar="N", help="number of processes")
        run.add_argument(
            "--only",
            type=_key_and_value,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="run only cells with this value, such as method=plain; may be repeated",
        )
        run.add_argument("--backend", choices=("local", "ray"), default="local", help="where cells run")
        run.add_argument("--address", help="address of a Ray cluster; by default one is started")
    report = commands.add_parser(
        "report", parents=[shared], description="Show tables made from result lines."
    )
    report.add_argument("names", nargs="*", metavar="NAME", help="experiments; all by default")
    report.add_argument(
        "--profile", choices=PROFILES, help="by default paper if it has lines, otherwise quick"
    )
    report.add_argument("--format", choices=("terminal", "markdown", "latex"), default="terminal")
    report.add_argument("--html", type=Path, metavar="FILE", help="write one HTML page instead of printing")
    report.add_argument("--json", action="store_true", help="print the summaries as JSON")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def _run(options: argparse.Namespace) -> None:
    """Run the cells that have no valid line yet, then print the experiment's tables."""
    experiment = get_experiment(options.name)
    store = ResultStore(options.results / f"{experiment.stored_name}.jsonl")
    only = dict(options.only)
    selected = select_cells(experiment.cells(options.profile), only)
    options.results.mkdir(parents=True, exist_ok=True)
    pending = experiment.pending(store, options.profile)
    done = sum(cell not in pending for cell in selected)
    run_tasks = None
    if options.backend == "ray":
        from deltauq.distributed import run_on_ray

        run_tasks = partial(run_on_ray, address=options.address or "local", n_jobs=options.jobs)
    elif options.address:
        raise InputError("--address is the address of a Ray cluster: add --backend ray")
    if folder := os.environ.get("DELTAUQ_DATA"):
        os.environ["DELTAUQ_DATA"] = str(Path(folder).absolute())  # workers may run in another folder
    try:
        with counting_bar("cells") as progress:
            progress(done, len(selected))
            for line in run_experiment(experiment, store, options.profile, options.jobs, only, run_tasks):
                done += 1
                progress(done, len(selected))
                if not sys.stderr.isatty():
                    print(f"[{done}/{len(selected)}] {_describe(line)}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        total = len(experiment.cells(options.profile))
        completed = total - len(experiment.pending(store, options.profile))
        print(
            f"interrupted; {completed} of {total} cells are in {store.path}; run it again to continue",
            file=sys.stderr,
        )
        raise
    print_report(load_results(experiment, store, options.profile), "terminal")
    print(f"Lines: {store.path.resolve()}")


def _describe(line: ResultLine) -> str:
    cell = " ".join(str(value) for value in line.cell.values())
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in line.metrics.items())
    return f"{cell}: {metrics} ({line.seconds:.1f} s)"


def _report(options: argparse.Namespace) -> None:
    """Load result lines and show them."""
    if unknown := [name for name in options.names if name not in NAMES]:
        raise InputError(f"there is no experiment {unknown[0]!r}; there are {', '.join(NAMES)}")
    loaded = load_all(options.names, options.results, options.profile)
    if options.html is not None:
        options.html.write_text(render_results(loaded), encoding="utf-8")
    if options.json:
        page = {} if options.html is None else {"page": str(options.html.resolve())}
        summaries = [results.as_json() for results in loaded]
        about = {"results": str(options.results.resolve()), "experiments": summaries, **page}
        print(json.dumps(about, allow_nan=False))
    elif options.html is not None:
        print(f"Page: {options.html.resolve()}")
    else:
        for results in loaded:
            print_report(results, options.format)


if __name__ == "__main__":
    sys.exit(main())
