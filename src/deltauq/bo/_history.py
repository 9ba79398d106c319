"""`History`: the evaluated points of a maximisation, and the file they are kept in."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq._version import __version__

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FORMAT = "deltauq maximisation"
LIBRARIES = ("botorch", "numpy", "torch")


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """Every point that was evaluated, in order.

    Attributes
    ----------
    X : array of shape (n, d)
    Y : array of shape (n,)
        NaN where the evaluation failed.
    n_initial : int
        How many points were to be drawn before the surrogate had a say.
    """

    X: np.ndarray
    Y: np.ndarray
    n_initial: int

    @property
    def x(self) -> np.ndarray:
        """The best point, of shape (d,); of several, the first."""
        return self.X[self._best()].copy()

    @property
    def value(self) -> float:
        """The largest value."""
        return float(self.Y[self._best()])

    @property
    def best_so_far(self) -> np.ndarray:
        """The largest value up to each point, of shape (n,); NaN before the first that did not fail."""
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
        best = "" if n_failed == len(self) else f", best {self.value:.6g} at {written(self.x)}"
        return f"<History: {counted}{best}>"

    def _best(self) -> int:
        if np.isnan(self.Y).all():
            raise ValueError(f"there is no best point: {len(self)} were evaluated, and none has a value.")
        return int(np.nanargmax(self.Y))


def written(x: np.ndarray) -> str:
    """Return a point as text with all its digits, so that it can be tried again."""
    return "[" + ", ".join(repr(float(number)) for number in x) + "]"


class HistoryFile:
    """Evaluated points in a file, one JSON line each, safe against being killed at any moment.

    The first line has the bounds, the seed and versions. A point is on the disk when `append` returns. A line
    that was cut off in the middle, always the last, is dropped when the file is opened. One process writes.

    Parameters
    ----------
    path : path
        Made, with its folders, where there is none or an empty one.
    bounds : array of shape (2, d)
    seed : int
        Both must be those of a file that exists.
    """

    def __init__(self, path: str | os.PathLike[str], bounds: np.ndarray, seed: int) -> None:
        self.path = Path(path)
        self.points: list[tuple[np.ndarray, float]] = []
        if self.path.exists() and self.path.stat().st_size:
            self._resume(bounds, seed)
        else:
            self._begin(bounds, seed)

    def append(self, x: np.ndarray, y: float) -> None:
        """Add a point of shape (d,) and its value, NaN for one that failed."""
        text = json.dumps({"x": x.tolist(), "y": None if np.isnan(y) else y}) + "\n"
        with self.path.open("r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                write_all(file, text.encode())
            except OSError:
                # A disk that filled up in the middle of a line: what comes later must not be glued to it.
                with suppress(OSError):
                    file.truncate(end)
                raise

    def _begin(self, bounds: np.ndarray, seed: int) -> None:
        """Make the file with its first line whole, or not at all."""
        versions = {"deltauq": __version__, **{name: version(name) for name in LIBRARIES}}
        head = {"format": FORMAT, "bounds": bounds.tolist(), "seed": seed, "versions": versions}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        begun = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with begun.open("wb", buffering=0) as file:
                write_all(file, (json.dumps(head) + "\n").encode())
            begun.replace(self.path)
        finally:
            begun.unlink(missing_ok=True)

    def _resume(self, bounds: np.ndarray, seed: int) -> None:
        """Read the points of a file that exists, and mend its end."""
        head, *lines = self.path.read_bytes().split(b"\n")
        self._check_head(_parsed(head), bounds, seed)
        rest = lines.pop() if lines else b""
        # What was cut off in the middle is no JSON; a line that only lacks its end is a point like others.
        if rest and _parsed(rest) is not None:
            lines.append(rest)
            self._mend(rest + b"\n", dropped=len(rest))
        elif rest:
            self._mend(b"", dropped=len(rest))
        for number, line in enumerate(lines, start=2):
            self.points.append(self._point(line, number, bounds.shape[1]))

    def _mend(self, text: bytes, dropped: int) -> None:
        """Write text over the last bytes of the file."""
        with self.path.open("r+b", buffering=0) as file:
            file.truncate(file.seek(-dropped, os.SEEK_END))
            write_all(file, text)

    def _check_head(self, head: dict[str, Any] | None, bounds: np.ndarray, seed: int) -> None:
        if head is None or head.get("format") != FORMAT:
            raise ValueError(f"{self.path} is not the file of a maximisation; it is left as it is.")
        for name, given in (("bounds", bounds.tolist()), ("seed", seed)):
            if head.get(name) != given:
                raise ValueError(
                    f"{self.path} was begun with {name} {head.get(name)} and cannot go on with {given}: "
                    "give the same, or another path."
                )

    def _point(self, line: bytes, number: int, d: int) -> tuple[np.ndarray, float]:
        point = _parsed(line)
        try:
            assert point is not None
            x = np.array(point["x"], dtype=np.float64)
            y = np.nan if point["y"] is None else float(point["y"])
            assert x.shape == (d,)
        except (AssertionError, KeyError, TypeError, ValueError):
            raise ValueError(f"line {number} of {self.path} is not a point of {d} numbers.") from None
        return x, y


def write_all(file: Any, text: bytes) -> None:
    """Write everything to an unbuffered file and on to the disk, or raise."""
    while text:
        text = text[file.write(text) :]
    os.fsync(file.fileno())


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, or None."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
