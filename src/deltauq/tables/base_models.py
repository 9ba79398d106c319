"""Models by a word, and the preprocessing that a mixed table needs before them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from deltauq.tables.schema import REGRESSION

N_TREES = 50
"""Half of scikit-learn's default, which keeps the assessment of a thousand rows well under a minute."""


class BaseModel(StrEnum):
    """What `--model` may be."""

    forest = "forest"
    boosting = "boosting"
    svm = "svm"
    knn = "knn"
    mlp = "mlp"
    tree = "tree"
    linear = "linear"


UNIT_FREE = {BaseModel.forest, BaseModel.boosting, BaseModel.tree}
"""Models that need no standard deviations of one; see `UnitScaler` for what they still need."""
ROW_KEEPERS = {BaseModel.svm, BaseModel.knn}
"""Models that consist of rows of the training table."""


def build_base_model(word: BaseModel, task: str) -> Any:
    """Return the model that a word stands for.

    Parameters
    ----------
    word : BaseModel
    task : {"regression", "classification"}

    Returns
    -------
    model : scikit-learn estimator, unfitted
    """
    from sklearn import ensemble, linear_model, neighbors, neural_network, svm, tree

    regressor, classifier, options = {
        BaseModel.forest: (
            ensemble.RandomForestRegressor,
            ensemble.RandomForestClassifier,
            {"n_estimators": N_TREES},
        ),
        BaseModel.boosting: (
            ensemble.HistGradientBoostingRegressor,
            ensemble.HistGradientBoostingClassifier,
            {},
        ),
        BaseModel.svm: (svm.SVR, svm.SVC, {}),
        BaseModel.knn: (neighbors.KNeighborsRegressor, neighbors.KNeighborsClassifier, {}),
        BaseModel.mlp: (neural_network.MLPRegressor, neural_network.MLPClassifier, {}),
        BaseModel.tree: (tree.DecisionTreeRegressor, tree.DecisionTreeClassifier, {}),
        BaseModel.linear: (linear_model.Ridge, linear_model.LogisticRegression, {}),
    }[word]
    return (regressor if task == REGRESSION else classifier)(**options)
