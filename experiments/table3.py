"""`table3`: five functions maximised by expected improvement, with six surrogates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq import plots
from deltauq.plots import Figure
from experiments import paper_values
from experiments.bo_loop import MakeSurrogate, measured, shared_runs
from experiments.data.functions import MAXIMISATIONS
from experiments.display_names import DISPLAY_NAMES
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.tables import TableSpec

if TYPE_CHECKING:
    from botorch.models.model import Model
    from torch import Tensor

VERSION = 1
FUNCTIONS = {"quick": ("sinusoid",), "paper": tuple(MAXIMISATIONS)}
SEEDS = {"quick": range(2), "paper": range(10)}
GROUP = 5
"""Number of seeds computed together."""
STORED_ONLY = ("delta-uq",)
"""The previous default, which predicted values under the anchors: its options were removed."""
MAX_SEEDS = {"delta-uq": 5, "delta-uq-paper": 5, "mc-dropout": 5}
"""Methods that have fewer seeds."""
METHODS = ("delta-labelled", "delta-uq", "delta-uq-paper", "gp", "mc-dropout", "ensemble", "deup")
MAX_EPOCHS = {"quick": 10, "paper": None}
PLOT_EVERY = 5
"""Steps between two points of a figure."""


def n_steps(function: str, profile: str) -> int:
    """Return the number of points after the initial ones."""
    if profile == "quick":
        return 2
    return 20 if function == "booth" else 50


def cells(profile: str) -> list[Cell]:
    """Return one cell per function, method and seed; cells that are computed together are not adjacent."""
    return [
        {"function": function, "method": method, "seed": seed}
        for seed in SEEDS[profile]
        for method in METHODS
        for function in FUNCTIONS[profile]
        if seed < MAX_SEEDS.get(method, len(SEEDS[profile]))
        and (profile == "paper" or method not in STORED_ONLY)
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure one seed of a function and a method; groups of seeds are computed together."""
    function, method = cell["function"], cell["method"]
    problem, steps = MAXIMISATIONS[function], n_steps(function, profile)
    seeds = [seed for seed in SEEDS[profile] if seed // GROUP == cell["seed"] // GROUP]
    configuration = {
        "experiment": "table3",
        "version": VERSION,
        "function": function,
        "method": method,
        "seeds": seeds,
        "steps": steps,
        "profile": profile,
    }
    runs = [(problem, seed) for seed in seeds]
    make = surrogate_maker(method, MAX_EPOCHS[profile])
    values = shared_runs(f"table3-{function}-{method}", configuration, runs, make, steps)
    return measured(values[seeds.index(cell["seed"])], problem)


def surrogate_maker(method: str, max_epochs: int | None = None) -> MakeSurrogate:
    """Return a function that creates the surrogates of a method.

    Networks are in float32, the Gaussian process in float64. Outcomes are standardised for all of them. Only
    labelled anchors, the default of `maximize`, are trained differently from the paper.
    """
    from deltauq.bo import (
        DEFAULT_RECIPE,
        PAPER_RECIPE,
        PAPER_SETTINGS,
        AnchoredSurrogate,
        DEUPSurrogate,
        DropoutSurrogate,
        EnsembleSurrogate,
        GPSurrogate,
    )

    if method == "gp":
        return lambda x, y, seed: GPSurrogate(x, y)
    kinds: dict[str, tuple[Callable[..., Model], Any, dict[str, Any]]] = {
        "delta-labelled": (AnchoredSurrogate, DEFAULT_RECIPE, {"posterior": "gaussian"}),
        "delta-uq-paper": (AnchoredSurrogate, PAPER_RECIPE, {**PAPER_SETTINGS, "posterior": "gaussian"}),
        "mc-dropout": (DropoutSurrogate, PAPER_RECIPE, {"posterior": "gaussian"}),
        "ensemble": (EnsembleSurrogate, PAPER_RECIPE, {"posterior": "gaussian"}),
        "deup": (DEUPSurrogate, PAPER_RECIPE, {}),
    }
    kind, recipe, options = kinds[method]
    if max_epochs is not None:
        recipe = replace(recipe, epochs=min(recipe.epochs, max_epochs))

    def make(x: Tensor, y: Tensor, seed: int) -> Model:
        return kind(x.float(), y.float(), **{**options, "recipe": replace(recipe, seed=seed)})

    return make


def draw(lines: Sequence[ResultLine]) -> list[Figure]:
    """Draw, for each function, the best value so far of every method, mean and deviation over the seeds."""
    drawn = []
    for function in dict.fromkeys(line.cell["function"] for line in lines):
        curves: dict[str, list[list[float]]] = {}
        for line in lines:
            if line.cell["function"] == function:
                curves.setdefault(line.cell["method"], []).append(line.details["best_so_far"])
        steps = np.arange(0, len(next(iter(curves.values()))[0]), PLOT_EVERY)
        series = {
            DISPLAY_NAMES.get(method, method): (
                np.mean(values, axis=0)[steps],
                np.std(values, axis=0)[steps],
            )
            for method, values in curves.items()
        }
        maximum = round(MAXIMISATIONS[function].maximum, 6) + 0.0  # neither -1e-31 nor -0
        drawn.append(
            Figure(
                plots.line_plot(steps, series, x_title="steps", y_title="best value so far"),
                f"Convergence, {DISPLAY_NAMES.get(function, function)}",
                f"Mean and standard deviation over the seeds; the largest value is {maximum:.4g}.",
                height=480,
            )
        )
    return drawn


EXPERIMENT = Experiment(
    "table3",
    VERSION,
    "Sequential optimisation by expected improvement",
    cells,
    run,
    cannot_rerun=lambda cell: cell["method"] in STORED_ONLY,
    tables=(
        TableSpec(
            "Best value found",
            "best",
            rows="function",
            columns="method",
            paper=paper_values.TABLE3_BEST,
            note="Largest values: 0 (Booth, Lévi, Ackley), 0.950 (Multi-Optima) and 7.623 (Sinusoid).",
        ),
        TableSpec(
            "Best value so far, mean over the steps",
            "auc_best",
            rows="function",
            columns="method",
            note="The area under the convergence curve: faster methods have larger values.",
        ),
    ),
    figures=draw,
    notes=(
        "Six uniform points, the same for every method, then 20 steps (Booth) or 50, each at the largest "
        "expected improvement under a Gaussian with the predicted mean and variance. Domains are those "
        "of the DEUP study, whose protocol the paper follows. Labelled anchors are the default surrogate "
        "of `maximize`, set up on other functions. Over all steps they are the best of the networks on "
        "all functions but Multi-Optima, and they reach the maximum of Sinusoid with every seed. Of ten "
        "runs, one on Ackley and five on Multi-Optima end at a lower maximum. The other forms of Δ-UQ "
        "and MC dropout have five seeds, the others ten."
    ),
)
