"""Short representations: the shapes of arrays, never the rows in them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

MAX_SHOWN = 6
"""Longer lists are shown as their length."""


class ShapeOnly:
    """Stands for an array in the representation of an estimator."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def shown(value: Any) -> str:
    """Return a value as text: an array or a data frame by its shape, a long or nested list by its length."""
    kind = type(value).__name__
    if _is_array(value):
        return f"<{kind} of shape {tuple(value.shape)}>"
    if isinstance(value, dict):
        return f"<{kind} of {len(value)}>"
    if isinstance(value, (list, tuple, set)) and not _is_short(value):
        return f"<{kind} of {len(value)}>"
    return repr(value)


def short_repr(self: Any) -> str:
    """Return the `__repr__` of a dataclass that holds arrays; fields that are None are left out."""
    values = {field.name: getattr(self, field.name) for field in fields(self) if field.repr}
    parts = (f"{name}={_field(value)}" for name, value in values.items() if value is not None)
    return f"{type(self).__name__}({', '.join(parts)})"


class ShortRepr:
    """Mixin of a scikit-learn estimator: its text and its HTML show arrays by their shapes."""

    def __repr__(self, **options: Any) -> str:
        return super(ShortRepr, _without_data(self)).__repr__(**options)

    # What scikit-learn builds the HTML from, also where the estimator stands inside another one.

    def _get_params_html(self, *args: Any, **options: Any) -> Any:
        return super(ShortRepr, _without_data(self))._get_params_html(*args, **options)  # type: ignore[misc]

    def _get_fitted_attr_html(self, *args: Any, **options: Any) -> Any:
        return super(ShortRepr, _without_data(self))._get_fitted_attr_html(*args, **options)  # type: ignore[misc]


def _without_data(estimator: Any) -> Any:
    """Return a copy of an estimator for show, with shapes in the place of arrays."""
    cls = type(estimator)
    # scikit-learn breaks lines only for classes that have its own `__repr__`.
    own = {"__repr__": super(ShortRepr, cls).__repr__, "__module__": cls.__module__, "__doc__": cls.__doc__}
    copy: Any = object.__new__(type(cls.__name__, (cls,), own))
    vars(copy).update({name: _stand_in(value) for name, value in vars(estimator).items()})
    return copy


def _stand_in(value: Any) -> Any:
    if isinstance(value, ShortRepr):
        return _without_data(value)
    if _is_array(value) or (isinstance(value, (list, tuple)) and not _is_short(value)):
        return ShapeOnly(shown(value))
    return value


def _field(value: Any) -> str:
    if hasattr(value, "get_params") or is_dataclass(value):
        return f"{type(value).__name__}(...)"
    return shown(value)


def _is_array(value: Any) -> bool:
    return bool(getattr(value, "shape", ())) and not isinstance(value, type)


def _is_short(values: Any) -> bool:
    simple = all(not _is_array(v) and not isinstance(v, (list, tuple, set, dict)) for v in values)
    return simple and len(values) <= MAX_SHOWN
