"""The words for what was found: the terminal and the page say the same."""

from __future__ import annotations

from typing import Any

from deltauq.demo import classes, gap, table


def ratio(values: tuple[float, ...]) -> str:
    """Return the smallest of several ratios, or a dash where nothing spreads."""
    smallest = min(values)
    return f"{smallest:.1f}×" if smallest == smallest else "–"


def small(value: float) -> str:
    """Return three decimals, and say so where they would hide a positive number."""
    return "< 0.001" if 0 < value < 0.001 else f"{value:.3f}"


def model_row(row: dict[str, Any]) -> list[str]:
    """Return one model's measures as text: a dash for what it cannot say."""
    formats = {"mae": "{:.1f}", "spearman": "{:.2f}", "coverage": "{:.0%}", "width": "{:.0f}"}
    return [row["model"], *(form.format(row[key]) if key in row else "–" for key, form in formats.items())]


def which_open(study: gap.GapStudy) -> str:
    """Say which base models open their band and which do not."""
    by_verdict: dict[str, list[str]] = {}
    for opening in study.openings:
        by_verdict.setdefault(opening.verdict, []).append(opening.name)
    labels = {
        gap.OPENS: "The band opens on both curves for",
        gap.OPENS_AT_STEP: "It opens only where the two sides of the gap differ in height for",
        gap.STAYS_SHUT: "It does not open reliably, with the settings used here, for",
        gap.SILENT: "Nothing spreads at all for",
    }
    sentences = [
        f"{label} {_listed(by_verdict[verdict])}."
        for verdict, label in labels.items()
        if verdict in by_verdict
    ]
    return " ".join(sentences)


def accuracy(study: table.TableStudy) -> str:
    """Say what anchoring did to the error, next to the plain model and to simply more trees."""
    plain, anchored, _, rival = (model["mae"] for model in study.models())
    return (
        f"Anchoring {'lowered' if anchored < plain else 'raised'} the mean absolute error of the forest of "
        f"{table.N_TREES} from {plain:.1f} to {anchored:.1f} on this split. A plain forest of "
        f"{table.N_TREES_RIVAL}, which takes far less time, errs by {rival:.1f}: "
        f"{'less' if rival < anchored else 'more'} than the anchored one."
    )


def ranking(study: table.TableStudy) -> str:
    """Say how well σ ranks the errors, and whether a cheap rival does it better."""
    _, raw, _, rival = study.models()
    return (
        f"The rank correlation of σ with the error is {raw['spearman']:.2f}: {_strength(raw['spearman'])}. "
        f"The spread of the trees in a plain forest of {table.N_TREES_RIVAL} ranks "
        f"{'better' if rival['spearman'] > raw['spearman'] else 'worse'} ({rival['spearman']:.2f})."
    )


def scale(study: table.TableStudy) -> str:
    """Say how often the raw and the calibrated intervals hold the target."""
    _, raw, calibrated, _ = study.models()
    return (
        f"Intervals that claim {table.LEVEL:.0%} hold {raw['coverage']:.0%} of the targets with the raw σ, "
        f"and {calibrated['coverage']:.0%} with the calibrated one."
    )


def boundaries(study: classes.ClassStudy) -> str:
    """Say where the separable classes are in doubt."""
    return (
        f"Mean uncertainty along the decision boundaries: {small(study.separable.near_boundaries())}; at the "
        f"class centres: {small(float(study.separable.at_centers.mean()))}."
    )


def nesting(study: classes.ClassStudy) -> str:
    """Say which of the nested classes are in doubt, and how often."""
    large, first, second = (small(value) for value in study.nested.by_class())
    return (
        f"Mean uncertainty at the points of the large class: {large}; of the two small classes: {first} and "
        f"{second}. Both small classes are more uncertain than the large one in "
        f"{study.nested_as_expected()} of {len(study.nested_by_class)} draws of the data."
    )


def _strength(correlation: float) -> str:
    if correlation < 0.1:
        return "next to nothing"
    if correlation < 0.3:
        return "weak, but better than no order at all"
    return "moderate" if correlation < 0.6 else "strong"


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
