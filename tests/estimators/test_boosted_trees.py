"""Compiled gradient boosting returns what the libraries' own prediction returns."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from xgboost import XGBClassifier, XGBRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.core.encoding import get_encoding

pytest.importorskip("deltauq.estimators.boosted_trees", reason="numba is not installed")
from deltauq.estimators.boosted_trees import BoostedTrees
from deltauq.estimators.boosting_readers import UnreadableTreesError, read_ensemble

D, N = 4, 120
LIGHTGBM = {"verbose": -1, "n_jobs": 1, "min_child_samples": 5}
BASES = {
    "sklearn": HistGradientBoostingRegressor(max_iter=20),
    "sklearn-poisson": HistGradientBoostingRegressor(max_iter=20, loss="poisson"),
    "sklearn-classes": HistGradientBoostingClassifier(max_iter=20),
    "lightgbm": LGBMRegressor(n_estimators=20, **LIGHTGBM),
    "lightgbm-median": LGBMRegressor(n_estimators=20, objective="mae", **LIGHTGBM),
    "lightgbm-classes": LGBMClassifier(n_estimators=20, **LIGHTGBM),
    "xgboost": XGBRegressor(n_estimators=20, n_jobs=1),
    "xgboost-median": XGBRegressor(n_estimators=20, n_jobs=1, objective="reg:absoluteerror"),
    "xgboost-classes": XGBClassifier(n_estimators=20, n_jobs=1),
}


def sample(rng, n, gaps):
    """Rows on a grid, so that differences meet thresholds exactly, with missing values if required."""
    X = np.round(2 * rng.normal(scale=2.0, size=(n, D))) / 2
    return np.where(rng.random(X.shape) < 0.2, np.nan, X) if gaps else X


def targets(X, base, n_classes):
    score = np.nan_to_num(np.sin(X[:, 0]) + X[:, 1])
    if is_classifier(base):
        return np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))
    return np.abs(score)


def plainly(encoding):
    """Return an encoding of the same values, for which there is no compiled prediction."""
    kind = type(get_encoding(encoding))
    return type("Plain", (kind,), {"encode": lambda self, *args: kind.encode(self, *args)})()


@pytest.mark.parametrize(
    "gaps", [(False, False), (True, True), (False, True)], ids=["complete", "gaps", "only when predicting"]
)
@pytest.mark.parametrize("encoding", ["difference", "full", "identity", "two-anchor"])
@pytest.mark.parametrize("name", BASES)
def test_outputs_are_those_of_the_library(name, encoding, gaps):
    base, rng = BASES[name], np.random.default_rng(0)
    for n_classes in (2, 3) if is_classifier(base) else (0,):
        X, X_new = sample(rng, N, gaps[0]), sample(rng, 1500, gaps[1])
        kind, options = (AnchoredClassifier, {}) if n_classes else (AnchoredRegressor, {"target": "value"})
        model = kind(base, encoding=encoding, n_anchors=3, n_train_anchors=5, random_state=0, **options).fit(
            X, targets(X, base, n_classes)
        )
        outputs = model.posterior(X_new, return_samples=True).samples
        model.encoding_ = plainly(encoding)
        expected = model.posterior(X_new, return_samples=True).samples
        if name.startswith("xgboost"):  # it adds in float32
            np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
        elif is_classifier(base):  # functions of raw outputs may round differently
            np.testing.assert_allclose(outputs, expected, rtol=1e-14, atol=1e-16)
        else:
            np.testing.assert_array_equal(outputs, expected)


def test_labelled_anchors_of_float32_rows():
    rng = np.random.default_rng(1)
    X, X_new = (rng.normal(size=(n, D)).astype(np.float32) for n in (N, 50))
    for base in (HistGradientBoostingRegressor(max_iter=20), XGBRegressor(n_estimators=20)):
        model = AnchoredRegressor(base, n_anchors=10, random_state=0).fit(X, X[:, 0])
        compiled = model.posterior(X_new)
        model.encoding_ = plainly("full")
        np.testing.assert_allclose(compiled.mean, model.posterior(X_new).mean, rtol=1e-5, atol=1e-6)


def test_trees_of_one_leaf():
    X = np.random.default_rng(0).normal(size=(N, D))
    for name in ("sklearn", "lightgbm", "xgboost"):
        model = AnchoredRegressor(BASES[name], random_state=0, n_anchors=5).fit(X, np.full(N, 3.0))
        np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-6)


def test_rows_in_any_blocks_and_threads():
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(N, D)), rng.normal(size=(5000, D))
    model = AnchoredRegressor(BASES["sklearn"], n_anchors=5, random_state=0).fit(X, X[:, 0])
    whole = model.posterior(X_new).mean
    parts = [model.posterior(part).mean for part in np.split(X_new, [1, 1024, 1031])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(model.set_params(n_jobs=3).posterior(X_new).mean, whole)


@pytest.mark.parametrize(
    "base",
    [
        LGBMRegressor(n_estimators=5, objective="poisson", **LIGHTGBM),
        LGBMRegressor(n_estimators=5, reg_sqrt=True, **LIGHTGBM),
        LGBMRegressor(n_estimators=5, boosting_type="rf", subsample=0.5, subsample_freq=1, **LIGHTGBM),
        XGBRegressor(n_estimators=5, booster="gblinear"),
        XGBRegressor(n_estimators=5, objective="count:poisson"),
    ],
    ids=["lightgbm-poisson", "lightgbm-sqrt", "lightgbm-rf", "xgboost-linear", "xgboost-poisson"],
)
def test_other_models_predict_by_themselves(base):
    X = np.random.default_rng(0).normal(size=(N, D))
    model = AnchoredRegressor(base, target="value", n_anchors=3, random_state=0).fit(X, np.exp(X[:, 0]))
    with pytest.raises(UnreadableTreesError):
        read_ensemble(model.estimator_)
    encoded = [model.encoding_.encode(X, r[None]) for r in model.anchors_.X]
    expected = np.mean([model.estimator_.predict(tuples) for tuples in encoded], axis=0)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6)


def test_early_stopped_models_use_their_best_iteration():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2 * D)), rng.normal(size=200)
    stopped = [
        XGBRegressor(n_estimators=50, early_stopping_rounds=2).fit(
            X[:100], y[:100], eval_set=[(X[100:], y[100:])], verbose=False
        ),
        LGBMRegressor(n_estimators=50, early_stopping_round=2, **LIGHTGBM).fit(
            X[:100], y[:100], eval_X=X[100:], eval_y=y[100:]
        ),
    ]
    for base in stopped:
        outputs = BoostedTrees(base, D).outputs(X[:, D:], X[0, :D], np.zeros(D))
        tuples = np.hstack([np.broadcast_to(X[0, :D], (200, D)), X[:, D:]])
        np.testing.assert_allclose(outputs[:, 0], base.predict(tuples), rtol=1e-5)
