"""Checks of scikit-learn that anchored estimators fail, with the reason."""

from __future__ import annotations

from typing import Any

_WEIGHTS = "check_sample_weight_equivalence_on_dense_data"

_NO_WEIGHTS = dict.fromkeys(
    [
        _WEIGHTS,
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_list",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
    ],
    "k-nearest neighbours take no sample weights",
)
_FOREST = "the bootstrap of the forest ignores weights: the forest alone fails this check too"
_SVM = "gamma='scale' and the stopping tolerance ignore weights: the SVM alone fails this check too"
_BOOSTING = "its bins and min_samples_leaf ignore weights: a bagging ensemble of it fails this check too"
_EPOCHS = (
    "each row, also a repeated one, gets a new anchor in every epoch: a bagging ensemble of it fails too"
)

EXPECTED_FAILED_CHECKS: dict[str, dict[str, str]] = {
    "DecisionTreeRegressor": {},
    "DecisionTreeClassifier": {},
    "RandomForestRegressor": {_WEIGHTS: _FOREST},
    "RandomForestClassifier": {_WEIGHTS: _FOREST},
    "KNeighborsRegressor": _NO_WEIGHTS,
    "KNeighborsClassifier": {
        **_NO_WEIGHTS,
        "check_classifiers_one_label_sample_weights": _NO_WEIGHTS[_WEIGHTS],
    },
    "SVR": {_WEIGHTS: _SVM},
    "SVC": {_WEIGHTS: _SVM + "; and cross-validation needs two rows per class, regardless of weights"},
    "HistGradientBoostingRegressor": {_WEIGHTS: _BOOSTING},
    "HistGradientBoostingClassifier": {_WEIGHTS: _BOOSTING},
    "MLPRegressor": {_WEIGHTS: _EPOCHS},
    "MLPClassifier": {_WEIGHTS: _EPOCHS},
}
"""Name of the base estimator -> name of the check -> reason of the failure."""


def expected_failed_checks(model: Any) -> dict[str, str]:
    """Return the checks that an anchored estimator is expected to fail, for `check_estimator`.

    Parameters
    ----------
    model : AnchoredRegressor or AnchoredClassifier

    Returns
    -------
    reasons : dict of check name to reason
        Empty for a base estimator that is not listed.
    """
    return dict(EXPECTED_FAILED_CHECKS.get(type(model._base()).__name__, {}))
