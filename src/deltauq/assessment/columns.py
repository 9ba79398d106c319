"""The columns of the table, and a method's measures as text: the same digits everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable

from deltauq.assessment.comparison import arrow
from deltauq.assessment.measures import Measures

Format = Callable[[float], str]


def number(value: float) -> str:
    """Return three digits or all before the point, without an exponent where it can be helped."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.3g}"


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f}" if seconds >= 1e-5 else f"{1e6 * seconds:.2g}"


def columns(measures: Measures) -> dict[str, tuple[str, Format]]:
    """Return the measures shown: key to column name and format."""
    level = f"{measures.level:.0%}"
    costs: dict[str, tuple[str, Format]] = {
        "fit_seconds": ("fit s", "{:.2g}".format),
        "row_seconds": ("µs/row", _microseconds),
    }
    if measures.task == "regression":
        return {
            "mae": ("MAE", number),
            "trimmed_mae": ("trimmed MAE", number),
            "rmse": ("RMSE", number),
            "spearman": ("rank", "{:.2f}".format),
            "coverage_raw": (f"raw {level}", "{:.0%}".format),
            "coverage": (f"cal. {level}", "{:.0%}".format),
            "width": ("width", number),
            **costs,
        }
    return {
        "accuracy": ("accuracy", "{:.1%}".format),
        "brier": ("Brier score", number),
        "log_loss": ("log loss", number),
        "auroc_spread": ("AUROC σ", "{:.2f}".format),
        "auroc_confidence": ("AUROC conf.", "{:.2f}".format),
        **costs,
    }


def text(measures: Measures, method: str, name: str) -> str:
    """Return the mean of a method's measure as it stands in the table; a dash for what it cannot say."""
    value = measures.mean(method, name)
    return columns(measures)[name][1](value) if math.isfinite(value) else "–"


def cell(measures: Measures, method: str, name: str) -> str:
    """Return `text` after an arrow that compares with the plain model."""
    return f"{arrow(measures, method, name)} {text(measures, method, name)}".strip()
