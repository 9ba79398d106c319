"""Options that name folders."""

import os
from pathlib import Path

from deltauq.cli.complaints import BadInput


def use_data(folder: Path | None) -> None:
    """Let data sets be looked for in a folder, as `DELTAUQ_DATA` does; None leaves that as it is."""
    if folder is None:
        return
    if not folder.is_dir():
        raise BadInput(f"cannot read data: {folder} is not a folder")
    os.environ["DELTAUQ_DATA"] = str(folder)
