"""The training engine: what a run is made of, and that nothing outside the recipe changes it."""

import copy
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from deltauq.nn import MLP, Anchored, anchored_loss
from deltauq.nn.training import Batch, Recipe, fit, supervised
from deltauq.nn.training.engine import can_be_graphed, share_of
from deltauq.nn.training.loader import BatchPairing, Epochs, draw_order
from deltauq.nn.training.steps import AnchorMonitor
from tests.nn.helpers import TARGETS, labelled

RECIPE = Recipe(epochs=3, batch_size=16, lr=1e-2)


@pytest.fixture
def table():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(70, 3, generator=generator, dtype=torch.float64)
    return x, x[:, :1] * x[:, 1:2]


def make(target="value", seed=0, n_out=1, dropout=0.0, **options):
    """Return a network, anchored if there is a target."""
    torch.manual_seed(seed)
    net = MLP(3, n_out, hidden=(8, 8), dropout=dropout).double()
    return Anchored(net, 5, target=target, **options) if target else net


def weights(net):
    return torch.cat([parameter.detach().reshape(-1) for parameter in net.parameters()])


def test_a_plain_run_is_a_plain_loop(table):
    x, y = table
    net = make(None)
    by_hand = copy.deepcopy(net)
    losses = fit(net, x, y, RECIPE).losses
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=1e-2)
    for epoch in range(3):
        whole, rest = draw_order(70, RECIPE, epoch, BatchPairing(1), drop_last=False)
        total = 0.0
        for rows in [*whole.rows, *rest.rows]:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(by_hand(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += len(rows) * float(loss.detach())
        assert losses[epoch] == pytest.approx(total / 70)
    torch.testing.assert_close(weights(net), weights(by_hand))


@pytest.mark.parametrize("mask_rows", [False, True])
@pytest.mark.parametrize("encoding", ["difference", "full"])
@pytest.mark.parametrize("train_anchors", ["derangement", "reverse"])
def test_a_labelled_run_is_a_plain_loop(table, train_anchors, encoding, mask_rows):
    x, y = table
    net = make("difference", encoding=encoding, train_anchors=train_anchors, mask_rows=mask_rows)
    by_hand = copy.deepcopy(net)
    recipe = replace(RECIPE, mask=0.3)
    fit(net, x, y, recipe)
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=1e-2)
    pairing = BatchPairing(1, train_anchors == "reverse", mask_rows)
    for epoch in range(3):
        for block in draw_order(70, recipe, epoch, pairing, drop_last=False):
            for rows, (sources,), masked in zip(*block, strict=True):
                optimizer.zero_grad()
                others = rows[sources]
                outputs = labelled(by_hand, x[rows], x[others], y[others], masked=masked)
                nn.functional.mse_loss(outputs, y[rows]).backward()
                optimizer.step()
    torch.testing.assert_close(weights(net), weights(by_hand))
    by_hand.set_anchors(x, y, random_state=recipe.seed)
    assert torch.equal(net.anchors, by_hand.anchors)
    assert torch.equal(net.anchor_targets, by_hand.anchor_targets)


@pytest.mark.parametrize(
    ("target", "options"),
    [(None, {}), ("value", {}), ("difference", {}), ("difference", {"train_anchors": "data"})],
)
def test_runs_repeat_and_keep_the_random_state(table, target, options):
    x, y = table
    recipe = replace(RECIPE, epochs=40)
    nets = [make(target, dropout=0.1, **options) for _ in range(2)]
    torch.manual_seed(7)
    before = torch.get_rng_state()
    histories = [fit(net, x, y, recipe) for net in nets]
    assert torch.equal(torch.get_rng_state(), before)
    assert histories[0].losses == histories[1].losses
    assert torch.equal(weights(nets[0]), weights(nets[1]))
    assert histories[0].losses[-1] < 0.5 * histories[0].losses[0]
    assert not nets[0].training
    if target:
        assert nets[0].anchors.shape == (5, 3)
        assert (nets[0].posterior(x).var > 0).all()


def test_every_row_comes_once_and_is_paired_with_others(table):
    seen = []
    epochs = Epochs(torch.arange(70.0)[:, None], table[1], RECIPE, BatchPairing(2))
    for batch in epochs.batches(5, drop_last=False):
        seen += batch.x[:, 0].tolist()
        first, second = batch.x[batch.anchors][..., 0]
        assert not (first == batch.x[:, 0]).any() and not (second == batch.x[:, 0]).any()
        assert not (first == second).any()
    assert sorted(seen) == list(range(70))
    assert len(epochs.batches(0, drop_last=False)) == 5 and len(epochs.batches(0, drop_last=True)) == 4


def test_single_rows_are_masked_if_the_network_has_mask_rows(table):
    recipe, pairing = Recipe(batch_size=10, mask=0.25), BatchPairing(1, mask_rows=True)
    whole, rest = (block.masked for block in draw_order(1003, recipe, 0, pairing, drop_last=False))
    assert whole.shape == (100, 10) and rest.shape == (1, 3)
    assert abs(float(whole.float().mean()) - 0.25) < 4 * (0.25 * 0.75 / 1000) ** 0.5
    seen = []

    def objective(net, batch):
        seen.append(batch.masked)
        return nn.functional.mse_loss(net(batch.x, anchors=batch.anchors, masked=batch.masked), batch.y)

    net = Anchored(MLP(3, hidden=(8,)).double(), 5, mask=0.4, mask_rows=True)
    fit(net, *table, RECIPE, objective)
    assert all(masked.shape == (RECIPE.batch_size,) for masked in seen[:4])
    assert 0.2 < float(torch.cat(seen).float().mean()) < 0.6


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("train_anchors", ["derangement", "data"])
def test_the_mask_is_that_of_the_network_or_the_recipe(table, train_anchors, target):
    actual = {}
    for masks in ((0.4, 0.0), (0.0, 0.4), (0.4, 0.4), (0.0, 0.0)):
        net = make(target, mask=masks[0], train_anchors=train_anchors)
        fit(net, *table, replace(RECIPE, mask=masks[1]))
        assert net.mask == masks[0]
        actual[masks] = weights(net)
    masked = actual.pop((0.4, 0.4))
    assert not torch.equal(actual.pop((0.0, 0.0)), masked)
    assert all(torch.equal(other, masked) for other in actual.values())


class TwoLayers(nn.Module):
    """Its first layer is not the one that is registered first."""

    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(3, 1), nn.Linear(3, 3)

    def forward(self, x):
        return self.last(self.first(x))


def test_the_wrong_layer_raises_before_the_first_step():
    x, steps = torch.randn(32, 3), []
    net = Anchored(TwoLayers(), 5)
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(ValueError, match="the input first reaches 'first'"):
        fit(net, x, x[:, :1], RECIPE, lambda net, batch: steps.append(batch))
    assert not steps and all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_a_network_that_draws_its_own_anchors_is_noticed():
    x, rows = torch.randn(8, 3), torch.arange(8).flip(0)[None]
    for calls, drawn in (
        ([rows], False),
        ([rows, None], True),
        ([None, rows], True),
    ):
        net = make().float()
        net.set_anchors(x)
        watch = AnchorMonitor(net)
        for anchors in calls:
            net(x, anchors=anchors)
        net.eval()(x)
        assert watch.drawn == drawn
    watch = AnchorMonitor(net.train())
    net(x, anchors=rows)
    assert not watch.drawn
    anchored_loss(net, nn.functional.mse_loss, x, x[:, :1], anchors_per_step=2)
    assert watch.drawn


def test_steps_with_a_prior_are_not_recorded():
    assert can_be_graphed(make(), RECIPE) and can_be_graphed(make(None), RECIPE)
    assert not can_be_graphed(Anchored(MLP(3), train_anchors="data"), RECIPE)


def test_two_different_masks_raise(table):
    with pytest.raises(ValueError, match=r"the recipe has mask=0.2, but the network mask=0.4"):
        fit(Anchored(MLP(3).double(), mask=0.4), *table, replace(RECIPE, mask=0.2))


def test_anchors_follow_the_data_unless_they_were_set(table):
    x, y = table
    net = make()
    fit(net, x, y, RECIPE)
    expected = make()
    expected.set_anchors(x, random_state=RECIPE.seed)
    assert torch.equal(net.anchors, expected.anchors)
    fit(net, x + 100.0, y, RECIPE)
    assert (net.anchors > 50.0).all()
    net.set_anchors(x[:5])
    fit(net, x + 100.0, y, RECIPE)
    assert (net.anchors < 50.0).all() and net.anchors_are_set


def test_a_labelled_network_of_classes_raises(table):
    x, y = table
    with pytest.raises(
        ValueError, match=r"targets of anchors have shape \(\) each, but the outputs .* \(2,\)"
    ):
        fit(make("difference", n_out=2), x, (y[:, 0] > 0).long(), RECIPE)


def test_invalid_data_raises(table):
    x, y = table
    with pytest.raises(ValueError, match="equally many rows"):
        fit(make(), x, y[:5], RECIPE)
    with pytest.raises(ValueError, match="images"):
        fit(make(), x, y, replace(RECIPE, augment="crop-flip"))
    with pytest.raises(TypeError, match="x must be a tensor, got ndarray"):
        fit(make(), x.numpy(), y, RECIPE)
    with pytest.raises(TypeError, match="y must be a tensor, got list"):
        fit(make(), x, y.tolist(), RECIPE)
    with pytest.raises(ValueError, match=r"got torch\.bool"):
        fit(make(), x, y > 0, RECIPE)
    with pytest.raises(ValueError, match=r"shape \(n,\), got \(70, 1\)"):
        fit(make(), x, (y > 0).long(), RECIPE)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        fit(make(), x, torch.full((70,), -1), RECIPE)
    with pytest.raises(ValueError, match="checkpoint_every must be an integer of at least 1, got 0"):
        fit(make(), x, y, RECIPE, checkpoint_every=0)


def test_classes_may_be_integers_of_any_width(table):
    x, y = table
    labels = (y[:, 0] > 0).long()
    nets = [make(n_out=2) for _ in range(2)]
    for net, given in zip(nets, (labels, labels.to(torch.uint8)), strict=True):
        fit(net, x, given, RECIPE)
    assert torch.equal(*map(weights, nets))


def test_a_last_batch_too_small_for_its_anchors_is_left_out(table):
    x, y = table
    for per_tuple, steps in ((1, 4), (2, 4), (0, 5)):
        epochs = Epochs(x[:65], y[:65], RECIPE, BatchPairing(per_tuple))
        sizes = [len(batch.x) for batch in epochs.batches(0, drop_last=False)]
        assert len(sizes) == steps
        assert sizes[:4] == [16] * 4
    with pytest.raises(ValueError, match="too small"):
        fit(make(), x, y, replace(RECIPE, batch_size=1))
    fit(make(None), x, y, replace(RECIPE, batch_size=1, epochs=1))


def test_images_are_trained_on_with_augmentation_and_masks():
    x = torch.randint(256, (40, 3, 8, 8), dtype=torch.uint8)
    y = torch.arange(40) % 2
    x[y == 1] //= 4
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    recipe = replace(RECIPE, epochs=20, augment="crop-flip", mask=0.25, channels_last=True)
    history = fit(Anchored(net, 4), x, y, recipe, normalize=(torch.full((3,), 0.5), torch.ones(3)))
    assert history.losses[-1] < 0.5 * history.losses[0]


def test_labelled_images_are_trained_on_with_augmentation_and_masks():
    x = torch.randint(256, (40, 3, 8, 8), dtype=torch.uint8)
    x[::2] //= 4
    y = 20.0 + x.float().mean((1, 2, 3))[:, None] / 32
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1))
    net = Anchored(net, 4, target="difference")
    recipe = replace(RECIPE, epochs=20, augment="crop-flip", mask=0.25, channels_last=True)
    history = fit(net, x, y, recipe, normalize=(torch.full((3,), 0.5), torch.ones(3)))
    assert history.losses[-1] < 0.5 * history.losses[0]
    assert net.anchors.dtype == torch.float32 and set(net.anchor_targets.flatten().tolist()) <= set(
        y.flatten().tolist()
    )


