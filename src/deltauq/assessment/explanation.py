"""The sentence of a verdict: what anchoring does to the errors, and how well it ranks them.

Every number is one of the table's, with the same digits.
"""

from __future__ import annotations

import math

import numpy as np

from deltauq.assessment.columns import text
from deltauq.assessment.comparison import (
    COST_FACTOR,
    RANK_MARGIN,
    USEFUL_RANK,
    alternatives,
    beats_baseline,
    best_ranking,
    deciding_errors,
    doubtful_errors,
    errs_less,
    errs_no_more,
    has_larger,
    larger_errors,
    ranks_better,
    seems_larger,
)
from deltauq.assessment.measures import BASELINE, LABELS, Measures
from deltauq.assessment.terms import Terms

ERROR_NAMES = {
    "mae": "MAE",
    "trimmed_mae": "trimmed MAE",
    "rmse": "RMSE",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "log_loss": "log loss",
}
RANK_NAMES = {"regression": "Spearman of σ and |error|", "classification": "AUROC"}
RANK_VERBS = {"regression": "ranks the errors", "classification": "finds mistakes"}
SUBJECTS = {"spearman": "σ", "auroc_spread": "the spread", "auroc_confidence": "the largest probability"}
ARTICLES = {"tree-spread": "the", "ensemble": "an"}
MISSED_COVERAGE = 0.05
"""Raw intervals this far from their nominal coverage need calibration."""
WIDER = 0.1
"""Calibrated intervals wider than those of one width by this share are no gain."""


def use_it(measures: Measures, terms: Terms) -> str:
    """Say why to use anchoring."""
    start = f"Use anchoring: {_accuracy(measures)}"
    if not measures.has_ranking("anchored"):
        start += f", but {_unranked(measures, 'anchored')}"
    elif measures.task == "regression" and not ranks_better(measures, "anchored", "plain"):
        little = "says little about its errors"
        if _may_rank_better(measures, "anchored"):
            little = f"may rank its errors, within {_noise(measures)}"
        start += f", but do not rely on σ, which {little} ({_rank_numbers(measures, 'anchored')})"
    else:
        ranking = _ranking(measures, "anchored")
        word = "but" if " worse than " in ranking else "and"
        start += f", {word} {ranking}{_calibration(measures, 'anchored', terms)}"
    return f"{start}{_worse_than_baseline(measures, 'anchored')}."


def use_sigma(measures: Measures, terms: Terms) -> str:
    """Say why to take the spread from the anchors, but not the prediction."""
    return (
        f"Use it for σ only ({terms.center}): {_accuracy(measures)}, and around the plain model's "
        f"predictions {_ranking(measures, 'center')}{_calibration(measures, 'center', terms)}"
        f"{_worse_than_baseline(measures, 'center')}."
    )


def use_not(measures: Measures, ours: str, instead: str, terms: Terms) -> str:
    """Say why not to use anchoring, and what to use.

    Parameters
    ----------
    measures : Measures
    ours : {"anchored", "center"}
        The better one of the two.
    instead : str
        The method to use.
    terms : Terms
    """
    if not any(beats_baseline(measures, method) for method in ("plain", "anchored")):
        return _none_beats(measures, instead, terms)
    gains = errs_less(measures, "anchored", "plain") or not beats_baseline(measures, "plain")
    may_gain = not gains and _may_predict_better(measures)
    reason = None
    if gains and not beats_baseline(measures, "anchored"):
        reason = (
            f"it does not beat the {measures.label(BASELINE)} ({_against_baseline(measures, 'anchored')})"
        )
    elif not measures.has_ranking(ours):
        reason = _unranked(measures, ours)
    elif not any(ranks_better(measures, method, "plain") for method in (ours, instead)):
        reason = _no_gain(measures, ours)
    elif measures.has_ranking(instead):
        reason = _rival_gain(measures, ours, instead)
    advice = f"Don't use anchoring here: {_accuracy(measures)}"
    if reason is not None:
        advice += f", {'but' if gains or may_gain else 'and'} {reason}"
    advice += f"; use {_advised(measures, instead)}{_worse_than_baseline(measures, instead)}"
    return f"{advice}; {_more_folds(terms)}." if may_gain else f"{advice}."


