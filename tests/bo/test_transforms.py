"""`ClipWorst` clips outcomes far below the median, and no others."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from botorch.posteriors.gpytorch import GPyTorchPosterior
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from deltauq.bo import AnchoredSurrogate, ClipWorst, DEUPSurrogate, GPSurrogate, Optimizer
from deltauq.nn.training import Recipe

outcomes = arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 3)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


@given(outcomes, st.sampled_from([0.5, 3.0, 10.0]))
def test_floor(y, reach):
    clipped = ClipWorst(y.shape[1], reach)(torch.from_numpy(y))[0].numpy()
    middle, best = np.median(y, axis=0), y.max(axis=0)
    floor = np.where(best > middle, middle - reach * (best - middle), -np.inf)
    np.testing.assert_allclose(clipped, np.maximum(y, floor), rtol=1e-12, atol=1e-9)
    assert (clipped[y >= middle] == y[y >= middle]).all()


def test_no_floor_if_half_of_outcomes_are_best():
    y = torch.tensor([[1.0], [1.0], [1.0], [-50.0]])
    assert torch.equal(ClipWorst(1)(y)[0], y)


def test_floor_is_fitted_in_training_mode_only():
    clip = ClipWorst(1)
    clip(torch.tensor([[0.0], [1.0], [2.0]]))
    later, _ = clip.eval()(torch.tensor([[-9.0], [7.0]]))
    assert later.flatten().tolist() == [-2.0, 7.0]
    assert clip.untransform(later)[0] is later
    again = ClipWorst(1)
    again.load_state_dict(clip.state_dict())
    assert torch.equal(again.floor, clip.floor)


def test_subset_output():
    y = torch.tensor([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])
    clip = ClipWorst(2)
    clip(y)
    subset = clip.eval().subset_output([1])
    assert subset(torch.tensor([[-99.0]]))[0].item() == -20.0


def test_predictions_do_not_depend_on_depth_of_worst(bowl):
    x, y = bowl
    points = torch.rand(4, 1, 2, dtype=torch.float64)
    means = []
    for depth in (1e3, 1e9):
        deep = y.clone()
        deep[y.argmin()] = -depth
        model = AnchoredSurrogate(x, deep, recipe=Recipe(epochs=20, lr=1e-2), outcome_transform="clip")
        means.append(model.fit().posterior(points).mean)
    torch.testing.assert_close(*means)


def test_clip_with_other_surrogates(bowl):
    x, y = bowl
    deep = y.clone()
    deep[y.argmin()] = -1e6
    gp = GPSurrogate(x, deep, outcome_transform="clip").fit()
    assert isinstance(gp.posterior(x), GPyTorchPosterior)
    assert (gp.posterior(x).mean - y)[y > y.median()].abs().max() < 1.0
    deup = DEUPSurrogate(x, deep, recipe=Recipe(epochs=5), outcome_transform="clip").fit()
    assert deup.posterior(x).mean.isfinite().all()


@pytest.mark.parametrize("deepest", [1e3, 1e9, 1e30])
def test_clip_in_an_optimizer(deepest):
    def difference(**options):
        proposed = []
        for depth in (1e1, deepest):
            optimizer = Optimizer([[0.0], [1.0]], n_initial=4, **options)
            for x, y in ((0.1, -depth), (0.2, 0.0), (0.5, 1.0), (0.7, 0.5), (0.9, -1.0)):
                optimizer.tell([x], y)
            proposed.append(optimizer.ask().item())
        return abs(proposed[0] - proposed[1])

    assert difference(surrogate=partial(AnchoredSurrogate, outcome_transform="clip")) < 1e-3
    assert difference(surrogate=GPSurrogate) > 1e-2


def test_invalid_parameters():
    with pytest.raises(ValueError, match="reach must be a positive number, got 0"):
        ClipWorst(1, 0.0)
    with pytest.raises(ValueError, match=r"ClipWorst\(1\) was given 3 outputs"):
        ClipWorst(1)(torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"outcome_transform must be .* got 'rank'"):
        GPSurrogate(torch.rand(3, 1), torch.rand(3, 1), outcome_transform="rank")