@pytest.mark.parametrize("target", TARGETS)
def test_shares_of_a_batch_keep_its_pairs(target):
    x, labelled = torch.arange(8.0)[:, None], target == "difference"
    batch = Batch(x, 10.0 * x, torch.arange(8).roll(1)[None], torch.tensor(False), labelled=labelled)
    shares = [share_of(batch, rank, 2) for rank in range(2)]
    torch.testing.assert_close(torch.cat([share.x for share in shares]), x)
    anchors = torch.cat([share.anchors for share in shares], dim=1)[0]
    torch.testing.assert_close(anchors, x.roll(1, 0))
    net = Anchored(MLP(1, hidden=(8,)), target=target)
    loss = supervised(nn.functional.mse_loss)
    parts = torch.stack([loss(net, share) for share in shares])
    torch.testing.assert_close(parts.mean(), loss(net, batch))


def test_unequal_shares_raise():
    x = torch.arange(8.0)[:, None]
    with pytest.raises(ValueError, match="8 rows of a batch cannot be shared equally by 3 devices"):
        share_of(Batch(x, x, None, torch.tensor(False)), 0, 3)
    masked = torch.arange(8) % 3 == 0
    shares = [share_of(Batch(x, x, None, masked), rank, 2).masked for rank in range(2)]
    assert torch.equal(torch.cat(shares), masked)


