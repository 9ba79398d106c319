"""`AnchoredSurrogate`: shapes, moments, gradients, transforms, seeds."""

import subprocess
import sys
from functools import partial

import pytest
import torch

pytest.importorskip("botorch")

from botorch.exceptions.errors import UnsupportedError
from botorch.models.ensemble import EnsembleModel
from botorch.models.transforms import Log, Normalize, Standardize
from sklearn.exceptions import NotFittedError

from deltauq.bo import AnchoredSurrogate, AnchorPosterior, fit_together
from deltauq.nn import MLP, Anchored
from deltauq.nn.training import Recipe
from deltauq.utils.install import install_command

SMALL = partial(MLP, hidden=(16, 16), activation="tanh")
QUICK = Recipe(epochs=40, lr=1e-2)
make = partial(
    AnchoredSurrogate,
    network=SMALL,
    recipe=QUICK,
    n_anchors=30,
    pairing="random",
    calibrate=1.0,
    input_transform="standardize",
)


@pytest.fixture(scope="module")
def model(bowl):
    return make(*bowl).fit()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("kind", ["ensemble", "gaussian"])
def test_shapes(bowl, dtype, m, kind):
    x, y = (t.to(dtype) for t in bowl)
    model = make(x, y * torch.arange(1, m + 1), n_anchors=6, posterior=kind).fit()
    assert isinstance(model, EnsembleModel)
    assert (model.num_outputs, model.batch_shape) == (m, torch.Size([]))
    for batch in [(), (4,), (2, 3)]:
        for q in (1, 3):
            points = torch.rand(*batch, q, 2, dtype=dtype)
            assert model(model.transform_inputs(points)).shape == (*batch, 6, q, m)
            posterior = model.posterior(points)
            assert posterior.mean.shape == posterior.variance.shape == (*batch, q, m)
            assert posterior.mean.dtype == dtype
            assert posterior.rsample(torch.Size([5])).shape == (5, *batch, q, m)


def test_values_are_those_of_the_network_under_each_anchor(bowl, model):
    x, y = bowl
    points = torch.rand(3, 2, 2, dtype=torch.float64)
    inputs = (points - x.mean(0)) / x.std(0)
    values = model.posterior(points).values
    assert values.shape == (3, 10, 2, 1)
    for k, anchor in enumerate(model.net.anchors):
        outputs = model.net(inputs.view(6, 2), anchors=anchor.expand(1, 6, 2)).view(3, 2, 1)
        torch.testing.assert_close(values[:, k], outputs * y.std() + y.mean())


def test_by_default_points_are_scaled_by_their_range(bowl):
    x, y = bowl
    model = AnchoredSurrogate(3 * x + 7, y, recipe=Recipe(epochs=5), posterior="gaussian").fit()
    low, high = x.amin(0), x.amax(0)
    centred = (x - low) / (high - low) - 0.5
    expected = model.net.posterior(centred).mean
    mean = model.posterior((3 * x + 7)[:, None]).mean[:, 0]
    torch.testing.assert_close(mean, expected * y.std() + y.mean())


def test_moments_are_those_of_the_networks_posterior(bowl, model):
    x, y = bowl
    points = torch.rand(8, 1, 2, dtype=torch.float64)
    ours = model.net.posterior(((points - x.mean(0)) / x.std(0)).squeeze(1))
    mean, var = ours.mean * y.std() + y.mean(), ours.var * y.var()
    ensemble = model.posterior(points)
    gaussian = make(*bowl, posterior="gaussian").fit().posterior(points)
    for posterior, factor in ((ensemble, 10 / 9), (gaussian, 1.0)):
        torch.testing.assert_close(posterior.mean.squeeze(1), mean)
        torch.testing.assert_close(posterior.variance.squeeze(1), factor * var)


def test_a_point_is_what_it_is_whatever_else_is_asked(model):
    points = torch.rand(20, 4, 2, dtype=torch.float64)
    values = model.posterior(points).values
    torch.testing.assert_close(
        model.posterior(points[7, 2:3]).values, values[7, :, 2:3], rtol=1e-12, atol=1e-12
    )


