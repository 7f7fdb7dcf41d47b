"""Frozen values out of JSON that anybody may have written: every field of the type that it is declared with."""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from maquette.errors import ReleaseError

T = TypeVar("T")

_INFINITE = ("inf", "-inf")
"""How a JSON text spells the floats that JSON has no number for."""
_LARGEST = 10**300
"""Whole numbers up to here are exact in Python and fit a float."""


def build(kind: type[T], data: object, *, where: str) -> T:
    """A dataclass from a JSON object; ReleaseError names the field that is not as declared."""
    if not isinstance(data, dict):
        raise ReleaseError(f"expected {where} as an object, got {type(data).__name__}")
    hints = get_type_hints(kind)
    declared = {one.name: one for one in fields(kind)}  # pyright: ignore[reportArgumentType]
    if unknown := sorted(set(data) - set(declared)):
        raise ReleaseError(f"{where} has an unknown field {unknown[0]!r}")
    values: dict[str, Any] = {}
    for name, one in declared.items():
        if name in data:
            values[name] = read(hints[name], data[name], where=f"{where}.{name}")
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ReleaseError(f"{where} lacks the field '{name}'")
    return kind(**values)


def read(kind: Any, value: Any, *, where: str) -> Any:
    """A value of a declared type: text, numbers (not NaN), optional ones, words of a list, tuples and dataclasses."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = get_args(kind)
        if value is None and type(None) in options:
            return None
        return read(next(o for o in options if o is not type(None)), value, where=where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ReleaseError(f"expected {where} as a list, got {type(value).__name__}")
        return tuple(read(get_args(kind)[0], item, where=where) for item in value)
    if origin is Literal:
        fits = value in get_args(kind) if isinstance(value, str) else False
    elif kind is float:
        value = float(value) if value in _INFINITE else value
        fits = _is_number(value) and not math.isnan(value)
        fits = fits and (value == 0 or math.isinf(value) or 1 / _LARGEST < abs(value) < _LARGEST)
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
    elif kind in (str, bool, dict):
        fits = isinstance(value, kind)
    else:
        return build(kind, value, where=where)
    if not fits:
        raise ReleaseError(
            f"expected {where} as {getattr(kind, '__name__', 'one of its words')}, got {value!r:.80}"
        )
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