TWO_PROCESSES = """
import sys, torch
from lightning_fabric import Fabric
from deltauq.nn import MLP, Anchored
from deltauq.nn.training import fit, Recipe
devices = int(sys.argv[1])
torch.set_num_threads(1)
strategy = "ddp" if devices > 1 else "auto"
fabric = Fabric(accelerator="cpu", devices=devices, strategy=strategy)
fabric.launch()
generator = torch.Generator().manual_seed(0)
x = torch.randn(64, 3, generator=generator, dtype=torch.float64)
torch.manual_seed(0)
net = Anchored(MLP(3, hidden=(8, 8)).double(), 5, target=sys.argv[2])
history = fit(net, x, x[:, :1] * x[:, 1:2], Recipe(epochs=4, batch_size=16, mask=0.3), fabric=fabric)
if fabric.is_global_zero:
    print("LOSSES", *history.losses)
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_two_processes_give_the_loss_curve_of_one(tmp_path, target):
    script = tmp_path / "run.py"
    script.write_text(TWO_PROCESSES)
    curves = []
    for devices in ("1", "2"):
        done = subprocess.run(
            [sys.executable, str(script), devices, target], capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        line = next(line for line in done.stdout.splitlines() if line.startswith("LOSSES"))
        curves.append([float(value) for value in line.split()[1:]])
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-10)


RESUMABLE = """
import sys, time, torch
from deltauq.nn import MLP, Anchored
from deltauq.nn.training import fit, Recipe
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(64, 3)
net = Anchored(MLP(3, hidden=(8, 8), dropout=0.2), 5, target=sys.argv[3])
def progress(epoch, loss):
    print(epoch, flush=True)
    time.sleep(float(sys.argv[2]))
