"""`History`: the evaluated points of a maximisation, and the file that stores them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq._version import __version__
from deltauq.utils.filesystem import atomic_write
from deltauq.utils.jsonl import JsonLines, parse

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FORMAT = "deltauq maximisation"
LIBRARIES = ("botorch", "numpy", "torch")


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """Every evaluated point, in order."""

    X: np.ndarray
    """The points, of shape (n, d)."""
    Y: np.ndarray
    """Their values, of shape (n,); NaN for a failed evaluation."""
    n_initial: int
    """How many points were to be drawn before the first surrogate."""

    @property
    def x(self) -> np.ndarray:
        """The best point, of shape (d,); the first of several."""
        return self.X[self._best()].copy()

    @property
    def value(self) -> float:
        """The largest value."""
        return float(self.Y[self._best()])

    @property
    def best_so_far(self) -> np.ndarray:
        """The largest value up to each point, of shape (n,); NaN before the first value."""
        return np.fmax.accumulate(self.Y)

    def plot(self) -> Figure:
        """Draw the values and the largest so far; needs plotly."""
        from deltauq.plots import best_so_far

        return best_so_far(self.Y, n_initial=self.n_initial)

    def __len__(self) -> int:
        return len(self.Y)

    def __repr__(self) -> str:
        n_failed = int(np.isnan(self.Y).sum())
        counted = f"{len(self)} points" + (f", {n_failed} of them failed" if n_failed else "")
        best = "" if n_failed == len(self) else f", best {self.value:.6g} at {format_point(self.x)}"
        return f"<History: {counted}{best}>"

    def _best(self) -> int:
        if np.isnan(self.Y).all():
            raise ValueError(f"there is no best point: {len(self)} were evaluated, and none has a value.")
        return int(np.nanargmax(self.Y))


def format_point(x: np.ndarray) -> str:
    """Return a point as text with all its digits, so that it can be evaluated again."""
    return "[" + ", ".join(repr(float(number)) for number in x) + "]"


def describe(value: Any) -> str:
    """Return a text that names a function with its options and defaults, or the repr of another value."""
    if not isinstance(value, partial) and not hasattr(value, "__qualname__"):
        text = repr(value)
        # An address differs from run to run.
        return type(value).__qualname__ if " at 0x" in text else text
    options: dict[str, Any] = {}
    while isinstance(value, partial):
        options = {**value.keywords, **options}
        value = value.func
    parameters = signature(value).parameters.values()
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    listed = [f"{name}={describe(option)}" for name, option in sorted({**defaults, **options}.items())]
    return f"{value.__module__}.{value.__qualname__}({', '.join(listed)})"


class HistoryFile:
    """Evaluated points in a file, one JSON line each, after a line with the settings and versions.

    The file is created unless it exists; `points` has its points and values when it was opened. The settings,
    which are the bounds, the seed and the surrogate, must equal those of an existing file. An incomplete last
    line is ignored.
    """

    def __init__(self, path: str | os.PathLike[str], bounds: np.ndarray, seed: int, surrogate: Any) -> None:
        self.path = Path(path)
        self.points: list[tuple[np.ndarray, float]] = []
        settings = {"bounds": bounds.tolist(), "seed": seed, "surrogate": describe(surrogate)}
        if self.path.exists() and self.path.stat().st_size:
            self._load(settings)
            return
        versions = {"deltauq": __version__, **{name: version(name) for name in LIBRARIES}}
        header = {"format": FORMAT, **settings, "versions": versions}
        with atomic_write(self.path) as part:
            JsonLines(part).append(header)

    def append(self, x: np.ndarray, y: float) -> None:
        """Write a point of shape (d,) and its value, NaN for a failed evaluation."""
        if not self.path.exists():  # without its header, a new file could not be resumed from
            raise FileNotFoundError(f"{self.path} was removed.")
        JsonLines(self.path).append({"x": x.tolist(), "y": None if np.isnan(y) else y})

    def _load(self, settings: dict[str, Any]) -> None:
        first, *lines = self.path.read_bytes().split(b"\n")
        header = parse(first)
        if header is None or header.get("format") != FORMAT:
            raise ValueError(f"{self.path} is not the file of a maximisation; it was not changed.")
        for name, value in settings.items():
            if header.get(name) != value:
                begun = f"{self.path} was begun with {name} {header.get(name)}"
                raise ValueError(f"{begun} and cannot be continued with {value}: name another file.")
        if lines and parse(lines[-1]) is None:  # empty after a newline, or incomplete
            lines.pop()
        d = len(settings["bounds"][0])
        for number, line in enumerate(lines, start=2):
            point: Any = parse(line)
            try:
                x = np.array(point["x"], dtype=np.float64).reshape(d)
                y = np.nan if point["y"] is None else float(point["y"])
            except (KeyError, TypeError, ValueError):
                raise ValueError(f"line {number} of {self.path} is not a point of {d} numbers.") from None
            self.points.append((x, y))
