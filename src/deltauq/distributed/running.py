"""Where tasks are run: in this process, or on Ray, which retries those whose worker or node dies."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from types import ModuleType
from typing import Any, TypeVar

from deltauq.utils.install import install_command

Task = TypeVar("Task")
Result = TypeVar("Result")
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[tuple[Any, Any]]]
"""``run(work, tasks)`` yields each task with ``work(task)``, in any order."""

LOCAL = "local"
RETRIES = 3
"""How often a task is given to another worker after its own has died; its own exceptions are not retried."""
IN_FLIGHT = 1_000
"""The most tasks that Ray is asked for at a time: enough for it to fill a cluster, however many there are."""
UNSENT = "failed to import on the worker"
"""What Ray says of a function that a worker cannot unpack, for want of a package."""
STORE_BYTES = 256 * 2**20
"""Shared memory of a Ray of our own; what does not fit, such as a larger model, goes to the disk."""


class ClusterError(RuntimeError):
    """Ray cannot be reached, or has given a task up."""


def run_here(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
    """Do the tasks one after another, in this process.

    Parameters
    ----------
    work : callable
    tasks : iterable

    Yields
    ------
    task, result
    """
    for task in tasks:
        yield task, work(task)


def run_on_ray(
    work: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    address: str = LOCAL,
    n_jobs: int | None = None,
) -> Iterator[tuple[Task, Result]]:
    """Do the tasks on a Ray cluster, one core each, and yield them as they end.

    A task whose worker or node dies is given to another one. An exception of its own would be the same
    again: it is raised here, and the other tasks are cancelled.

    Parameters
    ----------
    work : callable
        Sent to each worker process once, which keeps it from task to task: what it loads at its first call is
        there for the next.
    tasks : iterable
        Small things: each travels by itself.
    address : str, default="local"
        Of a cluster, or "auto" for the one that runs on this machine; "local" starts one for these tasks. A
        program that is connected to a cluster already uses that one.
    n_jobs : int, optional
        Cores of a local one; all by default.

    Yields
    ------
    task, result
    """
    ray = require_ray()
    with _connected(ray, address, n_jobs):
        held = [ray.put(work)]  # in a list, so that it is not fetched for every task
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": RETRIES, "retry_exceptions": False}
        if ours := {name: value for name, value in os.environ.items() if name.startswith("DELTAUQ_")}:
            options["runtime_env"] = {"env_vars": ours}
        perform = ray.remote(_perform).options(**options)
        waiting = iter(tasks)
        running = {perform.remote(held, task): task for task in islice(waiting, IN_FLIGHT)}
        try:
            while running:
                (reference, *_), _ = ray.wait(list(running))
                task = running.pop(reference)
                running.update({perform.remote(held, more): more for more in islice(waiting, 1)})
                yield task, _result(ray, reference, task)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def require_ray() -> ModuleType:
    """Return ray, or say in one line what to install."""
    # Nothing is reported to anyone unless the user has said so.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Tasks that ask Ray for no GPU see those that the machine has, as without Ray.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise ImportError(f"the backend ray needs Ray: {install_command('ray')}.") from error
    return ray


@contextmanager
def _connected(ray: ModuleType, address: str, n_jobs: int | None) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    own: dict[str, Any] = {"num_cpus": n_jobs, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    try:
        _knock(address)
        ray.init(
            address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            **(own if address == LOCAL else {}),
        )
    except Exception as error:  # Ray raises a bare one where a node is late
        tried = "started" if address == LOCAL else f"reached at {address!r}"
        raise ClusterError(f"Ray cannot be {tried}: {_first_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise an OSError where nothing answers at an address: Ray itself goes on asking for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()


def _perform(held: list[Any], task: Any) -> Any:
    """Do one task, in a worker."""
    return _fetched(held[0])(task)


@lru_cache(maxsize=1)
def _fetched(reference: Any) -> Any:
    return require_ray().get(reference)


def _result(ray: ModuleType, reference: Any, task: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, (ModuleNotFoundError, ray.exceptions.RaySystemError)) or UNSENT in str(cause):
            raise ClusterError(
                f"A worker of Ray cannot do {task} ({_reason(cause)}): every machine needs deltauq in the "
                "same version, and whatever else is imported here."
            ) from error
        raise cause from error
    except ray.exceptions.RayError as error:
        raise ClusterError(f"Ray gave {task} up after {RETRIES} retries: {_first_line(error)}") from error


def _reason(cause: Exception) -> str:
    """Return which package is missing, where that is what a worker complains of, or all that it says."""
    missing = re.search(r"No module named '[^']+'", str(cause))
    return missing[0] if missing else _first_line(cause).rstrip(".")


def _first_line(error: Exception) -> str:
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0].rstrip(".") + "."
