"""Models by a word, and the preprocessing that a mixed table needs before them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from deltauq.tables.problem import REGRESSION, UserTable
from deltauq.tables.schema import Schema

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


UNIT_FREE = {ModelWord.forest, ModelWord.boosting, ModelWord.tree}
"""Models that need no standard deviations of one; see `UnitScaler` for what they still need."""
ROW_KEEPERS = {ModelWord.svm, ModelWord.knn}
"""Models that consist of rows of the training table."""


def build_model(word: ModelWord, table: UserTable) -> Any:
    """Return a pipeline of the preprocessing and the model.

    Parameters
    ----------
    word : ModelWord
    table : UserTable

    Returns
    -------
    pipeline : scikit-learn Pipeline, unfitted
    """
    from sklearn.pipeline import make_pipeline

    return make_pipeline(
        build_columns(table.schema, scaled=word not in UNIT_FREE), build_base(word, table.task)
    )


def build_columns(schema: Schema, scaled: bool) -> Any:
    """Return what makes numbers of a table: gaps filled, words made columns, units removed if asked.

    Parameters
    ----------
    schema : Schema
    scaled : bool
        Standardise all columns; otherwise only numbers too small or too large for trees are brought near one.

    Returns
    -------
    columns : scikit-learn ColumnTransformer, unfitted
    """
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    from deltauq.tables.units import UnitScaler

    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    numbers = make_pipeline(filled, StandardScaler() if scaled else UnitScaler())
    words = OneHotEncoder(
        max_categories=MAX_CATEGORIES, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    return make_column_transformer((numbers, schema.numbers), (words, schema.words))


def build_base(word: ModelWord, task: str) -> Any:
    """Return the model that a word stands for.

    Parameters
    ----------
    word : ModelWord
    task : {"regression", "classification"}

    Returns
    -------
    model : scikit-learn estimator, unfitted
    """
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
    return (regressor if task == REGRESSION else classifier)(**options)
