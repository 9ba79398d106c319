"""`table3`, its study, `bo-suite`, and the loop that they share."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("botorch")

import torch
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal

from deltauq.bo import AnchoredSurrogate, GPSurrogate
from deltauq.nn import MLP
from deltauq.nn.training import Recipe
from experiments import ResultStore, bo_loop, bo_suite, run_experiment, table3, table3_study
from experiments.bo_loop import N_INITIAL, measured, optimise, propose
from experiments.data.functions import MAXIMISATIONS, OTHER_MAXIMISATIONS, Maximisation
from experiments.summary import summarise
from experiments.tables import make_grid

BOWL = Maximisation(lambda x: np.sum((x - 0.25) ** 2, axis=1), -1.0, 1.0, (0.25, 0.25), sign=-1)


def gp(x, y, seed):
    return GPSurrogate(x, y)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path / "cache"))


class Known(torch.nn.Module):
    """A surrogate that knows the function, with the same doubt everywhere."""

    num_outputs = 1

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.nothing = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def posterior(self, X, posterior_transform=None):
        mean = self.function(X).unsqueeze(-1)
        return GPyTorchPosterior(MultivariateNormal(mean[..., 0], 0.01 * torch.eye(X.shape[-2]).to(mean)))


def test_proposal_maximises_a_known_surrogate():
    best = torch.tensor([0.31, 0.72], dtype=torch.float64)
    model = Known(lambda x: -(x - best).square().sum(-1))
    x = torch.rand(6, 2, dtype=torch.float64)
    result = propose(model, x, model.function(x)[:, None], np.random.default_rng(0))
    np.testing.assert_allclose(result, best, atol=0.005)


def test_an_evaluated_point_is_not_proposed_again():
    corner = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    model = Known(lambda x: x.sum(-1))
    x = torch.cat([torch.rand(5, 2, dtype=torch.float64), corner])
    result = propose(model, x, model.function(x)[:, None], np.random.default_rng(0))
    assert result.sum() > 1.9 and np.abs(result - 1).max() > 1e-6


def test_a_bowl_is_climbed():
    values = optimise([(BOWL, seed) for seed in (0, 1)], gp, 8)
    assert values.shape == (2, N_INITIAL + 8)
    assert values.max(1).min() > -1e-2
    first = BOWL.value(2 * np.random.default_rng(1).random((N_INITIAL, 2)) - 1)
    np.testing.assert_allclose(values[1, :N_INITIAL], first)


SMALL = partial(MLP, hidden=(8,), activation="tanh")


def small(x, y, seed):
    return AnchoredSurrogate(x, y, network=SMALL, recipe=Recipe(epochs=5, seed=seed), posterior="gaussian")


def test_runs_together_are_runs_alone():
    problem = MAXIMISATIONS["sinusoid"]
    together = optimise([(problem, 0), (problem, 1)], small, 3)
    for seed in (0, 1):
        np.testing.assert_allclose(optimise([(problem, seed)], small, 3)[0], together[seed], rtol=1e-6)


def test_runs_repeat():
    runs = [(MAXIMISATIONS["multi-optima"], 3)]
    np.testing.assert_array_equal(optimise(runs, small, 2), optimise(runs, small, 2))


def test_noise_is_seen_by_surrogates_only():
    seen = []

    def recording(x, y, seed):
        seen.append(y[:, 0].numpy().copy())
        return GPSurrogate(x, y)

    problem = replace(BOWL, noise=0.5)
    values = optimise([(problem, 0)], recording, 2)[0]
    first = BOWL.value(2 * np.random.default_rng(0).random((N_INITIAL, 2)) - 1)
    np.testing.assert_allclose(values[:N_INITIAL], first)
    assert 0.1 < np.std(seen[0] - values[:N_INITIAL]) < 1.5
    np.testing.assert_array_equal(seen[1][:N_INITIAL], seen[0])


@pytest.mark.parametrize("name", bo_suite.PROBLEMS["paper"])
def test_problems_of_the_suite_are_maximised(name):
    problem = bo_suite.problem(name)
    points = np.random.default_rng(0).uniform(*problem.bounds, size=(200, problem.dimension))
    assert problem.value(points).max() < problem.maximum
    near = np.array(problem.maximizer) + 1e-3 * np.random.default_rng(0).standard_normal(points.shape)
    assert problem.value(near).max() <= problem.maximum + 1e-4


def test_metrics_by_hand():
    problem = Maximisation(lambda x: x[:, 0], 0.0, 10.0, (10.0,))
    values = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 6.0, 3.0, 8.0])
    outcome = measured(values, problem)
    assert outcome.details == {"best_so_far": [2.0, 2.0, 6.0, 6.0, 8.0]}
    assert outcome.metrics == pytest.approx(
        {
            "best": 8.0,
            "auc_best": (2 + 6 + 6 + 8) / 4,
            "progress": 6 / 8,
            "auc_progress": (0 + 4 + 4 + 6) / 32,
            "log_regret": np.log10(0.25),
        }
    )


def test_least_regret_at_the_maximum():
    problem = Maximisation(lambda x: x[:, 0], 0.0, 10.0, (10.0,))
    assert measured(np.array([1.0] * N_INITIAL + [10.0]), problem).metrics["log_regret"] == -6


@pytest.mark.parametrize(
    "experiment", [table3.EXPERIMENT, table3_study.EXPERIMENT, bo_suite.EXPERIMENT], ids=lambda e: e.name
)
def test_quick_profiles_share_computations(experiment, tmp_path, monkeypatch):
    computed = []

    def counting(runs, make, n_steps):
        computed.append(len(runs))
        return optimise(runs, make, n_steps)

    monkeypatch.setattr(bo_loop, "optimise", counting)
    lines = list(run_experiment(experiment, ResultStore(tmp_path / "lines.jsonl"), "quick"))
    assert len(lines) == len(experiment.cells("quick"))
    assert sum(computed) == len(lines), "every cell is computed once, with the others of its group"
    assert all(np.isfinite(value) for line in lines for value in line.metrics.values())
    assert make_grid(experiment.tables[0], summarise(lines)).rows


def test_initial_points_are_the_same_for_all_methods():
    cells = [cell for cell in table3.cells("quick") if cell["seed"] == 1]
    initial = {table3.run(cell, "quick").details["best_so_far"][0] for cell in cells}
    assert len(initial) == 1


def test_failed_surrogate_is_not_cached(monkeypatch):
    def failing(x, y, seed):
        raise RuntimeError("no luck")

    cell = table3.cells("quick")[0]
    with monkeypatch.context() as patch:
        patch.setattr(table3, "surrogate_maker", lambda *options: failing)
        with pytest.raises(RuntimeError, match="no luck"):
            table3.run(cell, "quick")
    assert np.isfinite(table3.run(cell, "quick").metrics["best"])


def test_convergence_is_drawn_for_every_function(tmp_path):
    pytest.importorskip("plotly")
    store = ResultStore(tmp_path / "lines.jsonl")
    only = {"method": "gp"}
    lines = list(run_experiment(table3.EXPERIMENT, store, "quick", only=only))
    (figure,) = table3.draw(lines)
    assert figure.title == "Convergence, Sinusoid"


def test_study_and_table3_have_different_functions():
    x = np.random.default_rng(0).random((20, 2))
    for name, problem in OTHER_MAXIMISATIONS.items():
        assert name not in MAXIMISATIONS
        for other in MAXIMISATIONS.values():
            if other.dimension == problem.dimension:
                points = x[:, : problem.dimension]
                assert not np.allclose(problem.function(points), other.function(points))


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_confirmation_has_other_seeds(profile):
    cells = table3_study.cells(profile)
    seeds = {stage: {c["seed"] for c in cells if c["round"] == stage} for stage in ("choose", "confirm")}
    methods = {stage: {c["method"] for c in cells if c["round"] == stage} for stage in ("choose", "confirm")}
    assert not seeds["choose"] & seeds["confirm"]
    assert methods["confirm"] <= methods["choose"]