def _none_beats(measures: Measures, instead: str, terms: Terms) -> str:
    """Say that neither model predicts better than the trivial baseline."""
    of_each = [_against_baseline(measures, method) for method in ("plain", "anchored")]
    advice = (
        f"Don't use anchoring here: neither the plain model ({of_each[0]}) nor the anchored one "
        f"({of_each[1]}) beats the trivial baseline, the {measures.label(BASELINE)}"
    )
    if instead == BASELINE:
        seems_to_beat = any(
            errs_no_more(measures, method, BASELINE) and _shows_smaller_error(measures, method, BASELINE)
            for method in ("plain", "anchored")
        )
        return f"{advice}; {_more_folds(terms) if seems_to_beat else 'try another model'}."
    return f"{advice}; use {_source(measures, instead)}, which does ({_against_baseline(measures, instead)})."


def _more_folds(terms: Terms) -> str:
    return f"more folds may settle it ({terms.more_folds})"


def _against_baseline(measures: Measures, method: str) -> str:
    """Return the error that decides whether a method beats the trivial baseline, beside the baseline's."""
    names = deciding_errors(measures, method)
    if beats_baseline(measures, method):
        kinds = [[name for name in names if has_larger(measures, name, BASELINE, method)]]
    else:
        kinds = [
            [name for name in names if has_larger(measures, name, method, BASELINE)],
            [name for name in names if name in doubtful_errors(measures, method, BASELINE)],
        ]
    clear = kinds[0]
    name = next(name for kind in [*kinds, names] for name in kind)
    numbers = _numbers(measures, name, method, BASELINE)
    if name in clear or _shows_equal(measures, name, method, BASELINE):
        return numbers
    return f"{numbers}, within {_noise(measures)}"


def _shows_equal(measures: Measures, name: str, a: str, b: str) -> bool:
    """Tell whether an error of two methods is the same with the digits of the table."""
    return text(measures, a, name) == text(measures, b, name)


def _shows_smaller_error(measures: Measures, a: str, b: str) -> bool:
    """Tell whether method `a` has a smaller error than `b` in the table, among those that decide."""
    return any(
        measures.mean_error(a, name) < measures.mean_error(b, name) and not _shows_equal(measures, name, a, b)
        for name in deciding_errors(measures, a)
    )


def _worse_than_baseline(measures: Measures, method: str) -> str:
    """Add which error of the advised method is larger than the trivial baseline's, if one is."""
    worse = [name for name in measures.error_names() if seems_larger(measures, name, method, BASELINE)]
    worse += [name for name in larger_errors(measures, method, BASELINE) if name not in worse]
    if not worse or method == BASELINE:
        return ""
    whose = "the plain model's" if method == "center" else "its"
    return (
        f"; {whose} {_of_error(measures, worse[0], method, BASELINE)}, however, is worse than that of the "
        f"{measures.label(BASELINE)}"
    )


def _may_predict_better(measures: Measures) -> bool:
    """Tell whether anchoring has notably less of an error in the table, but within the noise."""
    names = measures.error_names()
    if larger_errors(measures, "anchored", "plain") or larger_errors(measures, "plain", "anchored"):
        return False
    if doubtful_errors(measures, "anchored", "plain"):
        return False
    return any(seems_larger(measures, name, "plain", "anchored") for name in names)


def _unranked(measures: Measures, ours: str) -> str:
    """Say why a method has no ranking."""
    mistakes = "errors to rank" if measures.task == "regression" else "mistakes to find"
    errors = measures.errors(ours, "rmse" if measures.task == "regression" else "accuracy")
    if np.all(errors == 0):
        return f"it makes no {mistakes}"
    if measures.rows_per_fold < 2:
        return "folds of one row cannot tell how well σ ranks its errors"
    if measures.task == "classification" and np.all((errors == 0) | (errors == 1)):
        return "no fold has both mistakes and right answers to tell apart"
    return "σ is the same for every row"


