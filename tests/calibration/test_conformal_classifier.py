import numpy as np
import pytest
import torch
from mapie.classification import SplitConformalClassifier
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from deltauq import AnchoredClassifier
from deltauq.calibration import ConformalClassifier, classification_scores
from deltauq.core import StreamingPosterior


class Precomputed:
    """A model whose inputs are its probabilities."""

    def __init__(self, classes=None):
        if classes is not None:
            self.classes_ = np.array(classes)

    def predict_proba(self, X):
        return np.asarray(X)


def predictions(n, rng, c=4):
    """Return inexact probabilities, and labels."""
    right = rng.dirichlet(np.full(c, 0.4), size=n)
    labels = np.minimum((rng.random((n, 1)) > np.cumsum(right, axis=1)).sum(axis=1), c - 1)
    noisy = right**0.7 * rng.gamma(5.0, size=(n, c))
    return noisy / noisy.sum(axis=1, keepdims=True), labels


def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order] / 16, y[order]


@pytest.mark.parametrize(("n", "coverage"), [(60, 0.9), (19, 0.7)])
def test_coverage(n, coverage):
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(200):
        conformal = ConformalClassifier(Precomputed()).conformalize(*predictions(n, rng))
        X, y = predictions(200, rng)
        rates.append(conformal.predict_set(X, coverage)[np.arange(200), y].mean())
    error = np.std(rates) / np.sqrt(200)
    assert abs(np.mean(rates) - np.ceil((n + 1) * coverage) / (n + 1)) < 3 * error


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95, 0.99])
def test_sets_match_mapie(coverage):
    X, y = digits()
    model = LogisticRegression(max_iter=2000).fit(X[:300], y[:300])
    theirs = SplitConformalClassifier(model, confidence_level=coverage, conformity_score="lac", prefit=True)
    theirs.conformalize(X[300:700], y[300:700])
    ours = ConformalClassifier(model).conformalize(X[300:700], y[300:700]).predict_set(X[700:], coverage)
    np.testing.assert_array_equal(ours, theirs.predict_set(X[700:])[1][:, :, 0])


@pytest.mark.parametrize(
    "base", [RandomForestClassifier(5), LinearSVC(), DecisionTreeClassifier()], ids=["forest", "svm", "tree"]
)
def test_coverage_of_real_labels(base):
    X, y = digits()
    model = AnchoredClassifier(base, n_anchors=5, n_train_anchors=3, random_state=0).fit(X[:300], y[:300])
    sets = ConformalClassifier(model).conformalize(X[300:800], y[300:800]).predict_set(X[800:], 0.9)
    assert sets.dtype == bool and sets.shape == (997, 10)
    assert sets[np.arange(997), y[800:]].mean() > 0.87


def test_sets_grow_with_coverage_until_full():
    rng = np.random.default_rng(0)
    conformal = ConformalClassifier(Precomputed()).conformalize(*predictions(20, rng))
    X, _ = predictions(50, rng)
    sets = [conformal.predict_set(X, coverage) for coverage in (0.3, 0.6, 0.95)]
    assert np.all(sets[0] <= sets[1]) and np.all(sets[1] <= sets[2])
    with pytest.warns(UserWarning, match="requires at least 49 scored rows, but there are 20"):
        assert conformal.predict_set(X, 0.98).all()


def test_allow_empty():
    rng = np.random.default_rng(0)
    conformal = ConformalClassifier(Precomputed()).conformalize(*predictions(100, rng))
    X, _ = predictions(200, rng)
    empty = ~conformal.predict_set(X, 0.4).any(axis=1)
    assert empty.any()
    filled = conformal.predict_set(X, 0.4, allow_empty=False)
    np.testing.assert_array_equal(filled[empty].sum(axis=1), 1)
    np.testing.assert_array_equal(filled[empty].argmax(axis=1), X[empty].argmax(axis=1))
    np.testing.assert_array_equal(filled[~empty], conformal.predict_set(X, 0.4)[~empty])


def test_labels_of_any_type():
    rng = np.random.default_rng(0)
    X, y = predictions(100, rng)
    names = np.array(["dog", "cat", "emu", "bee"])  # in no order
    plain = ConformalClassifier(Precomputed()).conformalize(X, y)
    named = ConformalClassifier(Precomputed(names)).conformalize(X, names[y])
    np.testing.assert_array_equal(plain.classes_, [0, 1, 2, 3])
    np.testing.assert_array_equal(named.classes_, names)
    np.testing.assert_array_equal(named.predict_set(X), plain.predict_set(X))
    with pytest.raises(ValueError, match=r"labels that are not among the classes of the model: \['fox'\]"):
        ConformalClassifier(Precomputed(names)).conformalize(X[:2], ["dog", "fox"])


