"""On a GPU: the same as on a CPU to 1e-4, files across devices, lower precision, a compiled step."""

import copy

import pytest
import torch
from torch.nn import functional as F

from deltauq.nn import Anchored, ResNet20, load

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore:.*:UserWarning:torch"),
]


@pytest.fixture
def net():
    net = Anchored(ResNet20(), n_anchors=4)
    net(torch.randn(32, 3, 16, 16))
    return net


def test_devices_agree(net, tmp_path, monkeypatch):
    # By default PyTorch rounds the inputs of convolutions to 10 bits on such cards: 3e-4 instead of 1e-6.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    x = torch.randn(20, 3, 16, 16)
    net.save(tmp_path / "net")
    expected = net.posterior(x, link="softmax")
    for there in (copy.deepcopy(net).to("cuda"), load(tmp_path / "net", map_location="cuda")):
        actual = there.posterior(x.cuda(), link="softmax")
        scale = float(expected.mean.abs().max())
        assert (actual.mean.cpu() - expected.mean).abs().max() < 1e-4 * scale
        assert (actual.std.cpu() - expected.std).abs().max() < 1e-4 * scale
    back = Anchored(ResNet20())
    there.save(tmp_path / "there")
    back.load(tmp_path / "there")
    assert torch.equal(back.posterior(x).mean, net.posterior(x).mean)


def test_devices_are_not_mixed(net):
    with pytest.raises(ValueError, match="inputs are on cuda:0, but the network is on cpu"):
        net.posterior(torch.randn(4, 3, 16, 16, device="cuda"))
    with pytest.raises(ValueError, match="anchors are on cpu, but the network is on cuda:0"):
        net.to("cuda").set_anchors(torch.randn(4, 3, 16, 16))


def test_training_and_lower_precision(net):
    net.to("cuda")
    step = torch.compile(net)
    x, y = torch.randn(64, 3, 16, 16, device="cuda"), torch.randint(10, (64,), device="cuda")
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    losses = []
    for _ in range(80):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(step(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    exact, low = net.posterior(x), net.posterior(x, autocast=torch.bfloat16)
    assert low.var.dtype == torch.float32
    torch.testing.assert_close(low.mean, exact.mean, rtol=0.1, atol=0.1)


def test_a_recorded_run_that_is_resumed_follows_its_schedule(tmp_path):
    from deltauq.nn.training import Recipe, fit

    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(256, 8, generator=generator), torch.randint(3, (256,), generator=generator)
    recipe = Recipe(
        epochs=6, batch_size=32, optimizer="sgd", lr=0.1, schedule="steps", milestones=(3,), gamma=1e-3
    )

    def make():
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))

    def stop(epoch, loss):
        if epoch == 2:
            raise KeyboardInterrupt

    whole, resumed = make(), make()
    fit(whole, x, y, recipe)
    with pytest.raises(KeyboardInterrupt):
        fit(make(), x, y, recipe, checkpoint=tmp_path / "run.ckpt", progress=stop)
    fit(resumed, x, y, recipe, checkpoint=tmp_path / "run.ckpt")
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_network_that_draws_its_own_anchors_gets_no_graph():
    from deltauq.nn import MLP, anchored_loss
    from deltauq.nn.training import Recipe, fit

    x = torch.randn(256, 4)
    net = Anchored(MLP(4, hidden=(32,)), 5)

    def objective(net, batch):
        return anchored_loss(net, F.mse_loss, batch.x, batch.y, anchors_per_step=3, consistency=0.1)

    history = fit(net, x, x[:, :1] * x[:, 1:2], Recipe(epochs=30, batch_size=32, lr=3e-3), objective)
    assert history.losses[-1] < 0.5 * history.losses[0]
