"""Anchored networks in other people's training loops, without glue."""

import tempfile

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from deltauq.nn import MLP, Anchored
from tests.nn.helpers import TARGETS

N, NOISE = 256, 0.05


def curve(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (N, 1)).astype(np.float32)
    return x, (np.sin(2 * x) + NOISE * rng.normal(size=x.shape)).astype(np.float32)


def error(net, seed=1):
    x, y = curve(seed)
    return float((net.posterior(torch.from_numpy(x)).mean - torch.from_numpy(y)).square().mean())


@pytest.mark.parametrize("target", TARGETS)
def test_plain_loop(target):
    x, y = map(torch.from_numpy, curve())
    net = Anchored(MLP(1, 1, (64, 64)), target=target)
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(40):
        for rows in torch.randperm(N).split(32):
            optimizer.zero_grad()
            F.mse_loss(net(x[rows], y[rows]), y[rows]).backward()
            optimizer.step()
    assert error(net) < 0.05
    assert (net.anchors.unsqueeze(1) == x).all(-1).any(1).all()  # ten of the training inputs


# Lightning warns of its own old calls, and of few workers.
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*num_workers")
@pytest.mark.parametrize("target", TARGETS)
def test_lightning_with_its_sanity_validation(tmp_path, target):
    lightning = pytest.importorskip("lightning")

    class Regression(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Anchored(MLP(1, 1, (64, 64)), target=target)
            self.validated = []

        def training_step(self, batch, _):
            return F.mse_loss(self.net(*batch), batch[1])

        def validation_step(self, batch, _):
            self.validated.append(float(F.mse_loss(self.net(*batch), batch[1])))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 3e-3)

    model = Regression()
    loader = DataLoader(TensorDataset(*map(torch.from_numpy, curve())), 32, shuffle=True)
    check = DataLoader(TensorDataset(*map(torch.from_numpy, curve(1))), 128)
    trainer = lightning.Trainer(
        max_epochs=20,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    if target == "value":
        with pytest.warns(UserWarning, match="no anchors yet"):
            trainer.fit(model, loader, check)
    else:
        # Before the first step there are no targets of anchors to validate with, unless some are set.
        model.net.set_anchors(*map(torch.from_numpy, curve()))
        trainer.fit(model, loader, check)
    assert model.validated[-1] < 0.1 < model.validated[0]
    assert error(model.net) < 0.05


@pytest.mark.parametrize("target", TARGETS)
def test_skorch(target):
    skorch = pytest.importorskip("skorch")
    from sklearn.base import clone

    x, y = curve()
    # Its inputs by name are those of the network.
    training = {"x": x, "y": y} if target == "difference" else x
    model = skorch.NeuralNetRegressor(
        Anchored(MLP(1, 1, (64, 64)), target=target),
        max_epochs=40,
        lr=3e-3,
        optimizer=torch.optim.Adam,
        batch_size=32,
        iterator_train__shuffle=True,
        verbose=0,
    )
    clone(model).fit(training, y)  # a copy is trained, and leaves this one alone
    model.fit(training, y)
    x_new, y_new = curve(1)
    assert np.mean((model.predict(x_new) - y_new) ** 2) < 0.05
    assert error(model.module_) < 0.05


@pytest.mark.parametrize("target", TARGETS)
def test_distributed_data_parallel(target):
    with tempfile.NamedTemporaryFile() as file:
        torch.distributed.init_process_group("gloo", init_method=f"file://{file.name}", rank=0, world_size=1)
        try:
            torch.manual_seed(0)
            network = nn.Sequential(nn.Linear(1, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
            net = Anchored(network, target=target)
            parallel = nn.parallel.DistributedDataParallel(net)
            x, y = map(torch.from_numpy, curve())
            optimizer = torch.optim.Adam(parallel.parameters(), 1e-2)
            for _ in range(200):
                optimizer.zero_grad()
                F.mse_loss(parallel(x, y), y).backward()
                optimizer.step()
            assert torch.equal(net.anchors, x[-10:])
            assert torch.equal(parallel.eval()(x), net(x))
            assert error(net) < 0.1
        finally:
            torch.distributed.destroy_process_group()
