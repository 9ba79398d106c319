"""When one method counts as better than another: by more than noise, and by enough to matter."""

from __future__ import annotations

import numpy as np

from deltauq.assessment.measures import Measures

ERROR_MARGIN = 0.01
"""A smaller share of the plain model's error is no difference."""
RANK_MARGIN = 0.05
"""Two rankings closer than this are equally good."""
USEFUL_RANK = 0.1
"""A ranking below this is of no use, whatever it is compared with."""

COST_FACTOR = 1.5
"""Costs closer than this are equal: seconds are noisy."""


def ranks_better(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` ranks its errors better than `b` ranks its own."""
    if measures.mean_rank(a) < USEFUL_RANK:
        return False
    return measures.exceeds(measures.ranks(a) - measures.ranks(b), RANK_MARGIN)


def errs_more(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` has more of any error than `b`."""
    return any(has_larger(measures, name, a, b) for name in measures.error_names())


def errs_less(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` has less of one error than `b`, and more of none."""
    return errs_more(measures, b, a) and not errs_more(measures, a, b)


def has_larger(measures: Measures, name: str, a: str, b: str) -> bool:
    """Tell whether method `a` has more of one error than `b`."""
    plain = measures.errors("plain", name)
    unit = float(np.mean(plain[np.isfinite(plain)])) if np.any(np.isfinite(plain)) else 0.0
    return measures.exceeds(measures.errors(a, name) - measures.errors(b, name), ERROR_MARGIN * unit)


def is_cheaper(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` costs clearly less than `b`."""
    return COST_FACTOR * measures.cost(a) < measures.cost(b)


def best_ranking(measures: Measures, methods: list[str]) -> str:
    """Return the method with the largest mean ranking, the first of equals."""
    return max(methods, key=measures.mean_rank)
