"""`bo-suite`: problems of BoTorch with up to six inputs, or with noise, maximised by expected improvement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments import bo_loop, table3
from experiments.bo_loop import MakeSurrogate, measured, shared_runs
from experiments.data.functions import Maximisation
from experiments.runner import Cell, Experiment, Outcome
from experiments.tables import TableSpec

if TYPE_CHECKING:
    from botorch.posteriors.posterior import Posterior
    from torch import Tensor

VERSION = 1
PROBLEMS = {
    "quick": ("branin-noise",),
    "paper": ("hartmann-6", "ackley-5", "rosenbrock-4", "branin-noise"),
}
METHODS = ("delta-labelled", "gp", "vbll", "ensemble")
SEEDS = {"quick": range(2), "paper": range(5)}
N_STEPS = {"quick": 2, "paper": 40}
NOISE = 5.0
"""Of Branin, whose values range over 300."""
VBLL_EPOCHS = 1000


def problem(name: str) -> Maximisation:
    """Return a problem of BoTorch, which are all to be minimised, on its own domain."""
    import torch
    from botorch.test_functions.synthetic import Ackley, Branin, Hartmann, Rosenbrock

    function: Any = {
        "hartmann-6": lambda: Hartmann(6),
        "ackley-5": lambda: Ackley(5),
        "rosenbrock-4": lambda: Rosenbrock(4),
        "branin-noise": Branin,
    }[name]()
    function = function.double()
    low, high = (tuple(side.tolist()) for side in function.bounds)
    return Maximisation(
        lambda x: function.evaluate_true(torch.as_tensor(x)).numpy(),
        low,
        high,
        tuple(function.optimizers[0].tolist()),
        sign=-1,
        noise=NOISE if name == "branin-noise" else 0.0,
    )


def cells(profile: str) -> list[Cell]:
    """Return one cell per problem, method and seed; the seeds of a problem are computed together."""
    return [
        {"problem": name, "method": method, "seed": seed}
        for seed in SEEDS[profile]
        for method in METHODS
        for name in PROBLEMS[profile]
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure one seed of a problem and a method."""
    name, method, seeds = cell["problem"], cell["method"], SEEDS[profile]
    configuration = {
        "experiment": "bo-suite",
        "version": VERSION,
        "problem": name,
        "method": method,
        "seeds": list(seeds),
        "steps": N_STEPS[profile],
        "profile": profile,
    }
    objective = problem(name)
    runs = [(objective, seed) for seed in seeds]
    values = shared_runs(
        f"bo-suite-{name}-{method}", configuration, runs, _maker(method, profile), N_STEPS[profile]
    )
    return measured(values[seeds.index(cell["seed"])], objective)


def _maker(method: str, profile: str) -> MakeSurrogate:
    """Return a function that creates the surrogates of a method, which are those of `table3`."""
    max_epochs = table3.MAX_EPOCHS[profile]
    if method != "vbll":
        return table3.surrogate_maker(method, max_epochs)
    import torch
    from botorch.models.model import Model
    from botorch.posteriors.gpytorch import GPyTorchPosterior
    from botorch_community.models.vblls import VBLLModel
    from gpytorch.distributions import MultivariateNormal

    class VBLLSurrogate(Model):
        """BoTorch's network with a variational Bayesian last layer, on standardised outcomes."""

        num_outputs = 1

        def __init__(self, x: Tensor, y: Tensor, seed: int) -> None:
            super().__init__()
            self.mean, self.std = y.mean(), y.std()
            self.x, self.y, self.seed = x, (y - self.mean) / self.std, seed

        def fit(self) -> None:
            """Train the network; the global random state does not change."""
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self.model = VBLLModel(in_features=self.x.shape[1], device=torch.device("cpu"))
                epochs = {"num_epochs": min(VBLL_EPOCHS, max_epochs or VBLL_EPOCHS)}
                self.model.fit(self.x, self.y, optimization_settings=epochs)

        def posterior(self, X: Tensor, *args: Any, **options: Any) -> Posterior:
            """Return the posterior in units of the outcomes."""
            standardised = self.model.posterior(X)
            mean, variance = standardised.mean.squeeze(-1), standardised.variance.squeeze(-1)
            return GPyTorchPosterior(
                MultivariateNormal(self.mean + self.std * mean, torch.diag_embed(self.std**2 * variance))
            )

    return VBLLSurrogate


EXPERIMENT = Experiment(
    "bo-suite",
    VERSION,
    "Bayesian optimisation of BoTorch's test problems",
    cells,
    run,
    tables=tuple(
        TableSpec(title, metric, rows="problem", columns="method")
        for metric, title in (
            ("best", "Best value found"),
            ("auc_best", "Best value so far, mean over the steps"),
            ("progress", "Progress from the best initial value to the maximum"),
        )
    ),
    notes=(
        "The surrogates of `table3`, and the network with a variational Bayesian last layer (VBLL) of the "
        f"community models in BoTorch, trained for up to {VBLL_EPOCHS} epochs. {bo_loop.N_INITIAL} uniform "
        f"points, then {N_STEPS['paper']} steps. Branin is observed with noise of standard deviation "
        f"{NOISE:g}; the best value is that of the evaluated points without noise."
    ),
)
