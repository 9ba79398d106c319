"""Progress bars: on stderr, gone when done, and silent where nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def progress_bar(*columns: Any, **options: Any) -> Any:
    """Return a rich progress bar with these columns."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal, **options)


@contextmanager
def counting_bar(things: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show how many things are done, and yield the function to tell: of how many, where that is known."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(things), TimeElapsedColumn())
    with progress_bar(*columns) as progress:
        bar = progress.add_task("", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