def test_gradients(bowl):
    for kind in ("ensemble", "gaussian"):
        model = make(*bowl, posterior=kind).fit()
        points = torch.rand(2, 1, 2, dtype=torch.float64, requires_grad=True)

        def moments(x, model=model):
            posterior = model.posterior(x)
            return posterior.mean, posterior.variance

        assert torch.autograd.gradcheck(moments, points)
    assert not any(p.requires_grad for p in model.parameters())
    assert not model.posterior(points.detach()).mean.requires_grad


def test_it_learns(bowl):
    x, y = bowl
    model = make(x, y, recipe=Recipe(epochs=300, lr=1e-2)).fit()
    mean = model.posterior(x).mean
    assert (mean - y).square().mean() < 0.02 * y.var()


def test_transforms_are_learned_and_undone(bowl):
    x, y = bowl
    y = y - y.min() + 1
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    scaled = make(x, y, input_transform=Normalize(2, bounds=bounds), outcome_transform=Log()).fit()
    raw = make(x, y.log(), input_transform=None, outcome_transform=None).fit()
    points = torch.rand(5, 1, 2, dtype=torch.float64)
    torch.testing.assert_close(scaled.posterior(points).values, raw.posterior(points).values.exp())


def test_units_do_not_matter(bowl):
    x, y = bowl
    points = torch.rand(5, 1, 2, dtype=torch.float64)
    here = make(x, y).fit().posterior(points).mean
    there = make(100 * x - 3, 1000 * y + 7).fit().posterior(100 * points - 3).mean
    torch.testing.assert_close(there, 1000 * here + 7, rtol=1e-8, atol=1e-6)


def test_training_data_stay_as_they_were_given(bowl, model):
    for mode in (model.eval, model.train, model.eval):
        assert torch.equal(mode().train_inputs[0], bowl[0])
    standardize = Standardize(1)
    make(*bowl, outcome_transform=standardize).fit()
    torch.testing.assert_close(standardize.means.item(), bowl[1].mean().item())


def test_seeds(bowl):
    points = torch.rand(5, 1, 2, dtype=torch.float64)
    state = torch.get_rng_state()
    found = [make(*bowl, recipe=Recipe(epochs=5, seed=s)).fit().posterior(points).values for s in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])
    model = make(*bowl).fit()
    assert torch.equal(model.posterior(points).values, model.fit().posterior(points).values)


def test_anchors(bowl):
    x, y = bowl
    assert make(x, y, n_anchors=4).fit().net.anchors.shape == (4, 2)
    assert make(x, y, n_anchors=50).fit().net.anchors.shape == (10, 2)  # no anchor counts twice
    assert make(x, y, n_anchors=50, anchors="normal").fit().net.anchors.shape == (50, 2)
    corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    kept = make(x, y, anchors=corners).fit().net.anchors * x.std(0) + x.mean(0)
    torch.testing.assert_close(kept[kept[:, 0].mul(2).add(kept[:, 1]).argsort()], corners)


@pytest.mark.parametrize(
    "words", [{"n_train_anchors": 5}, {"train_anchors": "reverse"}, {"encoding": "two-anchor"}]
)
def test_other_ways_to_train_learn_too(bowl, words):
    x, y = bowl
    model = make(x, y, recipe=Recipe(epochs=300, lr=1e-2), **words).fit()
    assert (model.posterior(x).mean - y).square().mean() < 0.1 * y.var()


@pytest.mark.parametrize("pairing", ["shared", "random"])
def test_together_is_one_after_the_other(bowl, pairing):
    x, y = bowl

    def members():
        return [
            make(
                x + k,
                y * (k + 1),
                recipe=Recipe(epochs=20, lr=1e-2, seed=k),
                pairing=pairing,
                n_train_anchors=2,
            )
            for k in range(3)
        ]

    together = members()
    fit_together(together)
    for k, (one, other) in enumerate(zip(members(), together, strict=True)):
        points = torch.rand(4, 1, 2, dtype=torch.float64) + k
        torch.testing.assert_close(other.posterior(points).values, one.fit().posterior(points).values)


def test_shared_anchors_are_those_that_it_predicts_with(bowl):
    x, y = bowl
    words = {"recipe": Recipe(epochs=300, lr=1e-2), "n_anchors": 4}
    shared, random = (make(x, y, pairing=pairing, **words).fit() for pairing in ("shared", "random"))
    assert (shared.posterior(x).mean - y).square().mean() < 0.02 * y.var()
    assert torch.equal(shared.net.anchors, random.net.anchors)
    on, off = x, torch.rand(200, 2, dtype=torch.float64)

    def contrast(model):
        away, here = (model.posterior(points).variance.mean().item() for points in (off, on))
        return away / here

    assert contrast(shared) > 3 * contrast(random), "they agree where there is data, and only there"


