"""`uci`: nine regression tables, two sizes of perceptron, anchoring and neural baselines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from deltauq.calibration import ConformalRegressor, GaussianScaler
from deltauq.core import Posterior
from deltauq.data import UCI, SplitTable, load_uci
from deltauq.metrics import coverage, crps, gaussian_nll, mae, rmse, spearman, width
from experiments.runner import Cell, Experiment, Outcome
from experiments.table2 import full_pairs
from experiments.tables import TableSpec

NETWORKS = {"1x50": (50,), "3x128": (128, 128, 128)}
LARGE = 2000
"""Tables with at least this many rows have fewer splits and larger batches."""
N_SPLITS = {"quick": (1, 1, 1, 1), "paper": (20, 8, 4, 2)}
"""Number of standard splits: of tables with about fifty test rows or fewer, of other small tables, of large
tables, of protein."""
DATASETS = {"quick": ("yacht", "boston"), "paper": tuple(UCI)}
EPOCHS = {"quick": 20, "paper": 100}
HELD_OUT = 0.2
"""Share of the training rows that is held out to estimate noise, scale and conformal scores."""
LEVEL = 0.9
N_ANCHORS, N_SAMPLES, N_MEMBERS = 50, 50, 5
CHOSEN: dict[str, Any] = {"init": "pretrained", "per_step": 4, "loss": "log"}
LABELLED: dict[str, Any] = {"target": "difference", "encoding": "full", "per_step": 4, "loss": "log"}
RATE, PRIOR_STD = 0.02, 3.0
"""The training of the anchored perceptron, by value and with labelled anchors, MC dropout's rate and SVI's
prior with the lowest CRPS in `uci-study`, by the mean of its logarithm over tables and networks."""
GP_ROWS, FOREST_ROWS, FOREST_TREES = 1000, 5000, 20


@dataclass
class AnchoredPerceptron:
    """An anchored network with the interface of the baselines.

    Parameters
    ----------
    target, encoding, init : str
        See `Anchored`.
    per_step : int
        Anchors per row and step.
    decay : float
        Weight decay of AdamW.
    loss : {"squared", "log"}
        See `log_squared_error`.
    """

    make: Callable[[], Any]
    target: str = "value"
    encoding: str = "difference"
    init: str = "random"
    per_step: int = 1
    consistency: float = 0.0
    decay: float = 0.0
    loss: str = "squared"

    def fit(self, x: Any, y: Any, recipe: Any) -> AnchoredPerceptron:
        """Train on tensors of shape (n, d) and (n, 1)."""
        import torch

        from deltauq.nn import Anchored, anchored_loss
        from deltauq.nn.training import fit, supervised

        criterion = criterion_of(self.loss)

        def several(net: Any, batch: Any) -> Any:
            return anchored_loss(
                net, criterion, batch.x, batch.y, anchors_per_step=self.per_step, consistency=self.consistency
            )

        recipe = replace(recipe, optimizer="adamw", weight_decay=self.decay)
        torch.manual_seed(recipe.seed)
        self.net = Anchored(
            self.make(), N_ANCHORS, target=self.target, encoding=self.encoding, init=self.init
        )
        fit(self.net, x, y, recipe, several if self.per_step > 1 else supervised(criterion))
        self.net.to(x.device)
        self.net.set_anchors(x, y, random_state=recipe.seed)
        return self

    def posterior(self, x: Any) -> Posterior:
        """Return the moments over the anchors, tensors of shape (n, 1)."""
        return self.net.posterior(x)


@dataclass
class WithLoss:
    """A baseline whose networks have another loss than the squared error."""

    model: Any
    loss: str

    def fit(self, x: Any, y: Any, recipe: Any) -> WithLoss:
        """Train on tensors of shape (n, d) and (n, 1)."""
        self.model.fit(x, y, recipe, criterion=criterion_of(self.loss))
        return self

    def posterior(self, x: Any) -> Posterior:
        """Return the moments, tensors of shape (n, 1)."""
        posterior: Posterior = self.model.posterior(x)
        return posterior


def criterion_of(loss: str) -> Any:
    """Return the criterion of a name."""
    from deltauq.nn import log_squared_error, squared_error

    return {"squared": squared_error, "log": log_squared_error}[loss]


class AnchoredForest:
    """An anchored forest with the interface of the baselines, on at most `FOREST_ROWS` rows."""

    def fit(self, x: Any, y: Any, recipe: Any) -> AnchoredForest:
        """Train on tensors of shape (n, d) and (n, 1)."""
        from sklearn.ensemble import RandomForestRegressor

        from deltauq.estimators import AnchoredRegressor

        rows = np.random.default_rng(recipe.seed).permutation(len(x))[:FOREST_ROWS]
        self.model = AnchoredRegressor(
            RandomForestRegressor(FOREST_TREES),
            target="value",
            n_train_anchors=full_pairs(len(rows)),
            random_state=recipe.seed,
        )
        self.model.fit(x.numpy()[rows], y.numpy()[rows, 0])
        return self

    def posterior(self, x: Any) -> Posterior:
        """Return the moments over the anchors, arrays of shape (n, 1)."""
        posterior = self.model.posterior(x.numpy())
        return Posterior(posterior.mean[:, None], posterior.var[:, None])


def make_method(method: str, make: Callable[[], Any]) -> Any:
    """Return an unfitted model; all have `fit(x, y, recipe)` and `posterior(x)`."""
    from deltauq import baselines

    makers: dict[str, Callable[[], Any]] = {
        "delta-uq": lambda: AnchoredPerceptron(make, **CHOSEN),
        "delta-uq-raw": lambda: AnchoredPerceptron(make, **CHOSEN),
        "delta-labelled": lambda: AnchoredPerceptron(make, **LABELLED),
        "ensemble": lambda: WithLoss(baselines.DeepEnsemble(make, N_MEMBERS), "log"),
        "mc-dropout": lambda: WithLoss(baselines.MCDropout(make, RATE, N_SAMPLES), "log"),
        "svi": lambda: baselines.SVI(make, PRIOR_STD, n_samples=N_SAMPLES),
        "deup": lambda: WithLoss(baselines.DEUPNetwork(make), "log"),
        "gp": lambda: baselines.GaussianProcess(GP_ROWS, observation_noise=True),
        "anchored-forest": AnchoredForest,
    }
    return makers[method]()


METHODS = ("delta-uq", "delta-uq-raw", "delta-labelled", "ensemble", "mc-dropout", "svi", "deup")
WITHOUT_NETWORK = ("gp", "anchored-forest")
CALIBRATION = {
    "delta-uq": "scale",
    "delta-labelled": "scale",
    "anchored-forest": "scale",
    "delta-uq-raw": "none",
    "deup": "none",
    "gp": "none",
}
"""See `measure`; the default is "noise". DEUP and the GP predict the variance of the target themselves."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per table, network, method and split."""
    tiny, small, large, largest = N_SPLITS[profile]
    n_splits = {"boston": tiny, "yacht": tiny, "kin8nm": large, "naval": large, "power": large}
    n_splits["protein"] = largest
    return [
        {"dataset": dataset, "network": network, "method": method, "seed": seed}
        for seed in range(tiny)
        for dataset in DATASETS[profile]
        for network, methods in (*((name, METHODS) for name in NETWORKS), ("none", WITHOUT_NETWORK))
        for method in methods
        if seed < n_splits.get(dataset, small)
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Train on most of the training rows, calibrate on the rest, measure on the test rows."""
    table = uci_table(cell["dataset"])
    train, test = table.splits[cell["seed"]]
    calibration = CALIBRATION.get(cell["method"], "noise")
    return measure(cell, profile, table, train, test, partial(make_method, cell["method"]), calibration)


def measure(
    cell: Cell,
    profile: str,
    table: SplitTable,
    train: np.ndarray,
    test: np.ndarray,
    make_model: Any,
    calibration: str,
) -> Outcome:
    """Train a model on most of the training rows, calibrate on the rest, measure on the test rows.

    Parameters
    ----------
    cell : dict
        With network and seed.
    make_model : callable
        ``make_model(make_network)`` returns an unfitted model.
    calibration : {"none", "noise", "scale"}
        The standard deviation of the target is the spread itself, the spread with noise estimated on the
        held-out rows, or the spread with noise and scale.
    """
    import torch

    from deltauq.nn import MLP
    from deltauq.nn.training import Recipe

    torch.set_num_threads(1)
    order = np.random.default_rng(cell["seed"]).permutation(train)
    n_held_out = int(HELD_OUT * len(order))
    held_out, fitted = order[:n_held_out], order[n_held_out:]
    x_mean, x_std = table.X[fitted].mean(0), table.X[fitted].std(0)
    y_mean, y_std = table.y[fitted].mean(), table.y[fitted].std()

    def inputs(rows: np.ndarray) -> Any:
        return torch.from_numpy((table.X[rows] - x_mean) / np.where(x_std > 0, x_std, 1.0)).float()

    def targets(rows: np.ndarray) -> np.ndarray:
        return (table.y[rows] - y_mean) / y_std

    hidden = NETWORKS.get(cell["network"], ())
    model = make_model(lambda: MLP(table.X.shape[1], 1, hidden))
    recipe = Recipe(
        epochs=EPOCHS[profile],
        batch_size=32 if len(table.y) < LARGE else 256,
        lr=3e-3,
        schedule="linear",
        seed=cell["seed"],
    )
    started = time.perf_counter()
    model.fit(inputs(fitted), torch.from_numpy(targets(fitted)).float()[:, None], recipe)
    trained = time.perf_counter()
    mean, spread = moments(model.posterior(inputs(test)))
    predicted = time.perf_counter()

    held_mean, held_spread = moments(model.posterior(inputs(held_out)))
    std = spread
    if calibration != "none":
        scaler = GaussianScaler(fit_scale=calibration == "scale")
        std = scaler.fit(targets(held_out), held_mean, held_spread).transform(spread)
    # Zero has no logarithm.
    std = np.maximum(std, 1e-6)
    conformal = ConformalRegressor(model).conformalize(inputs(held_out), targets(held_out)[:, None])
    lower, upper = conformal.interval(mean[:, None], spread[:, None], LEVEL)
    y = targets(test)
    unit = float(y_std)
    return Outcome(
        {
            "rmse": unit * rmse(y, mean),
            "mae": unit * mae(y, mean),
            "nll": gaussian_nll(y, mean, std) + float(np.log(unit)),
            "crps": unit * crps(y, mean, std),
            "coverage": coverage(y, mean, std, LEVEL),
            "width": unit * width(std, LEVEL),
            "spearman": spearman(spread, y - mean),
            "coverage_conformal": float(np.mean((lower[:, 0] <= y) & (y <= upper[:, 0]))),
            "width_conformal": unit * float(np.mean(upper - lower)),
            "n_test": float(len(y)),
            "seconds_fit": trained - started,
            "seconds_per_row": (predicted - trained) / len(y),
        }
    )


def moments(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation as float64 arrays of shape (n,)."""
    mean, std = (np.asarray(values, dtype=np.float64)[:, 0] for values in (posterior.mean, posterior.std))
    return mean, std


@lru_cache(maxsize=2)
def uci_table(name: str) -> SplitTable:
    """Return a table; consecutive cells use the same one."""
    return load_uci(name)


LABELS = {
    "delta-uq": "Δ-UQ, calibrated",
    "delta-uq-raw": "Δ-UQ, raw",
    "svi": "SVI",
    "gp": "GP",
    "anchored-forest": "anchored forest",
}


def _tables(metric: str, title: str, best: Any) -> tuple[TableSpec, ...]:
    """Return a table for each network, and one for the methods without."""
    return tuple(
        TableSpec(
            f"{title}, {'without a network' if network == 'none' else f'network {network}'}",
            metric,
            "dataset",
            "method",
            best=best,
            where={"network": network},
            labels=LABELS,
        )
        for network in (*NETWORKS, "none")
    )


EXPERIMENT = Experiment(
    "uci",
    3,
    "Nine UCI tables and neural baselines",
    cells,
    run,
    tables=(
        *_tables("crps", "CRPS", "min"),
        *_tables("rmse", "RMSE", "min"),
        *_tables("nll", "NLL", "min"),
        *_tables("coverage", "Coverage of intervals, nominal 90 %", None),
        *_tables("coverage_conformal", "Coverage of split-conformal intervals, nominal 90 %", None),
        *_tables("width", "Width of the 90 % intervals", None),
        *_tables("spearman", "Rank correlation of σ with the error", "max"),
        *_tables("seconds_fit", "Seconds to train", "min"),
        *_tables("seconds_per_row", "Seconds to predict a row", "min"),
    ),
    notes=(
        "The first of the standard splits: 20 of boston and yacht, 8 of the other small tables, 4 of "
        "kin8nm, naval and power, 2 of protein. For every method a fifth of the training rows is held out "
        "to estimate the noise of ensemble, MC dropout and SVI, scale and noise of anchored networks, and "
        "the conformal scores. DEUP and the GP predict the variance of the target themselves. The GP has at "
        f"most {GP_ROWS} rows, the anchored forest {FOREST_TREES} trees and at most {FOREST_ROWS} rows. The "
        "loss of the networks is the logarithm of the squared error, for SVI its own likelihood. `uci-study` "
        "chose the training of Δ-UQ and of labelled anchors, the rate of MC dropout and the prior of SVI on "
        "training rows of the first split."
    ),
)
