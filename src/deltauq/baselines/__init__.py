"""Rivals of anchoring, all of which speak `Posterior`. One file a method."""

from deltauq.baselines.deup import DEUPRegressor
from deltauq.baselines.ensemble import EnsembleRegressor
from deltauq.baselines.ngboost import NGBoostRegressor
from deltauq.baselines.plain import PlainRegressor
from deltauq.baselines.quantile_forest import QuantileForestRegressor
from deltauq.baselines.tree_spread import TreeSpreadRegressor

__all__ = [
    "DEUPRegressor",
    "EnsembleRegressor",
    "NGBoostRegressor",
    "PlainRegressor",
    "QuantileForestRegressor",
    "TreeSpreadRegressor",
]
