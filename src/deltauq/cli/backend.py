"""Options that say where work is done."""

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from deltauq.cli.complaints import BadInput

if TYPE_CHECKING:
    from deltauq.distributed.running import Run


class Backend(StrEnum):
    """By this process, or by Ray."""

    local = "local"
    ray = "ray"


def backend_options() -> tuple[Any, Any]:
    """Return the options `--backend` and `--address`, for commands that have both."""
    import typer

    return (
        typer.Option(help="Where the work is done: by this process, or by Ray (the extra ray)."),
        typer.Option(help="Of a Ray cluster, or auto for the one that runs here; else one is started."),
    )


def chosen_run(backend: Backend, address: str | None, n_jobs: int | None = None) -> "Run | None":
    """Return what runs tasks on Ray, or None where Ray is not asked for.

    Parameters
    ----------
    backend : Backend
    address : str or None
        Of a cluster; without one, Ray is started on this machine.
    n_jobs : int, optional
        Cores that a Ray on this machine may use; all by default.
    """
    if backend is Backend.local:
        if address is not None:
            raise BadInput("--address is that of a Ray cluster: give --backend ray as well")
        return None
    from deltauq.distributed.running import LOCAL, require_ray, run_on_ray

    try:
        require_ray()
    except ImportError as error:
        raise BadInput(str(error)) from error
    return partial(run_on_ray, address=address or LOCAL, n_jobs=n_jobs)
