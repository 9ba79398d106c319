"""From measures to one piece of advice, by a rule that can be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deltauq.assessment import explanation
from deltauq.assessment.comparison import (
    USEFUL_RANK,
    alternatives,
    beats_baseline,
    best_ranking,
    errs_less,
    errs_no_more,
    is_cheaper,
    ranks_better,
)
from deltauq.assessment.measures import BASELINE, Measures
from deltauq.assessment.terms import PYTHON, Terms


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
        The method to use: "anchored", "center", "plain", "tree-spread", "own-std" or "ensemble"; "baseline"
        where no method predicts better than the mean of y, or than the class frequencies.
    sentence : str
        The advice and its reason.
    """

    advice: Advice
    method: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def decide(measures: Measures, terms: Terms = PYTHON) -> Verdict:
    """Return the advice that follows from measures.

    A difference between two methods counts when, paired over the folds, it is larger than its standard error
    by Student's 95 % quantile (see `Measures.exceeds`) and large enough to matter: 1 % of the smaller error;
    0.05 of the ranking (Spearman of σ and |error|, or 2 AUROC − 1), which must itself be at least 0.1 to be
    better than anything. Everything else is a tie. Errors are MAE, trimmed MAE and RMSE, or error rate, Brier
    score and log loss. A method errs more when any of them is larger; also when the table shows one that is
    5 % larger (an error rate: and by one percentage point), even within the noise (RMSE and log loss
    excepted, whose noise a few rows can make). It errs less when one is smaller and it does not err more.

    A method *beats the trivial baseline* when it errs less than the mean of y, or has a smaller Brier score
    than the class frequencies (without probabilities: a larger accuracy). No other method is advised.

    A method *gains* when it errs less than the plain model, when it ranks its errors better than the plain
    model ranks its own, or when it beats the trivial baseline and the plain model does not. An alternative
    (the spread of the trees, the model's own standard deviations, an ensemble) that errs no more than the
    plain model, whose calibrated intervals are at most twice as wide as those of one width, and that has a
    gain or a ranking of at least 0.1, *stands in the way* of anchoring when it ranks
    its errors better; where the rankings tie, when it errs less; where the errors tie as well, when it takes
    less than two thirds of the time, or about the same time and has the larger mean ranking. Anchoring that
    errs less than the plain model yields to no alternative that does not. Then:

    1. **Use anchoring** when it errs no more than the plain model (or that does not beat the trivial
       baseline), gains, and no alternative stands in the way.
    2. Otherwise **use it for σ only** (``center="estimator"``) when that gains, nothing stands in its way,
       and anchoring does not err less than the plain model.
    3. Otherwise **don't**: use one of the alternatives that stand in the way of a gain, or that gain where
       anchoring does not: the one that ranks best or, of those whose rankings tie with it, the cheapest. Use
       the plain model where there is none.

    Parameters
    ----------
    measures : Measures
        With "plain", "anchored", "center" and "baseline" among the methods.
    terms : Terms, optional
        How the sentence names options; by default as parameters in Python.

    Returns
    -------
    verdict : Verdict
    """
    plain_beats = beats_baseline(measures, "plain")
    keeps_accuracy = errs_no_more(measures, "anchored", "plain") or not plain_beats
    uses_anchored = keeps_accuracy and beats_baseline(measures, "anchored")
    if uses_anchored and _gains(measures, "anchored") and not _in_the_way(measures, "anchored"):
        return Verdict(Advice.ANCHORING, "anchored", explanation.use_it(measures, terms))
    uses_center = plain_beats and not errs_less(measures, "anchored", "plain")
    if uses_center and _gains(measures, "center") and not _in_the_way(measures, "center"):
        return Verdict(Advice.SIGMA_ONLY, "center", explanation.use_sigma(measures, terms))
    ours = "anchored" if uses_anchored else "center"
    instead = _instead(measures, ours)
    return Verdict(Advice.DONT, instead, explanation.use_not(measures, ours, instead, terms))


def _instead(measures: Measures, ours: str) -> str:
    """Return the method to use where neither of the anchored ones is; `ours` is the better of the two."""
    in_the_way = _in_the_way(measures, ours) if _gains(measures, ours) else []
    others = in_the_way or alternatives(measures)
    proven = [name for name in others if _gains(measures, name)]
    if proven or in_the_way:
        return _cheapest_of_the_best(measures, proven or in_the_way)
    return "plain" if beats_baseline(measures, "plain") else BASELINE


def _gains(measures: Measures, method: str) -> bool:
    """Tell whether a method is worth having next to the plain model."""
    if ranks_better(measures, method, "plain") or errs_less(measures, method, "plain"):
        return True
    return beats_baseline(measures, method) and not beats_baseline(measures, "plain")


def _in_the_way(measures: Measures, ours: str) -> list[str]:
    """Return the alternatives that make one of the anchored methods needless."""
    return [name for name in alternatives(measures) if _stands_in_the_way(measures, name, ours)]


def _stands_in_the_way(measures: Measures, rival: str, ours: str) -> bool:
    if measures.mean_rank(rival) < USEFUL_RANK and not _gains(measures, rival):
        return False
    if errs_less(measures, ours, "plain") and not errs_less(measures, rival, "plain"):
        return False
    for is_better in (ranks_better, errs_less):
        if is_better(measures, ours, rival):
            return False
        if is_better(measures, rival, ours):
            return True
    if is_cheaper(measures, ours, rival):
        return False
    return is_cheaper(measures, rival, ours) or measures.mean_rank(rival) > measures.mean_rank(ours)


def _cheapest_of_the_best(measures: Measures, methods: list[str]) -> str:
    best = best_ranking(measures, methods)
    level = [name for name in methods if not ranks_better(measures, best, name)]
    cheapest = min(level, key=measures.cost)
    return cheapest if is_cheaper(measures, cheapest, best) else best