def _advised(measures: Measures, instead: str) -> str:
    """Name the method to use, and what it predicts better than the plain model, if it does."""
    if instead == "plain":
        return "the plain model" + (" with intervals of one width" if measures.task == "regression" else "")
    source = _source(measures, instead)
    better = larger_errors(measures, "plain", instead)
    if not better:
        return source
    numbers = _numbers(measures, better[0], instead, "plain")
    return f"{source}, which predicts better than the plain model ({numbers})"


def _accuracy(measures: Measures) -> str:
    """Say what anchoring does to the errors."""
    higher = larger_errors(measures, "anchored", "plain")
    lower = larger_errors(measures, "plain", "anchored")
    doubtful = doubtful_errors(measures, "anchored", "plain")
    if beats_baseline(measures, "anchored") and not beats_baseline(measures, "plain"):
        better = (
            f"it beats the {measures.label(BASELINE)} ({_against_baseline(measures, 'anchored')}), which the "
            f"plain model does not ({_against_baseline(measures, 'plain')})"
        )
        worse = [*higher, *doubtful]
        return f"{better}, though its {_of_error(measures, worse[0])} is worse" if worse else better
    if higher or doubtful:
        name = (higher or sorted(doubtful, key=lambda name: -_ratio(measures, name)))[0]
        verb, noise = ("costs", "") if higher else ("may cost", f", within {_noise(measures)}")
        though = f", though its {_of_error(measures, lower[0])} is better" if lower else ""
        return f"it {verb} accuracy ({_numbers(measures, name, 'anchored', 'plain')}{noise}){though}"
    names = measures.error_names()
    if lower:
        verb, noise, name = "predicts better", "", lower[0]
    elif _may_predict_better(measures):
        verb, noise = "may predict better", f", within {_noise(measures)}"
        name = next(name for name in names if seems_larger(measures, name, "plain", "anchored"))
    else:
        verb, noise, name = "predicts about as well", "", names[0]
    return f"it {verb} ({_numbers(measures, name, 'anchored', 'plain')}{noise})"


def _ratio(measures: Measures, name: str) -> float:
    """Return an error of the anchored method over the plain model's."""
    return measures.mean_error("anchored", name) / max(measures.mean_error("plain", name), 1e-300)


def _of_error(measures: Measures, name: str, a: str = "anchored", b: str = "plain") -> str:
    """Return the name of an error and that of two methods in brackets, to go into a sentence."""
    return f"{ERROR_NAMES[name]} ({text(measures, a, name)} against {text(measures, b, name)})"


def _numbers(measures: Measures, name: str, a: str, b: str) -> str:
    """Return an error of two methods; of one where the other has none."""
    numbers = f"{ERROR_NAMES[name]} {text(measures, a, name)}"
    return (
        f"{numbers} against {text(measures, b, name)}" if math.isfinite(measures.mean(b, name)) else numbers
    )


def _noise(measures: Measures) -> str:
    return f"the noise of {len(measures.scores['plain']['fit_seconds'])} folds"


def _ranking(measures: Measures, ours: str) -> str:
    """Say how well a method ranks its errors, next to the best of the others."""
    if not measures.has_ranking(ours):
        return _unranked(measures, ours)
    subject = SUBJECTS[measures.rank_name(ours)]
    others = [other for other in ("plain", *alternatives(measures)) if measures.has_ranking(other)]
    if not others:
        verb = (
            RANK_VERBS[measures.task] if ranks_better(measures, ours, "plain") else "says little about them"
        )
        return f"{subject} {verb} ({_rank_numbers(measures, ours)})"
    best = best_ranking(measures, others)
    how, noise = "better than", ""
    if ranks_better(measures, best, ours):
        how = "worse than"
    elif not ranks_better(measures, ours, best):
        how, noise = _as_well(measures, ours, best)
        how += " as"
    return (
        f"{subject} {RANK_VERBS[measures.task]} {how} {_source(measures, best)}{noise} "
        f"({_rank_numbers(measures, ours, best)})"
    )


