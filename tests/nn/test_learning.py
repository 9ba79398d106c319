"""Anchored networks learn what plain ones learn, and detect other inputs."""

import copy

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn import functional as F

from deltauq.nn import Anchored


def digits():
    """Training and test digits, and images of something else, of one channel and in [0, 1]."""
    x, y = load_digits(return_X_y=True)
    images = torch.tensor(x / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(y)))
    images, labels = images[order], torch.from_numpy(y)[order]
    pixels = torch.rand(len(images) - 1297, 64, generator=torch.Generator().manual_seed(0)).argsort(1)
    shuffled = images[1297:].flatten(1).gather(1, pixels).reshape(-1, 1, 8, 8)
    return images[:1297], labels[:1297], images[1297:], labels[1297:], shuffled


def mnist(n_train=4000, n_test=1000):
    """As `digits`, from MNIST and grey CIFAR-10."""
    from deltauq.data import load_images

    def take(name, n):
        images, labels = load_images(name)
        return torch.tensor(np.asarray(images[:n]) / 255, dtype=torch.float32), torch.tensor(
            labels[:n]
        ).long()

    (x, y), (x_test, y_test) = take("mnist-train", n_train), take("mnist-test", n_test)
    grey = take("cifar10-test", n_test)[0].mean(-1)[:, 2:30, 2:30]
    return x[:, None], y, x_test[:, None], y_test, grey[:, None]


class ConvNet(nn.Sequential):
    def __init__(self, size):
        super().__init__(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * (size // 4) ** 2, 64),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(64, 10),
        )


def train(net, x, y, epochs):
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    steps = epochs * len(x) // 64
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps + epochs)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def measure(data, epochs):
    """Return accuracies, plain and anchored, and the AUROC of the anchored one's entropy on other images."""
    x, y, x_test, y_test, other = data
    network = ConvNet(x.shape[-1])
    plain = train(copy.deepcopy(network), x, y, epochs)
    net = train(Anchored(network), x, y, epochs)
    net.set_anchors(x)
    with torch.no_grad():
        plain_accuracy = float((plain(x_test).argmax(1) == y_test).float().mean())
    posterior = net.posterior(torch.cat([x_test, other]), link="softmax")
    accuracy = float((posterior.mean[: len(x_test)].argmax(1) == y_test).float().mean())
    # Spread over anchors widens the mean of the probabilities.
    entropy = torch.special.entr(posterior.link_mean).sum(1)
    is_other = torch.arange(len(entropy)) >= len(x_test)
    return plain_accuracy, accuracy, roc_auc_score(is_other, entropy)


def test_digits_are_learned_and_shuffled_ones_detected():
    plain, anchored, auroc = measure(digits(), epochs=12)
    assert plain > 0.95
    assert anchored > plain - 0.01
    assert auroc > 0.9


@pytest.mark.slow
def test_mnist_is_learned_and_grey_pictures_detected(data_dir):
    plain, anchored, auroc = measure(mnist(), epochs=6)
    assert plain > 0.95
    assert anchored > plain - 0.01
    assert auroc > 0.9
