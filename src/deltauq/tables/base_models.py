"""Base estimators by name."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from deltauq.tables.schema import REGRESSION

N_TREES = 50
"""Half of scikit-learn's default, so that an assessment of a thousand rows takes well below a minute."""


AUTO = "auto"
"""Several models, combined."""


class BaseModel(StrEnum):
    """The names of base estimators."""

    forest = "forest"
    boosting = "boosting"
    svm = "svm"
    knn = "knn"
    mlp = "mlp"
    tree = "tree"
    linear = "linear"


SCALE_INVARIANT = {BaseModel.forest, BaseModel.boosting, BaseModel.tree}
"""Models that do not depend on the scale of the columns; `UnitScaler` only avoids overflow."""
STORES_TRAINING_ROWS = {BaseModel.svm, BaseModel.knn}
"""Models that store rows of the training table."""


def build_base_model(name: BaseModel, task: str) -> Any:
    """Return an unfitted scikit-learn estimator for a task, "regression" or "classification"."""
    # Imported here, since the command line needs the names only.
    from sklearn import ensemble, linear_model, neighbors, neural_network, svm, tree

    regressor, classifier = {
        BaseModel.forest: (ensemble.RandomForestRegressor, ensemble.RandomForestClassifier),
        BaseModel.boosting: (ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier),
        BaseModel.svm: (svm.SVR, svm.SVC),
        BaseModel.knn: (neighbors.KNeighborsRegressor, neighbors.KNeighborsClassifier),
        BaseModel.mlp: (neural_network.MLPRegressor, neural_network.MLPClassifier),
        BaseModel.tree: (tree.DecisionTreeRegressor, tree.DecisionTreeClassifier),
        BaseModel.linear: (linear_model.Ridge, linear_model.LogisticRegression),
    }[name]
    options = {"n_estimators": N_TREES} if name == BaseModel.forest else {}
    return (regressor if task == REGRESSION else classifier)(**options)
