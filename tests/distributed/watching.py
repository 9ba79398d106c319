"""Keeps an eye on tasks: which ran where, how often, and which are running now."""

import os
import signal
import time
from pathlib import Path


def watched(work, log, seconds=0.0):
    """Return work that notes each try in a folder, waits until two workers have begun, and then some more.

    It is made of functions within a function, which travel to workers by value: they cannot import tests.
    """
    import os
    import time
    from pathlib import Path

    def perform(task):
        import ray

        note = Path(log) / f"{getattr(task, 'name', None) or task['seed']}~{os.getpid()}"
        note.write_text(ray.get_runtime_context().get_node_id())
        deadline = time.monotonic() + 60
        while len({path.name.split("~")[1] for path in Path(log).iterdir()}) < 2:
            assert time.monotonic() < deadline, "there is no second worker"
            time.sleep(0.05)
        time.sleep(seconds)
        result = work(task)
        note.with_name(f"{note.name}~done").touch()
        return result

    return perform


def tries(log):
    """Return the tries of each task, as process ids."""
    found = {}
    for path in sorted(Path(log).iterdir()):
        task, pid, *done = path.name.split("~")
        if not done:
            found.setdefault(task, []).append(int(pid))
    return found


def one_at_work(log, node=None):
    """Return the name and the process id of a task that has begun and not ended, possibly on this node."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for task, pids in tries(log).items():
            for note in (Path(log) / f"{task}~{pid}" for pid in pids):
                if not note.with_name(f"{note.name}~done").exists() and node in (None, note.read_text()):
                    return task, int(note.name.split("~")[1])
        time.sleep(0.02)
    raise AssertionError("no task was running")


def freeze_one_at_work(log, node=None):
    """Stop the worker of a task in the middle of it, and return the task's name and the process id."""
    while True:
        task, pid = one_at_work(log, node)
        os.kill(pid, signal.SIGSTOP)
        if not (Path(log) / f"{task}~{pid}~done").exists():
            return task, pid
        os.kill(pid, signal.SIGCONT)


def kill_one_at_work(log):
    """Kill the worker of a task that has begun and not ended, and return the task's name."""
    task, pid = freeze_one_at_work(log)
    os.kill(pid, signal.SIGKILL)
    return task
