import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Perceptron, SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.estimators.base_estimators import trains_by_epochs


class Recorder(MLPRegressor):
    """Remembers the tuples of every epoch."""

    def partial_fit(self, X, y, sample_weight=None):
        self.epochs_ = [*getattr(self, "epochs_", []), np.array(X)]
        return super().partial_fit(X, y, sample_weight)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_epoch_draws_new_anchors(table):
    X, y = table
    base = Recorder(hidden_layer_sizes=(8,), max_iter=4)
    model = AnchoredRegressor(base, encoding="difference", random_state=0).fit(X, y)
    epochs = model.estimator_.epochs_
    assert len(epochs) == 4 and all(epoch.shape == (60, 8) for epoch in epochs)
    decoded = [epoch[:, :4] + epoch[:, 4:] for epoch in epochs]
    for rows in decoded:
        np.testing.assert_allclose(np.sort(rows[:, 0]), np.sort(X[:, 0]))
    pairs = {tuple(np.round(row, 6)) for epoch in epochs for row in epoch}
    assert len(pairs) > 3 * 60, "hardly any pair comes twice"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_n_train_anchors_limits_the_anchors_of_epochs(table):
    model = AnchoredRegressor(
        Recorder(hidden_layer_sizes=(8,), max_iter=5), n_train_anchors=3, random_state=0
    ).fit(*table)
    anchors = np.unique(np.vstack(model.estimator_.epochs_)[:, :4], axis=0)
    assert len(anchors) == 3
    assert {tuple(a) for a in model.anchors_.X} == {tuple(a) for a in anchors}


def test_stopping_rule(table):
    X, y = table
    base = MLPRegressor(
        hidden_layer_sizes=(16,), max_iter=5000, tol=1e-2, n_iter_no_change=5, learning_rate_init=0.01
    )
    model = AnchoredRegressor(base, random_state=0).fit(X, y)
    curve = np.array(model.estimator_.loss_curve_)
    assert len(curve) < 5000
    best_before = np.minimum.accumulate(curve)
    stale = curve[1:] > best_before[:-1] - 1e-2
    assert stale[-6:].all(), "the last epochs did not improve by tol"


def test_convergence_warning(table):
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        AnchoredRegressor(MLPRegressor(hidden_layer_sizes=(8,), max_iter=3), random_state=0).fit(*table)


def test_no_convergence_warning_without_a_tolerance(table):
    X, y = table
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AnchoredRegressor(SGDRegressor(max_iter=5, tol=None), random_state=0).fit(X, y)
    assert caught == []


@pytest.mark.parametrize(
    "base",
    [SGDClassifier(), SGDClassifier(loss="log_loss"), Perceptron(), MLPClassifier((16,), max_iter=400)],
    ids=["hinge", "log_loss", "perceptron", "mlp"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifiers_that_learn_by_epochs(base, labelled):
    X, y = labelled
    model = AnchoredClassifier(base, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_linear_regression_by_gradient_descent(table):
    X, _ = table
    y = X @ [1.0, -2.0, 0.5, 0.0]
    assert AnchoredRegressor(SGDRegressor(), random_state=0).fit(X, y).score(X, y) > 0.95


def test_trains_by_epochs():
    assert trains_by_epochs(SGDClassifier())
    assert not trains_by_epochs(MLPRegressor(solver="lbfgs"))
    assert not trains_by_epochs(SGDClassifier(class_weight="balanced"))
    assert not trains_by_epochs(SGDRegressor(learning_rate="adaptive"))
