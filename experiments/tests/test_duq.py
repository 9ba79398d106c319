"""DUQ on three blobs."""

import pytest
import torch
from torch import nn

from deltauq.nn import MLP
from deltauq.nn.training import Recipe
from experiments.duq import KernelNetwork, train_duq


def make():
    return MLP(2, 8, (32,)), 8


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
    return train_duq(make, 3, *blobs, recipe, momentum=0.9, penalty=0.05)


def test_centroids_are_the_mean_embeddings_of_their_classes(trained, blobs):
    x, y = blobs
    embedded = trained.embed(x)
    for label in range(3):
        expected = embedded[y == label, :, label].mean(0)
        torch.testing.assert_close(trained.centroids[:, label], expected, rtol=0, atol=0.02)


def test_kernels_are_small_far_from_all_classes(trained, blobs):
    x, y = blobs
    kernels = trained(x)
    assert (kernels.argmax(1) == y).float().mean() > 0.98
    assert kernels[torch.arange(len(x)), y].mean() > 0.7
    far = 8.0 * torch.randn(100, 2)
    far = far[far.norm(dim=1) > 6]
    assert trained(far).amax(1).mean() < kernels.amax(1).mean() - 0.4


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


def test_absent_class_keeps_its_centroid():
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
    nets = [train_duq(make, 3, x, y, recipe, momentum=0.9, penalty=penalty) for penalty in (0.0, 1.0)]
    free, penalised = ((net(x, with_slopes=True)[1] - 1).square().mean() for net in nets)
    assert penalised < 0.5 * free


def test_centroid_update_keeps_batch_norm_and_mode():
    extractor = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4))
    net = KernelNetwork(extractor, 4, 2, 4, 0.1, 10).train()
    before = extractor[1].running_mean.clone()
    net.update_centroids(torch.randn(10, 2), torch.arange(10) % 2, 0.9)
    assert torch.equal(extractor[1].running_mean, before)
    assert net.training and extractor[1].training
