"""Base class of the anchored estimators: parameters, fit, calibration, posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_array, check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, InvalidParameterError, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_feature_names, _check_sample_weight, check_is_fitted, column_or_1d

from deltauq.calibration.scaling import choose_delta, permuted_features, significant_std, typical_std
from deltauq.core import Anchors, Encoding, Posterior, Target, get_encoding, get_prior
from deltauq.core.anchors import PRIORS
from deltauq.core.encoding import ENCODINGS
from deltauq.estimators._delta_model import DeltaModel, Trainer
from deltauq.estimators.base_estimators import (
    accepts_nan,
    check_no_column_parameters,
    default_encoding,
    has_fast_path,
    is_estimator,
    prepare_base,
    seed,
    tags_of,
    weight_keyword,
)
from deltauq.estimators.pairing import TrainingRows
from deltauq.estimators.validation import (
    advise_on_nan,
    all_or_nothing,
    check_finite_means,
    check_no_dates,
    check_numeric,
    validate_input,
    warn_if_single_anchor,
)
from deltauq.utils.formatting import ShortRepr, as_text

N_FOLDS = 5
"""Of ``calibrate="cv"``, and of the rows that fit a map from decision scores to probabilities."""
LARGEST_DELTA = 1.0
"""In units of the root mean square of σ: calibrated standard deviations still grow away from the data."""


class BaseAnchored(ShortRepr, MetaEstimatorMixin, BaseEstimator):
    """A base estimator trained on (anchor, input − anchor) and marginalised over anchors."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",  # checked by `_check_base`
        "encoding": [StrOptions({"auto", *ENCODINGS}), Encoding],
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "n_train_anchors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "anchors": [StrOptions(set(PRIORS)), Anchors, "array-like", HasMethods("draw")],
        "center": [StrOptions({"anchored", "estimator"})],
        "calibrate": [None, StrOptions({"cv"}), Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        encoding: Any = "auto",
        n_anchors: int = 100,
        n_train_anchors: int | str = "auto",
        anchors: Any = "data",
        center: str = "anchored",
        calibrate: str | float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.encoding = encoding
        self.n_anchors = n_anchors
        self.n_train_anchors = n_train_anchors
        self.anchors = anchors
        self.center = center
        self.calibrate = calibrate
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- what differs between regression and classification ----------------------------------------

    _default_estimator: ClassVar[type[BaseEstimator]]
    """The class of the base estimator used when none is given."""

    def _target(self) -> Target:
        """Return what the base estimator learns."""
        raise NotImplementedError

    def _read_target(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the target to train on and the stratum of each row; set what describes the target."""
        raise NotImplementedError

    def _outputs(self, estimator: BaseEstimator, X: np.ndarray) -> np.ndarray:
        """Return the predictions of a fitted estimator as numbers, of shape (n, o)."""
        raise NotImplementedError

    def _observed_outputs(self, y: np.ndarray) -> np.ndarray:
        """Return the targets in the form of the outputs, of shape (n, o)."""
        raise NotImplementedError

    def _has_fast_path(self, estimator: BaseEstimator) -> bool:
        """Return whether the compiled tree traversal returns the same outputs."""
        return has_fast_path(estimator)

    def _predict_outputs(self, estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
        """Return the outputs of a fitted base estimator for m tuples, of shape (m, o)."""
        return self._outputs(estimator, tuples)

    def _conformalize(self, data: TrainingRows, mean: np.ndarray, std: np.ndarray) -> None:
        """Store conformal scores of out-of-fold predictions; `std` has a typical size of one."""
        raise NotImplementedError

    def _fit_probability_calibrator(
        self, trainer: Trainer, data: TrainingRows, rng: np.random.Generator
    ) -> None:
        """Fit the map from outputs to probabilities, where one is needed; nothing by default."""

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Train the base estimator on pairs of rows and anchors.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Training rows. They may contain missing values (NaN) if the base estimator accepts them.
        y : array-like of shape (n,) or (n, o)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, if the base estimator takes weights. The weight of a pair is the product of
            the weights of its row and its anchor. Where there are fewer anchors than rows, anchors are drawn
            by weight, and a pair has the weight of its row.
        **fit_params : dict
            Metadata for the `fit` of the base estimator; requires scikit-learn's metadata routing.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._validate_params()
            self._check_base(self._base())
            data = self._read(X, y, sample_weight, self._route(fit_params))
            random_state = check_random_state(self.random_state)
            trainer = self._trainer(random_state)
            check_finite_means(trainer.prior, data.X)
            rng = np.random.default_rng(random_state.randint(np.iinfo(np.int32).max))
            train_rng, proba_rng, fold_rng = rng.spawn(3)
            self.encoding_, self.target_ = trainer.encoding, trainer.target
            # Calibration fits N_FOLDS times on all folds but one: with this fit, the work of N_FOLDS fits.
            n_fits = N_FOLDS if self.calibrate == "cv" else 1
            model = _train(trainer, data, train_rng, n_fits)
            self.estimator_, self.anchors_ = model.estimator, model.anchors
            warn_if_single_anchor(self.anchors_)
            self._fit_probability_calibrator(trainer, data, proba_rng)
            plain = seed(self._base(), random_state)
            if self.center == "estimator":
                self.center_ = fit_plain(plain, data)
            self.scale_, self.delta_ = 1.0, 0.0
            if self.calibrate == "cv":
                self._calibrate(trainer, model, plain, data, fold_rng)
            elif self.calibrate is not None:
                self.scale_ = float(self.calibrate)
        return self

    def _base(self) -> BaseEstimator:
        return self._default_estimator() if self.estimator is None else self.estimator

    def _validate_params(self) -> None:
        """Validate the parameters. Errors show arrays by their shape, not by their values."""
        try:
            super()._validate_params()
        except InvalidParameterError as error:
            constraint, name = str(error).partition(" Got ")[0], str(error).split("'")[1]
            raise InvalidParameterError(f"{constraint} Got {as_text(getattr(self, name))} instead.") from None

    def _check_base(self, base: Any) -> None:
        if not is_estimator(base):
            raise TypeError(
                "estimator must be a scikit-learn estimator, with get_params, set_params, fit and predict, "
                f"got {as_text(base)}."
            )
        expected, actual = get_tags(self).estimator_type, tags_of(base).estimator_type
        if actual not in (expected, None) or not (actual or hasattr(base, "predict")):
            raise TypeError(f"estimator must be a {expected}, got {as_text(base)}.")
        check_no_column_parameters(base)

    def _read(self, X: Any, y: Any, sample_weight: Any, metadata: dict[str, Any]) -> TrainingRows:
        """Validate the training set; rows of weight zero are left out."""
        X, y = validate_input(self, X, y)
        if y.ndim > 1 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        self._single_output = y.ndim == 1
        y, strata = self._read_target(y)
        if sample_weight is None:
            return TrainingRows(X, y, None, strata, metadata)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights)
        if len(kept) < 2:
            raise ValueError(f"sample_weight is zero but for {len(kept)} row(s): at least two are needed.")
        return TrainingRows(X, y, weights, strata, metadata).take(kept)

    def _trainer(self, random_state: np.random.RandomState) -> Trainer:
        anchors, target = self.anchors, self._target()
        if not isinstance(anchors, str) and not hasattr(anchors, "draw"):
            X, y = (anchors.X, anchors.y) if isinstance(anchors, Anchors) else (anchors, None)
            anchors = self._check_anchors(X, y, target)
        encoding = default_encoding(self._base(), target) if self.encoding == "auto" else self.encoding
        return Trainer(
            base=prepare_base(self._base(), random_state),
            encoding=get_encoding(encoding),
            target=target,
            prior=get_prior(anchors),
            n_anchors=self.n_anchors,
            n_train_anchors=self.n_train_anchors,
        )

    def _calibrate(
        self,
        trainer: Trainer,
        model: DeltaModel,
        plain: BaseEstimator,
        data: TrainingRows,
        rng: np.random.Generator,
    ) -> None:
        """Fit the scale of σ, and conformal scores, to out-of-fold predictions of all training rows."""
        inputs = permuted_features(data.X, rng)

        def predict_fold(train: np.ndarray, test: np.ndarray, fold_rng: np.random.Generator) -> Any:
            fold = trainer.train(data.take(train), fold_rng)
            posterior = self._posterior_of(fold, data.X[test])
            mean = posterior.mean
            if self.center == "estimator":
                mean = self._outputs(fit_plain(plain, data.take(train)), data.X[test])
            return mean, significant_std(posterior) / typical_std(self._posterior_of(fold, inputs))

        strata = data.strata if is_classifier(self) else np.zeros(len(data), dtype=int)
        rows, results = self._over_folds(predict_fold, strata, rng)
        mean, std = (np.concatenate(parts)[np.argsort(rows)] for parts in zip(*results, strict=True))
        self.typical_std_ = typical_std(self._posterior_of(model, inputs))
        self._conformalize(data, mean, std)
        errors = np.abs(self._observed_outputs(data.y) - mean)
        delta = choose_delta(errors, std, data.weights, largest=LARGEST_DELTA)
        scale = np.sqrt(np.average((errors / (std + delta)) ** 2, axis=0, weights=data.weights))
        # Without any error there is nothing to fit a scale to.
        delta, scale = np.where(scale > 0, delta, 0.0), np.where(scale > 0, scale, 1.0)
        scale, delta = scale / self.typical_std_, delta * self.typical_std_
        self.scale_, self.delta_ = (float(scale[0]), float(delta[0])) if len(scale) == 1 else (scale, delta)

    def _over_folds(
        self, task: Callable[..., Any], strata: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, list[Any]]:
        """Call ``task(train, test, rng)`` for every fold; return the test rows and the results."""
        splits = _folds(strata, rng)
        folds = zip(splits, rng.spawn(len(splits)), strict=True)
        threads = Parallel(n_jobs=self.n_jobs, prefer="threads", require="sharedmem")
        results = threads(delayed(task)(*split, child) for split, child in folds)
        return np.concatenate([test for _, test in splits]), results

    # -- predicting --------------------------------------------------------------------------------

    def posterior(self, X: Any, return_samples: bool = False) -> Posterior:
        """Return mean and variance of the predictions over the stored anchors, before any calibration.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Inputs.
        return_samples : bool, default=False
            Whether to keep the K predictions as well; memory then grows with K.

        Returns
        -------
        posterior : Posterior
            Arrays of shape (n,) or (n, o) in regression, and (n, c) in classification, where the classes of
            several outputs follow one another. With ``center="estimator"`` the mean is the prediction of the
            model without anchors.
        """
        check_is_fitted(self)
        with advise_on_nan(self):
            X = validate_input(self, X)
            model = DeltaModel(self.estimator_, self.encoding_, self.target_, self.anchors_)
            result = self._posterior_of(model, X, return_samples)
            if hasattr(self, "center_"):
                result = replace(result, mean=self._outputs(self.center_, X))
        if is_classifier(self) or not self._single_output:
            return result
        samples = None if result.samples is None else result.samples[..., 0]
        return Posterior(result.mean[:, 0], result.var[:, 0], samples=samples)

    def _posterior_of(self, model: DeltaModel, X: np.ndarray, keep_samples: bool = False) -> Posterior:
        return model.posterior(
            X,
            self._predict_outputs,
            use_fast_path=self._has_fast_path(model.estimator),
            keep_samples=keep_samples,
            n_jobs=self.n_jobs,
        )

    def set_anchors(self, X: Any, y: Any = None) -> Self:
        """Replace the anchors used to predict, without training again; the calibration is kept.

        Parameters
        ----------
        X : array-like of shape (K, d)
            Rows like those of the training data.
        y : array-like of shape (K,) or (K, o), optional
            Their targets, which ``target="difference"`` needs. Ignored otherwise.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        anchors = self._check_anchors(X, y, self.target_)
        if self.target_.needs_labels and anchors.y is None:
            raise ValueError("set_anchors needs the targets of the anchors: call set_anchors(X, y).")
        before = self.anchors_.y
        if anchors.y is not None and before is not None and anchors.y.shape[1:] != before.shape[1:]:
            raise ValueError(
                f"targets of anchors have shape {anchors.y.shape[1:]} each, but those of the training rows "
                f"have {before.shape[1:]}."
            )
        self.anchors_ = anchors
        warn_if_single_anchor(anchors)
        return self

    def calibrated_std(self, std: np.ndarray) -> np.ndarray:
        """Return ``scale_ * (std + delta_)``, the calibrated form of the standard deviations of `posterior`.

        Parameters
        ----------
        std : array of shape (n,), (n, o) or (n, c)
            Standard deviations over anchors.

        Returns
        -------
        std : array of the same shape
        """
        return self.scale_ * (std + self.delta_)

    def _check_conformalized(self, method: str, alternative: str) -> None:
        """Raise an error unless conformal scores were computed."""
        if not hasattr(self, "conformal_"):
            raise NotFittedError(
                f"{method} needs out-of-fold scores: fit with calibrate='cv', or use {alternative} with rows "
                "that are held out."
            )

    def _check_anchors(self, X: Any, y: Any, target: Target) -> Anchors:
        """Return given anchors, with targets if they are given and needed."""
        rows = self._check_anchor_rows(X)
        if y is None or not target.needs_labels:
            return Anchors(rows)
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="the targets of anchors", copy=True)
        return Anchors(rows, y[:, 0] if self._single_output and y.shape[1:] == (1,) else y)

    def _check_anchor_rows(self, anchors: Any) -> np.ndarray:
        """Return the inputs of given anchors as a float64 array of shape (K, d)."""
        if hasattr(anchors, "columns"):
            _check_feature_names(self, anchors, reset=False)
        check_no_dates("anchors", anchors)
        try:
            if np.ndim(anchors) < 2:
                raise ValueError(f"expected a 2D array, got {as_text(anchors)}.")
            values = check_array(
                anchors,
                dtype=np.float64,
                ensure_all_finite="allow-nan" if accepts_nan(self._base()) else True,
                input_name="anchors",
                copy=True,
            )
        except (ValueError, TypeError) as error:
            check_numeric("anchors", anchors, error)
            message = str(error).partition("\n")[0]
            raise ValueError(f"anchors must be rows like those of X: {message}") from error
        if values.shape[1] != self.n_features_in_:
            raise ValueError(f"anchors have {values.shape[1]} features, but X has {self.n_features_in_}.")
        return values

    # -- tags and metadata routing -----------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = tags_of(self._base())
        tags.target_tags.multi_output = base.target_tags.multi_output
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = accepts_nan(self._base())
        if tags.regressor_tags is not None and base.regressor_tags is not None:
            tags.regressor_tags.poor_score = base.regressor_tags.poor_score
        if tags.classifier_tags is not None and base.classifier_tags is not None:
            tags.classifier_tags = base.classifier_tags
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing of this estimator and its base estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self._base(), method_mapping=mapping)

    def _route(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata for the `fit` of the base estimator."""
        if not fit_params:
            return {}
        if not get_config()["enable_metadata_routing"]:
            raise ValueError(
                f"fit got {sorted(fit_params)}, which needs sklearn.set_config(enable_metadata_routing=True)."
            )
        return dict(process_routing(self, "fit", **fit_params).estimator.fit)


def _train(trainer: Trainer, data: TrainingRows, rng: np.random.Generator, n_fits: int) -> DeltaModel:
    """Train, with a clear error if the base estimator predicts one output only, or needs positive targets."""
    try:
        return trainer.train(data, rng, n_fits=n_fits)
    except ValueError as error:
        if trainer.target.needs_labels and data.y.min() >= 0:
            error.add_note(
                "With target='difference' the estimator learns differences of targets, negative ones too. "
                "If it needs positive ones, set target='value'."
            )
        if data.y.ndim == 1 or "1d array" not in str(error):
            raise
        raise ValueError(
            f"y has {data.y.shape[1]} outputs, but {type(trainer.base).__name__} predicts one: wrap it in "
            "MultiOutputRegressor or MultiOutputClassifier."
        ) from error


def fit_plain(estimator: BaseEstimator, data: TrainingRows) -> BaseEstimator:
    """Fit a clone of the model without anchors."""
    keywords = dict(data.metadata)
    if data.weights is not None:
        keywords[weight_keyword(estimator)] = data.weights
    return clone(estimator).fit(data.X, data.y, **keywords)


def _folds(strata: np.ndarray, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return train and test rows of up to `N_FOLDS` folds, stratified unless a stratum has a single row."""
    seed = int(rng.integers(2**31))
    smallest = int(np.unique(strata, return_counts=True)[1].min())
    if smallest == 1:
        splitter = KFold(min(N_FOLDS, len(strata)), shuffle=True, random_state=seed)
    else:  # every training part contains every stratum
        splitter = StratifiedKFold(min(N_FOLDS, smallest), shuffle=True, random_state=seed)
    return list(splitter.split(strata[:, None], strata))