class Network(torch.nn.Module):
    """A network whose anchors shift the logits, with a posterior of tensors."""

    def __init__(self):
        super().__init__()
        self.shifts = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 12, dtype=torch.float64).reshape(3, 4))

    @torch.no_grad()
    def posterior(self, x, link=None):
        stream = StreamingPosterior(link=link)
        for shift in self.shifts:
            stream.update(x + shift)
        return stream.posterior()


def test_network_probabilities_are_mean_softmax():
    rng = np.random.default_rng(0)
    X, y = predictions(100, rng)
    logits = np.log(X)
    shifted = np.exp(logits + np.linspace(-1.0, 1.0, 12).reshape(3, 1, 4))
    proba = np.mean(shifted / shifted.sum(axis=-1, keepdims=True), axis=0)
    expected = ConformalClassifier(Precomputed()).conformalize(proba, y).predict_set(proba)
    conformal = ConformalClassifier(Network()).conformalize(torch.asarray(logits), torch.asarray(y))
    sets = conformal.predict_set(torch.asarray(logits))
    assert isinstance(sets, np.ndarray)
    np.testing.assert_array_equal(sets, expected)


def test_network_with_one_logit():
    class OneLogit:
        def posterior(self, x, link=None):
            stream = StreamingPosterior(link=link)
            stream.update(x)
            return stream.posterior()

    with pytest.raises(ValueError, match="at least two logits, one for each class, got one"):
        ConformalClassifier(OneLogit()).conformalize(torch.randn(20, 1), torch.zeros(20, dtype=torch.int64))


def test_scikit_learn_conventions():
    X, y = digits()
    model = LogisticRegression(max_iter=2000).fit(X[:300], y[:300])
    conformal = ConformalClassifier(FrozenEstimator(model)).conformalize(X[300:500], y[300:500])
    copy = clone(conformal)
    with pytest.raises(NotFittedError, match=r"ConformalClassifier has no scores yet: call conformalize"):
        copy.predict_set(X)
    again = copy.conformalize(X[300:500], y[300:500]).predict_set(X[500:])
    np.testing.assert_array_equal(again, conformal.predict_set(X[500:]))


def test_bad_input():
    X, y = predictions(30, np.random.default_rng(0))
    with pytest.raises(
        TypeError, match=r"predict_proba\(X\) or posterior\(X, link=\"softmax\"\), got LinearSVC"
    ):
        ConformalClassifier(LinearSVC()).conformalize(X, y)
    with pytest.raises(ValueError, match=r"y must have shape \(30,\), one label"):
        ConformalClassifier(Precomputed()).conformalize(X, y[:7])
    with pytest.raises(ValueError, match=r"not among the classes of the model: \[4\]"):
        ConformalClassifier(Precomputed()).conformalize(X, y + 1)
    with pytest.raises(ValueError, match=r"shape \(n, c\), got \(30,\)"):
        ConformalClassifier(Precomputed()).conformalize(X[:, 0], y)
    with pytest.raises(ValueError, match="proba must be finite"):
        ConformalClassifier(Precomputed()).conformalize(X * np.nan, y)
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1, got 1"):
        ConformalClassifier(Precomputed()).conformalize(X, y).predict_set(X, coverage=1)
    several = DecisionTreeClassifier().fit(X, np.column_stack([y, y % 2]))
    with pytest.raises(ValueError, match="model must predict one output, got probabilities for 2"):
        ConformalClassifier(several).conformalize(X, y)


def test_from_scores_equals_conformalize():
    rng = np.random.default_rng(0)
    (X, y), (new, _) = predictions(60, rng), predictions(20, rng)
    names = np.array(["dog", "cat", "emu", "bee"])
    conformal = ConformalClassifier(Precomputed(names)).conformalize(X, names[y])
    scores = classification_scores(names[y], X, names)
    np.testing.assert_array_equal(scores, conformal.scores_)
    stored = ConformalClassifier.from_scores(rng.permutation(scores), names)
    np.testing.assert_array_equal(stored.sets(new, 0.8), conformal.predict_set(new, 0.8))
    np.testing.assert_array_equal(
        stored.sets(new, 0.3, allow_empty=False), conformal.predict_set(new, 0.3, allow_empty=False)
    )
    np.testing.assert_array_equal(stored.classes_, names)
    with pytest.raises(TypeError, match="got NoneType"):
        stored.predict_set(new)
