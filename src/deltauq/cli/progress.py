"""Progress bars: on stderr, gone when done, and silent where nobody watches."""

from typing import Any


def progress_bar(*columns: Any, **options: Any) -> Any:
    """Return a rich progress bar with these columns."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal, **options)
