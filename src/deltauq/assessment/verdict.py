"""From measures to one piece of advice, by a rule that can be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deltauq.assessment import words
from deltauq.assessment.comparison import best_ranking, errs_less, errs_more, ranks_better
from deltauq.assessment.measures import RIVALS, Measures


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

    One method *wins* over another when it ranks its errors better; or ranks them no worse and errs less, or
    ranks them no worse and takes less time. (Nothing takes less time than the plain model.) A rival that
    does not win over the plain model is no alternative and is left out. Then:

    1. **Use anchoring** when it errs no more than the plain model, and wins over it and over every rival.
    2. Otherwise **use it for σ only** (``center="estimator"``) when that wins over them all.
    3. Otherwise **don't**: use the cheapest of the rivals that stand in the way, if their rankings tie; the
       one that ranks best, if not; the plain model where there is none.

    Parameters
    ----------
    measures : Measures
        With "plain", "anchored" and "center" among the methods.

    Returns
    -------
    verdict : Verdict
    """
    rivals = [name for name in RIVALS if name in measures.scores and _wins(measures, name, "plain")]
    others = ["plain", *rivals]
    keeps_accuracy = not errs_more(measures, "anchored", "plain")
    if keeps_accuracy and all(_wins(measures, "anchored", other) for other in others):
        return Verdict(Advice.ANCHORING, "anchored", words.use_it(measures, rivals))
    if all(_wins(measures, "center", other) for other in others):
        return Verdict(Advice.SIGMA_ONLY, "center", words.use_sigma(measures, rivals))
    ours = "anchored" if keeps_accuracy else "center"
    in_the_way = [name for name in rivals if not _wins(measures, ours, name)]
    instead = _cheapest_of_the_best(measures, in_the_way or rivals or ["plain"])
    return Verdict(Advice.DONT, instead, words.use_not(measures, ours, instead))


def _wins(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` is worth having next to `b`."""
    if ranks_better(measures, a, b):
        return True
    if ranks_better(measures, b, a):
        return False
    return errs_less(measures, a, b) or (b != "plain" and measures.cost(a) < measures.cost(b))


def _cheapest_of_the_best(measures: Measures, methods: list[str]) -> str:
    best = best_ranking(measures, methods)
    level = [name for name in methods if not ranks_better(measures, best, name)]
    return min(level, key=measures.cost)
