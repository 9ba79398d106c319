"""First part: whether the error bar opens where there is no data, and for which base models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq.data import GapToy, gap_curve
from deltauq.estimators import AnchoredRegressor

N_ROWS = 40
SEEDS = (0, 1, 2)
OPEN_RATIO = 3.0
"""The band counts as open when σ in the gap is this many times σ where there is data."""
GAP_MARGIN = 0.2
"""The edges of the gap belong to neither side of the comparison."""
NO_SPREAD = 1e-9

CHOSEN = "SVR(C=10, gamma=1)"
CONTRAST = "RandomForest"

OPENS = "yes"
OPENS_AT_STEP = "if sides differ"
STAYS_SHUT = "no"
SILENT = "no spread"


def bases() -> dict[str, BaseEstimator]:
    """Return the base models that are tried, by the name shown.

    All kernel methods but `SVR()` see equally far: gamma 1 is a length of 0.7.
    """
    return {
        CHOSEN: SVR(C=10, gamma=1.0),
        "SVR()": SVR(),
        "KernelRidge": KernelRidge(kernel="rbf", gamma=1.0, alpha=0.1),
        "GaussianProcess": GaussianProcessRegressor(RBF(0.7) + WhiteKernel(0.01), optimizer=None),
        CONTRAST: RandomForestRegressor(20),
        "DecisionTree": DecisionTreeRegressor(),
        "HistGradientBoosting": HistGradientBoostingRegressor(max_iter=50),
        "KNeighbors": KNeighborsRegressor(5),
        "MLP": MLPRegressor(
            hidden_layer_sizes=(64, 64), max_iter=400, learning_rate_init=3e-3, n_iter_no_change=400
        ),
        "LinearRegression": LinearRegression(),
    }


STEPS = len(bases()) + 2


@dataclass(frozen=True)
class Opening:
    """How far the band of one base model opens.

    Attributes
    ----------
    name : str
    step, hill : tuple of floats, one for each seed
        Mean σ in the gap over mean σ where there is data; NaN where nothing spreads.
    """

    name: str
    step: tuple[float, ...]
    hill: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """Say whether the band opened in every seed."""
        if np.isnan(self.step + self.hill).any():
            return SILENT
        if min(self.step + self.hill) >= OPEN_RATIO:
            return OPENS
        return OPENS_AT_STEP if min(self.step) >= OPEN_RATIO else STAYS_SHUT


@dataclass(frozen=True)
class Curve:
    """One model's prediction over the line, for a picture.

    Attributes
    ----------
    name : str
    toy : GapToy
    x, mean, std, raw_std : arrays of shape (n,)
        `std` is calibrated.
    anchors : array of shape (K,)
    """

    name: str
    toy: GapToy
    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    raw_std: np.ndarray
    anchors: np.ndarray


@dataclass(frozen=True)
class GapStudy:
    """All that the first part found."""

    openings: list[Opening]
    chosen: Curve
    contrast: Curve

    def numbers(self) -> dict[str, Any]:
        """Return the findings as plain values."""
        models = [
            {"base": o.name, "sides_differ": o.step, "sides_agree": o.hill, "opens": o.verdict}
            for o in self.openings
        ]
        return {"rows": N_ROWS, "seeds": SEEDS, "open_ratio": OPEN_RATIO, "sigma_gap_over_data": models}


def study_gap(tick: Callable[[str], None]) -> GapStudy:
    """Try every base on both curves, and draw two of them.

    Parameters
    ----------
    tick : callable
        Told what comes next before each of `STEPS` steps.

    Returns
    -------
    study : GapStudy
    """
    openings = []
    for name, base in bases().items():
        tick(f"gap: {name}")
        step, hill = (tuple(opening_ratio(base, curve, seed) for seed in SEEDS) for curve in ("step", "hill"))
        openings.append(Opening(name, step, hill))
    curves = []
    for name in (CHOSEN, CONTRAST):
        tick(f"gap: picture of {name}")
        curves.append(predict_curve(name))
    return GapStudy(openings, *curves)


def opening_ratio(base: BaseEstimator, curve: str, seed: int) -> float:
    """Return mean σ in the gap over mean σ where there is data, or NaN where nothing spreads."""
    toy = gap_curve(curve, N_ROWS, random_state=seed)
    x = np.linspace(*toy.limits, 81)
    std = _fit(base, toy, seed, calibrate=None).posterior(x[:, None]).std
    in_gap = (x > toy.gap[0] + GAP_MARGIN) & (x < toy.gap[1] - GAP_MARGIN)
    in_data = (x < toy.gap[0]) | (x > toy.gap[1])
    typical = float(std[in_data].mean())
    return float(std[in_gap].mean()) / typical if typical > NO_SPREAD else float("nan")


def predict_curve(name: str, seed: int = SEEDS[0]) -> Curve:
    """Return the calibrated and the raw band of one base on the curve whose sides agree."""
    toy = gap_curve("hill", N_ROWS, random_state=seed)
    x = np.linspace(toy.limits[0] - 0.3, toy.limits[1] + 0.3, 173)
    model = _fit(bases()[name], toy, seed, calibrate="cv")
    mean, std = model.predict(x[:, None], return_std=True)
    raw_std = model.posterior(x[:, None]).std
    return Curve(name, toy, x, mean, std, raw_std, np.sort(model.anchors_[:, 0]))


def _fit(base: BaseEstimator, toy: GapToy, seed: int, calibrate: str | None) -> AnchoredRegressor:
    model = AnchoredRegressor(base, n_anchors=N_ROWS, calibrate=calibrate, random_state=seed)
    with warnings.catch_warnings():
        # The network is given a fixed number of epochs here, and warns whenever it uses them all.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(toy.X, toy.y)
    return model
