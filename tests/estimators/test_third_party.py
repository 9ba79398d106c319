"""Libraries that nobody here wrote use the estimators unchanged."""

import numpy as np
from mapie.conformity_scores.bounds.std_normalised import StdConformityScore
from mapie.regression import SplitConformalRegressor
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from skpro.regression.adapters.sklearn import SklearnProbaReg

from deltauq import AnchoredRegressor


def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X.iloc[order], y.iloc[order]


def test_mapie_conformalises_with_the_anchored_std():
    X, y = (frame.to_numpy() for frame in diabetes())
    model = AnchoredRegressor(RandomForestRegressor(5), n_anchors=20, n_train_anchors=20, random_state=0)
    conformal = SplitConformalRegressor(
        model, confidence_level=0.8, conformity_score=StdConformityScore(), prefit=False
    )
    conformal.fit(X[:200], y[:200]).conformalize(X[200:320], y[200:320])
    prediction, intervals = conformal.predict_interval(X[320:])
    lower, upper = intervals[:, :, 0].T
    mean, std = model.fit(X[:200], y[:200]).predict(X[320:], return_std=True)
    np.testing.assert_allclose(prediction, mean)
    widths = (upper - lower) / std
    np.testing.assert_allclose(widths, widths[0], err_msg="every interval is as wide as σ says")
    assert 0.7 < np.mean((lower <= y[320:]) & (y[320:] <= upper)) < 0.95


def test_skpro_turns_return_std_into_a_distribution():
    X, y = diabetes()
    model = AnchoredRegressor(
        RandomForestRegressor(5), n_anchors=20, n_train_anchors=20, calibrate="cv", random_state=0
    )
    proba = SklearnProbaReg(model).fit(X[:300], y[:300].to_frame())
    normal = proba.predict_proba(X[300:])
    mean, std = model.fit(X[:300], y[:300]).predict(X[300:], return_std=True)
    np.testing.assert_allclose(normal.mean().to_numpy()[:, 0], mean)
    np.testing.assert_allclose(np.sqrt(normal.var().to_numpy()[:, 0]), std)
    intervals = proba.predict_interval(X[300:], coverage=0.9)
    lower, upper = intervals.to_numpy().T
    np.testing.assert_allclose(upper - lower, 2 * norm.ppf(0.95) * std)
