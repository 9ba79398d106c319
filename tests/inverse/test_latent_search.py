"""Search in latent space: closed forms, the effect of uncertainty, invalid input."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from deltauq.baselines import DeepEnsemble, MCDropout
from deltauq.core import Posterior
from deltauq.inverse import Generator, latents_of, scale_of, search
from deltauq.inverse.generator import uniform
from deltauq.inverse.latent_search import MIN_SCALE, laplace_loss
from deltauq.nn import MLP, Anchored
from deltauq.nn.training import Recipe


def identity(y, z):
    return z


def total(x):
    return x.sum(1)


class ForwardModel:
    """A forward model with given mean and variance."""

    def __init__(self, mean, var):
        self.mean, self.var = mean, var

    def posterior(self, x):
        return Posterior(self.mean(x), self.var(x))


def test_loss_is_laplace_likelihood():
    rng = np.random.default_rng(0)
    mean, y = torch.from_numpy(rng.normal(size=(2, 50)))
    b = torch.from_numpy(rng.uniform(0.05, 3.0, 50))
    expected = -torch.distributions.Laplace(mean, b).log_prob(y) - np.log(2.0)
    torch.testing.assert_close(laplace_loss((mean, b**2), y), expected)
    torch.testing.assert_close(laplace_loss((mean, (b / 4.0) ** 2), y, 4.0), expected)


def test_scale_of():
    torch.manual_seed(0)
    x = torch.randn(20_000, 2)
    b = 0.1 + x[:, 1].abs()
    y = x[:, 0] + 3.0 * torch.distributions.Laplace(0.0, b).sample()
    overconfident = ForwardModel(lambda x: x[:, :1], lambda x: (0.1 + x[:, 1:].abs()) ** 2)
    assert scale_of(overconfident, x, y) == pytest.approx(3.0, rel=0.05)
    assert scale_of(overconfident, x, y[:, None]) == scale_of(overconfident, x, y)
    assert scale_of(lambda x: x[:, 0], x, y) == 1.0, "nothing to scale"
    with pytest.raises(ValueError, match=r"no scale fits: .* is inf"):
        scale_of(ForwardModel(lambda x: x[:, 0], lambda x: 0.0 * x[:, 0]), x, y)
    with pytest.raises(ValueError, match="got 3 for 20000"):
        scale_of(overconfident, x, y[:3])


def test_scale_of_uncertainty_below_minimum():
    small = ForwardModel(lambda x: x[:, :1], lambda x: (1e-3 + 1e-3 * x[:, 1:].abs()) ** 2)
    options = {"n_latent": 2, "n_restarts": 10, "n_steps": 500}
    unscaled = search(identity, small, [0.3], **options).x[0, :, 1]
    scaled = search(identity, small, [0.3], scale=100.0, **options).x[0, :, 1]
    starts = search(identity, small, [0.3], **{**options, "n_steps": 1}, lr=1e-9).x[0, :, 1]
    torch.testing.assert_close(unscaled, starts, atol=1e-6, rtol=0.0)
    assert scaled.abs().max() < 0.05 < starts.abs().mean()


def test_loss_is_bounded_below():
    var = torch.tensor([0.0, 1e-12, MIN_SCALE**2], requires_grad=True)
    loss = laplace_loss((torch.zeros(3), var), torch.zeros(3))
    torch.testing.assert_close(loss, torch.full((3,), float(np.log(MIN_SCALE))))
    loss.sum().backward()
    assert var.grad.isfinite().all()


def test_targets_are_reached():
    result = search(identity, total, [-1.0, 0.5, 2.0], n_latent=4, n_restarts=7, n_steps=300)
    assert result.x.shape == result.z.shape == (3, 7, 4) and result.mean.shape == result.loss.shape == (3, 7)
    torch.testing.assert_close(result.mean, result.x.sum(-1))
    np.testing.assert_allclose(result.mean, np.repeat([[-1.0], [0.5], [2.0]], 7, axis=1), atol=0.05)
    assert result.std is None and not result.diverged.any()


def test_latents_stay_in_the_cube():
    result = search(identity, total, [100.0, -100.0], n_latent=3, n_restarts=5, n_steps=200, lr=0.1)
    torch.testing.assert_close(result.z[0], torch.ones(5, 3))
    torch.testing.assert_close(result.z[1], -torch.ones(5, 3))


def test_starts():
    starts = torch.tensor([[0.5, -1.0], [0.0, 0.25], [1.0, 1.0]])
    result = search(identity, total, [0.0, 2.0], starts=starts, n_steps=1, lr=1e-9)
    torch.testing.assert_close(result.z, starts.expand(2, 3, 2))
    nearer = search(identity, total, [0.0, 2.0], starts=starts, n_steps=200)
    assert (nearer.loss <= result.loss).all() and nearer.loss.max() < 0.05
    for given in (starts.clone().requires_grad_(), starts.numpy(), starts.tolist(), starts.double()):
        again = search(identity, total, [0.0, 2.0], starts=given, n_steps=200)
        assert torch.equal(again.z, nearer.z) and not again.z.requires_grad
    for bad, message in (
        ([[0.5], [0.5, 0.5]], "expected sequence of length 1"),
        (torch.zeros(3), r"starts must be latents of shape \(r, d\), got \(3,\)"),
        (torch.zeros(0, 2), r"got \(0, 2\)"),
        (torch.full((2, 2), 1.5), r"starts must be in \[-1, 1\]"),
        (torch.full((2, 2), torch.nan), r"starts must be in \[-1, 1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            search(identity, total, [0.0], starts=bad)


def test_units_of_targets():
    options = {"n_latent": 2, "n_restarts": 3, "n_steps": 100}
    plain = search(identity, total, [0.5, -1.0], **options)
    scaled = search(identity, total, [110.0, 80.0], y_mean=100.0, y_std=20.0, **options)
    torch.testing.assert_close(scaled.x, plain.x)
    torch.testing.assert_close(scaled.mean, 100.0 + 20.0 * plain.mean)


def test_uncertain_inputs_are_avoided():
    certain_at_zero = ForwardModel(lambda x: x[:, :1], lambda x: 0.01 + x[:, 1:] ** 2)
    result = search(identity, certain_at_zero, [0.3, -0.6], n_latent=2, n_restarts=10, n_steps=500)
    np.testing.assert_allclose(result.x[..., 0], np.repeat([[0.3], [-0.6]], 10, axis=1), atol=0.02)
    np.testing.assert_allclose(result.x[..., 1], 0.0, atol=0.02)
    np.testing.assert_allclose(result.std, 0.1, atol=0.01)


def test_targets_are_independent():
    f = ForwardModel(lambda x: x.sum(1), lambda x: 0.1 + x.square().sum(1))
    together = search(identity, f, [0.2, 0.9], n_latent=3, n_restarts=4, n_steps=50)
    alone = search(identity, f, [0.9], n_latent=3, n_restarts=4, n_steps=50)
    torch.testing.assert_close(together.z[1], alone.z[0])


def test_best_point_is_kept():
    # With such large steps the loss does not decrease steadily.
    result = search(identity, total, [0.5], n_latent=2, n_restarts=20, n_steps=50, lr=0.9)
    start = search(identity, total, [0.5], n_latent=2, n_restarts=20, n_steps=1, lr=1e-9)
    assert (result.loss <= start.loss).all() and result.loss.mean() < 0.5 * start.loss.mean()
    torch.testing.assert_close(result.loss, (result.mean - 0.5).abs())


def test_loss_decreases_with_steps_and_depends_on_seed():
    losses = [
        search(identity, total, [1.7], n_latent=3, n_restarts=6, n_steps=n, seed=3).loss for n in (5, 20, 80)
    ]
    assert (losses[0] >= losses[1]).all() and (losses[1] >= losses[2]).all()
    again = search(identity, total, [1.7], n_latent=3, n_restarts=6, n_steps=5, seed=3)
    other = search(identity, total, [1.7], n_latent=3, n_restarts=6, n_steps=5, seed=4)
    assert torch.equal(again.loss, losses[0]) and not torch.equal(other.loss, losses[0])


def test_diverged_search_keeps_best_point_and_warns():
    def breaks_high(x):
        return torch.where(x[:, 0] > 0.95, torch.nan, x[:, 0])

    starts = search(identity, total, [0.0], n_latent=1, n_restarts=30, n_steps=1, lr=1e-9).z
    assert starts.max() < 0.95  # otherwise the starts themselves raise
    with pytest.warns(UserWarning, match=r"30 of 60 searches reached non-finite values"):
        result = search(identity, breaks_high, [2.0, 0.0], n_latent=1, n_restarts=30, n_steps=300, lr=0.05)
    assert result.diverged[0].all() and not result.diverged[1].any()
    assert result.mean.isfinite().all() and (result.mean[0] > 0.8).all()
    np.testing.assert_allclose(result.mean[1], 0.0, atol=0.05)


def test_divergence_at_last_step_warns():
    def breaks_high(x):
        return torch.where(x[:, 0] > 0.2, torch.nan, x[:, 0])

    # From zero, 0.05 at a step: 0.25 is reached by the fifth, the first beyond 0.2.
    for n_steps, warns in ((4, False), (5, True)):
        with pytest.warns(UserWarning, match="1 of 1") if warns else nullcontext():
            result = search(identity, breaks_high, [10.0], starts=torch.zeros(1, 1), n_steps=n_steps, lr=0.05)
        assert bool(result.diverged) == warns and result.mean.isfinite().all()


def test_double_precision():
    torch.manual_seed(0)
    g, f = Generator((6,), 4, (16,)).double(), MLP(6, 1, (8,)).double()
    result = search(g, f, [0.1], n_restarts=3, n_steps=20)
    assert result.x.dtype == result.mean.dtype == torch.double
    x, y = torch.rand(5, 6), torch.rand(5)
    starts = latents_of(g, x, y, n_steps=3)
    assert starts.dtype == torch.double
    search(g, f, [0.1], starts=starts, n_steps=2)
    anchored = Anchored(MLP(6, 1, (8,)), n_anchors=5).double().eval()
    anchored.set_anchors(torch.rand(5, 6).double())
    assert scale_of(anchored, x, y) > 0.0


@pytest.fixture(scope="module")
def forwards():
    """Trained forward models of 6 inputs: plain, dropout, ensemble, anchored."""
    torch.manual_seed(0)
    x = 2.0 * torch.rand(200, 6) - 1.0
    y = x.sum(1, keepdim=True)
    recipe = Recipe(epochs=40, batch_size=50, lr=3e-3)

    def network():
        return MLP(6, 1, (32, 32))

    from deltauq.nn.training import fit

    anchored = Anchored(network(), n_anchors=5)
    fit(anchored, x, y, recipe)
    ensemble = DeepEnsemble(network, 3).fit(x, y, recipe)
    return {
        "plain": ensemble.members_[0],
        "dropout": MCDropout(network, 0.1, 5).fit(x, y, recipe),
        "ensemble": ensemble,
        "anchored": anchored,
    }


@pytest.mark.parametrize("name", ["plain", "dropout", "ensemble", "anchored"])
def test_forward_models_are_not_changed(name, forwards):
    f = forwards[name]
    g = Generator((6,), 4, (16,)).train()
    before = [weight.detach().clone() for weight in g.parameters()]
    result = search(g, f, [0.0, 0.2], n_restarts=5, n_steps=150, lr=0.05)
    with torch.no_grad():
        x = result.x.flatten(0, 1)
        expected = f(x) if name == "plain" else f.posterior(x).mean
    torch.testing.assert_close(result.mean.flatten(), expected[:, 0])
    assert (result.std is None) == (name == "plain")
    first = search(g, f, [0.0, 0.2], n_restarts=5, n_steps=1, lr=1e-9)
    assert result.loss.mean() < first.loss.mean()
    assert g.training and all(weight.grad is None for weight in g.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, g.parameters(), strict=True))


@pytest.mark.parametrize(
    ("g", "f", "targets", "options", "message"),
    [
        (identity, total, [1.0, np.nan], {}, r"targets must be finite, got \[1.0, nan\]"),
        (identity, total, [np.inf], {}, "targets must be finite"),
        (identity, total, [], {}, r"targets must be a list of numbers, got shape \(0,\)"),
        (identity, total, 3.0, {}, r"targets must be a list of numbers, got shape \(\)"),
        (identity, total, [1.0], {"n_latent": None}, "give n_latent"),
        (identity, total, [1.0], {"n_restarts": 0}, "n_restarts must be an integer of at least 1, got 0"),
        (
            identity,
            total,
            [1.0],
            {"n_restarts": True},
            "n_restarts must be an integer of at least 1, got True",
        ),
        (identity, total, [1.0], {"n_steps": 1.5}, "n_steps must be an integer of at least 1, got 1.5"),
        (identity, total, [1.0], {"lr": 0.0}, "lr must be positive, got 0.0"),
        (identity, total, [1.0], {"scale": np.inf}, "scale must be positive, got inf"),
        (identity, total, [1.0], {"y_std": 0.0}, "y_std positive, got 0.0 and 0.0"),
        (identity, nn.Linear(5, 1), [1.0], {}, r"f does not accept the inputs of g, of shape \(50, 3\)"),
        (
            Generator((5,), 7, (8,)),
            total,
            [1.0],
            {},
            r"g does not accept targets of shape \(50, 1\) and latents",
        ),
        (identity, nn.Linear(3, 2), [1.0], {}, r"one number for each of 50 inputs, got shape \(50, 2\)"),
        (lambda y, z: z[:3], total, [1.0], {}, "g must return one input for each of 50 latents"),
        (lambda y, z: z / 0.0, total, [1.0], {}, "g returns values that are not finite"),
        (identity, lambda x: total(x) * np.nan, [1.0], {}, "f returns values that are not finite"),
        (identity, lambda x: total(x).detach(), [1.0], {}, "have no gradient"),
        (lambda y, z: z.detach(), nn.Linear(3, 1), [1.0], {}, "have no gradient"),
        (
            identity,
            ForwardModel(total, lambda x: -(total(x) ** 2)),
            [1.0],
            {},
            "negative variance",
        ),
    ],
)
def test_invalid_input(g, f, targets, options, message):
    with pytest.raises(ValueError, match=message):
        search(g, f, targets, **{"n_latent": 3, **options})


def test_forward_model_that_returns_no_tensor_raises():
    with pytest.raises(TypeError, match="returned list"):
        search(identity, lambda x: [0.0], [1.0], n_latent=3)


# latents_of.


def linear(seed=0):
    """Return a generator whose inputs are linear in y and z, and its matrix."""
    a = torch.from_numpy(np.linalg.qr(np.random.default_rng(seed).normal(size=(8, 3)))[0]).float()
    return (lambda y, z: y + z @ a.T), a


def test_latents_of_equal_least_squares():
    g, a = linear()
    torch.manual_seed(0)
    y, z = torch.randn(20, 1), 0.8 * uniform(20, 3, 0)
    off = 0.1 * torch.randn(20, 8)
    x = g(y, z) + off
    expected = torch.linalg.lstsq(a, (x - y).T).solution.T
    result = latents_of(g, x, y[:, 0], n_latent=3, n_steps=500)
    torch.testing.assert_close(result, expected, atol=1e-3, rtol=0.0)


def test_latents_of_stay_in_the_cube():
    g, _ = linear()
    y = torch.zeros(2, 1)
    far = torch.tensor([[5.0, 0.0, -5.0], [0.5, 9.0, 0.0]])
    result = latents_of(g, g(y, far), y, n_latent=3, n_steps=500)
    torch.testing.assert_close(result, far.clamp(-1.0, 1.0), atol=1e-3, rtol=0.0)


def test_latents_of_reconstruct_generated_inputs():
    torch.manual_seed(0)
    g = Generator((4, 4), 3, (32,), output="sigmoid").train()
    y = torch.randn(10, 1)
    x = g.sample(y)
    result = latents_of(g, x, y)
    with torch.no_grad():
        before, after = (g(y, z) - x for z in (torch.zeros(10, 3), result))
    assert after.square().mean() < 1e-3 * before.square().mean()
    assert g.training and all(weight.grad is None for weight in g.parameters())
    assert not result.requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(0, 8), "y": torch.zeros(0)}, "got 0 for 0"),
        ({"y": torch.zeros(4)}, "got 4 for 5"),
        ({"x": torch.zeros(5, 7)}, r"g returns inputs of shape \(5, 8\), but x has \(5, 7\)"),
        ({"x": torch.full((5, 8), torch.nan)}, "the latents are not finite"),
        ({"n_latent": None}, "give n_latent"),
        ({"n_latent": 0}, "n_latent must be an integer of at least 1, got 0"),
        ({"n_steps": 0}, "n_steps must be an integer of at least 1, got 0"),
        ({"lr": -1.0}, "lr must be positive, got -1.0"),
    ],
)
def test_latents_of_invalid_input(change, message):
    options = {"x": torch.zeros(5, 8), "y": torch.zeros(5), "n_latent": 3, **change}
    with pytest.raises(ValueError, match=message):
        latents_of(linear()[0], **options)
