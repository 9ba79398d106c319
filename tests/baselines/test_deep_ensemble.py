"""Deep ensembles, by construction."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from deltauq.baselines import DeepEnsemble
from deltauq.nn import MLP, Anchored
from deltauq.nn.training import Recipe, fit

RECIPE = Recipe(epochs=4, batch_size=32, lr=1e-2, seed=7)


def make():
    return MLP(2, 1, (8, 8))


def make_with_batch_norm():
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def test_posterior_is_moments_of_members(wave):
    x, y = wave
    model = DeepEnsemble(make, 4).fit(x, y, RECIPE)
    outputs = torch.stack([member(x) for member in model.members_]).detach()
    posterior = model.posterior(x, link="sigmoid", batch_size=10)
    torch.testing.assert_close(posterior.mean, outputs.mean(0))
    torch.testing.assert_close(posterior.var, outputs.var(0, correction=0))
    torch.testing.assert_close(posterior.link_mean, outputs.sigmoid().mean(0))
    torch.testing.assert_close(posterior.link_var, outputs.sigmoid().var(0, correction=0))
    assert (posterior.var > 0).all()


def test_each_member_is_the_plain_network_of_its_seed(wave):
    x, y = wave
    model = DeepEnsemble(make, 2).fit(x, y, RECIPE)
    for seed, member in zip((7, 8), model.members_, strict=True):
        torch.manual_seed(seed)
        alone = make()
        fit(alone, x, y, Recipe(epochs=4, batch_size=32, lr=1e-2, seed=seed))
        torch.testing.assert_close(member(x), alone(x), rtol=1e-4, atol=1e-5)


def test_training_together_equals_training_one_by_one(wave, tmp_path):
    x, y = wave
    together = DeepEnsemble(make, 3).fit(x, y, RECIPE)
    one_by_one = DeepEnsemble(make, 3).fit(x, y, RECIPE, checkpoint=tmp_path / "run.ckpt")
    torch.testing.assert_close(together.posterior(x).mean, one_by_one.posterior(x).mean, rtol=1e-4, atol=1e-5)


def test_training_together_equals_one_by_one_on_classes(blobs, tmp_path):
    x, y = blobs
    together = DeepEnsemble(lambda: MLP(2, 3, (8,)), 2).fit(x, y, RECIPE)
    one_by_one = DeepEnsemble(lambda: MLP(2, 3, (8,)), 2).fit(x, y, RECIPE, checkpoint=tmp_path / "run.ckpt")
    ours, theirs = (model.posterior(x, "softmax") for model in (together, one_by_one))
    torch.testing.assert_close(ours.link_mean, theirs.link_mean, rtol=1e-4, atol=1e-5)


def test_members_with_batch_norm_resume_from_checkpoints(wave, tmp_path):
    x, y = wave
    first = DeepEnsemble(make_with_batch_norm, 2).fit(x, y, RECIPE, checkpoint=tmp_path / "run.ckpt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-0.ckpt", "run-1.ckpt"]
    (tmp_path / "run-1.ckpt").unlink()
    epochs = []
    again = DeepEnsemble(make_with_batch_norm, 2).fit(
        x, y, RECIPE, checkpoint=tmp_path / "run.ckpt", progress=lambda epoch, loss: epochs.append(epoch)
    )
    # The first member is read, the second trained again: the second half of the progress.
    assert epochs == [2, 3, 3, 4]
    torch.testing.assert_close(first.posterior(x).mean, again.posterior(x).mean, rtol=0, atol=0)


def test_ensemble_of_trained_networks(wave):
    x, _ = wave
    nets = [make() for _ in range(3)]
    without_first = DeepEnsemble.from_members(nets[1:])
    expected = torch.stack([net(x) for net in nets[1:]]).detach()
    torch.testing.assert_close(without_first.posterior(x).mean, expected.mean(0))
    with pytest.raises(TypeError, match="construct it with make_network"):
        without_first.fit(x, x[:, :1], RECIPE)


def test_a_member_given_twice_counts_twice(wave):
    x, _ = wave
    a, b = make(), make()
    expected = (2 * a(x) + b(x)).detach() / 3
    torch.testing.assert_close(DeepEnsemble.from_members([a, a, b]).posterior(x).mean, expected)


class Recurrent(nn.Module):
    """An LSTM over the features, which cannot be stacked."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.lstm(x[:, :, None])[0][:, -1])


def make_spectral():
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(2, 4)), nn.ReLU(), nn.Linear(4, 1))


def make_with_prior():
    return Anchored(make(), 4, train_anchors="data")


def make_masked():
    return Anchored(make(), 4, mask=0.5)


@pytest.mark.parametrize("make", [Recurrent, make_spectral, make_with_prior, make_masked])
def test_unstackable_networks_are_trained_separately(wave, make):
    x, y = wave
    model = DeepEnsemble(make, 2).fit(x, y, RECIPE)
    for seed, member in zip((7, 8), model.members_, strict=True):
        torch.manual_seed(seed)
        alone = make()
        fit(alone, x, y, replace(RECIPE, seed=seed))
        torch.testing.assert_close(member(x), alone(x), rtol=1e-4, atol=1e-5)


def test_uint8_inputs_are_scaled_and_normalised(tmp_path):
    x = torch.randint(256, (40, 3, 2, 2), dtype=torch.uint8)
    y = torch.arange(40) % 2
    normalize = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])
    models = [
        DeepEnsemble(lambda: MLP(12, 2, (4,)), 2).fit(x, y, RECIPE, normalize=normalize, checkpoint=path)
        for path in (None, tmp_path / "run.ckpt")
    ]
    inputs = (x / 255 - normalize[0].view(3, 1, 1)) / normalize[1].view(3, 1, 1)
    together, one_by_one = (model.posterior(inputs).mean for model in models)
    torch.testing.assert_close(together, one_by_one, rtol=1e-4, atol=1e-5)


def test_invalid_number_of_members_raises():
    with pytest.raises(ValueError, match="n_members must be at least 1, got 0"):
        DeepEnsemble(make, 0)
