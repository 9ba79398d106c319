"""`table3-study`: which setting of an anchored surrogate finds maxima, on functions that are not `table3`'s.

Settings are chosen on some seeds; the one that is to be the default then meets the present one on others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from experiments.bo_loop import MakeSurrogate, measured, shared_runs
from experiments.data.functions import OTHER_MAXIMISATIONS
from experiments.runner import Cell, Experiment, Outcome
from experiments.table3 import surrogate_maker
from experiments.tables import TableSpec

if TYPE_CHECKING:
    from torch import Tensor

VERSION = 3
FUNCTIONS = {
    "quick": ("forrester", "camel"),
    "paper": (
        "branin",
        "gramacy-lee",
        "two-sines",
        "shubert",
        "himmelblau",
        "three-hump",
        "griewank",
        "styblinski-tang",
        "rastrigin",
    ),
}
SEEDS = {
    "choose": {"quick": range(100, 101), "paper": range(100, 104)},
    "confirm": {"quick": range(104, 105), "paper": range(104, 108)},
}
"""The first are to choose a setting; the others, to compare it with what it would replace."""
N_STEPS = {"quick": 2, "paper": 30}
MAX_EPOCHS = {"quick": 10, "paper": None}


@dataclass(frozen=True)
class Setting:
    """An anchored network, and how its last layer comes about.

    Attributes
    ----------
    width : int
        Of the hidden layer.
    fourier_scales : tuple of float
        Standard deviation of the frequencies, in radians per unit of the scaled inputs, times their number.
        Of several, points left out decide.
    epochs : int
    features : {"trained", "random"}
    ridges : tuple of float
        Of the last layer's closed form; none where it is trained like the others.
    reach : float or None
        Of `ClipWorst`; None where outcomes are only standardised.
    """

    width: int = 64
    fourier_scales: tuple[float, ...] = (12.0,)
    epochs: int = 300
    features: str = "trained"
    ridges: tuple[float, ...] = ()
    reach: float | None = None


TRAINED = Setting()
CLIPPED = replace(TRAINED, reach=3.0)
SOLVED = Setting(width=256, fourier_scales=(3.0, 6.0, 12.0, 24.0), features="random", ridges=(1e-6,))
SETTINGS = {
    "trained": TRAINED,
    "clipped": CLIPPED,
    "clipped at 1": replace(CLIPPED, reach=1.0),
    "clipped at 10": replace(CLIPPED, reach=10.0),
    "trained, then solved": replace(TRAINED, ridges=(1e-6,)),
    "clipped, trained, then solved": replace(CLIPPED, ridges=(1e-6,)),
    "solved": SOLVED,
    "clipped, solved": replace(SOLVED, reach=3.0),
}
RIVALS = ("gp", "ensemble")
SHOWN = {
    "choose": {"quick": ("clipped", "solved", *RIVALS), "paper": (*SETTINGS, *RIVALS)},
    "confirm": {"quick": ("clipped",), "paper": ("trained", "clipped", *RIVALS)},
}


def cells(profile: str) -> list[Cell]:
    """Return one cell per function, setting and seed; cells of one computation lie apart, for processes."""
    return [
        {
            "round": stage,
            "function": function,
            "dimension": OTHER_MAXIMISATIONS[function].dimension,
            "method": method,
            "seed": seed,
        }
        for stage in SEEDS
        for seed in SEEDS[stage][profile]
        for function in FUNCTIONS[profile]
        for method in SHOWN[stage][profile]
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure one run of a setting; all functions and seeds of its dimension and round go together."""
    method, dimension = cell["method"], cell["dimension"]
    names = [
        (function, seed)
        for function in FUNCTIONS[profile]
        for seed in SEEDS[cell["round"]][profile]
        if OTHER_MAXIMISATIONS[function].dimension == dimension
    ]
    configuration = {
        "experiment": "table3-study",
        "version": VERSION,
        "setting": asdict(SETTINGS[method]) if method in SETTINGS else method,
        "runs": names,
        "steps": N_STEPS[profile],
        "profile": profile,
    }
    runs = [(OTHER_MAXIMISATIONS[function], seed) for function, seed in names]
    make = _maker(method, MAX_EPOCHS[profile])
    values = shared_runs(f"table3-study-{dimension}d", configuration, runs, make, N_STEPS[profile])
    mine = names.index((cell["function"], cell["seed"]))
    return measured(values[mine], runs[mine][0])


