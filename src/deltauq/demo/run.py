"""The three parts of the demonstration in a row."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deltauq._version import __version__
from deltauq.demo import classes, gap, table

STEPS = gap.STEPS + table.STEPS + classes.STEPS


@dataclass(frozen=True)
class Demo:
    """All that the demonstration found."""

    gap: gap.GapStudy
    table: table.TableStudy
    classes: classes.ClassStudy
    seconds: float

    def numbers(self) -> dict[str, Any]:
        """Return the findings as values that JSON can hold; NaN becomes None."""
        parts = {
            "version": __version__,
            "gap": self.gap.numbers(),
            "table": self.table.numbers(),
            "classes": self.classes.numbers(),
            "seconds": round(self.seconds, 2),
        }
        return dict(_without_nan(parts))


def run_demo(tick: Callable[[str], None] = lambda name: None) -> Demo:
    """Compute everything that the demonstration shows.

    Parameters
    ----------
    tick : callable, optional
        Told what comes next before each of `STEPS` steps.

    Returns
    -------
    demo : Demo
    """
    start = time.perf_counter()
    parts = gap.study_gap(tick), table.study_table(tick), classes.study_classes(tick)
    return Demo(*parts, seconds=time.perf_counter() - start)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
