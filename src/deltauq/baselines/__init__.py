"""Rivals of anchoring, all of which speak `Posterior`. One file a method."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deltauq.baselines.deup import DEUPRegressor
from deltauq.baselines.ensemble import EnsembleRegressor
from deltauq.baselines.ngboost import NGBoostRegressor
from deltauq.baselines.plain import PlainRegressor
from deltauq.baselines.quantile_forest import QuantileForestRegressor
from deltauq.baselines.tree_spread import TreeSpreadRegressor
from deltauq.utils.install import install_command

if TYPE_CHECKING:
    from deltauq.baselines.deep_ensemble import DeepEnsemble
    from deltauq.baselines.deup_network import DEUPNetwork
    from deltauq.baselines.gp import GaussianProcess
    from deltauq.baselines.mc_dropout import MCDropout
    from deltauq.baselines.svi import SVI
    from deltauq.baselines.temperature import TemperatureNetwork

__all__ = [
    "SVI",
    "DEUPNetwork",
    "DEUPRegressor",
    "DeepEnsemble",
    "EnsembleRegressor",
    "GaussianProcess",
    "MCDropout",
    "NGBoostRegressor",
    "PlainRegressor",
    "QuantileForestRegressor",
    "TemperatureNetwork",
    "TreeSpreadRegressor",
]

# Loaded on first use: those for tables work without PyTorch. File and extra of each.
_NETWORKS = {
    "SVI": ("svi", "nn"),
    "DEUPNetwork": ("deup_network", "nn"),
    "DeepEnsemble": ("deep_ensemble", "nn"),
    "GaussianProcess": ("gp", "bo"),
    "MCDropout": ("mc_dropout", "nn"),
    "TemperatureNetwork": ("temperature", "nn"),
}


def __getattr__(name: str) -> Any:
    if name not in _NETWORKS:
        raise AttributeError(f"module 'deltauq.baselines' has no attribute {name!r}")
    file, extra = _NETWORKS[name]
    try:
        return getattr(import_module(f"deltauq.baselines.{file}"), name)
    except ImportError as error:
        raise ImportError(f"{name} needs: {install_command(extra)}") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