def _maker(method: str, max_epochs: int | None) -> MakeSurrogate:
    if method not in SETTINGS:
        return surrogate_maker(method, max_epochs)
    setting = SETTINGS[method]
    if max_epochs is not None:
        setting = replace(setting, epochs=min(setting.epochs, max_epochs))
    return anchored_maker(setting)


def anchored_maker(setting: Setting) -> MakeSurrogate:
    """Return how to make the surrogates of a setting, in float32."""
    from deltauq.bo import AnchoredSurrogate
    from deltauq.bo.transforms import clipped
    from deltauq.nn import MLP
    from deltauq.nn.training import Recipe

    def network(d: int, m: int, scale: float) -> MLP:
        return MLP(d, m, (setting.width,), activation="silu", n_frequencies=32, fourier_scale=scale / d)

    networks = [partial(network, scale=scale) for scale in setting.fourier_scales]

    def make(x: Tensor, y: Tensor, seed: int) -> AnchoredSurrogate:
        return AnchoredSurrogate(
            x.float(),
            y.float(),
            network=networks,
            recipe=Recipe(epochs=setting.epochs, lr=1e-2, schedule="cosine", seed=seed),
            features=setting.features,
            ridge=setting.ridges or None,
            outcome_transform="standardize" if setting.reach is None else clipped(1, setting.reach),
            posterior="gaussian",
        )

    return make


def _view(title: str, stage: str, dimension: int) -> TableSpec:
    return TableSpec(
        title,
        ("auc_progress", "progress", "log_regret"),
        rows="method",
        best=None,
        where={"round": stage, "dimension": dimension},
        note=(
            "progress: share of the way from the best initial value to the maximum; auc_progress: its mean "
            "over the steps; log_regret: log10 of the share that is left. Means over the functions."
        ),
    )


EXPERIMENT = Experiment(
    "table3-study",
    VERSION,
    "Which setting of an anchored surrogate finds maxima",
    cells,
    run,
    tables=(
        _view("Six functions of two inputs", "choose", 2),
        _view("Three functions of one input", "choose", 1),
        _view("Fresh seeds, two inputs", "confirm", 2),
        _view("Fresh seeds, one input", "confirm", 1),
        *(
            TableSpec(
                f"{title}, by function",
                metric,
                rows="function",
                columns="method",
                where={"round": "choose"},
            )
            for metric, title in (("auc_progress", "Mean progress over the steps"), ("progress", "Progress"))
        ),
    ),
    notes=(
        "None of the functions of `table3` is among these. `trained` is a layer of 64 units behind 32 "
        "Fourier features of scale 12, all weights trained, outcomes standardised; it was the default "
        "once. `clipped` is the same with `ClipWorst(1, reach=3)` before that, and the default of "
        "`maximize` now; other reaches stand beside it. `trained, then solved` has its last layer "
        "replaced by the closed form; `solved` has random features and a random layer, wider, and only "
        "the closed form behind them, the scale of the features chosen among 3, 6, 12 and 24 by points "
        "left out. The Gaussian process and the ensemble are only standardised.\n\n"
        "Clipping was picked among some twenty variants that were tried on the seeds to choose by, of "
        "which these tables show eight; its lead over `trained` there, 0.056 ± 0.019 in mean progress "
        "and -0.72 ± 0.23 in log_regret, paired, is therefore too good. On fresh seeds, which nothing "
        "was picked on, it is 0.023 ± 0.021 and -0.39 ± 0.25: likely, and not certain. It was most on "
        "the functions of two inputs that fall off steeply, three-hump above all. Not in the tables: "
        "Yeo-Johnson and half-rank warps, scales chosen by points left out or growing with the number "
        "of points, other anchors and factors of the spread (all variants here take four times the spread), "
        "some stopped after the functions of one input. One of them, half ranks with the last layer solved, "
        "was as good as clipping on the seeds to choose by; it was not followed up. That Δ-UQ is ahead of "
        "the Gaussian process and the ensemble here says little: its settings were tuned on these functions, "
        "theirs were not. Closed forms come closer to a maximum, and stay more often at a lower one: see "
        "Shubert.\n\n"
        "All functions and seeds of one dimension are computed together, and their time stands with the "
        "first of them."
    ),
)
