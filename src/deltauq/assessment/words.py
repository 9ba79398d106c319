"""The words for a verdict: what anchoring does to the errors, and how well it ranks them."""

from __future__ import annotations

import math

import numpy as np

from deltauq.assessment.comparison import COST_FACTOR, RANK_MARGIN, best_ranking, has_larger, ranks_better
from deltauq.assessment.measures import LABELS, Measures

ERROR_WORDS = {"mae": "MAE", "rmse": "RMSE", "accuracy": "accuracy", "log_loss": "log loss"}
RANK_WORDS = {"regression": "Spearman of σ and |error|", "classification": "AUROC"}
RANK_VERBS = {"regression": "ranks the errors", "classification": "finds mistakes"}
SUBJECTS = {"spearman": "σ", "auroc_spread": "the spread", "auroc_confidence": "the largest probability"}
ARTICLES = {"tree-spread": "the", "ensemble": "an"}
NOTABLE = 0.05
"""A difference of errors larger than this asks for a word, even if it is noise."""
MISSED_COVERAGE = 0.05
"""Raw intervals this far from their nominal coverage need calibration."""
PAIRS = (("anchored", "plain"), ("plain", "anchored"))
WIDER = 0.1
"""Calibrated intervals wider than those of one width by this share are no gain."""


def use_it(measures: Measures) -> str:
    """Say why to use anchoring."""
    if not measures.has_ranking("anchored"):
        return f"Use anchoring: {_accuracy(measures)}, but {_unranked(measures, 'anchored')}."
    if measures.task == "regression" and not ranks_better(measures, "anchored", "plain"):
        return (
            f"Use anchoring: {_accuracy(measures)}, but do not rely on σ, which says little about its errors "
            f"({_rank_numbers(measures, 'anchored')})."
        )
    return (
        f"Use anchoring: {_accuracy(measures)}, and {_ranking(measures, 'anchored')}"
        f"{_calibration(measures, 'anchored')}."
    )


def use_sigma(measures: Measures) -> str:
    """Say why to take the spread from the anchors, but not the prediction."""
    return (
        f'Use it for σ only (center="estimator"): {_accuracy(measures)}, and around the plain model\'s '
        f"predictions {_ranking(measures, 'center')}{_calibration(measures, 'center')}."
    )


def use_not(measures: Measures, ours: str, instead: str) -> str:
    """Say why not to use anchoring, and what to use.

    Parameters
    ----------
    measures : Measures
    ours : {"anchored", "center"}
        The better one of the two.
    instead : str
        The method to use.
    """
    reasons = [_accuracy(measures)]
    if not measures.has_ranking(ours):
        reasons.append(_unranked(measures, ours))
    elif any(ranks_better(measures, method, "plain") for method in (ours, instead)):
        reasons += [_rival_gain(measures, ours, instead)] if measures.has_ranking(instead) else []
    else:
        reasons.append(_no_gain(measures, ours))
    advice = f"Don't use anchoring here: {', and '.join(reasons)}; use {_advised(measures, instead)}"
    return f"{advice}{_more_folds(measures)}."


def _more_folds(measures: Measures) -> str:
    """Add that more folds may tell, where anchoring seems to predict better but it may be noise."""
    names = measures.error_names()
    if any(has_larger(measures, name, *pair) for name in names for pair in PAIRS):
        return ""
    if not any(_seems_lower(measures, name) for name in names):
        return ""
    return "; but the errors of anchoring seem lower, and more folds may confirm it (n_repeats=5)"


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
    """Name the method to use, with the reason if it is not its ranking."""
    if instead == "plain":
        return "the plain model" + (" with intervals of one width" if measures.task == "regression" else "")
    source = _source(measures, instead)
    if ranks_better(measures, instead, "plain"):
        return source
    name = next(
        (name for name in measures.error_names() if has_larger(measures, name, "plain", instead)), None
    )
    if name is None:
        return source
    numbers = f"{measures.mean(instead, name):.3g} against {measures.mean('plain', name):.3g}"
    return f"{source}, which predicts better than the plain model ({ERROR_WORDS[name]} {numbers})"