recipe = Recipe(epochs=12, batch_size=16, mask=0.2)
fit(net, x, x[:, :1] ** 2, recipe, checkpoint=sys.argv[1] + ".ckpt", progress=progress)
net.save(sys.argv[1] + ".safetensors")
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_killed_run_resumes_to_the_same_weights(tmp_path, target):
    script = tmp_path / "run.py"
    script.write_text(RESUMABLE)

    def command(name, pause):
        return [sys.executable, str(script), str(tmp_path / name), str(pause), target]

    subprocess.run(command("whole", 0), check=True, capture_output=True, timeout=240)
    with subprocess.Popen(command("killed", 0.2), stdout=subprocess.PIPE, text=True) as killed:
        for line in killed.stdout:
            if line.strip() == "5":
                break
        time.sleep(0.05)
        killed.kill()
    again = subprocess.run(command("killed", 0), check=True, capture_output=True, text=True, timeout=240)
    assert int(again.stdout.split()[0]) > 5
    from safetensors.torch import load_file

    whole, resumed = (load_file(tmp_path / f"{name}.safetensors") for name in ("whole", "killed"))
    assert whole.keys() == resumed.keys()
    for name, tensor in whole.items():
        assert torch.equal(tensor, resumed[name]), name


@pytest.mark.parametrize("train_anchors", ["derangement", "kmeans"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_interrupted_run_is_resumed(table, tmp_path, target, train_anchors):
    def stop(epoch, loss):
        if epoch == 2:
            raise KeyboardInterrupt

    nets = [make(target, dropout=0.1, train_anchors=train_anchors) for _ in range(3)]
    fit(nets[0], *table, RECIPE)
    with pytest.raises(KeyboardInterrupt):
        fit(nets[1], *table, RECIPE, checkpoint=tmp_path / "run.ckpt", progress=stop)
    fit(nets[2], *table, RECIPE, checkpoint=tmp_path / "run.ckpt")
    for name, value in nets[0].state_dict().items():
        assert torch.equal(nets[2].state_dict()[name], value), name


def test_a_checkpoint_of_versions_without_targets(table, tmp_path):
    path = tmp_path / "run.ckpt"
    fit(make(), *table, RECIPE, checkpoint=path)
    content = torch.load(path, weights_only=True)
    del content["recipe"]["target"], content["net"]["anchor_targets"]
    torch.save(content, path)
    again = make(seed=1)
    assert len(fit(again, *table, RECIPE, checkpoint=path).losses) == 3
    expected = make()
    fit(expected, *table, RECIPE)
    assert torch.equal(weights(again), weights(expected))
    with pytest.raises(ValueError, match="another recipe: target differ"):
        fit(make("difference"), *table, RECIPE, checkpoint=path)


def test_a_checkpoint_of_another_recipe_raises(table, tmp_path):
    x, y = table
    path = tmp_path / "run.ckpt"
    fit(make(), x, y, RECIPE, checkpoint=path)
    with pytest.raises(ValueError, match="another recipe: lr differ"):
        fit(make(), x, y, replace(RECIPE, lr=0.5), checkpoint=path)
    for options in (
        {"mask_rows": True},
        {"train_anchors": "reverse"},
        {"train_anchors": "data"},
        {"target": "difference"},
    ):
        with pytest.raises(ValueError, match=f"another recipe: {next(iter(options))} differ"):
            fit(Anchored(make(None), 5, **options), x, y, RECIPE, checkpoint=path)
    done = fit(make(), x, y, RECIPE, checkpoint=path)
    assert len(done.losses) == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.ckpt"]


def test_a_checkpoint_that_raises_changes_nothing(table, tmp_path):
    x, y = table
    path = tmp_path / "run.ckpt"
    fit(make(), x, y, RECIPE, checkpoint=path)
    written = path.read_bytes()
    cases = [
        ("another recipe", make(seed=1), (x, y), replace(RECIPE, lr=0.5)),
        ("other data", make(seed=1), (x + 1.0, y), RECIPE),
        ("other data", make(seed=1), (x, y.flip(0)), RECIPE),
        ("other data", make(seed=1), (x.float(), y), RECIPE),
        ("another network", Anchored(MLP(3, hidden=(9, 8)).double(), 5), (x, y), RECIPE),
    ]
    for message, net, data, recipe in cases:
        before = weights(net)
        with pytest.raises(ValueError, match=message):
            fit(net, *data, recipe, checkpoint=path)
        assert torch.equal(weights(net), before)
    assert path.read_bytes() == written


def test_a_checkpoint_of_other_normalisation_raises(tmp_path):
    x, y = torch.randint(256, (20, 3, 4, 4), dtype=torch.uint8), torch.arange(20) % 2
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    scales = torch.zeros(3), torch.ones(3)
    fit(net, x, y, RECIPE, checkpoint=tmp_path / "run.ckpt", normalize=scales)
    for other in (None, (torch.ones(3), torch.ones(3))):
        with pytest.raises(ValueError, match="other data"):
            fit(net, x, y, RECIPE, checkpoint=tmp_path / "run.ckpt", normalize=other)


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "other", "tensor"])
def test_a_damaged_checkpoint_raises(table, tmp_path, damage):
    x, y = table
    path = tmp_path / "run.ckpt"
    fit(make(), x, y, RECIPE, checkpoint=path)
    if damage == "other":
        torch.save({"weights": torch.zeros(3)}, path)
    elif damage == "tensor":
        torch.save(torch.zeros(3), path)
    else:
        content = path.read_bytes()
        path.write_bytes({"cut": content[: len(content) // 2], "text": b"hello", "empty": b""}[damage])
    with pytest.raises(ValueError, match=r"run\.ckpt is not a valid checkpoint") as caught:
        fit(make(), x, y, RECIPE, checkpoint=path)
    assert "\n" not in str(caught.value)
