"""scikit-learn's checks that an anchored estimator cannot pass, by base, with the reason."""

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
_FOREST = "the forest draws its bootstrap by row, not by weight: it fails this check by itself"
_SVM = "gamma='scale' and the stopping tolerance know rows, not weights: it fails this check by itself"
_BOOSTING = "its bins and min_samples_leaf count rows, not weights: Bagging over it fails too"
_EPOCHS = (
    "every epoch draws another anchor for each row, and repeated rows draw more: Bagging over it fails too"
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
    "SVC": {_WEIGHTS: _SVM + "; and folds of rows need two rows of a class, whatever their weight"},
    "HistGradientBoostingRegressor": {_WEIGHTS: _BOOSTING},
    "HistGradientBoostingClassifier": {_WEIGHTS: _BOOSTING},
    "MLPRegressor": {_WEIGHTS: _EPOCHS},
    "MLPClassifier": {_WEIGHTS: _EPOCHS},
}
"""Name of the base class -> name of the check -> why it fails."""


def expected_failed_checks(model: Any) -> dict[str, str]:
    """Return the checks that an anchored estimator is expected to fail, for `check_estimator`.

    Parameters
    ----------
    model : AnchoredRegressor or AnchoredClassifier

    Returns
    -------
    reasons : dict of check name to reason; empty for a base that is not listed
    """
    return dict(EXPECTED_FAILED_CHECKS.get(type(model._base()).__name__, {}))
