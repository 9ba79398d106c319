"""Every table and figure is one command: a grid of cells, one result line per finished cell."""

from __future__ import annotations

from importlib import import_module

from experiments.runner import Experiment, Outcome, run_experiment
from experiments.store import PROFILES, ResultLine, ResultStore

NAMES = (
    "table1",
    "table1-study",
    "figure2",
    "table2",
    "table2-study",
    "targets-study",
    "forest-study",
    "base-estimators",
    "ablation-anchors",
    "ablation-anchors-images",
    "ablation-prior",
    "anchoring-variants",
    "gap",
    "classes",
    "uci",
    "uci-study",
    "coverage",
    "difficulty-study",
    "intervals",
    "extrapolation",
    "table3",
    "table3-study",
    "bo-suite",
    "table4",
    "table5",
    "figure5",
    "gpu-bench",
    "corruptions",
)


def get_experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    if name not in NAMES:
        raise ValueError(f"experiment must be one of {list(NAMES)}, got {name!r}.")
    experiment: Experiment = import_module(f"experiments.{name.replace('-', '_')}").EXPERIMENT
    return experiment


__all__ = [
    "NAMES",
    "PROFILES",
    "Experiment",
    "Outcome",
    "ResultLine",
    "ResultStore",
    "get_experiment",
    "run_experiment",
]
