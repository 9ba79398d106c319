"""From metrics to a recommendation, by a documented rule, and the sentences that explain it.

Every number in the text is one of the table's, with the same digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from deltauq.assessment.comparison import (
    BASELINE,
    COST_FACTOR,
    LABELS,
    RANK_MARGIN,
    USEFUL_RANK,
    Metrics,
)
from deltauq.assessment.scoring import METRICS

MISSED_COVERAGE = 0.05
"""Uncalibrated intervals this far from their nominal coverage need calibration."""
WIDER = 0.1
"""Calibrated intervals wider than those of constant width by this share are no gain."""
RANK_NAMES = {"regression": "Spearman of σ and |error|", "classification": "AUROC"}
RANK_VERBS = {
    "regression": ("ranks", "rank", "the errors"),
    "classification": ("detects", "detect", "mistakes"),
}
SUBJECTS = {"spearman": "σ", "auroc_spread": "σ", "auroc_confidence": "the largest probability"}
ARTICLES = {"tree-spread": "the ", "ensemble": "an "}


class Advice(StrEnum):
    """What to do with anchoring."""

    ANCHORING = "use anchoring"
    SIGMA_ONLY = "use it for σ only"
    DONT = "don't"


@dataclass(frozen=True)
class Recommendation:
    """What to use for one model and one table, and why.

    Attributes
    ----------
    advice : Advice
    method : str
        The method to use: "anchored", "center", "plain", "tree-spread", "own-std" or "ensemble"; "baseline"
        where no method predicts better than the mean of y, or than the class frequencies.
    text : str
        The advice and the reasons for it.
    """

    advice: Advice
    method: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class OptionNames:
    """How the text names options: as parameters in Python, or as options of the command line."""

    center: str = 'center="estimator"'
    calibrate: str = 'set calibrate="cv"'
    more_folds: str = "n_repeats=5"
    train_anchors: str = "n_train_anchors={}"
    default_train_anchors: str = "the default is {:,}"


PYTHON = OptionNames()
COMMAND_LINE = OptionNames(
    center="deltauq fit --center estimator",
    calibrate="use those of deltauq fit, which are calibrated",
    more_folds="--repeats 5",
    train_anchors="--train-anchors {}",
    default_train_anchors="--train-anchors auto is {:,}",
)


def decide(metrics: Metrics, options: OptionNames = PYTHON) -> Recommendation:
    """Return the recommendation that follows from metrics.

    A difference between two methods counts when, paired over the folds, it is larger than its standard error
    by Student's 95 % quantile (see `Metrics.exceeds`) and large enough to matter: 1 % of the smaller error;
    0.05 of the ranking (Spearman of σ and |error|, or 2 AUROC − 1), which must itself be at least 0.1.
    Everything else is a tie. Errors are MAE, trimmed MAE and RMSE, or error rate, Brier score and log loss.
    A method errs more when any of them is larger; also when the mean of one is 5 % larger (an error rate: and
    by one percentage point), even if not significantly (RMSE and log loss excepted, which may depend on a
    few rows). It errs less when one is smaller and it does not err more.

    A method *beats the trivial baseline* when it errs less than the mean of y, or has a smaller Brier score
    than the class frequencies (without probabilities: a larger accuracy). No other method is recommended.

    A method *gains* when it errs less than the plain model, when it ranks its errors better than the plain
    model ranks its own, or when it beats the trivial baseline and the plain model does not. An alternative
    (the spread of the trees, the model's own standard deviations, an ensemble) that errs no more than the
    plain model, whose calibrated intervals are at most twice as wide as those of constant width, and that
    gains or has a ranking of at least 0.1, is *preferable* to anchoring when it ranks its errors better;
    where the rankings tie, when it errs less; where the errors tie as well, when it takes less than two
    thirds of the time, or about the same time and has the larger mean ranking. Where anchoring errs less than
    the plain model, only an alternative that does so too is preferable. Then:

    1. **Use anchoring** when it errs no more than the plain model (or that does not beat the trivial
       baseline), gains, and no alternative is preferable.
    2. Otherwise **use it for σ only** (``center="estimator"``) when that gains, no alternative is preferable,
       and anchoring does not err less than the plain model.
    3. Otherwise **don't**: use one of the alternatives that are preferable, or that gain where anchoring does
       not: the one that ranks best or, of those whose rankings tie with it, the cheapest. Use the plain model
       where there is none.

    Parameters
    ----------
    metrics : Metrics
        With "plain", "anchored", "center" and "baseline" among the methods.
    options : OptionNames, optional
        How the text names options; by default as parameters in Python.

    Returns
    -------
    recommendation : Recommendation
    """
    m = metrics
    plain_beats = m.beats_baseline("plain")
    keeps_accuracy = m.errs_no_more("anchored", "plain") or not plain_beats
    can_use_anchored = keeps_accuracy and m.beats_baseline("anchored")
    if can_use_anchored and _gains(m, "anchored") and not _preferable(m, "anchored"):
        reasons = [_accuracy(m), _ranking(m, "anchored"), _calibration(m, "anchored", options)]
        text = _join("Use anchoring.", *reasons, _warning(m, "anchored"))
        return Recommendation(Advice.ANCHORING, "anchored", text)
    can_use_center = plain_beats and not m.errs_less("anchored", "plain")
    if can_use_center and _gains(m, "center") and not _preferable(m, "center"):
        reasons = [_accuracy(m), _ranking(m, "center"), _calibration(m, "center", options)]
        text = _join(f"Use anchoring for σ only ({options.center}).", *reasons, _warning(m, "center"))
        return Recommendation(Advice.SIGMA_ONLY, "center", text)
    ours = "anchored" if can_use_anchored else "center"
    instead = _instead(m, ours)
    return Recommendation(Advice.DONT, instead, _why_not(m, ours, instead, options))


# The rule


def _gains(m: Metrics, method: str) -> bool:
    """Return whether a method has an advantage over the plain model."""
    if m.ranks_better(method, "plain") or m.errs_less(method, "plain"):
        return True
    return m.beats_baseline(method) and not m.beats_baseline("plain")


def _preferable(m: Metrics, ours: str) -> list[str]:
    """Return the alternatives that are preferable to one of the anchored methods."""
    return [name for name in m.alternatives() if _is_preferable(m, name, ours)]


def _is_preferable(m: Metrics, other: str, ours: str) -> bool:
    if m.mean_rank(other) < USEFUL_RANK and not _gains(m, other):
        return False
    if m.errs_less(ours, "plain") and not m.errs_less(other, "plain"):
        return False
    for is_better in (m.ranks_better, m.errs_less):
        if is_better(ours, other):
            return False
        if is_better(other, ours):
            return True
    if m.is_cheaper(ours, other):
        return False
    return m.is_cheaper(other, ours) or m.mean_rank(other) > m.mean_rank(ours)


def _instead(m: Metrics, ours: str) -> str:
    """Return the method to use instead of anchoring; `ours` is the better of the anchored methods."""
    preferable = _preferable(m, ours) if _gains(m, ours) else []
    others = preferable or m.alternatives()
    candidates = [name for name in others if _gains(m, name)] or preferable
    if not candidates:
        return "plain" if m.beats_baseline("plain") else BASELINE
    best = m.best_ranking(candidates)
    cheapest = min((name for name in candidates if not m.ranks_better(best, name)), key=m.cost)
    return cheapest if m.is_cheaper(cheapest, best) else best


# The text


def _join(*sentences: str) -> str:
    """Return the sentences that are not empty as one text."""
    # Not "σ", whose capital is "Σ".
    return " ".join(s if s.startswith("σ") else s[0].upper() + s[1:] for s in sentences if s)


def _why_not(m: Metrics, ours: str, instead: str, options: OptionNames) -> str:
    """Say why not to use anchoring, and what to use; `ours` is the better of the anchored methods."""
    more_folds = f"More folds may decide it ({options.more_folds})."
    if not any(m.beats_baseline(method) for method in ("plain", "anchored")):
        plain, anchored = (_against_baseline(m, method) for method in ("plain", "anchored"))
        start = (
            f"Don't use anchoring. Neither the plain model ({plain}) nor the anchored model ({anchored}) is "
            f"better than the trivial baseline, the {m.label(BASELINE)}."
        )
        if instead != BASELINE:
            return f"{start} Use {_source(m, instead)}, which is ({_against_baseline(m, instead)})."
        nearly = any(
            m.errs_no_more(method, BASELINE) and _seems_better(m, method) for method in ("plain", "anchored")
        )
        return f"{start} {more_folds if nearly else 'Try another model.'}"
    reason = ""
    gains = m.errs_less("anchored", "plain") or not m.beats_baseline("plain")
    if gains and not m.beats_baseline("anchored"):
        against = _against_baseline(m, "anchored")
        reason = f"anchoring is not better than the {m.label(BASELINE)} ({against})."
    elif not m.has_ranking(ours) or not any(m.ranks_better(name, "plain") for name in (ours, instead)):
        reason = _ranking(m, ours, ["plain"])
    elif m.has_ranking(instead):
        reason = _join(_ranking(m, ours, [instead]), _saving(m, ours, instead))
    return _join(
        f"Don't use anchoring; use {_named(m, instead)}.",
        _accuracy(m),
        reason,
        _improvement(m, instead),
        _warning(m, instead),
        more_folds if not gains and _may_predict_better(m) else "",
    )


def _accuracy(m: Metrics) -> str:
    """Compare the errors of the anchored model with the plain model's."""
    higher, lower = m.larger_errors("anchored", "plain"), m.larger_errors("plain", "anchored")
    doubtful = sorted(
        m.doubtful_errors("anchored", "plain"),
        key=lambda name: -m.mean_loss("anchored", name) / max(m.mean_loss("plain", name), 1e-300),
    )
    if m.beats_baseline("anchored") and not m.beats_baseline("plain"):
        ours, plain = (_against_baseline(m, method) for method in ("anchored", "plain"))
        worse = [*higher, *doubtful]
        exception = f", but it is worse than the plain model in {_compare(m, worse[0])}" if worse else ""
        return (
            f"anchoring is better than the {m.label(BASELINE)} ({ours}), and the plain model is not "
            f"({plain}){exception}."
        )
    exception = ""
    if higher or doubtful:
        how, name, significant = "less", (higher or doubtful)[0], bool(higher)
        exception = f", but better in {_compare(m, lower[0])}" if lower else ""
    elif lower:
        how, name, significant = "more", lower[0], True
    elif _may_predict_better(m):
        how, significant = "more", False
        name = next(name for name in m.errors if m.is_notably_larger(name, "plain", "anchored"))
    else:
        return f"anchoring is about as accurate as the plain model ({_compare(m, m.errors[0])})."
    numbers = _compare(m, name, significant=significant)
    verb = "is" if significant else "may be"
    return f"anchoring {verb} {how} accurate than the plain model ({numbers}){exception}."


def _may_predict_better(m: Metrics) -> bool:
    """Return whether an error of anchoring is notably smaller, but not significantly, and none is larger."""
    if m.larger_errors("anchored", "plain") or m.larger_errors("plain", "anchored"):
        return False
    if m.doubtful_errors("anchored", "plain"):
        return False
    return any(m.is_notably_larger(name, "plain", "anchored") for name in m.errors)


def _ranking(m: Metrics, ours: str, others: list[str] | None = None) -> str:
    """Compare how a method ranks its errors with the best of other methods.

    By default with the plain model and all alternatives. For regression the plain model has no ranking.
    """
    if not m.has_ranking(ours):
        return f"{_why_no_ranking(m, ours)}."
    subject = SUBJECTS[m.rank_name(ours)]
    ranks, rank, errors = RANK_VERBS[m.task]
    is_tied = not m.ranks_better(ours, "plain")
    if others is None:
        others = [] if m.task == "regression" and is_tied else ["plain", *m.alternatives()]
    others = [other for other in others if m.has_ranking(other)]
    if not others:
        numbers, gain = _rank_numbers(m, ours), m.mean_rank(ours) - m.mean_rank("plain")
        if is_tied and gain > RANK_MARGIN and m.mean_rank(ours) >= USEFUL_RANK:
            return f"{subject} may {rank} {errors} ({numbers}; {_not_significant(m)})."
        return f"{subject} {f'does not {rank}' if is_tied else ranks} {errors} ({numbers})."
    other = m.best_ranking(others)
    note = ""
    if m.ranks_better(ours, other):
        how = "better than"
    elif m.ranks_better(other, ours):
        how = "worse than"
    else:
        how = "about as well as"
        if abs(m.mean_rank(ours) - m.mean_rank(other)) > RANK_MARGIN:
            note = f"; the difference is {_not_significant(m)}"
    return f"{subject} {ranks} {errors} {how} {_source(m, other)} ({_rank_numbers(m, ours, other)}{note})."


def _why_no_ranking(m: Metrics, ours: str) -> str:
    errors = m.losses(ours, "rmse" if m.task == "regression" else "accuracy")
    if np.all(errors == 0):
        return "it makes no errors to rank" if m.task == "regression" else "it makes no mistakes to detect"
    if m.rows_per_fold < 2:
        return "with folds of one row it cannot be measured how well σ ranks the errors"
    if m.task == "classification" and np.all((errors == 0) | (errors == 1)):
        return "no fold has both mistakes and correct predictions"
    return "σ is the same for every row"


def _calibration(m: Metrics, method: str, options: OptionNames) -> str:
    """Say what to do where intervals made of σ are too wide, or miss their nominal coverage."""
    if m.task != "regression" or not m.has_ranking(method):
        return ""
    if not m.ranks_better(method, "plain"):
        return "do not rely on σ."
    times = m.mean(method, "width") / m.mean("plain", "width")
    if times > 1.0 + WIDER:
        return (
            f"use σ to rank only: its calibrated intervals are {times:.2g} times as wide as those of "
            "constant width."
        )
    raw = m.mean(method, "coverage_raw")
    if not abs(raw - m.coverage) > MISSED_COVERAGE:
        return ""
    return f"for intervals, {options.calibrate}: raw coverage {raw:.1%} (nominal {m.coverage:.0%})."


def _warning(m: Metrics, method: str) -> str:
    """Name an error of the recommended method that is larger than the trivial baseline's, if one is."""
    worse = [name for name in m.errors if m.is_notably_larger(name, method, BASELINE)]
    worse += [name for name in m.larger_errors(method, BASELINE) if name not in worse]
    if not worse or method == BASELINE:
        return ""
    what = "the plain model" if method == "center" else _named(m, method)
    numbers = _compare(m, worse[0], method, BASELINE)
    return f"note that {what} is worse than the {m.label(BASELINE)} ({numbers})."


def _improvement(m: Metrics, method: str) -> str:
    """Say what an alternative predicts better than the plain model, if it does."""
    better = m.larger_errors("plain", method) if method != "plain" else []
    if not better:
        return ""
    return f"{_source(m, method)} is more accurate than the plain model ({_compare(m, better[0], method)})."


def _saving(m: Metrics, ours: str, instead: str) -> str:
    """Say how much less an alternative costs, if it does."""
    times = m.cost(ours) / max(m.cost(instead), 1e-9)
    if times <= COST_FACTOR:
        return ""
    share = f"1/{times:.2g}" if times < 100 else "less than a hundredth"
    return f"{_source(m, instead)} takes {share} of the time."


def _against_baseline(m: Metrics, method: str) -> str:
    """Return the error that decides whether a method beats the trivial baseline, beside the baseline's."""
    names = m.deciding_errors(method)
    if m.beats_baseline(method):
        clear, doubtful = [name for name in names if m.is_larger(name, BASELINE, method)], []
    else:
        clear = [name for name in names if m.is_larger(name, method, BASELINE)]
        doubtful = [name for name in names if name in m.doubtful_errors(method, BASELINE)]
    name = [*clear, *doubtful, *names][0]
    is_equal = m.text(method, name) == m.text(BASELINE, name)
    return _compare(m, name, method, BASELINE, significant=name in clear or is_equal)


def _seems_better(m: Metrics, method: str) -> bool:
    """Return whether a deciding error is smaller in the table than the trivial baseline's."""
    return any(
        m.mean_loss(method, name) < m.mean_loss(BASELINE, name)
        and m.text(method, name) != m.text(BASELINE, name)
        for name in m.deciding_errors(method)
    )


def _compare(
    m: Metrics, name: str, a: str = "anchored", b: str = "plain", *, significant: bool = True
) -> str:
    """Return an error of two methods; of one where the other has none."""
    text = f"{METRICS[name].header} {m.text(a, name)}"
    if math.isfinite(m.mean(b, name)):
        text += f" against {m.text(b, name)}"
    return text if significant else f"{text}; {_not_significant(m)}"


def _rank_numbers(m: Metrics, method: str, other: str | None = None) -> str:
    text = f"{RANK_NAMES[m.task]} {m.text(method, m.rank_name(method))}"
    return text if other is None else f"{text} against {m.text(other, m.rank_name(other))}"


def _not_significant(m: Metrics) -> str:
    return f"not significant over {len(m.scores['plain']['fit_seconds'])} folds"


def _named(m: Metrics, method: str) -> str:
    """Return how a recommended method is named."""
    if method == "plain":
        return "the plain model" + (" with intervals of constant width" if m.task == "regression" else "")
    if method == "anchored":
        return "the anchored model"
    return f"the {m.label(BASELINE)}" if method == BASELINE else _source(m, method)


def _source(m: Metrics, method: str) -> str:
    """Return where a method's uncertainty comes from, as it stands in a sentence."""
    return "the plain model's" if method == "plain" else f"{ARTICLES.get(method, '')}{LABELS[method]}"
