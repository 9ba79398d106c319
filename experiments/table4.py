"""`table4`: digits of unseen thickness by search in the latent space of a generator."""

from __future__ import annotations

import base64
import time
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from deltauq.plots import Figure
from experiments import paper_values
from experiments.cache import shared_arrays
from experiments.digit_models import (
    Size,
    classifier,
    forward_model,
    generator,
    held_out_digits,
    starts,
    thickness,
)
from experiments.display_names import DISPLAY_NAMES
from experiments.plots import contact_sheet
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.tables import TableSpec

METHODS = ("plain", "mc-dropout", "ensemble", "delta-uq", "delta-labelled")
TARGETS = (150, 175, 200, 225, 250)
SIZES = {
    "quick": Size(
        images=6000,
        restarts=20,
        steps=150,
        # Without a critic: with so few images the generator would learn a single digit.
        generator={"epochs": 40, "lr": 1e-3, "schedule": "linear"},
        adversarial=0.0,
        forward={"epochs": 10, "lr": 3e-4, "schedule": "linear"},
        classifier={"epochs": 5, "lr": 1e-3},
    ),
    # 100 restarts: two times the paper's 50.
    "paper": Size(
        images=None,
        restarts=100,
        steps=1000,
        generator={"epochs": 60, "lr": 2e-4, "schedule": "linear"},
        critic="convolutional",
        starts=0.5,
        layers="convolutional",
        # With thick anchors, models of digits up to 175 predicted thicker ones better than with other priors.
        anchors=0.1,
        # Longer or faster training is not better on digits of the range, and worse on thicker ones.
        forward={"epochs": 20, "lr": 3e-5, "schedule": "linear"},
        classifier={"epochs": 10, "lr": 1e-3},
    ),
}
SEEDS = {"quick": 1, "paper": 5}
RATE = 0.005
"""Learning rate of the search."""
CONFIDENT = 0.9
N_PICTURES = 10
"""Number of digits per target and method in the figures, from the first seed."""


