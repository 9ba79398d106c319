"""Models by a word, with the preprocessing that a mixed table needs before them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from deltauq.cli.tables import UserTable

MAX_CATEGORIES = 20
N_TREES = 50
"""Half of scikit-learn's default, which keeps the assessment of a thousand rows well under a minute."""


class ModelWord(StrEnum):
    """What `--model` may be."""

    forest = "forest"
    boosting = "boosting"
    svm = "svm"
    knn = "knn"
    mlp = "mlp"
    tree = "tree"
    linear = "linear"


SCALED = {ModelWord.svm, ModelWord.knn, ModelWord.mlp, ModelWord.linear}
"""Models to which the units of a column matter."""


def build_model(word: ModelWord, table: UserTable) -> Any:
    """Return a pipeline: gaps filled, words made columns, units removed where they matter, then the model.

    Parameters
    ----------
    word : ModelWord
    table : UserTable

    Returns
    -------
    pipeline : scikit-learn Pipeline, unfitted
    """
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers: list[Any] = [SimpleImputer(strategy="median", keep_empty_features=True)]
    if word in SCALED:
        numbers.append(StandardScaler())
    words = OneHotEncoder(
        max_categories=MAX_CATEGORIES, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    columns = make_column_transformer(
        (make_pipeline(*numbers), table.numeric),
        (words, [name for name in table.X.columns if name not in table.numeric]),
    )
    return make_pipeline(columns, _model(word, table.task))


def _model(word: ModelWord, task: str) -> Any:
    from sklearn import ensemble, linear_model, neighbors, neural_network, svm, tree

    regressor, classifier, options = {
        ModelWord.forest: (
            ensemble.RandomForestRegressor,
            ensemble.RandomForestClassifier,
            {"n_estimators": N_TREES},
        ),
        ModelWord.boosting: (
            ensemble.HistGradientBoostingRegressor,
            ensemble.HistGradientBoostingClassifier,
            {},
        ),
        ModelWord.svm: (svm.SVR, svm.SVC, {}),
        ModelWord.knn: (neighbors.KNeighborsRegressor, neighbors.KNeighborsClassifier, {}),
        ModelWord.mlp: (neural_network.MLPRegressor, neural_network.MLPClassifier, {}),
        ModelWord.tree: (tree.DecisionTreeRegressor, tree.DecisionTreeClassifier, {}),
        ModelWord.linear: (linear_model.Ridge, linear_model.LogisticRegression, {}),
    }[word]
    return (regressor if task == "regression" else classifier)(**options)
