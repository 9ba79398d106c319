"""`python -m experiments NAME`: runs an experiment without the command-line extras."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deltauq.data import CorruptFileError, DataUnavailableError
from experiments import NAMES, PROFILES, ResultStore, get_experiment, run_experiment
from experiments.results import ResultLine
from experiments.runner import chosen, words_of


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing of an experiment, saying each cell as it ends; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m experiments")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    parser.add_argument("--jobs", type=_jobs, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the result lines")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORD=VALUE",
        help="run only cells with this value, such as method=plain; may be given again",
    )
    options = parser.parse_args(arguments)
    experiment = get_experiment(options.name)
    try:
        only = words_of(options.only)
        chosen(experiment.cells(options.profile), only)
    except ValueError as error:
        parser.error(str(error))
    store = ResultStore(options.out / f"{experiment.name}.jsonl")
    total = len(experiment.cells(options.profile))
    done = total - len(experiment.pending(store, options.profile))
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for line in run_experiment(experiment, store, options.profile, options.jobs, only):
            done += 1
            print(f"[{done}/{total}] {_summary(line)}", flush=True)
    except (DataUnavailableError, CorruptFileError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # A line may have been written that was not counted any more.
        kept = total - len(experiment.pending(store, options.profile))
        print(f"interrupted; {kept} of {total} cells are kept in {store.path}", file=sys.stderr)
        return 130
    print(f"{done} of {total} cells are in {store.path}")
    return 0


def _jobs(text: str) -> int:
    jobs = int(text)
    if jobs < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return jobs


def _summary(line: ResultLine) -> str:
    cell = " ".join(str(value) for value in line.cell.values())
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in line.metrics.items())
    return f"{cell}: {metrics} ({line.seconds:.1f} s)"


if __name__ == "__main__":
    sys.exit(main())
