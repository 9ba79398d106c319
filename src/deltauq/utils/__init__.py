"""General helpers for all packages of deltauq. Those listed here are public."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq.utils.lazy import attach

if TYPE_CHECKING:
    from deltauq.utils.errors import InputError
    from deltauq.utils.filesystem import atomic_write
    from deltauq.utils.install import install_command
    from deltauq.utils.jsonl import JsonLines
    from deltauq.utils.progress import counting_bar

__all__ = ["InputError", "JsonLines", "atomic_write", "counting_bar", "install_command"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "InputError": "deltauq.utils.errors",
        "JsonLines": "deltauq.utils.jsonl",
        "atomic_write": "deltauq.utils.filesystem",
        "counting_bar": "deltauq.utils.progress",
        "install_command": "deltauq.utils.install",
    },
)
