"""Direct epistemic uncertainty prediction: a second network predicts the error of the first."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from deltauq.baselines.network import (
    MakeNetwork,
    NetworkBaseline,
    Training,
    check_no_link,
    check_regression,
    outputs_of,
    shuffled_rows,
)
from deltauq.core import Posterior
from deltauq.nn.losses import check_same_shape
from deltauq.nn.training import as_inputs, derive_seed, supervised

TINY = 1e-6
"""Smallest predicted squared error, relative to the mean squared error."""


class DEUPNetwork(NetworkBaseline):
    """Direct epistemic uncertainty prediction, for regression.

    Errors are out-of-fold: every row is predicted by a network that was not trained on it. An error network
    of the same architecture learns the expected squared error at x from them, by maximum likelihood of a
    normal distribution with variance softplus(output). The network that predicts is trained on all rows.

    The noise of the targets is part of their errors, and so of the variance.

    Parameters
    ----------
    make_network : callable
        Returns a new network.
    n_folds : int, default=5
        Number of folds. Up to n_folds - 1 rows are in no fold, so that all folds have the same size.

    Attributes
    ----------
    network_, error_network_ : Modules
    scale_ : tensor of shape (n_outputs,)
        Out-of-fold RMSE, the unit of the error network.
    """

    def __init__(self, make_network: MakeNetwork, n_folds: int = 5) -> None:
        super().__init__(make_network)
        if n_folds < 2:
            raise ValueError(f"n_folds must be at least 2, got {n_folds}.")
        self.n_folds = n_folds

    @torch.no_grad()
    def posterior(self, x: Tensor, link: str | None = None, batch_size: int | None = None) -> Posterior:
        """Return the prediction and its expected squared error, of shape (n, n_outputs); no link."""
        check_no_link(link, "DEUP")
        mean = outputs_of(self._fitted().eval(), x, self._device, batch_size)
        ratio = expected_square(outputs_of(self.error_network_.eval(), x, self._device, batch_size))
        return Posterior(mean, self.scale_.to(ratio).square() * ratio)

    def _fit(self, x: Tensor, y: Tensor, training: Training) -> None:
        check_regression(y, "DEUP")
        if len(x) < self.n_folds:
            raise ValueError(f"{self.n_folds} folds need as many rows, got {len(x)}.")
        seed = training.recipe.seed
        held_out, errors = self._out_of_fold_errors(x, y, training.part(0, 3))
        net, error_net = self.new_network(seed), self.new_network(derive_seed(seed, -1))
        training.part(1, 3).run(net, x, y)
        scale, squares = scaled_squares(errors)
        training.part(2, 3).run(error_net, x[held_out], squares, supervised(error_nll))
        self.network_, self.error_network_, self.scale_ = net, error_net, scale

    def _out_of_fold_errors(self, x: Tensor, y: Tensor, training: Training) -> tuple[Tensor, Tensor]:
        """Return the held-out rows, of shape (m,), and their errors, of shape (m, n_outputs)."""
        seed = training.recipe.seed
        folds, others = split_folds(len(x), self.n_folds, seed)
        seeds = [seed + k for k in range(self.n_folds)]
        nets = [self.new_network(s) for s in seeds]
        training.run_many(nets, x, y, seeds, others)
        errors = []
        with torch.no_grad():
            for net, fold in zip(nets, folds, strict=True):
                inputs = as_inputs(x[fold], training.normalize, channels_last=False)
                errors.append(y[fold] - outputs_of(net, inputs, next(net.parameters()).device))
        return folds.flatten(), torch.cat(errors)


def split_folds(n: int, n_folds: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the h rows of every fold, of shape (n_folds, h), and all others, of shape (n_folds, n - h)."""
    shuffled, size = shuffled_rows(n, seed), n // n_folds
    rows = torch.stack([shuffled.roll(-k * size) for k in range(n_folds)])
    return rows[:, :size], rows[:, size:]


def scaled_squares(errors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the RMSE of errors of shape (..., h, m), of shape (..., m), and squared errors in its units."""
    scale = errors.square().mean(-2).sqrt().clamp_min(torch.finfo(errors.dtype).tiny ** 0.5)
    return scale, (errors / scale.unsqueeze(-2)).square()


def expected_square(outputs: Tensor) -> Tensor:
    """Return the squared error that outputs of the error network predict, elementwise."""
    return F.softplus(outputs) + TINY


def error_nll(outputs: Tensor, squares: Tensor) -> Tensor:
    """Return the negative log-likelihood of squared errors under a normal with the predicted variance.

    Its expectation is minimal where the variance is the expected squared error, for any distribution.
    """
    check_same_shape(outputs, squares)
    expected = expected_square(outputs)
    return 0.5 * (expected.log() + squares / expected).mean()
