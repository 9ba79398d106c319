"""`show_versions`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re


def show_versions() -> None:
    """Print the versions of deltauq, its dependencies and Python, for a bug report.

    Optional dependencies that are not installed are left out.

    Examples
    --------
    >>> import deltauq
    >>> deltauq.show_versions()  # doctest: +ELLIPSIS
    Python ...
    """
    print(f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores")
    requirements = importlib.metadata.requires("deltauq") or []
    names = {re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements} - {"deltauq"}
    for name in ["deltauq", *sorted(names)]:
        try:
            print(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
