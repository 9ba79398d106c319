"""`extrapolation`: targets beyond those of training, for thick digits and for tables cut at a percentile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_predict

from deltauq import plots
from deltauq.calibration import ConformalRegressor, GaussianScaler
from deltauq.data import load_images
from deltauq.estimators import AnchoredRegressor
from deltauq.plots import Figure
from experiments.digit_models import Digits, digits_up_to, network, thickness
from experiments.display_names import DISPLAY_NAMES
from experiments.regression_tables import BASES, TABLES, load_rows, standardized
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.tables import TableSpec
from experiments.uci import CHOSEN, HELD_OUT, LABELLED, NETWORKS, AnchoredPerceptron, WithLoss, moments

if TYPE_CHECKING:
    from torch import Tensor

LEVEL = 0.9
SEEDS = {"quick": range(1), "paper": range(5)}

LIMITS = (200, 175)
"""Largest thickness of the training digits."""
BEYOND = (0, 25, 50, 90)
"""Edges of the bins beyond the limit, in pixels."""
CURVE = range(-60, 90, 15)
"""Left edges of the bins of the figure, relative to the limit."""
METHODS = ("plain", "ensemble", "delta-uq", "delta-labelled")
N_ANCHORS, N_MEMBERS = 30, 5
RATES = (3e-5, 1e-4, 3e-4, 1e-3)
RATE = {"plain": 3e-5, "delta-uq": 1e-4, "delta-labelled": 1e-4}
"""Learning rate of the smallest error in the part "recipe", which uses digits of the training range only."""
OTHER_RATES = (1e-4, 1e-3)
"""Learning rates of the part "rates", with one limit."""
VALIDATED = 0.1
"""Share of the training digits that is held out in the part "recipe"."""

PERCENTILE = 80
"""Training rows of a table have at most this percentile of its target."""
MODELS = (
    *("ridge", "boosting", "boosting-value", "boosting-difference"),
    *("mlp", "mlp-value", "mlp-difference"),
)
DATASETS = {"quick": ("boston", "yacht"), "paper": TABLES}
N_TRAIN = {"quick": 200, "paper": 1000}
MAX_TEST = 1000
N_FOLDS = 5
HIDDEN = NETWORKS["3x128"]


@dataclass(frozen=True)
class Size:
    """The size of the experiment.

    Attributes
    ----------
    images : int or None
        Number of MNIST training images and of test images; None for all.
    epochs, mlp_epochs : int
        Epochs of the networks for digits, and of those for tables.
    """

    images: int | None
    epochs: int
    mlp_epochs: int


SIZES = {"quick": Size(3000, 5, 20), "paper": Size(None, 20, 100)}


@dataclass(frozen=True)
class Predictions:
    """Means, calibrated standard deviations and 90 % intervals, arrays of shape (n,)."""

    mean: np.ndarray
    std: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def metrics(self, y: np.ndarray, name: str, unit: float = 1.0) -> dict[str, float]:
        """Return the metrics of these predictions, with this name of the rows at the end of theirs."""
        error = self.mean - y
        values = {
            "bias": unit * error.mean(),
            "mae": unit * np.abs(error).mean(),
            "sigma": unit * self.std.mean(),
            "sigma_ratio": self.std.mean() / np.abs(error).mean(),
            "coverage": np.mean((self.lower <= y) & (y <= self.upper)),
            "width": unit * np.mean(self.upper - self.lower),
        }
        return {f"{metric}_{name}": float(value) for metric, value in values.items()}

    def rows(self, selected: np.ndarray) -> Predictions:
        """Return some of the rows."""
        return Predictions(*(values[selected] for values in vars(self).values()))


def calibrated(
    y: np.ndarray, held_out: tuple[np.ndarray, np.ndarray], new: tuple[np.ndarray, np.ndarray]
) -> Predictions:
    """Calibrate means and spreads of new rows by those of held-out rows, whose targets are y.

    A spread of zero means a constant standard deviation and a constant width.
    """
    mean, spread = new
    std = GaussianScaler().fit(y, *held_out).transform(spread)
    return Predictions(mean, std, *ConformalRegressor.from_predictions(y, *held_out).interval(*new, LEVEL))


def cells(profile: str) -> list[Cell]:
    """Return the cells of the four parts."""
    seeds = SEEDS[profile]
    recipe = [{"part": "recipe", "method": method, "rate": rate} for method in RATE for rate in RATES]
    digits = [
        {"part": "digits", "limit": limit, "method": method, "seed": seed}
        for seed in seeds
        for limit in LIMITS
        for method in METHODS
    ]
    rates = [
        {"part": "rates", "limit": LIMITS[0], "method": method, "rate": rate, "seed": 0}
        for method in ("plain", "delta-labelled")
        for rate in OTHER_RATES
    ]
    tables = [
        {"part": "tables", "dataset": dataset, "method": method, "seed": seed}
        for seed in seeds
        for dataset in DATASETS[profile]
        for method in MODELS
    ]
    return recipe + digits + rates + tables


def run(cell: Cell, profile: str) -> Outcome:
    """Run a cell of any part."""
    runs = {"recipe": run_recipe, "digits": run_digits, "rates": run_digits, "tables": run_table}
    return runs[cell["part"]](cell, profile)


# -- digits ------------------------------------------------------------------------------------------


def run_recipe(cell: Cell, profile: str) -> Outcome:
    """Measure a learning rate on held-out training digits of the range of training."""
    size = SIZES[profile]
    digits = digits_up_to(LIMITS[0], pictures("mnist-train", size.images))
    order = np.random.default_rng(0).permutation(len(digits.x))
    held_out, fitted = np.split(order, [int(VALIDATED * len(order))])
    part = Digits(digits.x[fitted], digits.y[fitted], digits.mean, digits.std)
    model = digit_model(cell["method"], part, cell["rate"], size.epochs, seed=1000)
    mean, _ = predicted(model, digits.x[held_out])
    error = digits.std * (mean - digits.y[held_out, 0].double().numpy())
    return Outcome({"mae_held_out": float(np.abs(error).mean())})


def run_digits(cell: Cell, profile: str) -> Outcome:
    """Train on thin digits, calibrate on half of the thin test digits, and measure on all others."""
    size, limit, method, seed = SIZES[profile], cell["limit"], cell["method"], cell["seed"]
    digits = digits_up_to(limit, pictures("mnist-train", size.images))
    rate = cell.get("rate", RATE.get(method, RATE["plain"]))
    model = digit_model(method, digits, rate, size.epochs, seed)
    x, y = unseen_digits(limit, size.images)
    inside = np.random.default_rng(seed).permutation(np.flatnonzero(y <= limit))
    held_out, tested = np.split(inside, [len(inside) // 2])
    mean, spread = predicted(model, x)
    mean, spread = digits.mean + digits.std * mean, digits.std * spread
    result = calibrated(y[held_out], (mean[held_out], spread[held_out]), (mean, spread))
    metrics = result.rows(tested).metrics(y[tested], "inside")
    for start, end in pairwise(BEYOND):
        beyond = (y > limit + start) & (y <= limit + end)
        if beyond.any():
            metrics |= result.rows(beyond).metrics(y[beyond], str(end))
    measured = np.concatenate([tested, np.flatnonzero(y > limit)])
    return Outcome(metrics, {"bias": bias_curve(y[measured] - limit, (mean - y)[measured])})


@lru_cache(maxsize=2)
def pictures(name: str, n: int | None) -> np.ndarray:
    """Return the first n images of a part of MNIST, in bytes."""
    return np.asarray(load_images(name)[0][:n])


def unseen_digits(limit: int, n: int | None) -> tuple[Tensor, np.ndarray]:
    """Return test digits, and training digits thicker than the limit, with their thickness."""
    import torch

    test, train = (digits_up_to(math.inf, pictures(name, n)).x for name in ("mnist-test", "mnist-train"))
    x = torch.cat([test, train[thickness(train) > limit]])
    return x, thickness(x).numpy().astype(np.float64)


def digit_model(method: str, digits: Digits, rate: float, epochs: int, seed: int) -> Any:
    """Return a trained model with a posterior; all have the same network and the same number of steps."""
    import torch

    from deltauq.baselines import DeepEnsemble
    from deltauq.nn import Anchored
    from deltauq.nn.training import Recipe, fit

    make: dict[str, Callable[[], Any]] = {
        # As in table4.
        "delta-uq": lambda: Anchored(network(), N_ANCHORS, init="pretrained", train_anchors="reverse"),
        "delta-labelled": lambda: Anchored(network(), N_ANCHORS, target="difference"),
    }
    nets = []
    for member in range(N_MEMBERS if method == "ensemble" else 1):
        recipe = Recipe(epochs=epochs, lr=rate, schedule="linear", seed=seed + 1000 * member)
        torch.manual_seed(recipe.seed)
        net = make.get(method, network)()
        fit(net, digits.x, digits.y, recipe)
        nets.append(net)
    return nets[0] if method in make else DeepEnsemble.from_members(nets)


def predicted(model: Any, x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of a model's outputs, in float64 arrays of shape (n,)."""
    import torch

    posterior = model.posterior(x.to("cuda" if torch.cuda.is_available() else "cpu"))
    mean, std = (values[:, 0].double().cpu().numpy() for values in (posterior.mean, posterior.std))
    return mean, std