def test_every_point_meets_every_shared_anchor(bowl, monkeypatch):
    met = []
    through = Anchored.forward

    def noting(self, x, *, anchors=None, masked=None):
        met.append((x.shape, None if anchors is None else anchors.shape))
        return through(self, x, anchors=anchors, masked=masked)

    monkeypatch.setattr(Anchored, "forward", noting)
    make(*bowl, recipe=Recipe(epochs=2, batch_size=4), n_anchors=3, pairing="shared").fit()
    # Batches of four points with three anchors each: 30 pairs in 12 + 12 + 6.
    assert [x[0] for x, _ in met] == [12, 12, 6] * 2
    assert {anchors[1:] for _, anchors in met} == {(12, 2), (6, 2)}


@pytest.mark.parametrize("kind", ["ensemble", "gaussian"])
def test_calibrate_is_a_factor_on_the_standard_deviation(bowl, kind):
    points = torch.rand(6, 1, 2, dtype=torch.float64)
    raw, scaled = (make(*bowl, calibrate=c, posterior=kind).fit().posterior(points) for c in (1.0, 3.0))
    torch.testing.assert_close(scaled.mean, raw.mean)
    torch.testing.assert_close(scaled.variance, 9 * raw.variance)


@pytest.mark.parametrize("pairing", ["shared", "random"])
def test_a_refitted_layer_goes_through_the_points(bowl, pairing):
    x, y = bowl
    wide = partial(MLP, hidden=(200,), activation="tanh")
    words = {"network": wide, "recipe": Recipe(epochs=5), "n_anchors": 5, "pairing": pairing}
    rough, exact = (make(x, y, ridge=ridge, **words).fit() for ridge in (None, 1e-8))
    assert (rough.posterior(x).mean - y).abs().max() > 0.1 * y.std()
    assert (exact.posterior(x).mean - y).abs().max() < 0.01 * y.std()
    away = exact.posterior(torch.rand(50, 1, 2, dtype=torch.float64)).variance.mean()
    assert away > 100 * exact.posterior(x[:, None]).variance.mean()


def test_random_features_are_not_trained(bowl):
    words = {"features": "random", "ridge": 1e-6, "network": partial(MLP, hidden=(200,), activation="tanh")}
    model = make(*bowl, n_anchors=5, **words)
    drawn = model._new_net(model.networks[0], bowl[0]).module.layers
    trained = model.fit().net.module.layers
    assert torch.equal(trained[0].weight, drawn[0].weight)
    assert not torch.equal(trained[2].weight, drawn[2].weight)
    assert (model.posterior(bowl[0]).mean - bowl[1]).abs().max() < 0.01 * bowl[1].std()


def test_points_left_out_say_how_large_the_deviations_are(bowl):
    x, y = bowl
    words = {"recipe": Recipe(epochs=5), "n_anchors": 5, "pairing": "shared", "ridge": 1e-4}
    raw = make(x, torch.cat([y, x[:, :1]], -1), **words).fit()
    scaled = make(x, torch.cat([y, x[:, :1]], -1), calibrate="left-out", **words).fit()
    points = torch.rand(6, 1, 2, dtype=torch.float64)
    assert scaled.factor.shape == (2,) and (scaled.factor > 0).all()
    torch.testing.assert_close(scaled.posterior(points).mean, raw.posterior(points).mean)
    expected = raw.posterior(points).variance * scaled.factor.square()
    torch.testing.assert_close(scaled.posterior(points).variance, expected)


def fourier(d, m, scale):
    return MLP(d, m, (128,), activation="silu", n_frequencies=16, fourier_scale=scale)


