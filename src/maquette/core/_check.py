"""Argument checks with one wording: expected, found."""

from __future__ import annotations

import errno
import math
import os
import reprlib
import sys
import warnings
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from maquette.core.errors import ParameterError

T = TypeVar("T")

MAX_SHOWN_CHARACTERS = 80
"""Characters of a value that a message shows."""
MAX_DIGITS = 1000
"""Characters of a number."""
LARGEST = 10**300
"""Whole numbers below this fit a float, and so does what is computed with them."""
SMALLEST = 1e-300
"""What is nearer to zero has no inverse, and stands for zero."""
MAX_ROWS = 10**8
"""Synthetic rows, which are made in memory."""
MAX_TEXT = 2**28
"""Bytes of a text file: workloads of real weights are the longest."""
MAX_ITEMS = 10**7
"""Of an argument that is read item by item; what has more never ends."""
MAX_NAME = 255
"""Bytes of a name in a path; no usual file system holds longer ones."""
MAX_PATH = 4095
"""Bytes of a whole path."""

_BRIEFLY = reprlib.Repr()
_BRIEFLY.maxstring = _BRIEFLY.maxother = _BRIEFLY.maxlong = 10 * MAX_SHOWN_CHARACTERS
_BRIEFLY.maxlist = _BRIEFLY.maxtuple = _BRIEFLY.maxdict = _BRIEFLY.maxset = MAX_SHOWN_CHARACTERS // 3


def shown(value: object) -> str:
    """A value as a message shows it: on one line, without control characters, and not at any length."""
    try:
        if isinstance(value, str):
            text = repr(value) if value.isprintable() else ascii(value)
        else:
            text = repr(value) if isinstance(value, (int, float)) else _BRIEFLY.repr(value)
    except Exception:  # its own words fail, or it has too many digits for them
        text = f"a value of type {type(value).__name__}"
    return (
        text
        if len(text) <= MAX_SHOWN_CHARACTERS
        else f"{text[:MAX_SHOWN_CHARACTERS]}... ({len(text):,} characters)"
    )


def exact(text: str) -> Fraction:
    """The exact value of a number as it is written; ValueError where it is none, or too large or long to work with."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"expected a number of at most {MAX_DIGITS} characters")
    power = text.lower().rpartition("e")[2] if "e" in text.lower() else "0"
    if len(power.lstrip("+-0_")) > 3:  # ten to a power of a million takes minutes to write down
        raise ValueError("expected a number between 1e-999 and 1e999")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError("expected a denominator other than 0") from None


def positive(**values: float) -> None:
    """Each value is a finite number above zero."""
    for name, value in values.items():
        if not (is_number(value) and SMALLEST <= value <= LARGEST):
            raise ParameterError(f"expected {name} > 0 and finite, got {name}={shown(value)}")


def not_negative(**values: float) -> None:
    """Each value is a finite number, zero or above."""
    for name, value in values.items():
        if not (is_number(value) and 0 <= value <= LARGEST):
            raise ParameterError(f"expected {name} >= 0 and finite, got {name}={shown(value)}")


def fraction(**values: float) -> None:
    """Each value lies strictly between 0 and 1."""
    for name, value in values.items():
        if not (is_number(value) and SMALLEST <= value < 1):
            raise ParameterError(f"expected 0 < {name} < 1, got {name}={shown(value)}")


def fraction_or_zero(**values: float) -> None:
    """Each value is 0 or lies between 0 and 1."""
    for name, value in values.items():
        if not (is_number(value) and (value == 0 or SMALLEST <= value < 1)):
            raise ParameterError(f"expected 0 <= {name} < 1, got {name}={shown(value)}")


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


def whole(*, least: int = 1, most: int | None = None, **values: int) -> None:
    """Each value is a whole number, `least` or more and not above `most`."""
    for name, value in values.items():
        if not is_whole(value) or value < least:
            raise ParameterError(
                f"expected {name} to be a whole number >= {least}, got {name}={shown(value)}"
            )
        if most is not None and value > most:
            raise ParameterError(f"expected {name} to be at most {most:,}, got {name}={shown(value)}")


def listed(**values: Iterable[T]) -> list[T]:
    """The items of the one value that is given; ParameterError where it is no list, or has no end."""
    ((name, value),) = values.items()
    try:
        items = list(islice(iter(value), MAX_ITEMS + 1))
    except Exception:  # of whatever was given in the place of a list
        raise ParameterError(
            f"expected {name} as a list, got a value of type {type(value).__name__}"
        ) from None
    if len(items) > MAX_ITEMS:
        raise ParameterError(f"expected {name} as a list of at most {MAX_ITEMS:,} items")
    return items


def one_of(allowed: Iterable[str], **values: str) -> None:
    """Each value is one of the allowed words."""
    words = sorted(allowed)
    for name, value in values.items():
        if not isinstance(value, str) or value not in words:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ParameterError(
                f"expected {name} to be one of {', '.join(words)}, got {name}={shown(value)}"
            )


def is_writable(text: str) -> bool:
    """Whether a file can hold a text: half characters and zero bytes have no place in one."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text))


def no_path(text: str) -> str | None:
    """Why a text cannot be a path or an address, or None."""
    if not is_writable(text):
        return "the characters cannot stand in a name"
    longest = max((len(part.encode()) for part in text.split(os.sep)), default=0)
    if "://" not in text and longest > MAX_NAME:
        return f"a name has {longest:,} bytes, more than the {MAX_NAME} of any file"
    if len(text.encode()) > MAX_PATH:
        return f"the whole has {len(text.encode()):,} bytes, more than the {MAX_PATH:,} of any path"
    return None


def read_text(path: Path, *, encoding: str = "utf-8-sig", most: int = MAX_TEXT) -> str:
    """The text of a file; OSError where it has more bytes than any should, which are not read."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        data = stream.read(most + 1) if size <= most else b""
    if max(size, len(data)) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return data.decode(encoding)


def warn(message: str, category: type[Warning]) -> None:
    """A warning that points at the first line outside of this package: at what its user wrote."""
    level, frame = 2, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "maquette":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def kept_from_writing(folder: Path) -> str | None:
    """Why no new file belongs into a folder, or None: not writable, or marked read-only, which binds root too."""
    try:
        marked = not folder.stat().st_mode & 0o222
    except OSError:
        return "does not exist"
    return "is marked read-only" if marked else None if os.access(folder, os.W_OK) else "is not writable"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number that a float can hold; truth values and NaN are not."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < LARGEST
    return isinstance(value, float) and not math.isnan(value)
