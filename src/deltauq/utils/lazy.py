"""Public names that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(
    package: str, modules: Mapping[str, str], extras: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that imports its public names on first use.

    Parameters
    ----------
    package : str
        The package's `__name__`.
    modules : dict of str to str
        For each public name, the module that defines it.
    extras : dict of str to str, optional
        For names that need an extra, its name: the error for a missing library then shows how to install it.
    """

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(modules[name]), name)
        except ModuleNotFoundError as error:
            if extras is None or name not in extras:
                raise
            from deltauq.utils.install import install_command

            raise ImportError(f"{name} needs: {install_command(extras[name])}") from error

    def __dir__() -> list[str]:
        return sorted({*vars(import_module(package)), *modules})

    return __getattr__, __dir__