def bias_curve(distance: np.ndarray, error: np.ndarray) -> list[float | None]:
    """Return the mean error in every bin of `CURVE`, None for an empty one."""
    bins = [(distance > start) & (distance <= start + CURVE.step) for start in CURVE]
    return [round(float(error[rows].mean()), 4) if rows.any() else None for rows in bins]


# -- tables ------------------------------------------------------------------------------------------


def run_table(cell: Cell, profile: str) -> Outcome:
    """Train on rows with small targets, and measure on others of these and on those with larger targets."""
    dataset, seed = cell["dataset"], cell["seed"]
    train, inside, beyond = split_by_target(dataset, seed, N_TRAIN[profile])
    X, y, X_new, y_new = standardized(dataset, train, np.concatenate([inside, beyond]))
    result = fit_and_predict(cell["method"], X, y, X_new, seed, SIZES[profile].mlp_epochs)
    _, target = load_rows(dataset)
    unit = float(target[train].std() / target.std())
    is_inside = np.arange(len(y_new)) < len(inside)
    return Outcome(
        {
            **result.rows(is_inside).metrics(y_new[is_inside], "inside", unit),
            **result.rows(~is_inside).metrics(y_new[~is_inside], "beyond", unit),
            "n_train": float(len(train)),
        }
    )


