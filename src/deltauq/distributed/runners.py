"""Runs tasks in this process or on Ray, which retries those whose worker or node dies."""

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

from deltauq.utils.formatting import first_line
from deltauq.utils.install import import_optional

Task = TypeVar("Task")
Result = TypeVar("Result")
RunTasks = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[tuple[Any, Any]]]
"""``run(work, tasks)`` yields each task with ``work(task)``, in any order."""

LOCAL = "local"
RETRIES = 3
"""How often a task is retried after its worker has died; exceptions of the task are not retried."""
MAX_SUBMITTED = 1_000
"""Tasks submitted to Ray at a time: enough to fill a cluster, however many there are."""
IMPORT_FAILED = "failed to import on the worker"
"""Ray's message if a worker cannot unpickle a function because a package is missing."""
STORE_BYTES = 256 * 2**20
"""Shared memory of a local Ray; larger objects are spilled to disk."""


class ClusterError(RuntimeError):
    """Ray cannot be reached, or has given up on a task."""


def run_locally(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
    """Run tasks one after another in this process, and yield each task with its result.

    Parameters
    ----------
    work : callable
        Returns the result of a task.
    tasks : iterable
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
    """Run tasks on a Ray cluster, one core each, and yield each task with its result as it ends.

    A task whose worker or node dies is retried on another one. An exception of the task itself is raised
    here, and the other tasks are cancelled.

    Parameters
    ----------
    work : callable
        Returns the result of a task. It is sent to each worker process once, so that what it loads for its
        first task is reused for the next.
    tasks : iterable
        Small objects, each sent separately.
    address : str, default="local"
        Address of a cluster; "auto": the one running on this machine; "local": one started for these tasks.
        A program that is already connected to a cluster uses that one.
    n_jobs : int, optional
        Number of cores of a local cluster; all by default.
    """
    ray = require_ray()
    with _connected(ray, address, n_jobs):
        work_reference = [ray.put(work)]  # in a list, so that it is not fetched for every task
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": RETRIES, "retry_exceptions": False}
        if variables := {name: value for name, value in os.environ.items() if name.startswith("DELTAUQ_")}:
            options["runtime_env"] = {"env_vars": variables}
        remote = ray.remote(_run_task).options(**options)
        waiting = iter(tasks)
        running = {remote.remote(work_reference, task): task for task in islice(waiting, MAX_SUBMITTED)}
        try:
            while running:
                (reference, *_), _ = ray.wait(list(running))
                task = running.pop(reference)
                running.update({remote.remote(work_reference, more): more for more in islice(waiting, 1)})
                yield task, get_result(ray, reference, task)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def require_ray() -> ModuleType:
    """Return ray, or raise an error that says what to install."""
    # No usage statistics unless the user has enabled them.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Tasks that request no GPU see those of the machine, as without Ray.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    return import_optional("ray", "the backend ray needs Ray", "ray")


def get_result(ray: ModuleType, reference: Any, task: Any) -> Any:
    """Return the result of a task, or raise its exception."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        missing = isinstance(cause, (ModuleNotFoundError, ray.exceptions.RaySystemError))
        if not missing and IMPORT_FAILED not in str(cause):
            raise cause from error
        package = re.search(r"No module named '[^']+'", str(cause))
        raise ClusterError(
            f"A worker of Ray cannot run {task} ({package[0] if package else first_line(cause)}): every "
            "machine needs the same version of deltauq, and all other packages that are imported here."
        ) from error
    except ray.exceptions.RayError as error:
        raise ClusterError(f"Ray gave up on {task} after {RETRIES} retries: {first_line(error)}.") from error


@contextmanager
def _connected(ray: ModuleType, address: str, n_jobs: int | None) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        options |= {"num_cpus": n_jobs, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    try:
        host, _, port = address.rpartition(":")
        if host and port.isdigit() and "/" not in host:
            # Ray itself would retry for minutes if an address does not answer.
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address, **options)
    except Exception as error:  # Ray raises a plain Exception if a node is late
        failed = "started" if address == LOCAL else f"reached at {address!r}"
        raise ClusterError(f"Ray cannot be {failed}: {first_line(error)}.") from error
    try:
        yield
    finally:
        ray.shutdown()


def _run_task(work_reference: list[Any], task: Any) -> Any:
    """Run one task in a worker."""
    return _fetch(work_reference[0])(task)


@lru_cache(maxsize=1)
def _fetch(reference: Any) -> Any:
    return require_ray().get(reference)
