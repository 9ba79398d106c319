"""When one method counts as better than another: by more than noise, and by enough to matter."""

from __future__ import annotations

import numpy as np

from deltauq.assessment.measures import BASELINE, Measures

ERROR_MARGIN = 0.01
"""A difference below this share of the smaller error does not count."""
ACCURACY_MARGIN = 0.001
"""Nor does one of accuracies that the table does not show."""
NOTABLE = 0.05
"""A reader of the table sees a difference of this share, even where it is noise."""
NOTABLE_ACCURACY = 0.01
"""Of accuracies, at least this much: a share of a small error rate is a few rows."""
RANK_MARGIN = 0.05
"""Two rankings closer than this are equally good."""
USEFUL_RANK = 0.1
"""A ranking below this is of no use, whatever it is compared with."""
TOO_WIDE = 2.0
"""Intervals of an alternative that are this many times as wide as those of one width are of no use."""
RULED_BY_FEW_ROWS = ("rmse", "log_loss")
"""Errors whose mean a few rows can rule: what is within their noise says nothing."""

COST_FACTOR = 1.5
"""Costs closer than this are equal: seconds are noisy."""


def ranks_better(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` ranks its errors better than `b` ranks its own."""
    if measures.mean_rank(a) < USEFUL_RANK:
        return False
    return measures.exceeds(measures.ranks(a) - measures.ranks(b), RANK_MARGIN)


def has_larger(measures: Measures, name: str, a: str, b: str) -> bool:
    """Tell whether method `a` has more of one error than `b`, by more than noise."""
    unit = min(measures.mean_error(a, name), measures.mean_error(b, name))
    margin = max(ERROR_MARGIN * unit, ACCURACY_MARGIN if name == "accuracy" else 0.0)
    return measures.exceeds(measures.errors(a, name) - measures.errors(b, name), margin)


def seems_larger(measures: Measures, name: str, a: str, b: str) -> bool:
    """Tell whether method `a` has notably more of one error than `b` in the table, be it noise or not."""
    error, other = measures.mean_error(a, name), measures.mean_error(b, name)
    return error - other > max(NOTABLE * other, NOTABLE_ACCURACY if name == "accuracy" else 0.0)


def larger_errors(measures: Measures, a: str, b: str) -> list[str]:
    """Return the errors of which method `a` has more than `b`, by more than noise."""
    return [name for name in measures.error_names() if has_larger(measures, name, a, b)]


def doubtful_errors(measures: Measures, a: str, b: str) -> list[str]:
    """Return the errors that are notably larger for `a` than for `b`, but within the noise.

    Errors that a few rows can rule are left out.
    """
    names = [name for name in measures.error_names() if name not in RULED_BY_FEW_ROWS]
    return [n for n in names if seems_larger(measures, n, a, b) and not has_larger(measures, n, a, b)]


def errs_no_more(measures: Measures, a: str, b: str) -> bool:
    """Tell whether neither the test nor the table says that method `a` has more of an error than `b`."""
    return not larger_errors(measures, a, b) and not doubtful_errors(measures, a, b)


def errs_less(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` has less of one error than `b`, and no more of any."""
    return bool(larger_errors(measures, b, a)) and errs_no_more(measures, a, b)


def deciding_errors(measures: Measures, method: str) -> tuple[str, ...]:
    """Return the errors by which a method is compared with the trivial baseline.

    For classes the Brier score alone, or the accuracy of a method without probabilities: a few rows whose
    class got a probability near zero rule the log loss, and where one class is frequent, no classifier may
    have a larger accuracy.
    """
    if measures.task == "regression":
        return measures.error_names()
    return ("brier",) if np.any(np.isfinite(measures.errors(method, "brier"))) else ("accuracy",)


def beats_baseline(measures: Measures, method: str) -> bool:
    """Tell whether a method predicts better than the mean of y, or than the class frequencies."""
    if measures.task == "regression":
        return errs_less(measures, method, BASELINE)
    return any(has_larger(measures, name, BASELINE, method) for name in deciding_errors(measures, method))


def alternatives(measures: Measures) -> list[str]:
    """Return the methods beside the plain and the anchored ones that may be advised."""
    return [
        name
        for name in measures.rivals()
        if beats_baseline(measures, name)
        and errs_no_more(measures, name, "plain")
        and not _is_too_wide(measures, name)
    ]


def _is_too_wide(measures: Measures, method: str) -> bool:
    """Tell whether a method's calibrated intervals are of no use, as where its σ is zero for some rows."""
    if measures.task != "regression":
        return False
    return measures.mean(method, "width") > TOO_WIDE * measures.mean("plain", "width")


def arrow(measures: Measures, method: str, name: str) -> str:
    """Return "↓" or "↑" where a measure is lower or higher than the plain model's by more than noise."""
    if name in measures.error_names():
        more, less = (has_larger(measures, name, *pair) for pair in ((method, "plain"), ("plain", method)))
        higher, lower = (less, more) if name == "accuracy" else (more, less)
    elif name == measures.rank_name(method):
        higher, lower = (ranks_better(measures, *pair) for pair in ((method, "plain"), ("plain", method)))
    else:
        return ""
    return "↑" if higher else "↓" if lower else ""


def is_cheaper(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` costs clearly less than `b`."""
    return COST_FACTOR * measures.cost(a) < measures.cost(b)


def best_ranking(measures: Measures, methods: list[str]) -> str:
    """Return the method with the largest mean ranking, the first of equals."""
    return max(methods, key=measures.mean_rank)
