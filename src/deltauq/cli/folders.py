"""Options that name folders."""

import os
from pathlib import Path

from deltauq.cli.complaints import BadInput
from deltauq.data.files import data_dir


def use_data(folder: Path | None) -> None:
    """Let data sets be looked for in a folder, or in that of `DELTAUQ_DATA`, also by other processes."""
    if folder is not None and not folder.is_dir():
        raise BadInput(f"cannot read data: {folder} is not a folder")
    folder = folder or data_dir()
    if folder is not None:
        os.environ["DELTAUQ_DATA"] = str(folder.absolute())