def _accuracy(measures: Measures) -> str:
    """Say what anchoring does to the error that tells most: one that grew, one that shrank, or the first."""
    names = measures.error_names()
    grew = [name for name in names if has_larger(measures, name, "anchored", "plain")]
    shrank = [name for name in names if has_larger(measures, name, "plain", "anchored")]
    name = [*grew, *shrank, *names][0]
    verb = "costs accuracy" if grew else "predicts better" if shrank else "predicts about as well"
    ours, plain = measures.mean("anchored", name), measures.mean("plain", name)
    if not (grew or shrank) and _is_notable(measures, name):
        verb = f"predicts as well within {_noise(measures)}"
    numbers = f"{ERROR_WORDS[name]} {ours:.3g}"
    if math.isfinite(plain):
        numbers += f" against {plain:.3g}"
    return f"it {verb} ({numbers})"


def _is_notable(measures: Measures, name: str) -> bool:
    """Tell whether anchoring changes an error by more than can go without a word; False where it has none."""
    plain = measures.mean("plain", name)
    return abs(measures.mean("anchored", name) - plain) > NOTABLE * abs(plain)


def _seems_lower(measures: Measures, name: str) -> bool:
    """Tell whether anchoring has notably less of an error, be it noise or not."""
    gain = measures.mean("plain", name) - measures.mean("anchored", name)
    return _is_notable(measures, name) and (-gain if name == "accuracy" else gain) > 0.0


def _noise(measures: Measures) -> str:
    return f"the noise of {len(measures.scores['plain']['fit_seconds'])} folds"


def _ranking(measures: Measures, ours: str) -> str:
    """Say how well a method ranks its errors, next to the best of the others."""
    if not measures.has_ranking(ours):
        return _unranked(measures, ours)
    subject = SUBJECTS[measures.rank_name(ours)]
    others = [other for other in ("plain", *measures.rivals()) if measures.has_ranking(other)]
    if not others:
        verb = (
            RANK_VERBS[measures.task] if ranks_better(measures, ours, "plain") else "says little about them"
        )
        return f"{subject} {verb} ({_rank_numbers(measures, ours)})"
    best = best_ranking(measures, others)
    how, noise = "better than", ""
    if not ranks_better(measures, ours, best):
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
    return "as well", f" within {_noise(measures)}"


def _no_gain(measures: Measures, ours: str) -> str:
    """Say that a method ranks its errors no better than the plain model."""
    subject, plain = SUBJECTS[measures.rank_name(ours)], "plain"
    has_rival = measures.has_ranking(plain)
    # A large gain may still be noise, where mistakes are few.
    unsure = measures.mean_rank(ours) - measures.mean_rank(plain) > RANK_MARGIN
    numbers = _rank_numbers(measures, ours, plain) if has_rival else _rank_numbers(measures, ours)
    if unsure:
        numbers += f": within {_noise(measures)}"
    if not has_rival:
        return f"{subject} does not rank the errors ({numbers})"
    return f"{subject} finds mistakes no better than {_source(measures, plain)} ({numbers})"


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
    numbers = f"{RANK_WORDS[measures.task]} {measures.mean(method, measures.rank_name(method)):.2f}"
    if other is None:
        return numbers
    return f"{numbers} against {measures.mean(other, measures.rank_name(other)):.2f}"


def _calibration(measures: Measures, method: str) -> str:
    """Add what intervals made of σ are worth, where that is not what they claim."""
    if measures.task != "regression":
        return ""
    level = f"{measures.level:.0%}"
    ours, plain = measures.scores[method]["width"], measures.scores["plain"]["width"]
    if measures.exceeds(ours - plain, WIDER * float(np.mean(plain))):
        times = float(np.mean(ours) / np.mean(plain))
        return (
            f"; use σ to rank only: {level} intervals made of it are {times:.2g} times as wide as plain ones"
        )
    held = measures.mean(method, "coverage_raw")
    if not abs(held - measures.level) > MISSED_COVERAGE:
        return ""
    return f'; raw {level} intervals hold {held:.0%} of the targets, so set calibrate="cv"'
