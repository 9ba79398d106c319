"""DUQ on classes whose places are known."""

import pytest
import torch
from torch import nn

from deltauq.nn import MLP
from deltauq.nn.training import Recipe
from experiments.duq import DUQ, KernelNetwork


def make():
    return MLP(2, 8, (32,))


@pytest.fixture(autouse=True)
def _repeatable():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def blobs():
    """Three separate classes of 50 rows each in the plane."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(150) % 3
    centres = torch.tensor([[0.0, 2.0], [-1.7, -1.0], [1.7, -1.0]])
    return centres[y] + 0.3 * torch.randn(150, 2, generator=generator), y


@pytest.fixture
def trained(blobs):
    recipe = Recipe(epochs=60, batch_size=50, lr=5e-3, schedule="linear")
    return DUQ(make, momentum=0.9, penalty=0.05).fit(*blobs, recipe)


def test_centroids_are_the_mean_embeddings_of_their_classes(trained, blobs):
    x, y = blobs
    net = trained.network_
    embedded = net.embed(x)
    for label in range(3):
        expected = embedded[y == label, :, label].mean(0)
        torch.testing.assert_close(net.centroids[:, label], expected, rtol=0, atol=0.02)


def test_known_classes_are_found_and_what_is_far_is_unknown(trained, blobs):
    x, y = blobs
    posterior = trained.posterior(x)
    assert (posterior.mean.argmax(1) == y).float().mean() > 0.98
    assert posterior.mean[torch.arange(len(x)), y].mean() > 0.7
    far = 8.0 * torch.randn(100, 2)
    far = far[far.norm(dim=1) > 6]
    assert trained.score(far).mean() > trained.score(x).mean() + 0.4


def test_the_score_is_one_minus_the_largest_kernel(trained, blobs):
    x, _ = blobs
    posterior = trained.posterior(x, "softmax")
    torch.testing.assert_close(trained.score(x), 1 - posterior.mean.amax(1), rtol=0, atol=1e-6)
    torch.testing.assert_close(posterior.link_mean, posterior.mean / posterior.mean.sum(1, keepdim=True))
    torch.testing.assert_close(trained.posterior(x, "sigmoid").link_mean, posterior.mean)
    assert trained.posterior(1e6 * x, "softmax").link_mean.isfinite().all()


def test_running_means_forget_at_the_given_rate():
    net = KernelNetwork(nn.Identity(), 2, 2, 3, 0.1, 10).double()
    sums, counts = net.sums.clone(), net.counts.clone()
    x, y = torch.randn(7, 2).double(), torch.tensor([0, 0, 0, 0, 1, 1, 1])
    for _ in range(5):
        net.update_centroids(x, y, 0.8)
    embedded = torch.einsum("nf,scf->nsc", x, net.embedding.detach())
    seen = torch.stack([embedded[y == k, :, k].sum(0) for k in range(2)], 1)
    torch.testing.assert_close(net.sums, 0.8**5 * sums + (1 - 0.8**5) * seen)
    torch.testing.assert_close(net.counts, 0.8**5 * counts + (1 - 0.8**5) * torch.tensor([4.0, 3.0]).double())


def test_a_class_that_does_not_come_keeps_its_centroid():
    net = KernelNetwork(nn.Identity(), 2, 3, 3, 0.1, 10)
    centroid, count = net.centroids[:, 2].clone(), net.counts[2].clone()
    x, y = torch.randn(7, 2), torch.tensor([0, 0, 0, 0, 1, 1, 1])
    for _ in range(300):
        net.update_centroids(x, y, 0.5)
    assert torch.equal(net.counts[2], count) and torch.equal(net.centroids[:, 2], centroid)
    torch.testing.assert_close(net.counts[:2], torch.tensor([4.0, 3.0]))
    assert net(x).isfinite().all()


def test_slopes_of_linear_features_have_a_closed_form():
    net = KernelNetwork(nn.Identity(), 4, 3, 5, 0.7, 12).double()
    x = torch.randn(6, 4).double()
    kernels, slopes = net(x, with_slopes=True)
    distance = torch.einsum("nf,scf->nsc", x, net.embedding) - net.centroids
    expected = -torch.einsum("nc,nsc,scf->nf", kernels, distance, net.embedding) / (0.7**2 * 5)
    torch.testing.assert_close(slopes, expected.norm(dim=1))
    torch.testing.assert_close(net(x), (-distance.square().mean(1) / (2 * 0.7**2)).exp())


def test_the_penalty_brings_slopes_near_one(blobs):
    x, y = blobs
    recipe = Recipe(epochs=30, batch_size=50, lr=5e-3)
    models = [DUQ(make, momentum=0.9, penalty=penalty).fit(x, y, recipe) for penalty in (0.0, 1.0)]
    free, held = ((model.network_(x, with_slopes=True)[1] - 1).square().mean() for model in models)
    assert held < 0.5 * free


def test_updating_leaves_batch_norm_and_mode_alone():
    extractor = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4))
    net = KernelNetwork(extractor, 4, 2, 4, 0.1, 10).train()
    before = extractor[1].running_mean.clone()
    net.update_centroids(torch.randn(10, 2), torch.arange(10) % 2, 0.9)
    assert torch.equal(extractor[1].running_mean, before)
    assert net.training and extractor[1].training


def test_bad_input_is_answered_with_one_line(blobs):
    x, y = blobs
    recipe = Recipe(epochs=1)
    with pytest.raises(ValueError, match="DUQ is for classification"):
        DUQ(make).fit(x, x, recipe)
    with pytest.raises(ValueError, match=r"features of shape \(n, n_features\), got \(1, 3, 4\)"):
        DUQ(lambda: nn.Sequential(nn.Linear(2, 12), nn.Unflatten(1, (3, 4)))).fit(x, y, recipe)
    with pytest.raises(ValueError, match="momentum must lie in"):
        DUQ(make, momentum=1.0)
