"""`gap`: settings of an anchored network and the width of its error band where there is no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deltauq import plots
from deltauq.data import gap_curve
from deltauq.plots import Figure
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.tables import TableSpec

CURVES = ("hill", "step")
# Seeds below 30 were used to choose the setting.
SEEDS = {"quick": range(30, 31), "paper": range(30, 35)}
N_ROWS, GRID, GAP_MARGIN = 40, 81, 0.2
"""Margins of this width at the edges of the gap are left out of the comparison."""


@dataclass(frozen=True)
class Setting:
    """A network and its training by Adam, with the whole dataset in every step."""

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"
    n_frequencies: int = 0
    fourier_scale: float = 1.0
    train_anchors: str = "derangement"
    prior: str = "data"
    n_train_anchors: int = 8
    consistency: float = 10.0
    steps: int = 1500
    learning_rate: float = 1e-3


CHOSEN = Setting()
SETTINGS = {
    "chosen": CHOSEN,
    "one anchor a step": replace(CHOSEN, n_train_anchors=1, consistency=0.0),
    "no consistency": replace(CHOSEN, consistency=0.0),
    "forty anchors a step": replace(CHOSEN, n_train_anchors=N_ROWS, consistency=0.0),
    "consistency 1": replace(CHOSEN, consistency=1.0),
    "three layers": replace(CHOSEN, hidden=(128,) * 3),
    "five layers": replace(CHOSEN, hidden=(128,) * 5),
    "tanh": replace(CHOSEN, activation="tanh"),
    "silu": replace(CHOSEN, activation="silu"),
    "Fourier features, scale 0.5": replace(CHOSEN, n_frequencies=64, fourier_scale=0.5),
    "Fourier features, scale 1": replace(CHOSEN, n_frequencies=64),
    "Fourier features, scale 4": replace(CHOSEN, n_frequencies=64, fourier_scale=4.0),
    "reversed batch": replace(CHOSEN, train_anchors="reverse"),
    "normal anchors": replace(CHOSEN, train_anchors="normal", prior="normal"),
    "three layers, one anchor a step": replace(CHOSEN, hidden=(128,) * 3, n_train_anchors=1, consistency=0.0),
}
METHODS = {"quick": ("chosen", "one anchor a step"), "paper": tuple(SETTINGS)}


def cells(profile: str) -> list[Cell]:
    """Return one cell per setting, curve and seed."""
    return [
        {"method": setting, "curve": curve, "seed": seed}
        for seed in SEEDS[profile]
        for setting in METHODS[profile]
        for curve in CURVES
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Train one network, and compare σ in the gap with σ where there is data.

    Errors are those of the mean against the curve without noise.
    """
    toy = gap_curve(cell["curve"], N_ROWS, random_state=cell["seed"])
    x = np.linspace(*toy.limits, GRID)
    mean, std = predict(SETTINGS[cell["method"]], toy.X, toy.y, x[:, None], cell["seed"])
    in_gap = (x > toy.gap[0] + GAP_MARGIN) & (x < toy.gap[1] - GAP_MARGIN)
    in_data = (x < toy.gap[0]) | (x > toy.gap[1])
    error = mean - toy.truth(x)
    metrics = {
        "sigma_gap_over_data": float(std[in_gap].mean() / std[in_data].mean()),
        "rmse": float(np.sqrt(np.mean(error[in_data] ** 2))),
        "rmse_gap": float(np.sqrt(np.mean(error[in_gap] ** 2))),
    }
    if cell["seed"] != SEEDS[profile][0]:
        return Outcome(metrics)
    band = {"x": x, "mean": mean, "std": std, "x_train": toy.X[:, 0], "y_train": toy.y}
    return Outcome(metrics, {name: np.round(values, 4).tolist() for name, values in band.items()})


def predict(
    setting: Setting, X: np.ndarray, y: np.ndarray, X_new: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Train on standardised data and return mean and standard deviation over anchors, in units of y.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,)
    X_new : array of shape (m, d)

    Returns
    -------
    mean, std : arrays of shape (m,)
    """
    import torch
    from torch.nn.functional import mse_loss

    from deltauq.nn import MLP, Anchored, anchored_loss

    def standardised(values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor((values - X.mean(0)) / X.std(0), dtype=torch.float32)

    inputs = standardised(X)
    targets = torch.as_tensor((y - y.mean()) / y.std(), dtype=torch.float32)[:, None]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = MLP(
            X.shape[1],
            1,
            setting.hidden,
            activation=setting.activation,
            n_frequencies=setting.n_frequencies,
            fourier_scale=setting.fourier_scale,
        )
        net = Anchored(network, n_anchors=len(X), train_anchors=setting.train_anchors)
        optimizer = torch.optim.Adam(net.parameters(), setting.learning_rate, fused=True)
        for _ in range(setting.steps):
            optimizer.zero_grad()
            # Shuffled, so that the reversed batch differs in every step.
            rows = torch.randperm(len(inputs))
            anchored_loss(
                net,
                mse_loss,
                inputs[rows],
                targets[rows],
                anchors_per_step=setting.n_train_anchors,
                consistency=setting.consistency,
            ).backward()
            optimizer.step()
    net.set_anchors(inputs, prior=setting.prior, random_state=seed)
    posterior = net.posterior(standardised(X_new))
    mean, std = (values[:, 0].numpy().astype(np.float64) for values in (posterior.mean, posterior.std))
    return mean * y.std() + y.mean(), std * y.std()


def draw(lines: Sequence[ResultLine]) -> list[Figure]:
    """Draw the bands of the chosen setting and of the plain one, for the first seed."""
    drawn = []
    for line in lines:
        if line.cell["method"] not in METHODS["quick"] or not line.details:
            continue
        band = {name: np.asarray(values) for name, values in line.details.items()}
        toy = gap_curve(line.cell["curve"], N_ROWS, random_state=line.cell["seed"])
        picture = plots.mean_and_band(
            band["x"],
            band["mean"],
            {"2 σ": 2 * band["std"]},
            train=(band["x_train"], band["y_train"]),
            truth=toy.truth(band["x"]),
            gap=toy.gap,
        )
        ratio = line.metrics["sigma_gap_over_data"]
        caption = f"σ in the gap is {ratio:.1f} times σ where there is data; it is not calibrated."
        drawn.append(Figure(picture, f"{line.cell['method']}, {line.cell['curve']}", caption))
    return drawn


EXPERIMENT = Experiment(
    "gap",
    2,
    "Settings of a network and the width of its band in a gap",
    cells,
    run,
    tables=(
        TableSpec(
            "σ in the gap over σ where there is data",
            "sigma_gap_over_data",
            rows="method",
            columns="curve",
            best=None,
        ),
        TableSpec(
            "Errors where there is data, and in the gap", ("rmse", "rmse_gap"), rows="method", best=None
        ),
    ),
    figures=draw,
    notes=(
        "Forty noisy points of a curve with a gap in the middle. In the hill the curve leaves the gap at "
        "the height at which it enters, in the step at another. Every setting differs from the default (two "
        "layers of 128 ReLU, eight anchors per step, consistency 10) in what its name says. Two differ in "
        "more: a single anchor per step has no consistency, and forty anchors per step are without it, for "
        "comparison with `no consistency`; normal anchors are drawn in training and at prediction."
    ),
)
