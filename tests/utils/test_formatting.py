"""Representations show the shapes of arrays, never the rows in them."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import deltauq
from deltauq import AnchoredClassifier, AnchoredRegressor
from deltauq.calibration import ConformalClassifier, ConformalRegressor
from deltauq.core import Anchors, SetPrior
from deltauq.utils.formatting import as_text, short_repr

SECRET = 0.8765
"""In every row of the data."""
X = np.random.default_rng(0).normal(size=(40, 3))
X[:, 1] = SECRET + np.arange(40)
X[:, 2] = SECRET
y = X[:, 0] + SECRET


def texts(value):
    yield repr(value)
    yield str(value)
    if hasattr(value, "_repr_html_"):
        yield value._repr_html_()
        yield value._repr_mimebundle_()["text/plain"]


def assert_no_data(value, most=400):
    assert len(repr(value)) < most
    for text in texts(value):
        assert "8765" not in text


@pytest.mark.parametrize(
    "kind", [np.asarray, np.ndarray.tolist, pd.DataFrame], ids=["array", "list", "frame"]
)
@pytest.mark.parametrize("wrap", [AnchoredRegressor, AnchoredClassifier])
def test_estimators(kind, wrap):
    regression = wrap is AnchoredRegressor
    base = DecisionTreeRegressor() if regression else DecisionTreeClassifier()
    target = {"target": "value"} if regression else {}  # an array has no targets
    model = wrap(base, anchors=kind(X), n_anchors=5, random_state=0, **target)
    assert_no_data(model)
    fitted = model.fit(kind(X), y if regression else y > y.mean())
    assert_no_data(fitted)
    assert "anchors=<" in repr(fitted)
    assert np.isfinite(fitted.predict(kind(X))).all(), "showing it changes nothing"


def test_labelled_anchors():
    model = AnchoredRegressor(DecisionTreeRegressor(), anchors=Anchors(X, y), random_state=0)
    assert_no_data(model)
    assert_no_data(model.fit(X, y))
    shown = " ".join(repr(model).split())
    assert "Anchors(X=<ndarray of shape (40, 3)>, y=<ndarray of shape (40,)>)" in shown
    assert_no_data(model.anchors_)


def test_conformal_wrappers():
    model = AnchoredRegressor(DecisionTreeRegressor(), anchors=Anchors(X, y), random_state=0).fit(X, y)
    assert_no_data(ConformalRegressor(model, delta=SECRET * np.ones(20)))
    assert_no_data(ConformalRegressor(model).conformalize(X, y))
    classifier = AnchoredClassifier(DecisionTreeClassifier(), anchors=X, random_state=0).fit(X, y > 1)
    assert_no_data(ConformalClassifier(classifier).conformalize(X, y > 1))


def test_posteriors():
    model = AnchoredRegressor(DecisionTreeRegressor(), random_state=0).fit(X, np.full(40, SECRET))
    posterior = model.posterior(X, return_samples=True)
    assert_no_data(posterior)
    assert "mean=<ndarray of shape (40,)>" in repr(posterior)


def test_assessments():
    actual = deltauq.assess(DecisionTreeRegressor(), np.tile(X, (2, 1)), np.tile(y, 2), coverage=0.5, cv=2)
    assert len(repr(actual)) < 400 and repr(actual).startswith("Assessment(")
    assert "ndarray" not in repr(actual)


def test_lines_break_as_in_scikit_learn():
    model = AnchoredRegressor(DecisionTreeRegressor(max_depth=3, min_samples_leaf=2), n_anchors=50, n_jobs=2)
    assert all(len(line) <= 80 for line in repr(model).splitlines())


@pytest.mark.parametrize("anchors", [{"X": X}, [[X]], (X, X)], ids=["dict", "nested", "tuple"])
def test_parameters_of_any_kind_are_shown_without_data(anchors):
    assert_no_data(AnchoredRegressor(DecisionTreeRegressor(), anchors=anchors))


def test_a_dataclass_as_a_prior_is_shown_without_data():
    @dataclass
    class Own:
        rows: np.ndarray

        def draw(self, *args, **options):
            raise NotImplementedError

    model = AnchoredRegressor(DecisionTreeRegressor(), anchors=Own(X))
    assert_no_data(model)
    assert "Own(rows=<ndarray of shape (40, 3)>)" in " ".join(repr(model).split())


def test_models_inside_ours_are_shown_without_data():
    inner = make_pipeline(StandardScaler(), AnchoredRegressor(DecisionTreeRegressor(), anchors=X))
    text = repr(ConformalRegressor(inner))
    assert "8765" not in text and "Pipeline(...)" in text
    search = GridSearchCV(DecisionTreeRegressor(), {"max_depth": X[:, 0]})
    assert repr(ConformalRegressor(search)) == "ConformalRegressor(model=GridSearchCV(...))"
    assert "DecisionTreeRegressor(max_depth=3)" in repr(AnchoredRegressor(DecisionTreeRegressor(max_depth=3)))


def test_repr_of_set_prior():
    model = AnchoredRegressor(DecisionTreeRegressor(), anchors=SetPrior(X))
    assert_no_data(make_pipeline(StandardScaler(), model), most=700)
    assert_no_data(GridSearchCV(model, {"anchors": [SetPrior(X), "data"]}), most=700)
    assert_no_data(BaggingRegressor(model), most=700)


def test_values_in_messages():
    assert as_text(np.float64(1.5)) == repr(np.float64(1.5))
    assert as_text([1, 2]) == "[1, 2]"
    assert as_text([[1.0, 2.0]] * 2) == "<list of 2>"
    assert as_text(list(range(100))) == "<list of 100>"
    assert as_text({"a": 1}) == "<dict of 1>"
    assert as_text(pd.DataFrame(X)) == "<DataFrame of shape (40, 3)>"


def test_dataclasses():
    @dataclass
    class Pair:
        rows: np.ndarray
        name: str
        model: object = None
        hidden: str = field(default="", repr=False)

        __repr__ = short_repr

    assert repr(Pair(X, "p")) == "Pair(rows=<ndarray of shape (40, 3)>, name='p')"
    assert repr(Pair(X, "p", DecisionTreeRegressor())).endswith("model=DecisionTreeRegressor(...))")
