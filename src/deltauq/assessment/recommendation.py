"""From metrics to a recommendation, by a documented rule, and the sentences that explain it.

Every number in the text is one of the table's, with the same digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from deltauq.assessment.fold_metrics import BASELINE, FoldMetrics
from deltauq.assessment.scoring import METRICS
from deltauq.assessment.thresholds import (
    COST_FACTOR,
    COVERAGE_MARGIN,
    RANK_MARGIN,
    USEFUL_RANK,
    WIDTH_MARGIN,
)

RANK_NAMES = {"regression": "Spearman of σ and |error|", "classification": "AUROC"}
MORE_REPEATS = "more repeats may decide"
NAMES = {
    "plain": "the plain model",
    "anchored": "anchoring",
    "center": "anchoring",
    "tree-spread": "the spread of its trees",
    "own-std": "its own std",
    "ensemble": "an ensemble of 3",
}


class Advice(StrEnum):
    """What to do with anchoring."""

    ANCHORING = "use anchoring"
    SIGMA_ONLY = "use anchoring for σ only"
    NO_ANCHORING = "do not use anchoring"


@dataclass(frozen=True)
class Recommendation:
    """What to use for one model and one table, and why.

    Attributes
    ----------
    advice : Advice
    method : str
        The method to use: "anchored", "center", "plain", "tree-spread", "own-std" or "ensemble"; "baseline"
        where no method predicts better than the mean of y, or than the class priors.
    text : str
        The advice and the reasons for it.
    """

    advice: Advice
    method: str
    text: str

    def __str__(self) -> str:
        return self.text


def decide(metrics: FoldMetrics) -> Recommendation:
    """Return the recommendation that follows from metrics.

    The constants named here are those of `deltauq.assessment.thresholds`.

    - A *difference* counts when, paired over the folds, it is larger than its standard error by Student's
      quantile for `CONFIDENCE` (`FoldMetrics.exceeds`) and large enough to matter: `ERROR_MARGIN` of the
      smaller error; `RANK_MARGIN` of the ranking (Spearman of σ and |error|, or 2 AUROC − 1), which must
      itself be at least `USEFUL_RANK`.
    - A method is *less accurate* when an error (MAE, trimmed MAE, RMSE; error rate, Brier score, log loss)
      is larger, or when its mean is larger by `NOTABLE_ERROR_MARGIN` (an error rate: and by
      `NOTABLE_ACCURACY_MARGIN`), significant or not. RMSE and log loss are excepted, which may depend on a
      few rows. It is *more accurate* when an error is smaller and it is not less accurate.
    - It *beats the trivial baseline* when it is more accurate than the mean of y, or has a smaller Brier
      score than the class priors (without probabilities: a larger accuracy). No other method is recommended.
    - It *improves* on the plain model when it is more accurate, when it ranks its errors better, or when it
      beats the trivial baseline and the plain model does not.
    - An *alternative* (the spread of the trees, the model's own standard deviations, an ensemble) is not less
      accurate than the plain model, has intervals at most `MAX_WIDTH_RATIO` times as wide as constant ones,
      and improves or has a ranking of at least `USEFUL_RANK`. It is *preferable* to anchoring when it ranks
      its errors better; where rankings tie, when it is more accurate; where accuracies tie too, when it is
      `COST_FACTOR` times as fast, or about as fast and has the larger mean ranking. Where anchoring is more
      accurate than the plain model, only an alternative that is so too is preferable.

    1. **Use anchoring** when it is not less accurate than the plain model (or that does not beat the trivial
       baseline), improves on it, and no alternative is preferable.
    2. Otherwise **use anchoring for σ only** (``center="estimator"``) when that improves on the plain model,
       no alternative is preferable, and anchoring is not more accurate than the plain model.
    3. Otherwise **do not use anchoring**, but the preferable alternative, or one that improves where
       anchoring does not, that ranks best or, of those whose rankings tie with it, is cheapest. Without one,
       use the plain model.

    Parameters
    ----------
    metrics : FoldMetrics
        With "plain", "anchored", "center" and "baseline" among the methods.
    """
    m = metrics
    plain_beats = m.beats_baseline("plain")
    keeps_accuracy = m.is_not_less_accurate("anchored", "plain") or not plain_beats
    can_use_anchored = keeps_accuracy and m.beats_baseline("anchored")
    can_use_center = plain_beats and not m.is_more_accurate("anchored", "plain")
    if can_use_anchored and _improves(m, "anchored") and not _preferable(m, "anchored"):
        advice, method, action = Advice.ANCHORING, "anchored", "Use anchoring"
    elif can_use_center and _improves(m, "center") and not _preferable(m, "center"):
        advice, method, action = Advice.SIGMA_ONLY, "center", "Use anchoring for σ only (center = estimator)"
    else:
        ours = "anchored" if can_use_anchored else "center"
        method = _best_alternative(m, ours)
        return Recommendation(Advice.NO_ANCHORING, method, _why_not(m, ours, method))
    reasons = [_accuracy(m), _ranking(m, method, _best_other(m, method)), _calibration(m, method)]
    return Recommendation(advice, method, _join(action, *reasons, _warning(m, method)))


# The rule


def _improves(m: FoldMetrics, method: str) -> bool:
    """Return whether a method has an advantage over the plain model."""
    if m.ranks_better(method, "plain") or m.is_more_accurate(method, "plain"):
        return True
    return m.beats_baseline(method) and not m.beats_baseline("plain")


def _preferable(m: FoldMetrics, ours: str) -> list[str]:
    """Return the alternatives that are preferable to one of the anchored methods."""
    return [name for name in m.alternatives() if _is_preferable(m, name, ours)]


def _is_preferable(m: FoldMetrics, other: str, ours: str) -> bool:
    if m.mean_rank(other) < USEFUL_RANK and not _improves(m, other):
        return False
    if m.is_more_accurate(ours, "plain") and not m.is_more_accurate(other, "plain"):
        return False
    for is_better in (m.ranks_better, m.is_more_accurate):
        if is_better(ours, other):
            return False
        if is_better(other, ours):
            return True
    if m.is_cheaper(ours, other):
        return False
    return m.is_cheaper(other, ours) or m.mean_rank(other) > m.mean_rank(ours)


def _best_alternative(m: FoldMetrics, ours: str) -> str:
    """Return the method to use instead of anchoring; `ours` is the better of the anchored methods."""
    preferable = _preferable(m, ours) if _improves(m, ours) else []
    others = preferable or m.alternatives()
    candidates = [name for name in others if _improves(m, name)] or preferable
    if not candidates:
        return "plain" if m.beats_baseline("plain") else BASELINE
    best = max(candidates, key=m.mean_rank)
    cheapest = min((name for name in candidates if not m.ranks_better(best, name)), key=m.cost)
    return cheapest if m.is_cheaper(cheapest, best) else best


# The text


def _join(*sentences: str) -> str:
    """Return the sentences that are not empty as one text."""
    # str.upper would turn σ into Σ.
    return " ".join(f"{s if s[0] == 'σ' else s[0].upper() + s[1:]}." for s in sentences if s)


def _why_not(m: FoldMetrics, ours: str, instead: str) -> str:
    """Explain why not to use anchoring, and what to use; `ours` is the better of the anchored methods."""
    if not any(m.beats_baseline(method) for method in ("plain", "anchored")):
        others = [] if instead == BASELINE else [instead]
        reasons = [_errors(m, method, BASELINE) for method in ("plain", "anchored", *others)]
        if others:
            reasons.append(f"use {NAMES[instead]}")
        elif not any(MORE_REPEATS in reason for reason in reasons):
            reasons.append("try another model")
        return _join("Do not use anchoring: neither model is better than the trivial baseline", *reasons)
    use = NAMES[instead]
    if instead == "plain" and m.task == "regression":
        use += " with intervals of constant width"
    reasons = [_accuracy(m)]
    if not m.beats_baseline("anchored"):
        reasons.append(_errors(m, "anchored", BASELINE))
    ranks = any(m.ranks_better(method, "plain") for method in (ours, instead))
    reasons.append(_ranking(m, ours, instead if ranks else "plain"))
    if instead != "plain":
        times = m.cost(ours) / max(m.cost(instead), 1e-9)
        if times > COST_FACTOR:
            reasons.append(f"{use} takes {1.0 / times:.1%} of the time")
        reasons.append(_errors(m, instead, "plain"))
    return _join(f"Do not use anchoring; use {use}", *reasons, _warning(m, instead))


def _accuracy(m: FoldMetrics) -> str:
    """Compare anchoring with the plain model, or both with the baseline that anchoring alone beats."""
    if m.beats_baseline("anchored") and not m.beats_baseline("plain"):
        return f"{_errors(m, 'anchored', BASELINE)}, and {_errors(m, 'plain', BASELINE)}"
    return _errors(m, "anchored", "plain")


def _errors(m: FoldMetrics, a: str, b: str) -> str:
    """Compare the errors of two methods, with the figures of the error that decides."""
    names = m.errors_against_baseline(a) if b == BASELINE else m.errors
    unclear = f"; not significant over {m.n_folds} folds"
    if larger := [name for name in names if m.is_larger(name, a, b)]:
        how, name, note = "is less accurate than", larger[0], ""
    elif possible := [name for name in m.possibly_larger_errors(a, b) if name in names]:
        name = min(possible, key=lambda name: m.mean_loss(b, name) / m.mean_loss(a, name))
        how, note = "may be less accurate than", unclear
    elif smaller := [name for name in names if m.is_larger(name, b, a)]:
        how, name, note = "is more accurate than", smaller[0], ""
    elif notable := [name for name in names if m.is_notably_larger(name, b, a)]:
        how, name, note = "may be more accurate than", notable[0], f"{unclear}, {MORE_REPEATS}"
    else:
        how, name, note = "is about as accurate as", names[0], ""
    label = f"the {m.label(BASELINE)}" if b == BASELINE else NAMES[b]
    return f"{NAMES[a]} {how} {label} ({_compare(m, name, a, b)}{note})"


def _best_other(m: FoldMetrics, ours: str) -> str:
    """Return the method whose ranking is compared with that of a recommended method."""
    if m.task == "regression" and not m.ranks_better(ours, "plain"):
        return "plain"
    others = [name for name in ("plain", *m.alternatives()) if m.has_ranking(name)]
    return max(others, key=m.mean_rank, default="plain")


def _ranking(m: FoldMetrics, ours: str, other: str) -> str:
    """Compare how two methods rank their errors. The plain model may have no ranking."""
    if not m.has_ranking(ours):
        return _why_no_ranking(m, ours)
    figures = f"{RANK_NAMES[m.task]} {m.text(ours, m.rank_name(ours))}"
    rank, other_rank = m.mean_rank(ours), m.mean_rank(other)
    is_better, is_worse = m.ranks_better(ours, other), m.ranks_better(other, ours)
    is_notable = abs(rank - other_rank) > RANK_MARGIN and max(rank, other_rank) >= USEFUL_RANK
    is_unclear = is_notable and not (is_better or is_worse)
    if m.has_ranking(other):
        how = "better than" if is_better else "worse than" if is_worse else "about as well as"
        claim = f"{NAMES[ours]} ranks its errors {how} {NAMES[other]}"
        figures += f" against {m.text(other, m.rank_name(other))}"
    else:
        claim = f"σ {'ranks' if is_better else 'may rank' if is_unclear else 'does not rank'} the errors"
    note = f"; not significant over {m.n_folds} folds" if is_unclear else ""
    return f"{claim} ({figures}{note})"


def _why_no_ranking(m: FoldMetrics, ours: str) -> str:
    errors = m.losses(ours, m.errors[0])
    if np.all(errors == 0):
        return "anchoring makes no errors to rank"
    if m.rows_per_fold < 2:
        return "folds of one row cannot measure how well σ ranks the errors"
    if m.task == "classification" and np.all((errors == 0) | (errors == 1)):
        return "no fold has both misclassifications and correct predictions"
    return "σ is the same for every row"


def _calibration(m: FoldMetrics, method: str) -> str:
    """Warn where intervals made of σ are too wide, or miss their nominal coverage."""
    if m.task != "regression" or not m.has_ranking(method):
        return ""
    if not m.ranks_better(method, "plain"):
        return "do not rely on σ"
    times = m.mean(method, "width") / m.mean("plain", "width")
    if times > 1.0 + WIDTH_MARGIN:
        return f"use σ to rank only: calibrated intervals are {times:.2g} times as wide as constant ones"
    uncalibrated = m.mean(method, "coverage_raw")
    if abs(uncalibrated - m.coverage) > COVERAGE_MARGIN:
        figures = f"{uncalibrated:.1%} uncalibrated (nominal {m.coverage:.0%})"
        return f"intervals made of σ need calibration: coverage {figures}"
    return ""


def _warning(m: FoldMetrics, method: str) -> str:
    """Name an error of the recommended method that is notably larger than the trivial baseline's."""
    for name in m.errors:
        if m.is_notably_larger(name, method, BASELINE):
            figures = _compare(m, name, BASELINE, method)
            return f"note that the trivial baseline is better by another metric ({figures})"
    return ""


def _compare(m: FoldMetrics, name: str, a: str, b: str) -> str:
    return f"{METRICS[name].header} {m.text(a, name)} against {m.text(b, name)}"
