"""Risk: reverse anchoring against its definition, targets of anchors, and the grid of levels."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.svm import SVR

from deltauq import AnchoredRegressor
from deltauq.tables import risk
from deltauq.tables.risk import LEVELS, RiskScale, anchor_targets, reverse_scores


@pytest.mark.parametrize("base", [RandomForestRegressor(3), SVR(), Ridge()])
@pytest.mark.parametrize("center", ["anchored", "estimator"])
def test_the_score_is_the_worst_error_with_the_row_as_anchor(base, center, table, monkeypatch):
    X, y = table
    model = AnchoredRegressor(base, n_anchors=7, center=center, random_state=0).fit(X[:40], y[:40])
    anchors, targets, rows = X[:9], y[:9], X[40:]
    expected = [
        np.abs(targets - model.estimator_.predict(np.hstack([np.tile(x, (9, 1)), anchors - x]))).max()
        for x in rows
    ]
    np.testing.assert_allclose(reverse_scores(model, rows, anchors, targets), expected, rtol=1e-12)
    monkeypatch.setattr(risk, "ROWS_PER_CALL", 7)
    np.testing.assert_allclose(reverse_scores(model, rows, anchors, targets), expected, rtol=1e-12)


def test_targets_of_anchors():
    X, y = np.array([[0.0], [1.0], [10.0], [12.0]]), np.array([1.0, 3.0, 20.0, 40.0])
    assert anchor_targets(X[[2, 0]], X, y, averaged=False).tolist() == [20.0, 1.0]
    centres = np.array([[0.5], [11.0], [100.0]])
    # The last is nearest to no row, and has the target of the row nearest to it.
    assert anchor_targets(centres, X, y, averaged=True).tolist() == [2.0, 30.0, 40.0]


def test_levels_are_a_grid_of_two_measures():
    scale = RiskScale((1.0, 2.0), (10.0, 20.0))
    std, reverse = np.meshgrid([0.5, 1.5, 2.5], [5.0, 15.0, 25.0], indexing="ij")
    levels = [LEVELS[k] for k in scale.levels(std.ravel(), reverse.ravel())]
    assert levels == [
        *("inside", "low", "moderate"),
        *("low", "moderate", "high"),
        *("moderate", "high", "high"),
    ]


def test_far_away_is_riskier():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    model = AnchoredRegressor(SVR(C=10), random_state=0).fit(X[:150], y[:150])
    anchors = model.anchors_
    targets = anchor_targets(anchors, X[:150], y[:150], averaged=False)

    def measure(rows):
        return model.posterior(rows).std, reverse_scores(model, rows, anchors, targets)

    scale = RiskScale.measure(*measure(X[150:]))
    near, far = (scale.levels(*measure(rows)) for rows in (X[150:], X[150:] + 3.0))
    assert far.min() == LEVELS.index("high") > near.mean()
