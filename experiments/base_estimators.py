"""Six base estimators, plain and anchored, on 2000 training rows of the tables of `table2`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

from deltauq.estimators import AnchoredRegressor
from deltauq.metrics import coverage, mae, spearman
from experiments.runner import Cell, Experiment, Outcome
from experiments.table2 import REGRESSION, REGRESSION_NAMES, full_pairs, openml_table, split
from experiments.tables import TableSpec

N_TRAIN = {"quick": 100, "paper": 2000}
# A kernel machine or k-NN compares every test row, for every anchor, with all training pairs.
N_TEST = {"quick": 300, "paper": 1000}
SEEDS = {"quick": range(1), "paper": range(3)}
DATASETS = {"quick": (216, 41539), "paper": REGRESSION}

BASES: dict[str, Callable[[int], Any]] = {
    "tree": lambda seed: DecisionTreeRegressor(random_state=seed),
    "forest-100": lambda seed: RandomForestRegressor(100, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingRegressor(early_stopping=False, random_state=seed),
    "svr": lambda seed: SVR(),
    "knn": lambda seed: KNeighborsRegressor(),
    "mlp": lambda seed: MLPRegressor(max_iter=100, random_state=seed),
}


def cells(profile: str) -> list[Cell]:
    """Return one cell per dataset, base estimator and trial; it measures plain and anchored models."""
    return [
        {"dataset": dataset, "base": base, "seed": seed}
        for seed in SEEDS[profile]
        for dataset in DATASETS[profile]
        for base in BASES
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Fit a base plain and anchored, and measure both on the same rows.

    Inputs and target are standardised by the training rows, for every base alike; errors are reported in the
    target's own units. With ``center="estimator"`` the mean is the plain model's and the spread the anchored
    one's, so both fits serve it too.
    """
    table = openml_table(cell["dataset"])
    train, _, test = split(table, cell["seed"], N_TEST[profile], n_train=N_TRAIN[profile])
    inputs, target = StandardScaler().fit(table.X[train]), StandardScaler().fit(table.y[train, None])
    X, X_test = inputs.transform(table.X[train]), inputs.transform(table.X[test])
    y, y_test = (target.transform(table.y[rows, None])[:, 0] for rows in (train, test))
    unit = float(target.scale_[0])

    base = BASES[cell["base"]](cell["seed"])
    plain = clone(base).fit(X, y).predict(X_test)
    n_train_anchors = full_pairs(len(X)) if cell["base"] == "forest-100" else "auto"
    anchored = AnchoredRegressor(base, n_train_anchors=n_train_anchors, random_state=cell["seed"])
    posterior = anchored.fit(X, y).posterior(X_test)
    mae_plain, mae_anchored = mae(y_test, plain), mae(y_test, posterior.mean)
    return Outcome(
        {
            "mae_plain": unit * mae_plain,
            "mae_anchored": unit * mae_anchored,
            "mae_ratio": mae_anchored / mae_plain,
            "spearman_anchored": spearman(posterior.std, y_test - posterior.mean),
            "spearman_estimator": spearman(posterior.std, y_test - plain),
            "coverage_anchored": coverage(y_test, posterior.mean, posterior.std),
        }
    )


def _view(title: str, metric: str, best: Any, note: str = "") -> TableSpec:
    return TableSpec(
        title,
        metric,
        "dataset",
        "base",
        best=best,
        mean_over=REGRESSION_NAMES,
        note=note,
    )


EXPERIMENT = Experiment(
    "base-estimators",
    1,
    "Six base estimators, 2000 rows",
    cells,
    run,
    stored_as="bases",
    tables=(
        _view("MAE anchored over MAE plain", "mae_ratio", "min", "Above 1 anchoring costs accuracy."),
        _view("Spearman(σ, |error|), anchored", "spearman_anchored", "max"),
        _view(
            'Spearman(σ, |error|), center="estimator"',
            "spearman_estimator",
            "max",
            "The plain model's prediction, its errors ranked by the spread over anchors.",
        ),
        TableSpec("MAE, plain", "mae_plain", "dataset", "base", best="min"),
        TableSpec("MAE, anchored", "mae_anchored", "dataset", "base", best="min"),
    ),
    notes=(
        "Inputs and targets are standardised; all other parameters have their defaults (the perceptron has "
        "100 epochs). A single tree gains accuracy and has the best ranking. Forests and boosting rank "
        "well, but on tables with exact patterns in their columns (201, 42712) anchoring reduces their "
        'accuracy, for boosting up to a factor of two; there center="estimator" keeps the predictions. SVR '
        "and k-NN lie in between. The spread of a perceptron is almost uninformative at this size."
    ),
)
