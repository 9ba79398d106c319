"""Public names that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def attach(package: str, modules: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that imports its public names on first use.

    Parameters
    ----------
    package : str
        The package's `__name__`.
    modules : dict of str to str
        For each public name, the module that defines it.
    """

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    def __dir__() -> list[str]:
        return sorted({*vars(import_module(package)), *modules})

    return __getattr__, __dir__
