"""The rules for the metadata of a model folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deltauq.tables.errors import require_pandas
from deltauq.tables.schema import CATEGORY, CLASSIFICATION, DATE, KINDS, NUMBER, REGRESSION
from deltauq.tables.text_parsing import check_formats

LARGEST_NUMBER = 1e300
"""Arithmetic with larger numbers may overflow."""
Rule = tuple[str, Callable[[Any], bool]]
"""What a value must be, for errors, and whether it is."""


def _number(meaning: str, holds: Callable[[float], bool] = lambda _: True) -> Rule:
    """Return the rule for a finite number in a range."""

    def is_in_range(value: Any) -> bool:
        is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_real and abs(value) <= LARGEST_NUMBER and holds(value)

    return meaning, is_in_range


def _one_of(*choices: str) -> Rule:
    return f"one of {', '.join(choices)}", lambda value: isinstance(value, str) and value in choices


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_timestamp(value: Any) -> bool:
    try:
        stamp = require_pandas().Timestamp(value)
        return stamp.tzinfo is not None and stamp.isoformat() == value
    except (ValueError, TypeError, OverflowError):
        return False


def _are_limits(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(bound, float) and 0 <= bound < np.inf for bound in value)
        and value == sorted(value)
    )


TEXT = "text", lambda value: isinstance(value, str)
CATEGORIES = (
    "a list of different texts",
    lambda value: isinstance(value, list) and _are_texts(value) and len(set(value)) == len(value),
)
TIMESTAMP = "an ISO timestamp with a time zone, or empty", lambda value: value == "" or _is_timestamp(value)
TEXTS = "a mapping of text to text", lambda value: isinstance(value, dict) and _are_texts(value.values())
MAPPING = "a mapping", lambda value: isinstance(value, dict)
LIMITS = "two finite numbers, ascending and not negative", _are_limits

FIELDS: dict[str, Rule] = {
    "format": TEXT,
    "sha256": TEXT,
    "target": TEXT,
    "task": _one_of(REGRESSION, CLASSIFICATION),
    "coverage": _number("a number between 0 and 1", lambda value: 0 < value < 1),
    "labels": _one_of("string", "int64", "float64", "bool"),
    "origin": TIMESTAMP,
    "schema": ("a list of columns", lambda value: isinstance(value, list) and len(value) > 0),
    "target_format": TEXT,
    "risk": MAPPING,
    "report": MAPPING,
    "versions": TEXTS,
    "files": TEXTS,
}
COLUMN: dict[str, Rule] = {
    "name": TEXT,
    "kind": _one_of(*KINDS),
    "origin": TIMESTAMP,
    "categories": CATEGORIES,
    "format": TEXT,
}
RISK: dict[str, Rule] = {"size": LIMITS, "beyond": LIMITS}


def check_metadata(metadata: dict[str, Any]) -> None:
    """Raise a ValueError that describes the first invalid field of metadata, as JSON returns them."""
    _check(metadata, FIELDS, "it")
    for k, column in enumerate(metadata["schema"]):
        _check(column, COLUMN, f"its column {k + 1}")
        kind = column["kind"]
        if bool(column["origin"]) != (kind == DATE) or (column["categories"] and kind != CATEGORY):
            raise ValueError(f'its column {k + 1} has fields that do not fit the kind "{kind}"')
        _check_format(column["format"], kind)
    names = [column["name"] for column in metadata["schema"]]
    if len({*names, metadata["target"]}) <= len(names):
        raise ValueError("two of its columns, or a column and the target, share a name")
    _check_format(metadata["target_format"], DATE if metadata["origin"] else NUMBER)
    _check(metadata["risk"], RISK, "its risk")


def _check_format(form: str, kind: str) -> None:
    if form and kind not in (DATE, NUMBER):
        raise ValueError(f'a column of the kind "{kind}" has a format')
    if form:
        check_formats(**{"date_format" if kind == DATE else "decimal": form})


def _check(record: Any, rules: dict[str, Rule], what: str) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"{what} is not a mapping")
    if unknown := record.keys() - rules.keys():
        raise ValueError(f'{what} has a field "{min(unknown)[:60]}" that this version does not know')
    for name, (meaning, holds) in rules.items():
        if name not in record:
            raise ValueError(f'{what} has no "{name}"')
        if not holds(record[name]):
            raise ValueError(f'{what} has a "{name}" that is not {meaning}')
