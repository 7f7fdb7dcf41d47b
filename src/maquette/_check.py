"""Argument checks with one wording: expected, found."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from maquette.errors import ParameterError

MAX_SHOWN_CHARACTERS = 80
"""Characters of a value that a message shows."""


def shown(value: object) -> str:
    """A value as a message shows it: on one line, without control characters, and not at any length."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return (
        text
        if len(text) <= MAX_SHOWN_CHARACTERS
        else f"{text[:MAX_SHOWN_CHARACTERS]}... ({len(text):,} characters)"
    )


def positive(**values: float) -> None:
    """Each value is a finite number above zero."""
    for name, value in values.items():
        if not (_is_number(value) and math.isfinite(value) and value > 0):
            raise ParameterError(f"expected {name} > 0 and finite, got {name}={value!r}")


def not_negative(**values: float) -> None:
    """Each value is a finite number, zero or above."""
    for name, value in values.items():
        if not (_is_number(value) and math.isfinite(value) and value >= 0):
            raise ParameterError(f"expected {name} >= 0 and finite, got {name}={value!r}")


def fraction(**values: float) -> None:
    """Each value lies strictly between 0 and 1."""
    for name, value in values.items():
        if not (_is_number(value) and 0 < value < 1):
            raise ParameterError(f"expected 0 < {name} < 1, got {name}={value!r}")


def fraction_or_zero(**values: float) -> None:
    """Each value is 0 or lies between 0 and 1."""
    for name, value in values.items():
        if not (_is_number(value) and 0 <= value < 1):
            raise ParameterError(f"expected 0 <= {name} < 1, got {name}={value!r}")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; truth values are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a value that came from elsewhere is a mapping, of whatever."""
    return isinstance(value, Mapping)


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether a value that came from elsewhere is a dictionary, of whatever."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a value that came from elsewhere is a list, of whatever."""
    return isinstance(value, list)


def whole(*, least: int = 1, **values: int) -> None:
    """Each value is a whole number, `least` or more."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(f"expected {name} to be a whole number >= {least}, got {name}={value!r}")


def one_of(allowed: Iterable[str], **values: str) -> None:
    """Each value is one of the allowed words."""
    words = sorted(allowed)
    for name, value in values.items():
        if value not in words:
            raise ParameterError(
                f"expected {name} to be one of {', '.join(words)}, got {name}={shown(value)}"
            )


def kept_from_writing(folder: Path) -> str | None:
    """Why no new file belongs into a folder, or None: not writable, or marked read-only, which binds root too."""
    try:
        marked = not folder.stat().st_mode & 0o222
    except OSError:
        return "does not exist"
    return "is marked read-only" if marked else None if os.access(folder, os.W_OK) else "is not writable"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
