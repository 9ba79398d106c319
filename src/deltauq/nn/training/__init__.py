"""Training of networks, anchored or plain: one at a time or many small ones together."""

from deltauq.nn.training.engine import History, check_data, fit, supervised
from deltauq.nn.training.loader import Batch, Objective, as_inputs, derive_seed
from deltauq.nn.training.recipe import Recipe
from deltauq.nn.training.vectorized import NotStackableError, fit_many

__all__ = [
    "Batch",
    "History",
    "NotStackableError",
    "Objective",
    "Recipe",
    "as_inputs",
    "check_data",
    "derive_seed",
    "fit",
    "fit_many",
    "supervised",
]
