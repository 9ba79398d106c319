"""Third part: three classes in the plane, and where a kernel machine doubts them (figure 2 of the paper)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.svm import SVC

from deltauq.data import ClassesToy, three_classes
from deltauq.estimators import AnchoredClassifier

N_ANCHORS = 5
N_TRAIN_ANCHORS = 20
SEED = 0
NESTED_SEEDS = (0, 1, 2, 3, 4)
GRID = np.linspace(-3.2, 3.2, 81)
BOUNDARY_WIDTH = 0.4
BOUNDARY_REACH = 2.5
STEPS = 1 + len(NESTED_SEEDS)

NAMES = ("class 0", "class 1", "class 2")


@dataclass(frozen=True)
class PlaneMap:
    """A fitted classifier's view of the plane.

    Attributes
    ----------
    toy : ClassesToy
    predicted, uncertainty : arrays of shape (n, n), rows along the second input
    at_rows : array of shape (m,)
        Uncertainty at the training rows.
    at_centers : array of shape (3,)
    anchors : array of shape (K, 2)
    """

    toy: ClassesToy
    predicted: np.ndarray
    uncertainty: np.ndarray
    at_rows: np.ndarray
    at_centers: np.ndarray
    anchors: np.ndarray

    def near_boundaries(self) -> float:
        """Return the mean uncertainty in a band along the lines halfway between class centres."""
        distance = np.linalg.norm(_plane()[:, None] - self.toy.centers, axis=2)
        nearest, second = np.sort(distance, axis=1)[:, :2].T
        band = (second - nearest < BOUNDARY_WIDTH) & (nearest < BOUNDARY_REACH)
        return float(self.uncertainty.reshape(-1)[band].mean())

    def by_class(self) -> list[float]:
        """Return the mean uncertainty at the training rows of each class."""
        return mean_by_class(self.at_rows, self.toy.y)


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
    separable = _map(three_classes("separable", random_state=SEED), SEED)
    tick("classes: nested")
    nested = _map(three_classes("nested", random_state=NESTED_SEEDS[0]), NESTED_SEEDS[0])
    by_class = [nested.by_class()]
    for seed in NESTED_SEEDS[1:]:
        tick(f"classes: nested, draw {seed + 1}")
        toy = three_classes("nested", random_state=seed)
        by_class.append(mean_by_class(_fit(toy, seed).uncertainty(toy.X), toy.y))
    return ClassStudy(separable, nested, by_class)


def mean_by_class(values: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the mean of values of shape (n,) in each of three classes."""
    return [float(values[y == label].mean()) for label in range(3)]


def _fit(toy: ClassesToy, seed: int) -> AnchoredClassifier:
    # Few training anchors, for speed: each fit is six kernel machines, five of them for the probabilities.
    # The kernel is narrow enough to find the small classes; the default one gives all to the large class.
    model = AnchoredClassifier(
        SVC(gamma=1.0), n_anchors=N_ANCHORS, n_train_anchors=N_TRAIN_ANCHORS, random_state=seed
    )
    return model.fit(toy.X, toy.y)


def _map(toy: ClassesToy, seed: int) -> PlaneMap:
    model = _fit(toy, seed)
    posterior = model.posterior(_plane())
    shape = (len(GRID), len(GRID))
    return PlaneMap(
        toy,
        posterior.mean.argmax(axis=1).reshape(shape),
        posterior.var.sum(axis=1).reshape(shape),
        model.uncertainty(toy.X),
        model.uncertainty(toy.centers),
        model.anchors_,
    )


def _plane() -> np.ndarray:
    """Return the points of the grid, of shape (n * n, 2), the first input running fastest."""
    first, second = np.meshgrid(GRID, GRID)
    return np.column_stack([first.reshape(-1), second.reshape(-1)])
