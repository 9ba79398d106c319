"""Short representations: the shapes of arrays, never the rows in them."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import fields, is_dataclass
from typing import Any

MAX_SHOWN = 6
"""Longer lists are shown as their length."""


class _ShownAs:
    """Stands for a value in the HTML of an estimator."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def shown(value: Any) -> str:
    """Return a value as text: arrays and data frames by their shape, long or nested lists by their length.

    Of estimators that hold any of these only the name is shown.
    """
    kind = type(value).__name__
    if _is_array(value):
        return f"<{kind} of shape {tuple(value.shape)}>"
    if isinstance(value, dict):
        return f"<{kind} of {len(value)}>"
    if isinstance(value, (list, tuple, set)) and not _is_short(value):
        return f"<{kind} of {len(value)}>"
    if is_dataclass(value) and not isinstance(value, type):
        return short_repr(value)
    if hasattr(value, "get_params") and not isinstance(value, (type, ShortRepr)):
        return f"{kind}(...)" if _holds_data(list(value.get_params().values())) else repr(value)
    return repr(value)


def short_repr(self: Any) -> str:
    """Return the `__repr__` of a dataclass that holds arrays; fields that are None are left out."""
    values = {field.name: getattr(self, field.name) for field in fields(self) if field.repr}
    parts = (f"{name}={_field(value)}" for name, value in values.items() if value is not None)
    return f"{type(self).__name__}({', '.join(parts)})"


class ShortRepr:
    """Mixin of a scikit-learn estimator: its text and its HTML show arrays by their shapes.

    Where the estimator stands inside another one, scikit-learn prints its parameters as they are.
    """

    def __repr__(self) -> str:
        name, params = type(self).__name__, self.get_params(deep=False)  # type: ignore[attr-defined]
        defaults = inspect.signature(type(self)).parameters
        texts = {key: shown(value) for key, value in params.items()}
        changed = (f"{key}={text}" for key, text in texts.items() if text != shown(defaults[key].default))
        return textwrap.fill(
            " ".join(f"{name}({', '.join(changed)})".split()),
            width=80,
            subsequent_indent=" " * (len(name) + 1),
            break_long_words=False,
            break_on_hyphens=False,
        )

    # What scikit-learn builds the HTML from.

    def _get_params_html(self, *args: Any, **options: Any) -> Any:
        params = super()._get_params_html(*args, **options)  # type: ignore[misc]
        params.update({name: _ShownAs(shown(value)) for name, value in params.items()})
        return params

    def _get_fitted_attr_html(self, *args: Any, **options: Any) -> Any:
        attributes = super()._get_fitted_attr_html(*args, **options)  # type: ignore[misc]
        for attribute in attributes.values():
            attribute["value"] = _ShownAs(shown(attribute["value"]))
        return attributes


def _field(value: Any) -> str:
    if hasattr(value, "get_params") or is_dataclass(value):
        return f"{type(value).__name__}(...)"
    return shown(value)


def _is_array(value: Any) -> bool:
    return bool(getattr(value, "shape", ())) and not isinstance(value, type)


def _is_short(values: Any) -> bool:
    simple = all(not _is_array(v) and not isinstance(v, (list, tuple, set, dict)) for v in values)
    return simple and len(values) <= MAX_SHOWN


def _holds_data(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple, set)):
        return any((isinstance(v, (list, tuple)) and len(v) > MAX_SHOWN) or _holds_data(v) for v in value)
    return _is_array(value)