def _as_well(measures: Measures, a: str, b: str) -> tuple[str, str]:
    """Say that two rankings tie, and add whether that may be for want of folds."""
    if abs(measures.mean_rank(a) - measures.mean_rank(b)) <= RANK_MARGIN:
        return "about as well", ""
    how = "at least as well" if measures.mean_rank(a) > measures.mean_rank(b) else "as well"
    return how, f" within {_noise(measures)}"


def _no_gain(measures: Measures, ours: str) -> str:
    """Say that a method ranks its errors no better than the plain model."""
    subject = SUBJECTS[measures.rank_name(ours)]
    has_rival = measures.has_ranking("plain")
    numbers = _rank_numbers(measures, ours, "plain" if has_rival else None)
    if _may_rank_better(measures, ours):
        what = f"find mistakes better than {_source(measures, 'plain')}" if has_rival else "rank the errors"
        return f"{subject} may {what}, within {_noise(measures)} ({numbers})"
    if not has_rival:
        return f"{subject} does not rank the errors ({numbers})"
    return f"{subject} finds mistakes no better than {_source(measures, 'plain')} ({numbers})"


def _may_rank_better(measures: Measures, ours: str) -> bool:
    """Tell whether a method ranks its errors better than the plain model in the table, but within the noise.

    A large gain may still be noise, where mistakes are few.
    """
    gain = measures.mean_rank(ours) - measures.mean_rank("plain")
    is_useful = gain > RANK_MARGIN and measures.mean_rank(ours) >= USEFUL_RANK
    return is_useful and not ranks_better(measures, ours, "plain")


def _rival_gain(measures: Measures, ours: str, instead: str) -> str:
    """Say that a rival ranks its errors better, or as well for less."""
    better = ranks_better(measures, instead, ours)
    how = "better" if better else "".join(_as_well(measures, instead, ours))
    gain = (
        f"{_source(measures, instead)} {RANK_VERBS[measures.task]} {how} "
        f"({_rank_numbers(measures, instead, ours)})"
    )
    times = measures.cost(ours) / max(measures.cost(instead), 1e-9)
    return f"{gain}, at {_share(times)}" if times > COST_FACTOR else gain


def _share(times: float) -> str:
    """Return 1/times of a cost in words."""
    return f"1/{times:.2g} of the cost" if times < 100 else "less than a hundredth of the cost"


def _source(measures: Measures, method: str) -> str:
    """Return where a method's uncertainty comes from, as it stands in a sentence."""
    if method == "plain":
        return "the plain model's"
    return f"{ARTICLES.get(method, '')} {LABELS[method]}".strip()


def _rank_numbers(measures: Measures, method: str, other: str | None = None) -> str:
    numbers = f"{RANK_NAMES[measures.task]} {text(measures, method, measures.rank_name(method))}"
    if other is None:
        return numbers
    return f"{numbers} against {text(measures, other, measures.rank_name(other))}"


def _calibration(measures: Measures, method: str, terms: Terms) -> str:
    """Add what intervals made of σ are worth, where that is not what they claim."""
    if measures.task != "regression":
        return ""
    level = f"{measures.level:.0%}"
    times = measures.mean(method, "width") / measures.mean("plain", "width")
    if times > 1.0 + WIDER:
        return (
            f"; use σ to rank only: {level} intervals made of it are {times:.2g} times as wide as plain ones"
        )
    held = measures.mean(method, "coverage_raw")
    if not abs(held - measures.level) > MISSED_COVERAGE:
        return ""
    return f"; raw {level} intervals hold {held:.0%} of the targets, so {terms.calibrate}"
