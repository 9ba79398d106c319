"""From measures to one piece of advice, by a rule that can be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deltauq.assessment import words
from deltauq.assessment.comparison import (
    USEFUL_RANK,
    best_ranking,
    errs_less,
    errs_more,
    is_cheaper,
    ranks_better,
)
from deltauq.assessment.measures import Measures


class Advice(StrEnum):
    """What to do with anchoring."""

    ANCHORING = "use anchoring"
    SIGMA_ONLY = "use it for σ only"
    DONT = "don't"


@dataclass(frozen=True)
class Verdict:
    """Advice on one model and one table.

    Attributes
    ----------
    advice : Advice
    method : str
        The method to use: "anchored", "center", "plain", "tree-spread", "own-std" or "ensemble".
    sentence : str
        The advice and its reason.
    """

    advice: Advice
    method: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def decide(measures: Measures) -> Verdict:
    """Return the advice that follows from measures.

    A difference between two methods counts when, paired over the folds, it is larger than its standard error
    by Student's 95 % quantile (see `Measures.exceeds`) and large enough to matter: 1 % of the plain model's
    error; 0.05 of the ranking (Spearman of σ and |error|, or 2 AUROC − 1), which must itself be at least 0.1
    to be better than anything. Everything else is a tie. Errors are MAE and RMSE, or error rate and log
    loss: to err more is more of either, to err less is less of one and more of none.

    A method *gains* when it ranks its errors better than the plain model ranks its own; or ranks them no
    worse and errs less. A rival with a ranking of at least 0.1, or with a gain, *stands in the way* of
    anchoring when it ranks its errors better; where the rankings tie, when it errs less; where the errors
    tie as well, when it takes less than two thirds of the time, or about the same time and has the larger
    mean ranking. Anchoring that errs less than the plain model yields to no rival that does not. Then:

    1. **Use anchoring** when it errs no more than the plain model, gains, and no rival stands in the way.
    2. Otherwise **use it for σ only** (``center="estimator"``) when that gains and nothing stands in its way.
    3. Otherwise **don't**: use one of the rivals that stand in the way of a gain, or that gain where
       anchoring does not: the one that ranks best or, of those whose rankings tie with it, the cheapest. Use
       the plain model where there is none.

    Parameters
    ----------
    measures : Measures
        With "plain", "anchored" and "center" among the methods.

    Returns
    -------
    verdict : Verdict
    """
    keeps_accuracy = not errs_more(measures, "anchored", "plain")
    if keeps_accuracy and _gains(measures, "anchored") and not _in_the_way(measures, "anchored"):
        return Verdict(Advice.ANCHORING, "anchored", words.use_it(measures))
    if _gains(measures, "center") and not _in_the_way(measures, "center"):
        return Verdict(Advice.SIGMA_ONLY, "center", words.use_sigma(measures))
    ours = "anchored" if keeps_accuracy else "center"
    rivals = _in_the_way(measures, ours) if _gains(measures, ours) else measures.rivals()
    proven = [name for name in rivals if _gains(measures, name)]
    if not proven and not _gains(measures, ours):
        rivals = ["plain"]
    instead = _cheapest_of_the_best(measures, proven or rivals)
    return Verdict(Advice.DONT, instead, words.use_not(measures, ours, instead))


def _gains(measures: Measures, method: str) -> bool:
    """Tell whether a method is worth having next to the plain model."""
    if ranks_better(measures, method, "plain"):
        return True
    return not ranks_better(measures, "plain", method) and errs_less(measures, method, "plain")


def _in_the_way(measures: Measures, ours: str) -> list[str]:
    """Return the rivals that make one of the anchored methods needless."""
    return [name for name in measures.rivals() if _stands_in_the_way(measures, name, ours)]


def _stands_in_the_way(measures: Measures, rival: str, ours: str) -> bool:
    if measures.mean_rank(rival) < USEFUL_RANK and not _gains(measures, rival):
        return False
    for is_better in (ranks_better, errs_less):
        if is_better(measures, ours, rival):
            return False
        if is_better(measures, rival, ours):
            return True
    if errs_less(measures, ours, "plain") and not errs_less(measures, rival, "plain"):
        return False
    if is_cheaper(measures, ours, rival):
        return False
    return is_cheaper(measures, rival, ours) or measures.mean_rank(rival) > measures.mean_rank(ours)


def _cheapest_of_the_best(measures: Measures, methods: list[str]) -> str:
    best = best_ranking(measures, methods)
    level = [name for name in methods if not ranks_better(measures, best, name)]
    cheapest = min(level, key=measures.cost)
    return cheapest if is_cheaper(measures, cheapest, best) else best
