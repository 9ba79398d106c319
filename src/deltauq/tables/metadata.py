"""What the metadata of a model folder must be: a rule for each field, and what fields must have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltauq.tables.errors import require_pandas
from deltauq.tables.schema import CATEGORY, CLASSIFICATION, DATE, KINDS, NUMBER, REGRESSION
from deltauq.tables.text_parsing import check_formats

LARGEST_NUMBER = 1e300
"""Arithmetic with anything larger may leave the range of numbers."""


@dataclass(frozen=True)
class Rule:
    """What a value must be.

    Attributes
    ----------
    meaning : str
        In words, for the error.
    holds : callable
        From the value to whether it is so.
    """

    meaning: str
    holds: Callable[[Any], bool]


def number(meaning: str, holds: Callable[[float], bool] = lambda _: True) -> Rule:
    """Return the rule of a finite number in a range."""
    return Rule(meaning, lambda value: _is_number(value) and holds(value))


def one_of(*choices: str) -> Rule:
    """Return the rule of a string of a few."""
    return Rule(f"one of {', '.join(choices)}", lambda value: isinstance(value, str) and value in choices)


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_real and abs(value) <= LARGEST_NUMBER


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_timestamp(value: Any) -> bool:
    try:
        stamp = require_pandas().Timestamp(value)
        return stamp.tzinfo is not None and stamp.isoformat() == value
    except (ValueError, TypeError, OverflowError):
        return False


def _is_scale(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(bound, float) and 0 <= bound < np.inf for bound in value)
        and value == sorted(value)
        and len(value) == 2
    )


TEXT = Rule("text", _is_text)
CATEGORIES = Rule(
    "a list of different texts",
    lambda value: isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value),
)
STAMP = Rule("an ISO timestamp with a time zone, or empty", lambda value: value == "" or _is_timestamp(value))
TEXTS = Rule(
    "a mapping of text to text", lambda value: isinstance(value, dict) and all(map(_is_text, value.values()))
)
MAPPING = Rule("a mapping", lambda value: isinstance(value, dict))
SCALE = Rule("two finite numbers, ascending and not negative", _is_scale)

FIELDS: dict[str, Rule] = {
    "format": TEXT,
    "sha256": TEXT,
    "target": TEXT,
    "task": one_of(REGRESSION, CLASSIFICATION),
    "coverage": number("a number between 0 and 1", lambda value: 0 < value < 1),
    "center": number("a finite number"),
    "unit": number("a finite number above 0", lambda value: value > 0),
    "delta": number("a finite number, not negative", lambda value: value >= 0),
    "labels": one_of("string", "int64", "float64", "bool"),
    "origin": STAMP,
    "schema": Rule("a list of columns", lambda value: isinstance(value, list) and len(value) > 0),
    "target_format": TEXT,
    "risk": MAPPING,
    "report": MAPPING,
    "versions": TEXTS,
    "files": TEXTS,
}
COLUMN: dict[str, Rule] = {
    "name": TEXT,
    "kind": one_of(*KINDS),
    "origin": STAMP,
    "categories": CATEGORIES,
    "format": TEXT,
}
RISK: dict[str, dict[str, Rule]] = {
    REGRESSION: {"std": SCALE, "reverse": SCALE},
    CLASSIFICATION: {"error_probability": SCALE},
}


def check_metadata(metadata: dict[str, Any]) -> None:
    """Raise a ValueError that says what is wrong with the first field that is not as it must be.

    Parameters
    ----------
    metadata : dict
        As JSON gives it.
    """
    _check(metadata, FIELDS, "it")
    for k, column in enumerate(metadata["schema"]):
        _check(column, COLUMN, f"its column {k + 1}")
        if bool(column["origin"]) != (column["kind"] == DATE) or (
            column["categories"] and column["kind"] != CATEGORY
        ):
            raise ValueError(f"its column {k + 1} has parts that a column of {column['kind']}s has not")
        _check_format(column["format"], column["kind"])
    names = [column["name"] for column in metadata["schema"]]
    if len({*names, metadata["target"]}) <= len(names):
        raise ValueError("two of its columns, or a column and the target, share a name")
    _check_format(metadata["target_format"], DATE if metadata["origin"] else NUMBER)
    _check(metadata["risk"], RISK[metadata["task"]], "its risk")


def _check_format(form: str, kind: str) -> None:
    """Refuse a format that text cannot be read by."""
    if form and kind not in (DATE, NUMBER):
        raise ValueError(f"a column of the kind {kind} has a format")
    if form:
        check_formats(**{"date_format" if kind == DATE else "decimal": form})


def _check(record: Any, rules: dict[str, Rule], what: str) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"{what} is no mapping")
    if unknown := record.keys() - rules.keys():
        raise ValueError(f'{what} has a field "{min(unknown)[:60]}" that this version does not know')
    for name, rule in rules.items():
        if name not in record:
            raise ValueError(f'{what} has no "{name}"')
        if not rule.holds(record[name]):
            raise ValueError(f'{what} has a "{name}" that is not {rule.meaning}')
