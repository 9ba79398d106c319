"""Training and asking networks of images: real images, but few of them, and a single step."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from deltauq.nn.training import Batch  # noqa: E402
from experiments import (  # noqa: E402
    ablation_anchors_images,
    ablation_prior,
    anchoring_variants,
    image_configs,
    image_data,
    image_logits,
    image_networks,
    table5,
)
from experiments import cache as cache_module  # noqa: E402
from experiments.image_configs import AnchorSetting, NetworkKind, Schedule, TrainingRun  # noqa: E402

PLAIN = NetworkKind("ResNet20")
ANCHORED = NetworkKind("ResNet20", anchored=True)
SHORT = Schedule(1, 0.05)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def tiny(cache, monkeypatch, data_dir):
    """Few images, one step; networks are shared by the tests of this file."""
    monkeypatch.setattr(cache_module, "cache_dir", lambda: cache)
    monkeypatch.setitem(image_data.SIZES, "quick", (64, 24))
    monkeypatch.setitem(image_data.HELD_OUT, "quick", 24)
    monkeypatch.setitem(
        image_configs.SCHEDULES, "quick", {"steps": SHORT, "linear": Schedule(1, 0.05, "linear")}
    )
    monkeypatch.setattr(image_logits, "REPEATS", 1)
    image_networks.trained.cache_clear()


def run_of(kind, seed=0, schedule=SHORT):
    return TrainingRun(kind, schedule, seed, "quick")


@pytest.mark.parametrize("method", [name for name in table5.METHODS if name != "ensemble"])
def test_every_method_of_table5_runs(method):
    metrics = table5.run({"method": method, "schedule": "steps", "seed": 0}, "quick").metrics
    assert set(metrics) == {"auroc", "aupr", "fpr95", "accuracy", "ece"}
    assert all(0.0 <= value <= 1.0 for value in metrics.values())


def test_ensemble_needs_logits_only(monkeypatch):
    def logits(run, images, anchors):
        assert not run.kind.anchored and run.seed != 2
        return np.full((1, 24, 10), float(run.seed))

    monkeypatch.setattr(table5, "logits", logits)
    metrics = table5.run({"method": "ensemble", "schedule": "linear", "seed": 2}, "quick").metrics
    assert metrics["auroc"] == 0.5


def test_first_seeds_come_first_and_ensembles_last():
    cells = table5.cells("paper")
    alone = [cell for cell in cells if cell["method"] != "ensemble"]
    assert [cell["seed"] for cell in alone] == sorted(cell["seed"] for cell in alone)
    assert cells[-8:] == [cell for cell in cells if cell["method"] == "ensemble"]
    linear = {cell["method"] for cell in cells if cell["schedule"] == "linear"}
    assert {"plain", "delta-masked", "delta-masked-1", "ensemble", "mc-dropout"} <= linear


def test_logits_in_the_cache_need_no_network(monkeypatch, cache):
    run = run_of(PLAIN)
    before = image_logits.logits(run, "test")
    for path in (cache / "artifacts").glob("*.safetensors"):
        path.rename(path.with_suffix(".away"))
    monkeypatch.setattr(image_networks, "train", None)
    image_networks.trained.cache_clear()
    np.testing.assert_array_equal(image_logits.logits(run, "test"), before)
    for path in (cache / "artifacts").glob("*.away"):
        path.rename(path.with_suffix(".safetensors"))


def test_network_is_trained_once(monkeypatch):
    run = run_of(ANCHORED)
    image_logits.logits(run, "test")
    monkeypatch.setattr(image_networks, "train", None)
    image_networks.trained.cache_clear()
    assert image_logits.logits(run, "svhn", AnchorSetting("normal", 3)).shape == (3, 24, 10)


@pytest.mark.parametrize("kind", [PLAIN, ANCHORED, NetworkKind("ResNet20", kernels=True)])
def test_cached_network_equals_trained_network(kind, monkeypatch):
    kept = []
    train = image_networks.train
    monkeypatch.setattr(image_networks, "train", lambda run, *path: kept.append(train(run, *path)) or kept[0])
    result = image_networks.trained(run_of(kind, seed=5)).state_dict()
    for name, value in kept[0].state_dict().items():
        assert torch.equal(result[name], value.cpu()), name


def test_cache_keys_omit_defaults():
    configuration = run_of(NetworkKind("ResNet18", anchored=True, mask=0.25)).configuration()
    assert configuration == {
        "kind": {"network": "ResNet18", "anchored": True, "mask": 0.25},
        "schedule": {"epochs": 1, "lr": 0.05},
        "seed": 0,
        "profile": "quick",
    }
    assert (
        str(run_of(NetworkKind("ResNet18", anchored=True, mask=0.25)))
        == "ResNet18-anchored-mask0.25-constant-0"
    )


def test_equal_paired_anchors_are_shared_anchors(monkeypatch):
    run = run_of(ANCHORED)
    net = image_networks.trained(run)
    test, one = (
        image_data.load_image_set("test", "quick"),
        image_data.load_image_set("svhn", "quick").images[3:4],
    )
    only = image_data.LabelledImages(one, np.zeros(1, dtype=np.int64))
    monkeypatch.setattr(image_logits, "training_images", lambda run: only)
    own = image_logits.predict(net, run, test, AnchorSetting("paired", 2))
    shared = image_logits.predict(net, run, test, AnchorSetting("data", 2))
    np.testing.assert_allclose(own.astype(float), shared.astype(float), rtol=2e-3, atol=2e-3)


def test_dropout_masks_are_shared_by_images(monkeypatch):
    run = run_of(NetworkKind("ResNet20", dropout=0.3))
    net, test = image_networks.trained(run), image_data.load_image_set("test", "quick")
    whole = image_logits.predict(net, run, test, AnchorSetting())
    monkeypatch.setattr(image_logits, "ROWS_AT_ONCE", 7)
    in_parts = image_logits.predict(net, run, test, AnchorSetting())
    np.testing.assert_allclose(whole.astype(float), in_parts.astype(float), rtol=5e-3, atol=5e-3)
    assert whole.shape == (image_logits.N_MASKS, 24, 10) and whole.astype(float).std(axis=0).min() > 0


def test_anchors_of_every_prior():
    run = run_of(ANCHORED)
    train = image_networks.as_tensor(
        image_data.load_image_set("train", "quick").images, ANCHORED, "cpu"
    ).flatten(1)
    labels = image_data.load_image_set("train", "quick").labels

    def nearest(prior):
        anchors = image_logits.anchor_inputs(run, AnchorSetting(prior, 10))
        assert anchors.shape == (10, 3, 32, 32) and anchors.dtype == torch.float32
        distance, rows = torch.cdist(anchors.flatten(1), train).min(dim=1)
        return distance.numpy(), rows.numpy()

    distance, rows = nearest("data")
    assert distance.max() < 0.1 and len(set(rows)) == 10
    noisy, same_rows = nearest("impulse-1")
    assert noisy.min() > 1 and (same_rows == rows).all()
    assert nearest("impulse-5")[0].mean() > noisy.mean()
    distance, rows = nearest("balanced")
    assert distance.max() < 0.1 and len(set(labels[rows])) == 10
    assert nearest("kmeans")[0].max() > 1 and nearest("svhn")[0].min() > 1
    normal = image_logits.anchor_inputs(run, AnchorSetting("normal", 10))
    assert abs(float(normal.mean())) < 0.05 and abs(float(normal.std()) - 1) < 0.05
    with pytest.raises(ValueError, match="'moon'"):
        image_logits.anchor_inputs(run, AnchorSetting("moon"))


def test_uniform_target_of_masked_rows():
    torch.manual_seed(0)
    net = image_networks.make_network(ANCHORED).train()
    x, y = torch.randn(6, 3, 32, 32), torch.arange(6)
    rows = torch.arange(6).flip(0)[None]

    def losses(masked):
        logs = net(x, anchors=rows, masked=masked).log_softmax(1).detach()
        return torch.where(masked, -logs.mean(1), -logs[torch.arange(6), y])

    uniform = image_networks._objective(
        NetworkKind("ResNet20", anchored=True, mask=0.5, masked_target="uniform")
    )
    some = torch.tensor([True, False, False, True, True, False])
    for masked in (torch.tensor(True), torch.tensor(False), some):
        loss = uniform(net, Batch(x, y, rows, masked)).detach()
        torch.testing.assert_close(loss, losses(masked).mean(), rtol=1e-4, atol=1e-5)


def test_a_kind_says_what_is_masked():
    by = {rows: image_networks.make_network(replace(ANCHORED, mask_rows=rows)) for rows in (False, True)}
    assert {rows: net.mask_rows for rows, net in by.items()} == {False: False, True: True}


def test_held_out_images_are_not_trained_on():
    run = run_of(PLAIN, schedule=Schedule(1, held_out=True))
    train = image_networks.training_images(run).images
    whole = image_data.load_image_set("train", "quick").images
    held_out = image_data.load_image_set("validation", "quick").images
    np.testing.assert_array_equal(np.concatenate([train, held_out]), whole)


@pytest.mark.parametrize("setting", anchoring_variants.QUICK)
def test_variants_use_neither_svhn_nor_test_images(setting, monkeypatch):
    load = image_data.load_images

    def only_training_images(name):
        assert name == "cifar10-train"
        return load(name)

    image_data._load_image_set.cache_clear()
    monkeypatch.setattr(image_data, "load_images", only_training_images)
    metrics = anchoring_variants.run({"setting": setting, "seed": 0}, "quick").metrics
    assert metrics["microseconds_per_image"] > 0
    assert ("auroc_sigma" in metrics) == ("auroc_sigma_noisy" in metrics) == (setting != "plain")
    assert all(0 <= value <= 1 for name, value in metrics.items() if name.startswith("auroc"))


def test_first_anchors_do_not_depend_on_their_number(monkeypatch):
    monkeypatch.setattr(ablation_anchors_images, "N_ANCHORS", (2, 6))
    few, many = (ablation_anchors_images.run({"n_anchors": n, "seed": 0}, "quick") for n in (2, 6))
    assert few.details == {"corruption": "generated"}
    assert set(few.metrics) == set(many.metrics) and few.metrics != many.metrics


@pytest.mark.parametrize("prior", ["data", "impulse-5", "kmeans"])
def test_priors_are_compared_on_the_network_of_table5(prior):
    metrics = ablation_prior.run({"prior": prior, "seed": 0}, "quick").metrics
    if prior == "data":
        same = table5.run({"method": "delta-uq", "schedule": "steps", "seed": 0}, "quick").metrics
        assert same.items() <= metrics.items()
    assert 0 <= metrics["auroc_sigma"] <= 1


def test_average_masked():
    run = run_of(NetworkKind("ResNet20", anchored=True, mask=0.25))
    net, test = image_networks.trained(run), image_data.load_image_set("test", "quick")
    averaged, unmasked = (
        image_logits.predict(net, run, test, AnchorSetting("data", 3, average)) for average in (True, False)
    )
    x, outputs = image_networks.as_tensor(test.images, run.kind, "cpu"), []
    with torch.no_grad():
        for hidden in (False, True):
            under = [anchor.expand_as(x)[None] for anchor in net.anchors]
            outputs.append(
                torch.stack([net(x, anchors=anchors, masked=torch.tensor(hidden)) for anchors in under])
            )
    np.testing.assert_allclose(unmasked, outputs[0], atol=2e-2)  # kept as float16
    np.testing.assert_allclose(averaged, (outputs[0] + outputs[1]) / 2, atol=2e-2)
    assert np.abs(averaged - unmasked).max() > 0.1
    with pytest.raises(ValueError, match="average_masked"):
        image_logits.predict(net, run, test, AnchorSetting("paired", 3, True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize(
    "kind",
    [
        NetworkKind("ResNet20", kernels=True),
        NetworkKind("ResNet20", dropout=0.1),
        NetworkKind("ResNet20", anchored=True, mask=0.25, mask_rows=True, masked_target="uniform"),
        NetworkKind("ResNet20", anchored=True, copies=2, consistency=1.0),
    ],
)
def test_training_on_a_gpu(kind, monkeypatch):
    monkeypatch.setitem(image_data.SIZES, "quick", (2000, 24))
    net = image_networks.train(run_of(kind, schedule=Schedule(2, 0.02)))
    assert all(value.isfinite().all() for value in net.state_dict().values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize(
    "kind", [PLAIN, ANCHORED, NetworkKind("ResNet20", anchored=True, mask=0.25, mask_rows=True)]
)
def test_a_training_repeats_on_a_gpu(kind, monkeypatch):
    from torch._inductor.utils import fresh_cache

    def weights():
        # Compiled anew, as in another process: what is compiled may depend on how fast it was found to be.
        with image_networks._repeatable(), fresh_cache():
            return image_networks.train(run).state_dict()

    monkeypatch.setitem(image_data.SIZES, "quick", (2000, 24))
    run = run_of(kind, schedule=Schedule(3, 0.1))
    first, second = weights(), weights()
    assert all(torch.equal(value, second[name]) for name, value in first.items())
