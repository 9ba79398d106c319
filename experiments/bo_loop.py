"""Bayesian optimisation of several runs at once, for `table3`, its study and `bo-suite`.

The surrogates of all runs of one method are trained at once, which takes little longer than training one. The
results are stored in the cache, and every seed is a cell of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.cache import shared_arrays
from experiments.data.functions import Maximisation
from experiments.runner import Outcome

if TYPE_CHECKING:
    from botorch.models.model import Model
    from torch import Tensor

MakeSurrogate = Callable[["Tensor", "Tensor", int], "Model"]
"""``make(x, y, seed)``: an unfitted surrogate of points of the unit cube, (n, d), and values, (n, 1)."""

Run = tuple[Maximisation, int]
"""A function and a seed."""

N_INITIAL = 6
N_EVERYWHERE = 1024
SAME_POINT = 1e-6
"""Points of the unit cube that differ by less are the same."""
RADII = (0.1, 0.02, 0.004)
N_CENTRES, N_AROUND = 5, 40
"""Number of candidates: in the whole cube; then, for each radius, around each of the best so far."""
LEAST_REGRET = 1e-6


def optimise(runs: Sequence[Run], make: MakeSurrogate, n_steps: int) -> np.ndarray:
    """Maximise functions by expected improvement, all runs at once.

    The first points are uniform, and the same for every method. In each step a new surrogate is trained on
    all points of its run, and the point of largest expected improvement is evaluated.

    Parameters
    ----------
    runs : sequence of r (Maximisation, int)
        Functions of one dimension, each with a seed.

    Returns
    -------
    values : array of shape (r, N_INITIAL + n_steps)
        In the order of evaluation, without the noise that the surrogates see.
    """
    import torch

    from deltauq.bo import fit_together

    rngs = [np.random.default_rng(seed) for _, seed in runs]
    x = np.stack(
        [rng.random((N_INITIAL, problem.dimension)) for (problem, _), rng in zip(runs, rngs, strict=True)]
    )
    y = np.stack([_values(problem, points) for (problem, _), points in zip(runs, x, strict=True)])
    noises = [np.random.default_rng([seed, 1]) for _, seed in runs]
    seen = _observed(runs, y, noises)
    for step in range(n_steps):
        points, values = torch.as_tensor(x), torch.as_tensor(seen)[..., None]
        models = [make(points[k], values[k], 1000 * seed + 10 * step) for k, (_, seed) in enumerate(runs)]
        fit_together(models)
        new = [propose(model, points[k], values[k], rngs[k])[None] for k, model in enumerate(models)]
        new_values = [_values(problem, point) for (problem, _), point in zip(runs, new, strict=True)]
        x, y = np.concatenate([x, np.stack(new)], axis=1), np.concatenate([y, np.stack(new_values)], axis=1)
        seen = np.concatenate([seen, _observed(runs, np.stack(new_values), noises)], axis=1)
    return y


def _observed(runs: Sequence[Run], values: np.ndarray, rngs: Sequence[np.random.Generator]) -> np.ndarray:
    """Return values of shape (r, n) with the noise of their functions."""
    noise = [
        problem.noise * rng.standard_normal(values.shape[1])
        for (problem, _), rng in zip(runs, rngs, strict=True)
    ]
    return values + np.stack(noise)


def _values(problem: Maximisation, points: np.ndarray) -> np.ndarray:
    """Return the values of shape (n,) at points of the unit cube, of shape (n, d)."""
    low, high = problem.bounds
    return problem.value(low + (high - low) * points)


def propose(model: Model, x: Tensor, y: Tensor, rng: np.random.Generator) -> np.ndarray:
    """Return the point of the unit cube where the expected improvement is largest, of shape (d,).

    Candidates fill the cube first; later ones are closer and closer to the best candidates and to the best
    evaluated point. No gradients are needed, so the search is the same for every surrogate.

    Parameters
    ----------
    model : Model
        Fitted to x and y, in any precision.
    x, y : float64 tensors of shapes (n, d) and (n, 1)
    """
    import torch
    from botorch.acquisition.analytic import LogExpectedImprovement
    from torch.quasirandom import SobolEngine

    tensors = (tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point())
    precision = next((tensor.dtype for tensor in tensors), x.dtype)
    acquisition = LogExpectedImprovement(model, best_f=y.max().to(precision))

    @torch.no_grad()
    def improvement(points: Tensor) -> Tensor:
        values: Tensor = acquisition(points.to(precision)[:, None])
        is_known = torch.cdist(points, x, p=torch.inf).amin(1) <= SAME_POINT
        return values.masked_fill(is_known, -torch.inf)

    engine = SobolEngine(x.shape[1], scramble=True, seed=int(rng.integers(2**31)))
    points = engine.draw(N_EVERYWHERE, dtype=x.dtype)
    values = improvement(points)
    for radius in RADII:
        centres = torch.cat([x[y.argmax()][None], points[values.topk(N_CENTRES).indices]])
        steps = torch.as_tensor(rng.standard_normal((N_AROUND, *centres.shape)))
        around = (centres + radius * steps).clamp(0, 1).flatten(0, 1)
        points, values = torch.cat([points, around]), torch.cat([values, improvement(around)])
    return points[values.argmax()].numpy()


def shared_runs(
    name: str, configuration: Mapping[str, Any], runs: Sequence[Run], make: MakeSurrogate, n_steps: int
) -> np.ndarray:
    """Return the values of `optimise`, from the cache if it has this configuration."""

    def values() -> np.ndarray:
        # On one thread the order of sums is fixed; the tensors are small.
        with single_thread():
            return optimise(runs, make, n_steps)

    return shared_arrays(name, configuration, lambda: {"values": values()})["values"]


@contextmanager
def single_thread() -> Iterator[None]:
    """Use one thread of PyTorch."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def measured(values: np.ndarray, problem: Maximisation) -> Outcome:
    """Measure one run.

    Parameters
    ----------
    values : array of shape (N_INITIAL + n_steps,)

    Returns
    -------
    outcome : Outcome
        best: the largest value. auc_best: the mean over the steps of the largest value so far, initial points
        included. Both are in units of the function. progress and auc_progress: the same as shares of the way
        from the best initial value to the maximum. log_regret: log10 of the remaining share, at least 1e-6.
        The details contain the best value so far, for a figure.
    """
    best = np.maximum.accumulate(values)[N_INITIAL - 1 :]
    distance = problem.maximum - best[0]
    progress = (best - best[0]) / distance
    metrics = {
        "best": best[-1],
        "auc_best": best[1:].mean(),
        "progress": progress[-1],
        "auc_progress": progress[1:].mean(),
        "log_regret": np.log10(max(1 - progress[-1], LEAST_REGRET)),
    }
    curve = [float(f"{value:.5g}") for value in best]
    return Outcome({name: float(value) for name, value in metrics.items()}, {"best_so_far": curve})
