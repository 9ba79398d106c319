"""Methods that anchoring is compared with. Each one returns a `Posterior`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltauq.utils.lazy import attach

if TYPE_CHECKING:
    from deltauq.baselines.deep_ensemble import DeepEnsemble
    from deltauq.baselines.deup_network import DEUPNetwork
    from deltauq.baselines.gp import GaussianProcess
    from deltauq.baselines.mc_dropout import MCDropout, SharedDropout, add_dropout
    from deltauq.baselines.regressors import (
        DEUPRegressor,
        EnsembleRegressor,
        NGBoostRegressor,
        PlainRegressor,
        QuantileForestRegressor,
        TreeSpreadRegressor,
    )
    from deltauq.baselines.svi import SVI, VariationalNetwork, make_variational
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
    "SharedDropout",
    "TemperatureNetwork",
    "TreeSpreadRegressor",
    "VariationalNetwork",
    "add_dropout",
    "make_variational",
]

# Baselines for networks need PyTorch, those around scikit-learn models do not.
_NETWORKS = {
    "SVI": "svi",
    "DEUPNetwork": "deup_network",
    "DeepEnsemble": "deep_ensemble",
    "GaussianProcess": "gp",
    "MCDropout": "mc_dropout",
    "SharedDropout": "mc_dropout",
    "TemperatureNetwork": "temperature",
    "VariationalNetwork": "svi",
    "add_dropout": "mc_dropout",
    "make_variational": "svi",
}

__getattr__, __dir__ = attach(
    __name__,
    {name: f"deltauq.baselines.{_NETWORKS.get(name, 'regressors')}" for name in __all__},
    extras={name: "bo" if name == "GaussianProcess" else "nn" for name in _NETWORKS},
)
