"""`AnchoredRegressor`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from deltauq.calibration import ConformalRegressor, choose_delta, regression_scores
from deltauq.core import Target, get_target
from deltauq.core.target import TARGETS
from deltauq.estimators._base import BaseAnchored
from deltauq.estimators.base_estimators import has_fast_path, tree_outputs
from deltauq.estimators.pairing import TrainingRows

N_STRATA = 10


class AnchoredRegressor(RegressorMixin, BaseAnchored):
    """A regressor with an uncertainty for each prediction, by anchor marginalisation.

    The base estimator is trained once, on pairs of rows X and anchors R. It learns the difference between
    their targets. Under each of K anchors, the anchor's known target is added to the output; the mean over
    anchors is the prediction, and the standard deviation is its uncertainty.

    The standard deviation ranks predictions, but its scale is arbitrary. With ``calibrate="cv"`` its z-scores
    have unit RMS, and `predict_interval` returns prediction intervals.

    Parameters
    ----------
    estimator : scikit-learn regressor, default=None
        The base estimator; None means ``RandomForestRegressor()``.
    target : {"difference", "value"} or Target, default="difference"
        What the base estimator learns: the difference of y from the target of the anchor, or y itself as in
        the paper. The difference is more accurate for most base estimators: see `targets-study`.
    encoding : {"auto", "difference", "full", "identity", "two-anchor"} or Encoding, default="auto"
        How an input and its anchor become one input of the base estimator. "difference" is ``[R, X - R]``
        and "full" is ``[R, X, X - R]``. "auto" is "full" for ``target="difference"`` unless the estimator is
        a decision tree or a forest, and "difference" otherwise: it has the smaller error in `targets-study`.
        For forests, σ of "full" ranks errors slightly better.
    n_anchors : int, default=100
        K, the number of anchors used to predict. If there are fewer training anchors, they repeat.
    n_train_anchors : int or "auto", default="auto"
        M, the number of anchors each row is paired with in training. An integer leaves the estimator as it
        is. "auto" is 100,000 // n, but at least 20, at most 50 and at most n. It differs for trees, and gives
        them the size that pairs need:

        - Gradient boosting has 20,000 // n anchors, but at least 5 and at most 50, twice the iterations and,
          for regression, twice the leaves of each tree: in `targets-study` this is more accurate than more
          anchors. It applies to histogram gradient boosting of scikit-learn, LightGBM and XGBoost; for
          CatBoost only the number of anchors is chosen.
        - A tree, or a forest of T trees, has p // n anchors with p = min(100,000, 1,000,000 / T), but at
          least 10, or 20 for classification. The leaves of regression forests have at least three pairs: the
          `forest-study` found about the same errors at a tenth of the time and size. With "full", forests
          choose a split among half of the columns, unless `max_features` is set.

        Each row is paired with a random part of the M anchors if there would be more than 10,000 pairs for a
        support vector machine, 2,000 for a Gaussian process or kernel ridge, or 500 MB for any estimator.
        Estimators with `partial_fit` and `max_iter` see a new anchor for each row in every epoch.
    anchors : {"data", "normal", "balanced", "kmeans"}, Anchors, array of shape (m, d) or AnchorPrior, \
            default="data"
        The prior P(R): training rows, a normal distribution, training rows balanced over deciles of y,
        cluster centres with the mean target of their cluster, or given anchors. With
        ``target="difference"`` anchors need targets: give ``Anchors(X, y)``, not an array, and not "normal".
    center : {"anchored", "estimator"}, default="anchored"
        What is predicted: the mean over anchors, or the prediction of the estimator fitted without anchors.
    calibrate : None, "cv" or float, default=None
        Scale of the returned standard deviations: none, fitted by cross-validation, or a given factor.
        "cv" is needed by `predict_interval`; it fits on five folds in addition. `posterior` is not
        calibrated.
    random_state : int, RandomState or None, default=None
        Random seed.
    n_jobs : int or None, default=None
        Number of threads for prediction and for folds.

    Attributes
    ----------
    estimator_ : estimator
        The base estimator, fitted on pairs.
    anchors_ : Anchors
        The anchors used to predict: `X` of shape (K, d), and their targets `y` for ``target="difference"``.
    encoding_ : Encoding
        The encoding.
    target_ : Target
        What the base estimator learned.
    center_ : estimator
        The estimator fitted without anchors, with ``center="estimator"``.
    scale_, delta_ : float, or array of shape (o,) if fitted for several outputs
        The calibrated standard deviation is ``scale_ * (std + delta_)``. δ is positive with
        ``calibrate="cv"``, since a spread near zero is no evidence of an error near zero; see `choose_delta`.
    conformal_ : ConformalRegressor
        The out-of-fold scores of the training rows, with ``calibrate="cv"``.
    typical_std_ : float, or array of shape (o,)
        The unit of σ in these scores: they compare models of folds with the model of all rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from deltauq import AnchoredRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AnchoredRegressor(DecisionTreeRegressor(), calibrate="cv", random_state=0)
    >>> mean, std = model.fit(X[:200], y[:200]).predict(X[200:], return_std=True)
    >>> lower, upper = model.predict_interval(X[200:], coverage=0.9)
    >>> mean.shape, std.shape, lower.shape
    ((242,), (242,), (242,))
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseAnchored._parameter_constraints,
        "target": [StrOptions(set(TARGETS)), Target],
    }
    _default_estimator = RandomForestRegressor

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        target: Any = "difference",
        encoding: Any = "auto",
        n_anchors: int = 100,
        n_train_anchors: int | str = "auto",
        anchors: Any = "data",
        center: str = "anchored",
        calibrate: str | float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            estimator,
            encoding=encoding,
            n_anchors=n_anchors,
            n_train_anchors=n_train_anchors,
            anchors=anchors,
            center=center,
            calibrate=calibrate,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.target = target

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions and, if required, their standard deviations.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        return_std : bool, default=False
            Whether to return the calibrated standard deviations over anchors as well.

        Returns
        -------
        mean : array of shape (n,) or (n, o)
        std : array of the same shape, only if `return_std`
        """
        posterior = self.posterior(X)
        if return_std:
            return posterior.mean, self.calibrated_std(posterior.std)
        return posterior.mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return prediction intervals, wider where σ is larger; they need ``calibrate="cv"``.

        Every training row is scored by a model of the other folds, ``|y - mean| / (σ + δ)``, so that all rows
        train the model that predicts. The interval is ``mean ± q · (σ + δ)``, where q is the
        `conformal_quantile` of the scores. Its coverage is the nominal one if models of folds err like the
        model of all rows; in practice it is near it or slightly above. `ConformalRegressor` with rows that
        are held out guarantees it.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        coverage : float, default=0.9
            Nominal coverage, in (0, 1). Each of several outputs is covered separately, not all at once.

        Returns
        -------
        lower, upper : arrays of shape (n,) or (n, o)
        """
        check_is_fitted(self)
        self._check_conformalized("predict_interval", "ConformalRegressor")
        posterior = self.posterior(X)
        return self.conformal_.interval(posterior.mean, posterior.std / self.typical_std_, coverage)

    def _target(self) -> Target:
        return get_target(self.target)

    def _conformalize(self, data: TrainingRows, mean: np.ndarray, std: np.ndarray) -> None:
        y = data.y
        mean, std = mean.reshape(y.shape), std.reshape(y.shape)
        delta = choose_delta(np.abs(y - mean), std, data.weights)
        scores = regression_scores(y, mean, std, delta)
        self.conformal_ = ConformalRegressor.from_scores(scores, delta)
        self.typical_std_ = self.typical_std_[0] if y.ndim == 1 else self.typical_std_

    def _read_target(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            y = np.asarray(y, dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"y must be numeric, but {error}.") from error
        first = self._observed_outputs(y)[:, 0]
        ranks = np.argsort(np.argsort(first, kind="stable"), kind="stable")
        return y, ranks * N_STRATA // len(ranks)

    def _outputs(self, estimator: BaseEstimator, X: np.ndarray) -> np.ndarray:
        if has_fast_path(estimator):
            return tree_outputs(estimator, X)
        return np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X), -1)

    def _observed_outputs(self, y: np.ndarray) -> np.ndarray:
        return y.reshape(len(y), -1)
