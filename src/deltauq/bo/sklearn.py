"""`SklearnSurrogate`: an anchored scikit-learn regressor as a BoTorch model, without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from sklearn.base import clone
from torch import Tensor

from deltauq.bo.surrogate import SampledSurrogate
from deltauq.estimators import AnchoredRegressor


class SklearnSurrogate(SampledSurrogate):
    """An anchored scikit-learn regressor, whose K anchors are the members of a BoTorch ensemble.

    It has no gradients: call `optimize_acqf` with ``options={"with_grad": False}``, or, for trees, which are
    constant between their thresholds, `optimize_acqf_discrete` with many points.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
        At least two points.
    train_Y : float tensor of shape (n, m)
        Outcomes at these points.
    regressor : AnchoredRegressor, optional
        Cloned before it is fitted; by default an anchored random forest with random seed 0. Its `center` and
        its calibrated scale are used.
    **options
        `posterior`, `input_transform` and `outcome_transform`; see `AnchoredSurrogate`. Inputs are
        standardised by default.

    Attributes
    ----------
    regressor_ : AnchoredRegressor
        The fitted regressor.
    """

    def __init__(
        self, train_X: Tensor, train_Y: Tensor, *, regressor: AnchoredRegressor | None = None, **options: Any
    ) -> None:
        super().__init__(train_X, train_Y, **options)
        if regressor is not None and not isinstance(regressor, AnchoredRegressor):
            raise TypeError(f"regressor must be an AnchoredRegressor, got {type(regressor).__name__}.")
        self.regressor = AnchoredRegressor(random_state=0) if regressor is None else regressor

    def reseed(self, seed: int) -> Self:
        """Replace the random seed of the regressor."""
        self.regressor = clone(self.regressor).set_params(random_state=seed)
        return self

    @classmethod
    def train_together(cls, surrogates: Sequence[Any], xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Fit the regressors one by one."""
        for surrogate, x, y in zip(surrogates, xs, ys, strict=True):
            target = y.squeeze(1) if surrogate.num_outputs == 1 else y
            surrogate.regressor_ = clone(surrogate.regressor).fit(_as_numpy(x), _as_numpy(target))

    def function_values(self, x: Tensor) -> Tensor:
        """Return values of shape (K, n, m) under each anchor, with the regressor's mean and scaled σ."""
        if x.requires_grad:
            raise UnsupportedError(
                "a scikit-learn model has no gradients: give optimize_acqf options={'with_grad': False}."
            )
        model: Any = self.regressor_
        posterior = model.posterior(_as_numpy(x), return_samples=True)
        deviations = posterior.samples - posterior.samples.mean(0)
        std = posterior.std
        scaled = model.calibrated_std(std)
        # Where all anchors agree there is nothing to scale.
        factor = np.divide(scaled, std, out=np.ones_like(std), where=std > 0)
        values = posterior.mean + factor * deviations
        return torch.as_tensor(values, dtype=x.dtype, device=x.device).reshape(len(values), len(x), -1)


def _as_numpy(x: Tensor) -> np.ndarray:
    """Return a tensor as an array of float64."""
    return np.asarray(x.detach().cpu(), dtype=np.float64)
