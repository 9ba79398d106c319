"""What both anchored estimators share: the constructor's words and the path from rows to posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import check_array, check_random_state, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_feature_names, _check_sample_weight, check_is_fitted, column_or_1d

from deltauq.calibration.scaling import permuted_features, significant_std, typical_std
from deltauq.core import Posterior, get_encoding, get_prior
from deltauq.estimators._delta_model import DeltaModel, Recipe
from deltauq.estimators._readout import Readout
from deltauq.estimators._rows import N_FOLDS, TrainingRows, folds
from deltauq.estimators._scale import unit_rms_scale
from deltauq.estimators.base_estimators import (
    accepts_nan,
    fit_plain,
    is_estimator,
    prepare_base,
    prepare_plain,
    refuse_column_choices,
    tags_of,
)
from deltauq.estimators.validation import (
    FitLikeBase,
    advise_on_nan,
    all_or_nothing,
    refuse_dates,
    refuse_means_of_nan,
    refuse_text,
    require_choice,
    require_count,
    require_positive,
    validate_input,
    warn_if_alone,
)
from deltauq.utils.formatting import ShortRepr, shown


class BaseAnchored(ShortRepr, MetaEstimatorMixin, BaseEstimator):
    """A base model trained on (anchor, input − anchor) and marginalised over anchors."""

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_anchors: int = 100,
        n_train_anchors: int | str = "auto",
        pairing: str = "shared",
        encoding: Any = "difference",
        anchors: Any = "data",
        center: str = "anchored",
        calibrate: str | float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_anchors = n_anchors
        self.n_train_anchors = n_train_anchors
        self.pairing = pairing
        self.encoding = encoding
        self.anchors = anchors
        self.center = center
        self.calibrate = calibrate
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- what a regressor and a classifier do differently ------------------------------------------

    def _default_estimator(self) -> BaseEstimator:
        """Return the base used when none is given."""
        raise NotImplementedError

    def _read_target(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Return the target to train on, the stratum of each row, and fitted attributes to keep."""
        raise NotImplementedError

    def _readout(self) -> Readout:
        """Return how the base's answers become numbers."""
        raise NotImplementedError

    def _center_outputs(self, plain: BaseEstimator, X: np.ndarray) -> np.ndarray:
        """Return the plain model's outputs, of shape (n, o)."""
        raise NotImplementedError

    def _observed_outputs(self, y: np.ndarray) -> np.ndarray:
        """Return what the outputs should have been, of shape (n, o)."""
        raise NotImplementedError

    def _fold_strata(self, data: TrainingRows) -> np.ndarray:
        """Return what folds of the training rows are stratified by, of shape (n,)."""
        raise NotImplementedError

    def _fit_readout(self, recipe: Recipe, data: TrainingRows, rng: np.random.Generator) -> None:
        """Fit what the readout needs beyond the base; nothing by default."""

    # -- fitting -----------------------------------------------------------------------------------

    @FitLikeBase
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> BaseAnchored:
        """Train the base on pairs of rows and anchors.

        Parameters
        ----------
        X : array-like of shape (n, d)
            May hold missing values (NaN) if the base accepts them.
        y : array-like of shape (n,) or (n, o)
        sample_weight : array-like of shape (n,), optional
            A pair weighs the product of its row's and its anchor's weights. Where anchors are drawn (fewer
            than rows, or by ``pairing="random"``) they are drawn by weight, and the pair weighs what its
            row does.
        **fit_params : dict
            Metadata for the base's `fit`; needs scikit-learn's metadata routing switched on.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            self._check_words()
            data = self._read(X, y, sample_weight, self._route(fit_params))
            random_state = check_random_state(self.random_state)
            recipe = self._recipe(random_state)
            refuse_means_of_nan(recipe.prior, data.X)
            rng = np.random.default_rng(random_state.randint(np.iinfo(np.int32).max))
            train_rng, readout_rng, fold_rng = rng.spawn(3)
            self.encoding_ = recipe.encoding
            # Calibration fits N_FOLDS times on all folds but one: with this fit, the work of N_FOLDS fits.
            n_fits = N_FOLDS if isinstance(self.calibrate, str) else 1
            model = _train(recipe, data, train_rng, n_fits)
            self.estimator_, self.anchors_ = model.estimator, model.anchors
            warn_if_alone(self.anchors_)
            self._fit_readout(recipe, data, readout_rng)
            plain = prepare_plain(self._base(), random_state)
            if self.center == "estimator":
                self.center_ = fit_plain(plain, data)
            self.scale_, self.std_floor_ = self._fit_scale(recipe, model, plain, data, fold_rng)
        return self

    def _base(self) -> BaseEstimator:
        return self._default_estimator() if self.estimator is None else self.estimator

    def _check_words(self) -> None:
        """Refuse values of the constructor that mean nothing, naming the argument."""
        require_count("n_anchors", self.n_anchors)
        if not (isinstance(self.n_train_anchors, str) and self.n_train_anchors == "auto"):
            require_count("n_train_anchors", self.n_train_anchors, 'or "auto"')
        require_choice("pairing", self.pairing, ("shared", "random"))
        require_choice("center", self.center, ("anchored", "estimator"))
        if not (self.calibrate is None or (isinstance(self.calibrate, str) and self.calibrate == "cv")):
            require_positive("calibrate", self.calibrate, 'None, "cv" or')
        self._check_base(self._base())

    def _check_base(self, base: Any) -> None:
        """Refuse a base that cannot be one, before anything is looked at."""
        if not is_estimator(base):
            raise TypeError(
                "estimator must be a scikit-learn estimator, with get_params, set_params, fit and predict, "
                f"got {shown(base)}."
            )
        ours, theirs = get_tags(self).estimator_type, tags_of(base).estimator_type
        if theirs not in (ours, None) or not (theirs or hasattr(base, "predict")):
            raise TypeError(f"estimator must be a {ours}, got {shown(base)}.")
        refuse_column_choices(base)

    def _read(self, X: Any, y: Any, sample_weight: Any, metadata: dict[str, Any]) -> TrainingRows:
        """Validate the training set; rows of weight zero are left out."""
        X, y = validate_input(self, X, y)
        if y.ndim > 1 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        y, strata, attributes = self._read_target(y)
        for name, value in attributes.items():
            setattr(self, name, value)
        if sample_weight is None:
            return TrainingRows(X, y, None, strata, metadata)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights)
        if len(kept) < 2:
            raise ValueError(f"sample_weight is zero but for {len(kept)} row(s): at least two are needed.")
        return TrainingRows(X, y, weights, strata, metadata).take(kept)

    def _recipe(self, random_state: np.random.RandomState) -> Recipe:
        anchors = self.anchors
        if not isinstance(anchors, str) and not hasattr(anchors, "draw"):
            anchors = self._check_anchors(anchors)
        return Recipe(
            base=prepare_base(self._base(), random_state),
            encoding=get_encoding(self.encoding),
            prior=get_prior(anchors),
            n_anchors=self.n_anchors,
            n_train_anchors=self.n_train_anchors,
            pairing=self.pairing,
        )

    def _fit_scale(
        self,
        recipe: Recipe,
        model: DeltaModel,
        plain: BaseEstimator,
        data: TrainingRows,
        rng: np.random.Generator,
    ) -> tuple[Any, Any]:
        """Return the factor on σ, and the floor under it, that `calibrate` asks for."""
        if self.calibrate is None:
            return 1.0, 0.0
        if self.calibrate != "cv":
            return float(self.calibrate), 0.0
        probes = permuted_features(data.X, rng)

        def fold_errors(
            train: np.ndarray, test: np.ndarray, fold_rng: np.random.Generator
        ) -> tuple[np.ndarray, np.ndarray]:
            fold = recipe.train(data.take(train), fold_rng)
            posterior = self._posterior_of(fold, data.X[test])
            mean = posterior.mean
            if self.center == "estimator":
                mean = self._center_outputs(fit_plain(plain, data.take(train)), data.X[test])
            typical = typical_std(self._posterior_of(fold, probes))
            return self._observed_outputs(data.y[test]) - mean, significant_std(posterior) / typical

        rows, errors = self._over_folds(fold_errors, self._fold_strata(data), rng)
        residuals, stds = (np.concatenate(parts)[np.argsort(rows)] for parts in zip(*errors, strict=True))
        weights = np.ones(len(data)) if data.weights is None else data.weights
        scale, floor = unit_rms_scale(residuals, stds, weights)
        typical = typical_std(self._posterior_of(model, probes))
        scale, floor = scale / typical, floor * typical
        return (float(scale[0]), float(floor[0])) if len(scale) == 1 else (scale, floor)

    def _over_folds(
        self, task: Callable[..., Any], strata: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, list[Any]]:
        """Call ``task(train, test, rng)`` for every fold, in `n_jobs` threads.

        Returns
        -------
        rows : int array of shape (n,)
            The test rows of all folds, one fold after the other.
        results : list of what the task returned, one per fold
        """
        splits = list(folds(strata, rng))
        calls = (
            delayed(task)(train, test, child)
            for (train, test), child in zip(splits, rng.spawn(len(splits)), strict=True)
        )
        threads = Parallel(n_jobs=self.n_jobs, prefer="threads", require="sharedmem")
        results = list(threads(calls))
        return np.concatenate([test for _, test in splits]), results

    # -- predicting --------------------------------------------------------------------------------

    def posterior(self, X: Any, return_samples: bool = False) -> Posterior:
        """Return mean and variance over the stored anchors, before any calibration.

        Parameters
        ----------
        X : array-like of shape (n, d)
        return_samples : bool, default=False
            Also keep the K outputs behind them; memory then grows with K.

        Returns
        -------
        posterior : Posterior
            With ``center="estimator"`` the mean is the plain model's prediction.
        """
        check_is_fitted(self)
        with advise_on_nan(self):
            X = validate_input(self, X)
            model = DeltaModel(self.estimator_, self.encoding_, self.anchors_)
            raw = self._posterior_of(model, X, return_samples)
            if hasattr(self, "center_"):
                return Posterior(self._center_outputs(self.center_, X), raw.var, samples=raw.samples)
            return raw

    def _posterior_of(self, model: DeltaModel, X: np.ndarray, keep_samples: bool = False) -> Posterior:
        return model.posterior(X, self._readout(), keep_samples=keep_samples, n_jobs=self.n_jobs)

    def set_anchors(self, anchors: Any) -> BaseAnchored:
        """Predict with other anchors from now on, without training again; `scale_` stays as it is.

        Parameters
        ----------
        anchors : array-like of shape (K, d)

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self.anchors_ = self._check_anchors(anchors)
        warn_if_alone(self.anchors_)
        return self

    def _scaled_std(self, std: np.ndarray) -> np.ndarray:
        """Return calibrated standard deviations, of the shape of `std`."""
        return self.scale_ * np.maximum(std, self.std_floor_)

    def _check_anchors(self, anchors: Any) -> np.ndarray:
        """Return the user's anchors as a float64 array of shape (K, d)."""
        if hasattr(anchors, "columns"):
            _check_feature_names(self, anchors, reset=False)
        refuse_dates("anchors", anchors)
        try:
            if np.ndim(anchors) < 2:
                raise ValueError(f"expected a 2D array, got {shown(anchors)}.")
            values = check_array(
                anchors,
                dtype=np.float64,
                ensure_all_finite="allow-nan" if accepts_nan(self._base()) else True,
                input_name="anchors",
                copy=True,
            )
        except (ValueError, TypeError) as error:
            refuse_text("anchors", anchors, error)
            message = str(error).partition("\n")[0]
            raise ValueError(f"anchors must be rows like those of X: {message}") from error
        if values.shape[1] != self.n_features_in_:
            raise ValueError(f"anchors have {values.shape[1]} features, but X has {self.n_features_in_}.")
        return values

    # -- scikit-learn's contracts ------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = tags_of(self._base())
        tags.target_tags.multi_output = base.target_tags.multi_output
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = accepts_nan(self._base())
        if tags.regressor_tags is not None and base.regressor_tags is not None:
            tags.regressor_tags.poor_score = base.regressor_tags.poor_score
        if tags.classifier_tags is not None and base.classifier_tags is not None:
            tags.classifier_tags.poor_score = base.classifier_tags.poor_score
            tags.classifier_tags.multi_class = base.classifier_tags.multi_class
            tags.classifier_tags.multi_label = base.classifier_tags.multi_label
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what metadata this estimator and its base ask for."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self._base(), method_mapping=mapping)

    def _route(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata that goes to the base's `fit`."""
        if not fit_params:
            return {}
        if not get_config()["enable_metadata_routing"]:
            raise ValueError(
                f"fit got {sorted(fit_params)}, which needs sklearn.set_config(enable_metadata_routing=True)."
            )
        return dict(process_routing(self, "fit", **fit_params).estimator.fit)


def _train(recipe: Recipe, data: TrainingRows, rng: np.random.Generator, n_fits: int) -> DeltaModel:
    """Train, and say what to do when the base cannot fit several outputs."""
    try:
        return recipe.train(data, rng, n_fits=n_fits)
    except ValueError as error:
        if data.y.ndim == 1 or "1d array" not in str(error):
            raise
        raise ValueError(
            f"y has {data.y.shape[1]} outputs, but {type(recipe.base).__name__} predicts one: wrap it in "
            "MultiOutputRegressor or MultiOutputClassifier."
        ) from error
