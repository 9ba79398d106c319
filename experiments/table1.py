"""`table1`: the choice of encoding, by a decision tree on Ackley and Griewank in two to four dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor

from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import spearman
from deltauq.plots import Figure
from experiments import paper_values
from experiments.data.functions import FUNCTIONS
from experiments.figures import dot_figure
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.tables import TableSpec

ENCODINGS = ("identity", "difference", "two-anchor")
DIMENSIONS = (2, 3, 4)
SEEDS = {"quick": range(1), "paper": range(5)}
# By `table1-study`: the size, on the functions' usual domains, at which the paper's order appears for Ackley
# in every dimension.
N_TRAIN, N_TRAIN_ANCHORS, N_ANCHORS, N_TEST = 200, "auto", 100, {"quick": 500, "paper": 2000}


def cells(profile: str) -> list[Cell]:
    """Return one cell per function, dimension, encoding and seed."""
    return [
        {"function": f"{function}-{dimension}d", "encoding": encoding, "seed": seed}
        for seed in SEEDS[profile]
        for function in FUNCTIONS
        for dimension in DIMENSIONS
        for encoding in ENCODINGS
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Fit one tree and measure it on fresh points of the same domain."""
    return measure(
        cell,
        n_train=N_TRAIN,
        n_test=N_TEST[profile],
        n_train_anchors=N_TRAIN_ANCHORS,
        share=1.0,
    )


def measure(
    cell: Cell,
    *,
    n_train: int,
    n_test: int,
    n_train_anchors: int | str,
    share: float,
) -> Outcome:
    """Fit an anchored tree to uniform points on a share of a function's usual domain.

    The cell names function, encoding and seed; the outcome is R² and the rank correlation.
    """
    name, dimension = cell["function"].split("-")
    function, d = FUNCTIONS[name], int(dimension.removesuffix("d"))
    train_rng, test_rng = np.random.default_rng(cell["seed"]).spawn(2)
    X, y = function.sample(n_train, d, train_rng, share * function.halfwidth)
    X_test, y_test = function.sample(n_test, d, test_rng, share * function.halfwidth)
    model = AnchoredRegressor(
        DecisionTreeRegressor(),
        target="value",
        encoding=cell["encoding"],
        n_train_anchors=n_train_anchors,
        n_anchors=N_ANCHORS,
        random_state=cell["seed"],
    )
    posterior = model.fit(X, y).posterior(X_test)
    return Outcome(
        {
            "r2": float(r2_score(y_test, posterior.mean)),
            "spearman": spearman(posterior.std, y_test - posterior.mean),
        }
    )


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return accuracy and ranking by encoding."""
    return [
        dot_figure(
            lines,
            metric,
            rows="function",
            series="encoding",
            title=title,
            caption=caption,
            x_title=x_title,
            reference=0.0,
        )
        for metric, title, caption, x_title in (
            ("r2", "Accuracy", "Bars: one standard deviation over the seeds.", "R²"),
            (
                "spearman",
                "Does σ rank the errors?",
                "1: perfectly. 0, the dotted line: not at all.",
                "rank correlation of σ with the error",
            ),
        )
    ]


EXPERIMENT = Experiment(
    "table1",
    2,
    "Choice of encoding",
    cells,
    run,
    tables=(
        TableSpec("R²", "r2", rows="function", columns="encoding", paper=paper_values.TABLE1_R2),
        TableSpec(
            "Rank correlation of σ with the error",
            "spearman",
            rows="function",
            columns="encoding",
            paper=paper_values.TABLE1_SPEARMAN,
        ),
    ),
    figures=figures,
    notes=(
        "A decision tree on uniform points of a function's usual domain. The paper gives neither the number "
        "of points nor the domain; `table1-study` chose 200 points. As in the paper, X − R has the best R², "
        "and σ of the trivial encoding X does not rank errors. The paper's result for two anchors holds for "
        "Ackley in two dimensions only; on Griewank their σ ranks errors in the wrong order. On Griewank in "
        "three and four dimensions σ of X − R ranks errors hardly, or in the wrong order."
    ),
)