def split_by_target(dataset: int | str, seed: int, n_train: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows and test rows with targets up to the percentile, and test rows beyond it.

    Where the percentile is the largest target, the limit is the second largest.
    """
    _, y = load_rows(dataset)
    limit = min(np.percentile(y, PERCENTILE), np.unique(y)[-2])
    rng = np.random.default_rng(seed)
    below, beyond = (rng.permutation(np.flatnonzero(rows)) for rows in (y <= limit, y > limit))
    train, inside = np.split(below, [min(n_train, int(0.8 * len(below)))])
    return train, inside[:MAX_TEST], beyond[:MAX_TEST]


def fit_and_predict(
    method: str, X: np.ndarray, y: np.ndarray, X_new: np.ndarray, seed: int, epochs: int
) -> Predictions:
    """Train a model on standardised rows and return its calibrated predictions."""
    base, _, target = method.partition("-")
    if base == "mlp":
        return _perceptron(target, X, y, X_new, seed, epochs)
    model = Ridge() if base == "ridge" else BASES[base](seed)
    if target:
        anchored = AnchoredRegressor(model, target=target, calibrate="cv", random_state=seed).fit(X, y)
        mean, std = anchored.predict(X_new, return_std=True)
        return Predictions(mean, std, *anchored.predict_interval(X_new, LEVEL))
    out_of_fold = cross_val_predict(model, X, y, cv=KFold(N_FOLDS, shuffle=True, random_state=seed))
    mean = model.fit(X, y).predict(X_new)
    return calibrated(y, (out_of_fold, np.zeros_like(y)), (mean, np.zeros_like(mean)))


def _perceptron(
    target: str, X: np.ndarray, y: np.ndarray, X_new: np.ndarray, seed: int, epochs: int
) -> Predictions:
    """Train a perceptron as in `uci`, on four fifths of the rows, and calibrate it on the others."""
    import torch

    from deltauq.baselines import DeepEnsemble
    from deltauq.nn import MLP
    from deltauq.nn.training import Recipe

    torch.set_num_threads(1)
    make = partial(MLP, X.shape[1], 1, HIDDEN)
    models: dict[str, Callable[[], Any]] = {
        "": lambda: WithLoss(DeepEnsemble(make, 1), "log"),
        "value": lambda: AnchoredPerceptron(make, **CHOSEN),
        "difference": lambda: AnchoredPerceptron(make, **LABELLED),
    }
    held_out, fitted = np.split(np.random.default_rng(seed).permutation(len(X)), [int(HELD_OUT * len(X))])
    recipe = Recipe(epochs=epochs, batch_size=32, lr=3e-3, schedule="linear", seed=seed)
    model = models[target]()

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).float()

    model.fit(tensor(X[fitted]), tensor(y[fitted, None]), recipe)
    of_held_out, new = (moments(model.posterior(tensor(rows))) for rows in (X[held_out], X_new))
    return calibrated(y[held_out], of_held_out, new)


# -- report ------------------------------------------------------------------------------------------


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Draw the mean error over thickness, for each limit."""
    return [
        Figure(
            plots.line_plot(
                [limit + start + CURVE.step / 2 for start in CURVE],
                {DISPLAY_NAMES[method]: curve for method, curve in _curves(lines, limit).items()},
                x_title="thickness",
                y_title="mean error",
            ),
            f"Mean error by thickness, trained on digits of at most {limit} pixels",
            f"Test digits up to {limit} pixels, and all unseen digits beyond. Bars: one standard deviation "
            "over the seeds.",
            height=520,
        )
        for limit in LIMITS
        if _curves(lines, limit)
    ]


def _curves(lines: Sequence[ResultLine], limit: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return mean and standard deviation over seeds of each method's curve."""
    curves: dict[str, list[Any]] = {}
    for line in lines:
        if line.cell["part"] == "digits" and line.cell["limit"] == limit:
            curves.setdefault(line.cell["method"], []).append(line.details["bias"])
    arrays = {method: np.array(of_seeds, dtype=float) for method, of_seeds in curves.items()}
    return {method: (array.mean(axis=0), array.std(axis=0)) for method, array in arrays.items()}


LABELS = {
    "boosting-value": "boosting, Δ-UQ",
    "boosting-difference": "boosting, labelled",
    "mlp": "MLP",
    "mlp-value": "MLP, Δ-UQ",
    "mlp-difference": "MLP, labelled",
}


def _tables() -> tuple[TableSpec, ...]:
    of_digits: tuple[tuple[str, str, Any], ...] = (
        ("bias", "Mean error", None),
        ("mae", "Mean absolute error", None),
        ("sigma", "Mean σ, calibrated on digits of the range", None),
        ("coverage", "Coverage of conformal intervals, nominal 90 %", None),
        ("width", "Width of these intervals", None),
    )
    of_tables: tuple[tuple[str, str, Any], ...] = (
        ("mae_beyond", "MAE beyond the range, in standard deviations of y", "min"),
        ("bias_beyond", "Mean error beyond the range, in standard deviations of y", None),
        ("mae_inside", "MAE inside the range, in standard deviations of y", "min"),
        ("sigma_ratio_beyond", "Mean σ over mean absolute error, beyond the range", None),
        ("coverage_beyond", "Coverage beyond the range, nominal 90 %", None),
        ("coverage_inside", "Coverage inside the range, nominal 90 %", None),
    )
    bins = ("inside", *map(str, BEYOND[1:]))
    ranges = {str(end): f"{start}–{end} beyond" for start, end in pairwise(BEYOND)}
    return (
        *(
            TableSpec(
                f"{title}, digits trained up to {limit} pixels",
                tuple(f"{metric}_{name}" for name in bins),
                "method",
                best=best,
                where={"part": "digits", "limit": limit},
                labels={
                    f"{metric}_inside": "in the range",
                    **{f"{metric}_{end}": name for end, name in ranges.items()},
                },
            )
            for limit in LIMITS
            for metric, title, best in of_digits
        ),
        *(
            TableSpec(
                title,
                metric,
                "dataset",
                "method",
                best=best,
                where={"part": "tables"},
                mean_over=tuple(map(str, TABLES)),
                labels=LABELS,
            )
            for metric, title, best in of_tables
        ),
        *(
            TableSpec(
                f"MAE beyond the range relative to {LABELS.get(base, base)}",
                "mae_beyond",
                "dataset",
                "method",
                best="min",
                where={"part": "tables"},
                relative_to=base,
                labels=LABELS,
            )
            for base in ("boosting", "mlp")
        ),
        TableSpec(
            "MAE of held-out training digits by learning rate",
            "mae_held_out",
            "method",
            "rate",
            best="min",
            where={"part": "recipe"},
        ),
        TableSpec(
            f"Mean error by learning rate, digits {BEYOND[-2]} to {BEYOND[-1]} pixels beyond {LIMITS[0]}",
            f"bias_{BEYOND[-1]}",
            "method",
            "rate",
            best=None,
            where={"part": "rates"},
        ),
    )


EXPERIMENT = Experiment(
    "extrapolation",
    1,
    "Targets beyond the range of training",
    cells,
    run,
    tables=_tables(),
    figures=figures,
    notes=(
        "Digits: thickness is the number of pixels brighter than 0.2. Networks of four layers of 512 are "
        "trained on MNIST's training digits up to a limit, 20 epochs each, and tested on the thicker digits "
        "of MNIST. Δ-UQ and labelled anchors: K = 30; ensemble: five networks. Half of the test digits in "
        "the range calibrate σ and intervals of every method; those of the plain network have a constant "
        "width. The learning rate of each method has the smallest error on held-out training digits up to "
        "200 pixels, and one table compares others with a single seed. Tables: training rows, at most 1000, "
        "have targets up to the 80th percentile. Boosting "
        "is calibrated on out-of-fold predictions, perceptrons (3x128, trained as in `uci`) on a fifth of "
        "the training rows. σ is of the size of the error where σ over mean absolute error is about 1.25."
    ),
)
