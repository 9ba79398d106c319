"""`figure2`: three classes in the plane, and the uncertainty of an anchored kernel machine.

(A) Separate classes: uncertainty should be large along the decision boundaries. (B) Two small classes nearly
inside a large one: their uncertainty should be larger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt
from sklearn.svm import SVC

from deltauq.estimators import AnchoredClassifier
from deltauq.plots import Figure
from experiments.data.classes import ThreeClasses, three_classes
from experiments.plots import class_map, probability_map, uncertainty_map
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.tables import TableSpec

LAYOUTS = ("separable", "nested")
SEEDS = {"quick": range(2), "paper": range(5)}
N_ANCHORS = 5
N_TRAIN_ANCHORS: dict[str, int | str] = {"quick": 20, "paper": "auto"}
GRID = np.linspace(-3.2, 3.2, 81)
BAND = 0.2
"""Half width of the band along a decision boundary."""

COLUMN_NAMES = {
    "at_boundaries": "at boundaries",
    "at_centers": "at centres",
    "boundaries_over_centers": "ratio, mean over draws",
    "small_1": "small, first",
    "small_2": "small, second",
    "least_small_over_large": "lesser small / large",
}


@dataclass(frozen=True)
class PlaneMap:
    """Predictions of a fitted classifier in the plane.

    Attributes
    ----------
    toy : ThreeClasses
    grid : array of shape (n,)
        Values of both inputs.
    predicted, uncertainty : arrays of shape (n, n), rows along the second input
    by_anchor : array of shape (K, n, n, 3)
        Probabilities for each anchor.
    at_rows : array of shape (m,)
        Uncertainty at the training rows.
    at_centers : array of shape (3,)
    anchors : array of shape (K, 2)
    """

    toy: ThreeClasses
    grid: np.ndarray
    predicted: np.ndarray
    uncertainty: np.ndarray
    by_anchor: np.ndarray
    at_rows: np.ndarray
    at_centers: np.ndarray
    anchors: np.ndarray

    def near_boundaries(self) -> float:
        """Return the mean uncertainty in the band along the decision boundaries; NaN where there are none."""
        across = self.predicted[:, 1:] != self.predicted[:, :-1]
        along = self.predicted[1:] != self.predicted[:-1]
        edge = np.zeros(self.predicted.shape, dtype=bool)
        edge[:, 1:] |= across
        edge[1:] |= along
        if not edge.any():
            return float("nan")
        distance = distance_transform_edt(~edge) * (self.grid[1] - self.grid[0])
        return float(self.uncertainty[distance <= BAND].mean())

    def by_class(self) -> list[float]:
        """Return the mean uncertainty at the training rows of each class."""
        return [float(self.at_rows[self.toy.y == label].mean()) for label in range(3)]


def view_plane(toy: ThreeClasses, seed: int, n_train_anchors: int | str, grid: np.ndarray) -> PlaneMap:
    """Fit an anchored kernel machine and predict on a grid in the plane.

    The default kernel is too wide for the small classes.

    Parameters
    ----------
    grid : array of shape (n,)
    """
    model = AnchoredClassifier(
        SVC(gamma=1.0), n_anchors=N_ANCHORS, n_train_anchors=n_train_anchors, random_state=seed
    ).fit(toy.X, toy.y)
    first, second = np.meshgrid(grid, grid)
    posterior = model.posterior(np.column_stack([first.reshape(-1), second.reshape(-1)]), return_samples=True)
    shape = (len(grid), len(grid))
    return PlaneMap(
        toy,
        grid,
        posterior.mean.argmax(axis=1).reshape(shape),
        posterior.var.sum(axis=1).reshape(shape),
        np.asarray(posterior.samples).reshape(-1, *shape, 3),
        model.uncertainty(toy.X),
        model.uncertainty(toy.centers),
        model.anchors_.X,
    )


def cells(profile: str) -> list[Cell]:
    """Return one cell per layout and draw of the data."""
    return [{"layout": layout, "seed": seed} for seed in SEEDS[profile] for layout in LAYOUTS]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure one draw of one layout; the maps of the first draw are stored for the figures."""
    toy = three_classes(cell["layout"], random_state=cell["seed"])
    plane = view_plane(toy, cell["seed"], N_TRAIN_ANCHORS[profile], GRID)
    metrics = _separable(plane) if cell["layout"] == "separable" else _nested(plane)
    return Outcome(metrics, _picture(plane) if cell["seed"] == 0 else None)


