"""`SklearnSurrogate`: an anchored scikit-learn regressor as a BoTorch model, without gradients."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from sklearn.base import clone
from torch import Tensor

from deltauq.bo._surrogate import SampledSurrogate
from deltauq.estimators import AnchoredRegressor


class SklearnSurrogate(SampledSurrogate):
    """An anchored scikit-learn regressor, whose K anchors are the members of a BoTorch ensemble.

    It has no gradients. Let `optimize_acqf` do without, by ``options={"with_grad": False}``; for trees, which
    are constant between their thresholds, choose among many points by `optimize_acqf_discrete` instead.

    Parameters
    ----------
    train_X : float tensor of shape (n, d)
        At least two points.
    train_Y : float tensor of shape (n, m)
    regressor : AnchoredRegressor, optional
        Cloned before it is fitted; by default an anchored random forest with the seed 0. Its `center` and its
        calibrated scale are kept.
    posterior : {"ensemble", "gaussian"}
        How it answers: the K functions themselves (BoTorch's variance then divides by K - 1), or the Gaussian
        of their mean and their variance (1/K), the paper's way and that of analytic acquisition functions.
    input_transform : InputTransform, "standardize" or None
    outcome_transform : OutcomeTransform, "standardize", "clip" or None

    Attributes
    ----------
    regressor_ : AnchoredRegressor
        After `fit`.
    """

    def __init__(
        self, train_X: Tensor, train_Y: Tensor, *, regressor: AnchoredRegressor | None = None, **words: Any
    ) -> None:
        super().__init__(train_X, train_Y, **words)
        if regressor is not None and not isinstance(regressor, AnchoredRegressor):
            raise TypeError(f"regressor must be an AnchoredRegressor, got {type(regressor).__name__}.")
        self.regressor = AnchoredRegressor(random_state=0) if regressor is None else regressor

    def reseed(self, seed: int) -> Self:
        """Have the regressor be fitted with a seed instead of its own."""
        self.regressor = clone(self.regressor).set_params(random_state=seed)
        return self

    def _train(self, x: Tensor, y: Tensor) -> None:
        target = y.squeeze(1) if self.num_outputs == 1 else y
        self.regressor_ = clone(self.regressor).fit(_as_numpy(x), _as_numpy(target))

    def _values(self, x: Tensor) -> Tensor:
        if x.requires_grad:
            raise UnsupportedError(
                "a scikit-learn model has no gradients: give optimize_acqf options={'with_grad': False}."
            )
        model = self.regressor_
        posterior = model.posterior(_as_numpy(x), return_samples=True)
        deviations = posterior.samples - posterior.samples.mean(0)
        std = posterior.std
        wanted = model.scale_ * np.maximum(std, model.std_floor_)
        # Where all anchors agree there is nothing to scale.
        factor = np.divide(wanted, std, out=np.ones_like(std), where=std > 0)
        values = posterior.mean + factor * deviations
        return torch.as_tensor(values, dtype=x.dtype, device=x.device).reshape(len(values), len(x), -1)


def _as_numpy(x: Tensor) -> np.ndarray:
    """Return a tensor's values in float64."""
    return np.asarray(x.detach().cpu(), dtype=np.float64)