def cells(profile: str) -> list[Cell]:
    """Return one cell per target, method and seed.

    Seeds vary fastest, so that processes that start together share no training.
    """
    return [
        {"target": target, "method": method, "seed": seed}
        for target in TARGETS
        for method in METHODS
        for seed in range(SEEDS[profile])
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure the digits that the search with one forward model finds for one target."""
    method, seed, target = cell["method"], cell["seed"], cell["target"]
    result = searched(method, seed, SIZES[profile])
    of_plain = searched("plain", seed, SIZES[profile])
    k = TARGETS.index(target)
    thick = result["thickness"][k]
    metrics = {
        "thickness": thick.mean(),
        "thickness_std": thick.std(ddof=1),
        "bias": abs(thick.mean() - target),
        "miss": np.abs(thick - target).mean(),
        "predicted": result["mean"][k].mean(),
        "diversity": mean_distance(result["x"][k].astype(np.float64)),
        "recognised": result["recognised"][k].mean(),
        "search_seconds": float(result["seconds"]),
        "cost": float(result["seconds"] / of_plain["seconds"]),
    }
    if "std" in result:
        metrics["predicted_std"] = result["std"][k].mean()
        metrics["scale"] = float(result["scale"])
    return Outcome(metrics, {"digits": packed(result["x"][k, :N_PICTURES])} if seed == 0 else None)


def searched(method: str, seed: int, size: Size) -> dict[str, np.ndarray]:
    """Search with a forward model for all targets, or load the result from the cache.

    Returns
    -------
    found : dict of arrays
        For t targets and r restarts: ``x``, float16 of shape (t, r, 784); ``thickness``, ``mean``,
        ``recognised`` and, for methods with uncertainty, ``std``, of shape (t, r); ``seconds``, of shape ().
    """

    def make() -> dict[str, np.ndarray]:
        return _search(method, seed, size)

    return shared_arrays(f"table4-{method}-{seed}", size.configuration(method, seed), make)


def _search(method: str, seed: int, size: Size) -> dict[str, np.ndarray]:
    import torch

    from deltauq.inverse import scale_of, search

    g, f = generator(seed, size), forward_model(method, seed, size)
    digits = held_out_digits(size)
    device = next(g.parameters()).device
    scale = scale_of(f, digits.x.to(device), digits.y.to(device))
    z = starts(g, seed, size)
    started = time.perf_counter()
    result = search(
        g,
        f,
        TARGETS,
        n_restarts=size.restarts,
        n_steps=size.steps,
        lr=RATE,
        starts=z,
        scale=scale,
        y_mean=digits.mean,
        y_std=digits.std,
        seed=seed,
    )
    x = result.x.cpu()
    seconds = time.perf_counter() - started
    classify = classifier(seed, size)
    with torch.no_grad():
        confidence = classify(result.x.flatten(0, 1)).softmax(-1).amax(-1).cpu()
    arrays = {
        "x": x.numpy().astype(np.float16),
        "thickness": thickness(x).numpy(),
        "mean": result.mean.cpu().numpy(),
        "recognised": (confidence > CONFIDENT).view(x.shape[:2]).numpy(),
        "seconds": np.array(seconds),
        "scale": np.array(scale),
    }
    return arrays if result.std is None else {**arrays, "std": result.std.cpu().numpy()}


def mean_distance(x: np.ndarray) -> float:
    """Return the mean Euclidean distance of two rows of x, of shape (n, d)."""
    squares = (x**2).sum(1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * x @ x.T, 0.0))
    return float(distances[np.triu_indices(len(x), 1)].mean())


def packed(x: np.ndarray) -> str:
    """Return images in [0, 1], of shape (n, 784), as compressed text."""
    return base64.b64encode(zlib.compress(np.rint(255 * x).astype(np.uint8).tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Return packed images in bytes, of shape (n, 28, 28)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(-1, 28, 28)


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return a sheet of digits for every method, a row for each target."""
    sheets: dict[str, dict[int, np.ndarray]] = {}
    for line in lines:
        if "digits" in line.details:
            of_method = sheets.setdefault(line.cell["method"], {})
            of_method[line.cell["target"]] = unpacked(line.details["digits"])
    return [
        Figure(
            contact_sheet(_as_ink(rows.values()), [str(target) for target in rows], [""] * N_PICTURES),
            DISPLAY_NAMES[method],
            "Rows: target thickness. The first digits of the first seed, without selection.",
            height=280,
        )
        for method, rows in sheets.items()
    ]


def _as_ink(rows: Iterable[np.ndarray]) -> np.ndarray:
    """Return rows of white digits on black as colours, black on white, of shape (rows, n, 28, 28, 3)."""
    return np.repeat(255 - np.stack(list(rows))[..., None], 3, axis=-1)


def _table(title: str, metric: str, best: Any, paper: Any = None) -> TableSpec:
    return TableSpec(title, metric, "target", "method", best=best, paper=paper or {})


EXPERIMENT = Experiment(
    "table4",
    4,
    "Digits of unseen thickness",
    cells,
    run,
    tables=(
        _table("Distance of the mean thickness from the target", "bias", "min", paper_values.TABLE4_BIAS),
        TableSpec(
            "Mean thickness of the digits, in pixels brighter than 0.2",
            "thickness",
            "target",
            "method",
            best=None,
            paper=paper_values.TABLE4_THICKNESS,
            digits=4,
        ),
        _table("Standard deviation of thickness over the digits of a target", "thickness_std", None),
        _table("Mean distance of a digit from the target", "miss", "min"),
        _table("Share of digits that a classifier recognises with confidence above 0.9", "recognised", "max"),
        _table("Diversity: mean distance between two digits of one target", "diversity", "max"),
        TableSpec(
            "Time of the search",
            ("search_seconds", "cost"),
            "method",
            best=None,
            labels={"search_seconds": "seconds", "cost": "times plain"},
            note="On a GPU shared with trainings, so that times vary; `benchmarks/bench_inverse.py` compares "
            "the methods in turns.",
        ),
    ),
    figures=figures,
    notes=(
        "Generator and forward models are trained on digits of thickness 200 at most. The paper does not "
        "describe the training of its generator; ours is the convolutional decoder of a variational "
        "autoencoder with a critic, the same for all methods, and all methods search from the same starts. "
        "MC dropout: rate 0.1, ten masks; ensemble: three networks, the plain one included; Δ-UQ: ten "
        "anchors, with values as in the paper or labelled. All forward models have the same recipe. The "
        "standard deviations of each method are scaled by one number, to equal the error on "
        "MNIST's test digits of the same range on average. The search does not use the thickness of the "
        "generated digits; it is measured afterwards. The quick profile has fewer digits, a generator of "
        "dense layers without a critic, random starts and random anchors."
    ),
)
