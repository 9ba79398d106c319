"""Rights of files and folders that were made under a temporary name."""

from __future__ import annotations

import os
from pathlib import Path


def give_usual_rights(path: Path) -> None:
    """Give a file or folder, which was its owner's alone, the rights of any new one."""
    # The mask cannot be asked for without being set.
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
