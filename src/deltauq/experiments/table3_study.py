"""`table3-study`: which setting of an anchored surrogate finds maxima, on functions that are not `table3`'s.

Every setting differs from `SOLVED` in what its name says, those that are trained from `TRAINED`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from deltauq.data.functions import OTHER_MAXIMISATIONS
from deltauq.experiments import labels
from deltauq.experiments.runner import Cell, Experiment, Outcome
from deltauq.experiments.sequential import MakeSurrogate, measured, shared_runs
from deltauq.experiments.table3 import surrogate_maker
from deltauq.report import TableView

if TYPE_CHECKING:
    from torch import Tensor

VERSION = 2
FUNCTIONS = {"quick": ("forrester", "camel"), "paper": tuple(OTHER_MAXIMISATIONS)}
SEEDS = {"quick": range(100, 101), "paper": range(100, 108)}
TOGETHER = 4
"""Seeds of a function that are computed together."""
N_STEPS = {"quick": 2, "paper": 30}
MAX_EPOCHS = {"quick": 10, "paper": None}


@dataclass(frozen=True)
class Setting:
    """An anchored network, how it is trained, and what becomes of its spread.

    Attributes
    ----------
    width : int
        Of the hidden layer.
    activation : str
    n_frequencies : int
        Fourier features.
    fourier_scales : tuple of float
        Standard deviation of the frequencies, in radians per unit of the scaled inputs, times their number.
        Of several, points left out decide.
    mixed : bool
        Whether all these scales are those of one network, in equal shares of its frequencies, instead.
    inputs : {"cube", "range"}
        How points are scaled to [-0.5, 0.5]: by the domain, or by the range of those evaluated.
    n_anchors : int
    epochs : int
    lr : float
    features : {"trained", "random"}
    ridges : tuple of float
        Of the last layer's closed form; none where it is trained like the others.
    calibrate : float or "left-out"
        Factor on σ.
    """

    width: int = 64
    activation: str = "silu"
    n_frequencies: int = 32
    fourier_scales: tuple[float, ...] = (12.0,)
    mixed: bool = False
    inputs: str = "range"
    n_anchors: int = 10
    epochs: int = 300
    lr: float = 1e-2
    features: str = "trained"
    ridges: tuple[float, ...] = ()
    calibrate: float | Literal["left-out"] = 4.0


TRAINED = Setting()
SOLVED = Setting(width=256, fourier_scales=(3.0, 6.0, 12.0), features="random", ridges=(1e-6,))
SETTINGS = {
    "trained": TRAINED,
    "trained, then solved": replace(TRAINED, ridges=(1e-6,)),
    "solved": SOLVED,
    "solved after 10 epochs": replace(SOLVED, features="trained", epochs=10),
    "σ × 2": replace(SOLVED, calibrate=2.0),
    "σ × 8": replace(SOLVED, calibrate=8.0),
    "σ by points left out": replace(SOLVED, calibrate="left-out"),
    "Fourier scale 6": replace(SOLVED, fourier_scales=(6.0,)),
    "Fourier scales 1.5 to 12": replace(SOLVED, fourier_scales=(1.5, 3.0, 6.0, 12.0)),
    "Fourier scales 3 to 24": replace(SOLVED, fourier_scales=(3.0, 6.0, 12.0, 24.0)),
    "Fourier scales 3 to 48": replace(SOLVED, fourier_scales=(3.0, 6.0, 12.0, 24.0, 48.0)),
    "Fourier scales 3 to 12, mixed": replace(SOLVED, mixed=True),
    "Fourier scales 3 to 48, mixed": replace(
        SOLVED, mixed=True, n_frequencies=40, fourier_scales=(3.0, 6.0, 12.0, 24.0, 48.0)
    ),
    "tanh": replace(SOLVED, activation="tanh"),
    "relu": replace(SOLVED, activation="relu"),
    "512 wide": replace(SOLVED, width=512),
    "128 frequencies": replace(SOLVED, n_frequencies=128),
    "5 anchors": replace(SOLVED, n_anchors=5),
    "20 anchors": replace(SOLVED, n_anchors=20),
    "ridge 1e-6, 1e-3 or 0.1": replace(SOLVED, ridges=(1e-6, 1e-3, 0.1)),
    "inputs by domain": replace(SOLVED, inputs="cube"),
}
RIVALS = ("gp", "ensemble")
SHOWN = {"quick": ("trained", "solved", *RIVALS), "paper": (*SETTINGS, *RIVALS)}


def cells(profile: str) -> list[Cell]:
    """Return one cell per function, setting and seed; cells of one computation lie apart."""
    return [
        {
            "function": function,
            "dimension": OTHER_MAXIMISATIONS[function].dimension,
            "method": method,
            "seed": seed,
        }
        for seed in SEEDS[profile]
        for function in FUNCTIONS[profile]
        for method in SHOWN[profile]
    ]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure one run of a setting; several seeds of a function are computed together."""
    method, function, seed = cell["method"], cell["function"], cell["seed"]
    seeds = [other for other in SEEDS[profile] if other // TOGETHER == seed // TOGETHER]
    configuration = {
        "experiment": "table3-study",
        "version": VERSION,
        "setting": asdict(SETTINGS[method]) if method in SETTINGS else method,
        "function": function,
        "seeds": seeds,
        "steps": N_STEPS[profile],
        "profile": profile,
    }
    problem = OTHER_MAXIMISATIONS[function]
    make = _maker(method, MAX_EPOCHS[profile])
    runs = [(problem, other) for other in seeds]
    values = shared_runs(f"table3-study-{function}", configuration, runs, make, N_STEPS[profile])
    return measured(values[seeds.index(seed)], problem)


def _maker(method: str, max_epochs: int | None) -> MakeSurrogate:
    if method not in SETTINGS:
        return surrogate_maker(method, max_epochs)
    setting = SETTINGS[method]
    if max_epochs is not None:
        setting = replace(setting, epochs=min(setting.epochs, max_epochs))
    return anchored_maker(setting)


def anchored_maker(setting: Setting) -> MakeSurrogate:
    """Return how to make the surrogates of a setting, in float32."""
    import torch
    from botorch.models.transforms.input import Normalize

    from deltauq.bo import AnchoredSurrogate
    from deltauq.nn import MLP
    from deltauq.nn.recipe import Recipe

    def network(d: int, m: int, scales: tuple[float, ...]) -> MLP:
        made = MLP(d, m, (setting.width,), activation=setting.activation, n_frequencies=setting.n_frequencies)
        every = torch.tensor(scales).repeat(setting.n_frequencies)[: setting.n_frequencies]
        frequencies: Any = made.layers[0].frequencies
        frequencies.mul_(every / d)
        return made

    sets = [setting.fourier_scales] if setting.mixed else [(scale,) for scale in setting.fourier_scales]
    networks = [partial(network, scales=scales) for scales in sets]

    def make(x: Tensor, y: Tensor, seed: int) -> AnchoredSurrogate:
        d = x.shape[1]
        cube = torch.tensor([[0.0], [1.0]]).expand(-1, d)
        return AnchoredSurrogate(
            x.float(),
            y.float(),
            network=networks,
            recipe=Recipe(epochs=setting.epochs, lr=setting.lr, schedule="cosine", seed=seed),
            n_anchors=setting.n_anchors,
            features=setting.features,
            ridge=setting.ridges or None,
            calibrate=setting.calibrate,
            posterior="gaussian",
            input_transform="range" if setting.inputs == "range" else Normalize(d, bounds=cube, center=0.0),
        )

    return make


def _view(title: str, dimension: int) -> TableView:
    return TableView(
        title,
        ("auc_progress", "progress", "log_regret"),
        rows="method",
        best=None,
        where={"dimension": dimension},
        labels=labels.LABELS,
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
        _view("Nine functions of two inputs", 2),
        _view("Six functions of one input", 1),
        *(
            TableView(
                f"{title}, by function",
                metric,
                rows="function",
                columns="method",
                labels=labels.LABELS,
            )
            for metric, title in (("auc_progress", "Mean progress over the steps"), ("progress", "Progress"))
        ),
    ),
    notes=(
        "None of the functions of `table3` is among these. Settings differ from `solved` in what their names "
        "say: random Fourier features and a random layer, the last layer in closed form, the scale of the "
        "features chosen by points left out. Seeds of a function are computed together in fours, and their "
        "time stands with the first of them."
    ),
)
