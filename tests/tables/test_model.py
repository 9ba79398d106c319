"""`TableModel`: levels of risk, and representations."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.svm import SVR

import deltauq
from deltauq import AnchoredRegressor
from deltauq.core import Anchors
from deltauq.tables import evaluate, fit
from deltauq.tables import model as model_module
from deltauq.tables.model import RISK_LEVELS, RiskScale, reference_points, reverse_scores


@pytest.mark.parametrize("base", [RandomForestRegressor(3), SVR(), Ridge()])
@pytest.mark.parametrize("target", ["difference", "value"])
def test_reverse_scores_equal_their_definition(base, target, table, monkeypatch):
    X, y = table
    model = AnchoredRegressor(base, target=target, encoding="difference", n_anchors=7, random_state=0)
    model.fit(X[:40], y[:40])
    points, rows = Anchors(X[:9], y[:9]), X[40:]
    predicted = model.predict(rows)
    # Under the row as an anchor; the label of a row that has none is its prediction.
    labels = predicted if target == "difference" else np.zeros(len(rows))
    tuples = [np.hstack([np.tile(x, (9, 1)), points.X - x]) for x in rows]
    values = [model.estimator_.predict(pairs) + label for pairs, label in zip(tuples, labels, strict=True)]
    expected = np.abs(points.y - values).max(axis=1)
    np.testing.assert_allclose(reverse_scores(model, rows, predicted, points), expected, rtol=1e-12)
    monkeypatch.setattr(model_module, "ROWS_PER_CALL", 7)
    np.testing.assert_allclose(reverse_scores(model, rows, predicted, points), expected, rtol=1e-12)


def test_reference_points():
    X, y = np.array([[0.0], [1.0], [10.0], [12.0]]), np.array([1.0, 3.0, 20.0, 40.0])
    labelled = reference_points(Anchors(X[[2, 0, 2]], np.array([5.0, 6.0, 5.0])), X, y)
    assert (labelled.X.tolist(), labelled.y.tolist()) == ([[0.0], [10.0]], [6.0, 5.0])
    # The last is nearest to no row, and has the target of the row nearest to it.
    centres = Anchors(np.array([[0.5], [11.0], [100.0]]))
    assert reference_points(centres, X, y).y.tolist() == [2.0, 30.0, 40.0]


def test_risk_of_two_measures():
    scale = RiskScale({"std": (1.0, 2.0), "reverse": (10.0, 20.0)})
    std, reverse = np.meshgrid([0.5, 1.0, 1.5, 2.5], [5.0, 15.0, 25.0], indexing="ij")
    levels = scale.levels({"std": std.ravel(), "reverse": reverse.ravel()})
    assert levels.tolist() == [
        *RISK_LEVELS,
        *RISK_LEVELS,
        "moderate",
        "moderate",
        "high",
        "high",
        "high",
        "high",
    ]


@pytest.mark.parametrize("n", [9, 19, 39, 50, 400])
@pytest.mark.parametrize("names", [["std", "reverse"], ["error_probability"]])
@pytest.mark.parametrize("ties", [False, True])
def test_share_of_high_risk(n, names, ties):
    rng = np.random.default_rng(n)

    def draw(m):
        values = {name: rng.exponential(size=m) for name in names}
        return {name: np.round(value) if ties else value for name, value in values.items()}

    high, raised = [], []
    for _ in range(300):
        levels = RiskScale.from_held_out(draw(n)).levels(draw(200))
        high.append(np.mean(levels == "high"))
        raised.append(np.mean(levels != "low"))
    # The bounds hold on average over held-out rows; four standard errors are left.
    for shares, bound in ((high, 0.05), (raised, 0.20)):
        assert np.mean(shares) <= bound + 4 * np.std(shares) / np.sqrt(300)
        assert ties or n < 400 or np.mean(shares) > 0.8 * bound


def test_errors_are_larger_at_high_risk():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5000, 2))
    noise = rng.normal(size=5000) * np.where(X[:, 1] > 0, 0.2, 2.0)
    table = pd.DataFrame(X, columns=list("ab")).assign(y=X[:, 0] + noise)
    for frame in (table, table.assign(y=np.where(table.y > 0, "p", "n"))):
        actual = fit(frame[:1500], "y", model="tree").predict(frame[1500:])
        share = actual.risk.value_counts(normalize=True)
        assert share["high"] < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 375) and share["low"] > 0.7
        y = frame.y[1500:]
        wrong = actual.prediction != y if y.dtype == object else (actual.prediction - y).abs()
        errors = wrong.groupby(actual.risk).mean()
        assert errors["high"] > 1.2 * errors["low"]


def test_risk_far_from_the_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    model = AnchoredRegressor(SVR(C=10), random_state=0).fit(X[:150], y[:150])

    def measure(rows):
        posterior = model.posterior(rows)
        reverse = reverse_scores(model, rows, posterior.mean, model.anchors_)
        return {"std": posterior.std, "reverse": reverse}

    scale = RiskScale.from_held_out(measure(X[150:]))
    near, far = (scale.levels(measure(rows)) for rows in (X[150:], X[150:] + 3.0))
    assert set(far) == {"high"} and np.mean(near == "high") <= 0.05


def test_repr_shows_no_values_of_the_table(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    table["street"] = rng.choice(["Secret Lane", "Secret Road"], 100)
    table["y"] = table.a + 0.8765
    fit(table, "y").save(tmp_path / "model")
    model = deltauq.load(tmp_path / "model")
    evaluation = evaluate(model, table)
    for value in (model, model.fitted, model.schema, evaluation, evaluation.rows):
        text = repr(value)
        assert len(text) < 600
        assert not any(number in text for number in (f"{table.a[0]:.4f}", f"{table.y[0]:.4f}"))
        assert "Secret" not in text
    assert "target='y'" in repr(model) and "RandomForestRegressor" in repr(model)
