"""Records tasks: which ran where, how often, and which are running now."""

import os
import signal
import time
from pathlib import Path


def recorded(work, log, seconds=0.0):
    """Return work that records each attempt in a folder and waits until two workers have begun.

    Functions within a function are pickled by value: workers cannot import tests.
    """
    import os
    import time
    from pathlib import Path

    def perform(task):
        import ray

        record = Path(log) / f"{getattr(task, 'name', None) or task['seed']}~{os.getpid()}"
        record.write_text(ray.get_runtime_context().get_node_id())
        deadline = time.monotonic() + 60
        while len({path.name.split("~")[1] for path in Path(log).iterdir()}) < 2:
            assert time.monotonic() < deadline, "there is no second worker"
            time.sleep(0.05)
        time.sleep(seconds)
        result = work(task)
        record.with_name(f"{record.name}~done").touch()
        return result

    return perform


def attempts(log):
    """Return the attempts of each task, as process ids."""
    result = {}
    for path in sorted(Path(log).iterdir()):
        task, pid, *done = path.name.split("~")
        if not done:
            result.setdefault(task, []).append(int(pid))
    return result


def running_task(log, node=None):
    """Return the name and the process id of a task that has begun and not ended, possibly on this node."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for task, pids in attempts(log).items():
            for record in (Path(log) / f"{task}~{pid}" for pid in pids):
                if not record.with_name(f"{record.name}~done").exists() and node in (
                    None,
                    record.read_text(),
                ):
                    return task, int(record.name.split("~")[1])
        time.sleep(0.02)
    raise AssertionError("no task was running")


def stop_running_task(log, node=None):
    """Stop the worker of a task in the middle of it, and return the task's name and the process id."""
    while True:
        task, pid = running_task(log, node)
        os.kill(pid, signal.SIGSTOP)
        if not (Path(log) / f"{task}~{pid}~done").exists():
            return task, pid
        os.kill(pid, signal.SIGCONT)


def kill_running_task(log):
    """Kill the worker of a task that has begun and not ended, and return the task's name."""
    task, pid = stop_running_task(log)
    os.kill(pid, signal.SIGKILL)
    return task
