"""table4: its measures, its data, its pictures, and one tiny run from end to end."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist

from experiments import digit_models, paper_values, table4
from experiments.store import ResultLine

TINY = digit_models.Size(
    images=300,
    restarts=4,
    steps=5,
    generator={"epochs": 1},
    forward={"epochs": 1},
    classifier={"epochs": 1},
)


def test_thickness_counts_pixels_above_a_fifth():
    x = np.array([[0.0, 0.2, 0.2001, 1.0], [0.19, 0.1, 0.0, 0.0]])
    assert digit_models.thickness(x).tolist() == [2, 0]


def test_training_range():
    images = np.zeros((4, 28, 28), dtype=np.uint8)
    for k, n in enumerate((10, 30, 200, 201)):
        images[k].flat[:n] = 255
    digits = digit_models.digits_up_to(200, images)
    assert digits.x.shape == (3, 784) and float(digits.x.max()) == 1.0
    np.testing.assert_allclose(digits.mean + digits.std * digits.y[:, 0], [10, 30, 200], rtol=1e-5)
    with pytest.raises(ValueError, match="the training range is empty: none of 4 images has thickness ≤ 5"):
        digit_models.digits_up_to(5, images)
    with pytest.raises(ValueError, match="the same thickness, 10"):
        digit_models.digits_up_to(10, images)


def test_diversity_is_the_mean_pairwise_distance():
    x = np.random.default_rng(0).random((30, 784))
    assert table4.mean_distance(x) == pytest.approx(pdist(x).mean())
    assert table4.mean_distance(np.repeat(x[:1], 5, axis=0)) == pytest.approx(0.0, abs=1e-5)


def test_digits_are_packed_small_and_whole():
    x = np.random.default_rng(0).integers(0, 256, (10, 784)) / 255
    result = table4.unpacked(table4.packed(x))
    np.testing.assert_array_equal(result.reshape(10, 784), np.rint(255 * x))


def test_the_papers_bias_is_that_of_its_thickness():
    of_anchoring = [paper_values.TABLE4_BIAS[str(target), "delta-uq"] for target in table4.TARGETS]
    assert of_anchoring == [1.4, 2.2, 3.2, 2.3, 5.7]


@pytest.fixture
def tiny(data_dir, tmp_path, monkeypatch):
    """Tiny sizes, and a cache of their own but for the decoded images."""
    sets = {name: digit_models.load_images(name) for name in ("mnist-train", "mnist-test")}
    monkeypatch.setattr(digit_models, "load_images", sets.get)
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path))
    monkeypatch.setattr(table4, "SIZES", {"quick": TINY})
    digit_models.training_digits.cache_clear()
    yield tmp_path
    digit_models.training_digits.cache_clear()


def test_a_tiny_run_of_every_method(tiny):
    starts = {}
    for method in table4.METHODS:
        cell = {"target": 225, "method": method, "seed": 0}
        outcome = table4.run(cell, "quick")
        metrics = outcome.metrics
        assert metrics["bias"] == pytest.approx(abs(metrics["thickness"] - 225))
        assert metrics["miss"] >= metrics["bias"] - 1e-9 and 0.0 <= metrics["recognised"] <= 1.0
        assert ("predicted_std" in metrics) == ("scale" in metrics) == (method != "plain")
        assert metrics["cost"] > 0 and table4.unpacked(outcome.details["digits"]).shape == (4, 28, 28)
        starts[method] = metrics["diversity"]
        assert table4.run(cell, "quick").metrics == metrics, "the second time, out of the cache"
    assert table4.run({"target": 150, "method": "plain", "seed": 0}, "quick").metrics["cost"] == 1.0
    names = {path.name.rsplit("-", 1)[0] for path in (tiny / "artifacts").glob("*.npz")}
    assert names == {"table4-generator-0", "table4-classifier-0"} | {f"table4-{m}-0" for m in table4.METHODS}
    other = replace(TINY, steps=6)
    assert other.configuration("plain", 0) != TINY.configuration("plain", 0)


def test_held_out_digits_are_standardised_as_training_digits(tiny):
    digits, held_out = (
        digit_models.training_digits(300, 175),
        digit_models.held_out_digits(replace(TINY, thickest=175)),
    )
    assert (held_out.mean, held_out.std) == (digits.mean, digits.std)
    thick = digit_models.thickness(held_out.x)
    assert thick.max() <= 175 and len(thick) > 200
    np.testing.assert_allclose(held_out.mean + held_out.std * held_out.y[:, 0], thick, rtol=1e-5)


@pytest.mark.parametrize("layers", ["perceptron", "convolutional"])
def test_a_convolutional_critic(layers, tiny):
    size = replace(TINY, layers=layers, critic="convolutional", images=150)
    g = digit_models.generator(0, size)
    x = g.sample(torch.zeros(3, 1))
    assert g.output == "clipped" and x.shape == (3, 784) and x.isfinite().all()


def test_searches_can_start_at_the_thickest_training_digits(tiny):
    size = replace(TINY, starts=0.1)
    g = digit_models.generator(0, size)
    z = digit_models.starts(g, 0, size)
    assert z.shape == (TINY.restarts, 100) and torch.equal(z, digit_models.starts(g, 0, size))
    assert digit_models.starts(g, 0, TINY) is None
    result, other = (table4.searched("plain", 0, options)["x"] for options in (size, TINY))
    assert result.shape == other.shape and not np.array_equal(result, other)


def test_figures_of_digits():
    pytest.importorskip("plotly")
    digits = table4.packed(np.random.default_rng(0).random((table4.N_PICTURES, 784)))
    lines = [
        ResultLine(
            experiment="table4",
            version=2,
            profile="paper",
            cell=cell,
            metrics={"bias": 1.0},
            seconds=1.0,
            versions={},
            commit=None,
            hardware="",
            details={"digits": digits} if cell["seed"] == 0 else {},
        )
        for cell in table4.cells("paper")
    ]
    result = table4.figures(lines)
    names = ["plain", "MC dropout", "ensemble", "Δ-UQ", "labelled anchors"]
    assert [figure.title for figure in result] == names
    assert len(digits) < 12_000, "a line stays small"


def test_anchors_from_the_thickest_digits(tiny):
    size = replace(TINY, anchors=0.1)
    net = digit_models.forward_model("delta-uq", 0, size)
    digits = digit_models.training_digits(size.images, size.thickest)
    thick = digit_models.thickness(digits.x)
    limit = thick.sort(descending=True).values[int(0.1 * len(thick)) - 1]
    assert len(net.anchors) == digit_models.N_ANCHORS
    assert (digit_models.thickness(net.anchors.cpu()) >= limit).all()
