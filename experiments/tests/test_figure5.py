"""Calibration under corruptions: real images, but few of them, and a single step."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments import cache as cache_module  # noqa: E402
from experiments import (  # noqa: E402
    figure5,
    image_configs,
    image_data,
    image_logits,
    image_networks,
)
from experiments.image_configs import AnchorSetting, NetworkKind, Schedule, TrainingRun  # noqa: E402
from experiments.image_data import LabelledImages  # noqa: E402
from experiments.store import ResultLine, ResultStore  # noqa: E402
from experiments.summary import summarise  # noqa: E402
from experiments.tables import make_grid  # noqa: E402

SHORT = Schedule(1, 0.05)
VARIATIONAL = NetworkKind("ResNet20", variational=True, raw=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def tiny(cache, monkeypatch, data_dir):
    """Few images, one step; networks are shared by the tests of this file."""
    monkeypatch.setattr(cache_module, "cache_dir", lambda: cache)
    monkeypatch.setitem(image_data.SIZES, "quick", (64, 24))
    monkeypatch.setitem(image_data.HELD_OUT, "quick", 24)
    monkeypatch.setitem(image_configs.SCHEDULES, "quick", {"long": SHORT})
    monkeypatch.setitem(figure5.N_IMAGES, "quick", 8)
    monkeypatch.setattr(figure5, "SEVERITIES", (2, 5))
    image_networks.trained.cache_clear()


def run_of(kind, seed=0, schedule=SHORT):
    return TrainingRun(kind, schedule, seed, "quick")


@pytest.mark.parametrize("method", [name for name in figure5.METHODS if name != "ensemble-5"])
def test_every_method_runs(method, tiny):
    outcome = figure5.run({"method": method, "seed": 0}, "quick")
    assert set(outcome.metrics) == {f"{name}_{s}" for name in figure5.METRICS for s in (0, 2, 5)}
    assert all(np.isfinite(value) and value >= 0 for value in outcome.metrics.values())
    assert outcome.details["source"] == ["generated"] or outcome.details["source"] == ["published"]
    assert json.loads(json.dumps(outcome.details)) == outcome.details


def test_methods_with_same_logits_are_measured_together(tiny, monkeypatch):
    figure5.measured("delta-uq", 0, "quick")
    monkeypatch.setattr(figure5, "trained", None)
    half, mean = (figure5.measured(name, 0, "quick") for name in ("delta-mean-scaled", "delta-mean"))
    assert half.shape == mean.shape == (5, 4) and not np.array_equal(half, mean)
    accuracy = list(figure5.METRICS).index("accuracy")
    np.testing.assert_array_equal(half[:, accuracy], mean[:, accuracy])


def test_ensemble_consists_of_plain_networks(tiny):
    method = figure5.METHODS["ensemble"]
    assert [run.seed for run in figure5.runs_of(method, 4, "paper")] == [4, 0, 1]
    plain = [figure5.runs_of(figure5.METHODS["plain"], seed, "paper")[0] for seed in (4, 0, 1)]
    assert figure5.runs_of(method, 4, "paper") == plain
    five = figure5.runs_of(figure5.METHODS["ensemble-5"], 0, "paper")
    assert [run.seed for run in five] == [0, 1, 2, 3, 4]


def test_cells_that_train_come_first():
    cells = figure5.cells("paper")
    runs = [tuple(figure5.runs_of(figure5.METHODS[cell["method"]], cell["seed"], "paper")) for cell in cells]
    trainings = {run for group in runs for run in group}
    first = runs[: len(trainings)]
    assert {run for group in first for run in group} == trainings and all(len(group) == 1 for group in first)
    seeds = [cell["seed"] for cell in cells[: len(trainings)]]
    assert seeds == sorted(seeds)
    assert sum(cell["method"] == "ensemble-5" for cell in cells) == 1
    assert {cell["method"] for cell in cells} == set(figure5.METHODS)


def test_the_schedule_is_the_papers():
    (run,) = figure5.runs_of(figure5.METHODS["delta-uq"], 0, "paper")
    recipe = image_networks.recipe_for_device(run)
    rates = [recipe.rate(epoch) for epoch in (0, 59, 60, 120, 160, 199)]
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.02, 0.004, 0.0008, 0.0008])
    assert recipe.epochs == 200 and run.kind.network == "ResNet20" and not run.schedule.held_out
    assert figure5.runs_of(figure5.METHODS["temperature"], 0, "paper")[0].schedule.held_out
    assert len(figure5.image_sets("paper")) == 81


def test_raw_images_are_not_normalised():
    images = np.arange(2 * 32 * 32 * 3, dtype=np.uint32).astype(np.uint8).reshape(2, 32, 32, 3)
    raw = image_networks.as_tensor(images, VARIATIONAL, "cpu")
    np.testing.assert_allclose(raw.numpy(), images.transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    normalised = image_networks.as_tensor(images, NetworkKind("ResNet20"), "cpu").numpy()
    mean, std = (np.array(v).reshape(3, 1, 1) for v in (image_networks.CIFAR_MEAN, image_networks.CIFAR_STD))
    np.testing.assert_allclose(normalised, (raw.numpy() - mean) / std, rtol=1e-4, atol=1e-5)


def test_figures_agree_with_torchmetrics_on_saved_logits(tmp_path):
    from torchmetrics.functional.classification import multiclass_accuracy, multiclass_calibration_error

    rng = np.random.default_rng(0)
    saved = (3 * rng.normal(size=(10, 2000, 10))).astype(np.float16)
    np.save(tmp_path / "logits.npy", saved)
    labels = rng.integers(10, size=2000)
    labels[::2] = saved.astype(float).mean(axis=0).argmax(axis=1)[::2]
    given = LabelledImages(np.zeros(1), labels)
    scorers = {name: figure5.METHODS[name].scorer for name in ("plain", "mc-dropout", "delta-uq")}
    result = figure5.evaluate_sets([lambda images: np.load(tmp_path / "logits.npy")], scorers, [given])
    for name, scorer in scorers.items():
        probabilities = torch.from_numpy(scorer(saved.astype(float)).probabilities)
        target = torch.from_numpy(labels)
        expected = [
            float(multiclass_calibration_error(probabilities, target, num_classes=10, n_bins=15)),
            float((probabilities - torch.eye(10)[target]).square().sum(dim=1).mean()),
            float(torch.nn.functional.nll_loss(probabilities.log(), target)),
            float(multiclass_accuracy(probabilities, target, num_classes=10, average="micro")),
        ]
        np.testing.assert_allclose(result[name][0], expected, rtol=1e-5)


def test_medians_agree_with_details(monkeypatch):
    rng = np.random.default_rng(1)
    known = rng.random((1 + 2 * 5, 4))
    monkeypatch.setattr(figure5, "measured", lambda method, seed, profile: known)
    outcome = figure5.run({"method": "plain", "seed": 0}, "quick")
    sets = figure5.image_sets("quick")
    for place, name in enumerate(figure5.METRICS):
        assert outcome.metrics[f"{name}_0"] == known[0, place]
        for severity in range(1, 6):
            rows = [sets.index(f"test/{kind}/{severity}") for kind in outcome.details["corruptions"]]
            assert outcome.metrics[f"{name}_{severity}"] == pytest.approx(np.median(known[rows, place]))
            in_details = [row[severity - 1] for row in outcome.details[name]]
            np.testing.assert_allclose(in_details, known[rows, place], atol=1e-5)


def test_fitted_methods_share_one_training(tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(cache_module, "cache_dir", lambda: tmp_path)
    seen = []
    real = figure5.load_image_set
    monkeypatch.setattr(
        figure5, "load_image_set", lambda name, profile: seen.append(name) or real(name, profile)
    )
    clean = figure5.measured("delta-masked-rows-temperature", 0, "quick")
    fitted_on = [name for name in seen if name.startswith("validation")]
    kinds = {name.split("/")[1] for name in fitted_on[1:]}
    assert fitted_on[0] == "validation" and kinds == {"motion_blur", "snow", "jpeg_compression"}
    assert len(fitted_on) == 16 and not kinds & set(figure5.FIGURE5)
    monkeypatch.setattr(figure5, "trained", None)
    assert figure5.measured("delta-masked-rows-temperature-shifted", 0, "quick").shape == clean.shape


def test_scorer_is_fitted_on_all_sets_of_its_method(monkeypatch):
    rng = np.random.default_rng(0)
    sets = {name: rng.normal(size=(1, 20, 10)) for name in figure5.SHIFTED}
    answers = {name: rng.integers(10, size=20) for name in sets}
    monkeypatch.setattr(
        figure5, "load_image_set", lambda name, profile: figure5.LabelledImages(name, answers[name])
    )
    names = ["temperature", "temperature-shifted"]
    scorers = figure5.scorers_of(names, sets.__getitem__, "quick")
    for name, fit_on in zip(names, (["validation"], list(sets)), strict=True):
        logits = np.concatenate([sets[images] for images in fit_on], axis=1)
        expected = figure5.fitted_temperature(logits, np.concatenate([answers[i] for i in fit_on]))
        np.testing.assert_allclose(scorers[name](logits).probabilities, expected(logits).probabilities)


def test_variational_weights_are_the_same_for_all_images(tiny, monkeypatch):
    run = run_of(VARIATIONAL)
    net, test = image_networks.trained(run), image_data.load_image_set("test", "quick")
    whole = image_logits.predict(net, run, test, AnchorSetting()).astype(float)
    monkeypatch.setattr(image_logits, "ROWS_AT_ONCE", 7)
    image_networks.trained.cache_clear()
    again = image_logits.predict(image_networks.trained(run), run, test, AnchorSetting()).astype(float)
    np.testing.assert_allclose(whole, again, rtol=5e-3, atol=5e-3)
    assert whole.shape == (image_logits.N_MASKS, 24, 10) and whole.std(axis=0).min() > 0
    with torch.no_grad():
        for layer in net.layers:
            for log_std in layer.log_std.values():
                log_std.fill_(-40.0)
        at_means = net(image_networks.as_tensor(test.images, VARIATIONAL, "cpu")).numpy()
    drawn = image_logits.predict(net, run, test, AnchorSetting()).astype(float)
    np.testing.assert_allclose(drawn, np.broadcast_to(at_means, drawn.shape), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("kind", [NetworkKind("ResNet20", anchored=True, raw=True), VARIATIONAL])
def test_killed_training_continues_from_checkpoint(kind, tiny, cache, monkeypatch):
    monkeypatch.setattr(image_networks, "CHECKPOINT_EVERY", 1)
    run = run_of(kind, seed=7, schedule=Schedule(2, 0.05))
    expected = image_networks.train(run).state_dict()
    seen = []

    def killed_after_one(run):
        def say(epoch, loss):
            seen.append(epoch)
            if len(seen) == 1:
                raise KeyboardInterrupt

        return say

    monkeypatch.setattr(image_networks, "_print_progress", killed_after_one)
    with pytest.raises(KeyboardInterrupt):
        image_networks.trained(run)
    assert len(list(cache.glob("artifacts/*.checkpoint"))) == 1
    result = image_networks.trained(run).state_dict()
    assert seen == [1, 2] and not list(cache.glob("artifacts/*.checkpoint"))
    for name, value in expected.items():
        torch.testing.assert_close(result[name], value, rtol=1e-5, atol=1e-6)


def lines_of(methods, seeds):
    rng = np.random.default_rng(0)
    for method in methods:
        for seed in seeds:
            details = {name: rng.random((16, 5)).tolist() for name in figure5.METRICS}
            metrics = {f"{name}_{s}": rng.random() for name in figure5.METRICS for s in range(6)}
            yield ResultLine(
                "figure5",
                figure5.VERSION,
                "paper",
                {"method": method, "seed": seed},
                metrics,
                1.0,
                details={"source": ["generated"], "corruptions": list(figure5.FIGURE5), **details},
            )


def test_box_plot_of_every_metric():
    pytest.importorskip("plotly")
    lines = list(lines_of(["plain", "delta-uq", "scaled"], range(2)))
    figures = figure5.figures(lines)
    assert [figure.title for figure in figures] == list(figure5.TITLES.values())
    assert "Generated images" in figures[0].caption
    for metric, figure in zip(figure5.TITLES, figures, strict=True):
        plain, delta = figure.figure.data
        assert (plain.name, delta.name) == ("plain", "Δ-UQ") and list(plain.x) == list("012345")
        of_plain = np.mean([line.details[metric] for line in lines[:2]], axis=0)
        np.testing.assert_allclose(plain.median[1:], np.median(of_plain, axis=0))
        clean = np.mean([line.metrics[f"{metric}_0"] for line in lines[:2]])
        assert plain.median[0] == plain.upperfence[0] == pytest.approx(clean)


def test_tables_have_every_severity_and_the_papers_accuracy(tmp_path):
    store = ResultStore(tmp_path / "figure5.jsonl")
    for line in lines_of(figure5.METHODS, range(2)):
        store.append(line)
    result = figure5.EXPERIMENT.lines(store, "paper")
    grids = [make_grid(view, summarise(result)) for view in figure5.EXPERIMENT.tables]
    severities = [f"severity {s}" for s in range(1, 6)]
    for grid in grids:
        assert len(grid.rows) == len(figure5.METHODS)
    assert all(list(grid.columns) == ["clean", *severities] for grid in grids[:4])
    assert all(list(grid.columns) == severities for grid in grids[4:])
    assert [grid.has_paper for grid in grids] == [False, False, False, True, False, False]


def test_derived_mean_and_worst_corruption():
    (line,) = lines_of(["plain"], [0])
    by_corruption = np.array(line.details["ece"])
    result = figure5.derived(line)
    for severity in range(1, 6):
        column = by_corruption[:, severity - 1]
        assert result[f"ece_mean_{severity}"] == pytest.approx(column.mean())
        assert result[f"ece_worst_{severity}"] == max(column)
    assert len(result) == 10 and not result.keys() & line.metrics.keys()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_variational_training_is_recorded_on_a_gpu(monkeypatch, data_dir):
    monkeypatch.setitem(image_data.SIZES, "quick", (2000, 24))
    run = run_of(VARIATIONAL, schedule=replace(SHORT, epochs=2))
    net = image_networks.train(run)
    assert all(value.isfinite().all() for value in net.state_dict().values())


def test_deterministic_settings_are_restored():
    from torch._inductor import config

    def settings():
        return torch.backends.cudnn.deterministic, config.deterministic

    before = settings()
    with pytest.raises(KeyError), image_networks._repeatable():
        assert settings() == (True, True)
        raise KeyError
    assert settings() == before


def test_files_of_the_cache_keep_their_names():
    assert image_configs.AnchorSetting().configuration() == ["data", 10]
    assert image_configs.AVERAGE_MASKED.configuration() == ["data", 10, "both"]
