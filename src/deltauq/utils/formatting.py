"""Short representations of objects, with the shapes of arrays instead of their values, and of errors."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import fields, is_dataclass
from typing import Any

MAX_LENGTH = 6
"""Longer lists are replaced by their length."""


class _Text:
    """Replaces a value in the HTML of an estimator."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message without its full stop; other lines may quote data."""
    message = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    return message.splitlines()[0][:200].rstrip(".")


def as_text(value: Any) -> str:
    """Return a value as text: arrays and data frames as their shape, long or nested lists as their length.

    Estimators that contain any of these are replaced by their name.
    """
    kind = type(value).__name__
    if _is_array(value):
        return f"<{kind} of shape {tuple(value.shape)}>"
    if isinstance(value, dict) or (isinstance(value, (list, tuple, set)) and not _is_short(value)):
        return f"<{kind} of {len(value)}>"
    if is_dataclass(value) and not isinstance(value, type):
        return short_repr(value)
    if hasattr(value, "get_params") and not isinstance(value, (type, ShortRepr)):
        return f"{kind}(...)" if _contains_data(list(value.get_params().values())) else repr(value)
    return repr(value)


def short_repr(self: Any) -> str:
    """Return the `__repr__` of a dataclass with arrays; fields that are None are omitted."""
    parts = []
    for name, value in ((field.name, getattr(self, field.name)) for field in fields(self) if field.repr):
        nested = hasattr(value, "get_params") or is_dataclass(value)
        if value is not None:
            parts.append(f"{name}={type(value).__name__}(...)" if nested else f"{name}={as_text(value)}")
    return f"{type(self).__name__}({', '.join(parts)})"


class ShortRepr:
    """Mixin for scikit-learn estimators: their text and HTML show arrays by their shapes.

    Inside another estimator, scikit-learn prints the parameters unchanged.
    """

    def __repr__(self) -> str:
        name, params = type(self).__name__, self.get_params(deep=False)  # type: ignore[attr-defined]
        defaults = inspect.signature(type(self)).parameters
        texts = {key: as_text(value) for key, value in params.items()}
        changed = (f"{key}={text}" for key, text in texts.items() if text != as_text(defaults[key].default))
        return textwrap.fill(
            " ".join(f"{name}({', '.join(changed)})".split()),
            width=80,
            subsequent_indent=" " * (len(name) + 1),
            break_long_words=False,
            break_on_hyphens=False,
        )

    # scikit-learn builds the HTML from these two methods.

    def _get_params_html(self, *args: Any, **options: Any) -> Any:
        params = super()._get_params_html(*args, **options)  # type: ignore[misc]
        params.update({name: _Text(as_text(value)) for name, value in params.items()})
        return params

    def _get_fitted_attr_html(self, *args: Any, **options: Any) -> Any:
        attributes = super()._get_fitted_attr_html(*args, **options)  # type: ignore[misc]
        for attribute in attributes.values():
            attribute["value"] = _Text(as_text(attribute["value"]))
        return attributes


def _is_array(value: Any) -> bool:
    return bool(getattr(value, "shape", ())) and not isinstance(value, type)


def _is_short(values: Any) -> bool:
    simple = all(not _is_array(v) and not isinstance(v, (list, tuple, set, dict)) for v in values)
    return simple and len(values) <= MAX_LENGTH


def _contains_data(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple, set)):
        return any((isinstance(v, (list, tuple)) and len(v) > MAX_LENGTH) or _contains_data(v) for v in value)
    return _is_array(value)