def _separable(plane: PlaneMap) -> dict[str, float]:
    boundaries, centers = plane.near_boundaries(), float(plane.at_centers.mean())
    return {
        "at_boundaries": boundaries,
        "at_centers": centers,
        "boundaries_over_centers": boundaries / centers,
    }


def _nested(plane: PlaneMap) -> dict[str, float]:
    large, *small = plane.by_class()
    return {
        "large": large,
        "small_1": small[0],
        "small_2": small[1],
        "least_small_over_large": min(small) / large,
    }


def _picture(plane: PlaneMap) -> dict[str, Any]:
    """Return the data of the figures as rounded lists."""
    top = plane.by_anchor.argmax(axis=-1)
    percent = np.rint(100 * plane.by_anchor.max(axis=-1)).astype(int)
    return {
        "grid": np.round(plane.grid, 4).tolist(),
        "X": np.round(plane.toy.X, 3).tolist(),
        "y": plane.toy.y.tolist(),
        "anchors": np.round(plane.anchors, 3).tolist(),
        "predicted": plane.predicted.tolist(),
        "uncertainty": np.round(plane.uncertainty, 4).tolist(),
        # On a coarser grid and in whole percent, because there is a map for every anchor.
        "top_by_anchor": top[:, ::2, ::2].tolist(),
        "percent_by_anchor": percent[:, ::2, ::2].tolist(),
    }


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return the data, the uncertainty, and the predictions for every single anchor, of the first draw."""
    pictures = {line.cell["layout"]: line.details for line in lines if line.details}
    figures, by_anchor = [], []
    for letter, layout in (("A", "separable"), ("B", "nested")):
        if layout in pictures:
            arrays = {name: np.asarray(value) for name, value in pictures[layout].items()}
            figures += _plane_figures(arrays, letter)
            by_anchor += _anchor_figures(arrays, letter)
    return figures + by_anchor


def _plane_figures(arrays: Mapping[str, np.ndarray], letter: str) -> list[Figure]:
    grid, X = (arrays["grid"], arrays["grid"]), arrays["X"]
    names = [f"class {label}" for label in range(3)]
    return [
        Figure(
            class_map(grid, arrays["predicted"], (X, arrays["y"]), names),
            f"({letter}) Data and prediction",
            height=460,
        ),
        Figure(
            uncertainty_map(grid, arrays["uncertainty"], X, anchors=arrays["anchors"]),
            f"({letter}) Uncertainty",
            "Sum over classes of the variance of their probabilities over the anchors, which are crosses.",
            height=460,
        ),
    ]


def _anchor_figures(arrays: Mapping[str, np.ndarray], letter: str) -> list[Figure]:
    grid = arrays["grid"][::2]
    return [
        Figure(
            probability_map(
                (grid, grid),
                arrays["top_by_anchor"][k],
                arrays["percent_by_anchor"][k] / 100,
                arrays["X"],
                anchor=anchor,
            ),
            f"({letter}) Anchor {k + 1} alone",
            "The predicted class, the paler the less probable; the cross is the anchor." if k == 0 else "",
            height=420,
        )
        for k, anchor in enumerate(arrays["anchors"])
    ]


EXPERIMENT = Experiment(
    "figure2",
    1,
    "Two kinds of uncertainty in the plane",
    cells,
    run,
    tables=(
        TableSpec(
            "(A) Mean uncertainty: along the decision boundaries, and at the class centres",
            ("at_boundaries", "at_centers", "boundaries_over_centers"),
            "layout",
            best=None,
            where={"layout": "separable"},
            digits=5,
            labels=COLUMN_NAMES,
        ),
        TableSpec(
            "(B) Mean uncertainty at the points of the large class and of the two small ones",
            ("large", "small_1", "small_2", "least_small_over_large"),
            "layout",
            best=None,
            where={"layout": "nested"},
            digits=5,
            labels=COLUMN_NAMES,
        ),
    ),
    figures=figures,
    notes=(
        "Three classes in the plane, a support vector classifier with a radial kernel of width γ = 1, and "
        "five anchors as in the paper, which gives neither its data nor its kernel. The figures show the "
        "first of five draws of the data; the tables cover all of them. The band along the boundaries "
        "extends 0.2 to either side. Maps of single anchors differ where the spread is large."
    ),
)