@pytest.mark.parametrize("frequency", [2.0, 40.0])
def test_of_several_networks_the_one_that_predicts_points_left_out_is_kept(frequency):
    x = torch.linspace(0, 1, 24, dtype=torch.float64)[:, None]
    networks = [partial(fourier, scale=scale) for scale in (2.0, 40.0)]
    words = {"network": networks, "ridge": 1e-6, "pairing": "shared", "n_anchors": 5, "input_transform": None}
    model = make(x, (frequency * x).sin(), **words)
    kept = model.fit().net.module.layers[0].frequencies.std().item()
    assert kept == pytest.approx(frequency, rel=0.5)
    between = torch.linspace(0.2, 0.8, 50, dtype=torch.float64)[:, None, None]
    found = model.posterior(between).mean.squeeze()
    assert (found - (frequency * between).sin().squeeze()).square().mean() < 0.1


def test_together_needs_one_setting(bowl):
    x, y = bowl
    with pytest.raises(ValueError, match="differ in data and seed alone"):
        fit_together([make(x, y), make(x[:5], y[:5])])
    with pytest.raises(ValueError, match="no surrogate"):
        fit_together([])


def test_some_outputs(bowl):
    x, y = bowl
    model = make(x, torch.cat([y, -y, 2 * y], -1)).fit()
    points = torch.rand(4, 2, 2, dtype=torch.float64)
    posterior = model.posterior(points, output_indices=[2, 0], observation_noise=True)
    assert isinstance(posterior, AnchorPosterior)
    torch.testing.assert_close(posterior.values, model.posterior(points).values[..., [2, 0]])


def test_bad_input(bowl):
    x, y = bowl
    with pytest.raises(
        UnsupportedError, match=r"^AnchoredSurrogate cannot be conditioned on observations: make"
    ):
        make(x, y).condition_on_observations(x, y)
    with pytest.raises(NotFittedError, match="not fitted yet: call fit first"):
        make(x, y).posterior(x)
    with pytest.raises(ValueError, match=r"points must have shape \(..., q, 2\), got \(3, 1\)"):
        make(x, y).fit().posterior(torch.zeros(3, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="at least two points, got 1"):
        make(x[:1], y[:1])
    with pytest.raises(ValueError, match=r"\(10, 2\) and \(10,\)"):
        make(x, y[:, 0])
    with pytest.raises(ValueError, match=r"torch\.float64 on cpu and torch\.float32 on cpu"):
        make(x, y.float())
    with pytest.raises(ValueError, match="train_Y holds values that are not finite"):
        make(x, y / 0)
    with pytest.raises(TypeError, match="must be tensors, got ndarray"):
        make(x.numpy(), y.numpy())
    with pytest.raises(TypeError, match=r"network must be a function of .* got MLP"):
        AnchoredSurrogate(x, y, network=MLP(2))
    for words, message in [
        ({"n_anchors": 1}, "n_anchors must be at least 2, got 1"),
        ({"n_train_anchors": 0}, "n_train_anchors must be at least 1, got 0"),
        ({"pairing": "twin"}, "pairing must be one of .*, got 'twin'"),
        ({"pairing": "shared", "encoding": "two-anchor"}, "encodings of one anchor, got 'two-anchor'"),
        ({"calibrate": 0.0}, "calibrate must be a positive number, got 0.0"),
        ({"calibrate": "cv"}, "calibrate must be a positive number or \"left-out\", got 'cv'"),
        ({"calibrate": "left-out"}, "leaving points out needs ridge"),
        ({"network": [SMALL, SMALL]}, "leaving points out needs ridge"),
        ({"network": []}, "there is no network to train"),
        ({"features": "none"}, "features must be one of .*, got 'none'"),
        ({"features": "random"}, "solved for: give ridge"),
        ({"ridge": 1e-6, "encoding": "two-anchor"}, "ridge is for encodings of one anchor, got 'two-anchor'"),
        ({"ridge": -1.0}, "ridge must be positive, got -1.0"),
        ({"posterior": "student"}, "posterior must be one of .*, got 'student'"),
        ({"input_transform": "whiten"}, "input_transform must be .* got 'whiten'"),
        ({"outcome_transform": "rank"}, "outcome_transform must be .* got 'rank'"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(x, y, **words)


def test_points_that_stand_twice(bowl):
    x, y = (torch.cat([t, t]) for t in bowl)
    assert make(x, y).fit().posterior(x).mean.isfinite().all()


def test_without_botorch_one_line_says_what_to_install():
    program = "import sys; sys.modules['botorch'] = None\nimport deltauq.bo"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (
        done.stderr.strip().splitlines()[-1].endswith(f"deltauq.bo needs BoTorch: {install_command('bo')}.")
    )
