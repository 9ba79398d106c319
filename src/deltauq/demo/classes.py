"""Third part: three classes in the plane, and where a kernel machine doubts them (figure 2 of the paper)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltauq.data import three_classes
from experiments.figure2 import N_ANCHORS, PlaneMap, view_plane

# Few, for speed: each fit is six kernel machines, five of them for the probabilities.
N_TRAIN_ANCHORS = 20
SEED = 0
NESTED_SEEDS = (0, 1, 2, 3, 4)
GRID = np.linspace(-3.2, 3.2, 81)
STEPS = 1 + len(NESTED_SEEDS)

NAMES = ("class 0", "class 1", "class 2")


@dataclass(frozen=True)
class ClassStudy:
    """All that the third part found.

    Attributes
    ----------
    separable, nested : PlaneMap
    nested_by_class : one list of three means for each seed
    """

    separable: PlaneMap
    nested: PlaneMap
    nested_by_class: list[list[float]]

    def nested_as_expected(self) -> int:
        """Count the seeds in which both small classes are more uncertain than the large one."""
        return sum(min(small) > large for large, *small in self.nested_by_class)

    def numbers(self) -> dict[str, Any]:
        """Return the findings as plain values."""
        return {
            "anchors": N_ANCHORS,
            "separable": {
                "near_boundaries": self.separable.near_boundaries(),
                "at_centers": float(self.separable.at_centers.mean()),
            },
            "nested": {
                "by_class": self.nested.by_class(),
                "by_class_and_seed": self.nested_by_class,
                "seeds_as_expected": self.nested_as_expected(),
            },
        }


def study_classes(tick: Callable[[str], None]) -> ClassStudy:
    """Map both layouts, and repeat the second over several draws of the data.

    Parameters
    ----------
    tick : callable
        Told what comes next before each of `STEPS` steps.

    Returns
    -------
    study : ClassStudy
    """
    tick("classes: separable")
    separable = _view("separable", SEED)
    nested = []
    for seed in NESTED_SEEDS:
        tick(f"classes: nested, draw {seed + 1}")
        nested.append(_view("nested", seed))
    return ClassStudy(separable, nested[0], [plane.by_class() for plane in nested])


def _view(layout: str, seed: int) -> PlaneMap:
    return view_plane(three_classes(layout, random_state=seed), seed, N_TRAIN_ANCHORS, GRID)
