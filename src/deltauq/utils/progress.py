"""Progress bars on stderr: removed when done, and shown only in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Tick = Callable[[int, int | None], None]
"""Called with the number of steps done and, if known, the number of all steps."""


def progress_bar(*columns: Any, **options: Any) -> Any:
    """Return a rich progress bar with these columns."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal, **options)


@contextmanager
def counting_bar(unit: str) -> Iterator[Tick]:
    """Show a bar that counts steps of this unit, and yield the function that updates it.

    Without rich, a plain count is shown instead.
    """
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    except ModuleNotFoundError:
        yield _plain_count(unit) if sys.stderr.isatty() else lambda done, total: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn())
    with progress_bar(*columns) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _plain_count(unit: str) -> Tick:
    def tick(done: int, total: int | None) -> None:
        end = "\n" if done == total else ""
        print(f"\r{done} of {total or '?'} {unit}", end=end, file=sys.stderr, flush=True)

    return tick
