"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of the target, and move it to the target if the block succeeds.

    Parameters
    ----------
    target : Path
        The file to create or replace. Missing parent folders are created.

    Yields
    ------
    part : Path
        The temporary path to write to. It is removed if the block fails.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(descriptor)
    part = Path(name)
    try:
        yield part
        set_default_permissions(part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def set_default_permissions(path: Path) -> None:
    """Give a temporary file or folder, private to its owner, the permissions of any new one."""
    umask = os.umask(0)  # the only way to read the umask is to set it
    os.umask(umask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
