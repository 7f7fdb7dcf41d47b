"""The normal form of values: one spelling for every value, and one key for all spellings of the same value.

A value of a typed column or of Python is *spelled* first: numbers as plain decimals without needless zeros, truth as
`true` and `false`, days and times in ISO form, with a zone in UTC. A text is compared as it is. Where no category is
spelled like a text, the category counts that spells the same number, moment or truth value: texts with equal `key`.
So a value finds its category however a column stores it and however a file writes it. See `docs/domain.md`.

*Calendar cells* hold days and moments: years, months, weeks, days or hours, from a first to a last one. A cell is named
by how its moments begin: 2013, 2013-05, 2013-05-07, 2013-05-07 08; a week by its Monday. A moment with a zone is taken
in UTC, one without as it is written.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeGuard

import numpy as np

from maquette.core.errors import DomainError

EXACT = 2**53
"""Whole numbers up to this are exact as 64-bit floating-point numbers."""
MAX_EXPONENT = 400
"""Powers of ten that are written out; every finite 64-bit floating-point number lies within."""

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:[.]([0-9]*))?(?:[eE]([+-]?[0-9]{1,9}))?")
_TIME = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]+))?)?"
_CLOCK = re.compile(_TIME)
_MOMENT = re.compile(
    rf"([0-9]{{4,6}}-[0-9]{{2}}-[0-9]{{2}})(?:[ T]{_TIME} ?(Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?)?"
)
_FIRST = frozenset("+-.0123456789tTfF")


def spelling(value: Any) -> str:
    """The normal form of a value: 1, 1.0 and Decimal("1.00") are spelled alike."""
    if _is_numpy(value):
        value = _from_numpy(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return spell_float(float(value))
    if isinstance(value, Decimal):
        return plain_number(str(value)) or str(value)
    if isinstance(value, dt.datetime):
        return _spell_moment(value)
    if isinstance(value, dt.time):
        return trim(value.isoformat())
    return str(value)


def _is_numpy(value: object) -> TypeGuard[np.generic[Any]]:
    return isinstance(value, np.generic)


def _from_numpy(value: np.generic[Any]) -> Any:
    if isinstance(value, np.datetime64):
        return trim(str(value).replace("T", " "))
    if np.issubdtype(value.dtype, np.floating):
        exact = float(value.item())
        if exact.is_integer():
            return exact
        return float(str(value))  # the shortest decimal of its own width: 0.1 and not 0.10000000149011612
    return value.item()


def spell_float(value: float) -> str:
    """A whole number exactly as far as floating point is exact, else the shortest decimal that reads as this one."""
    if math.isfinite(value):
        if value.is_integer() and abs(value) <= EXACT:
            return str(int(value))
        return plain_number(repr(value)) or repr(value)
    return repr(value)


def trim(text: str) -> str:
    """A time of day without needless zeros at the end of its fraction."""
    if "." not in text:
        return text
    zone = "Z" if text.endswith("Z") else ""
    return text.removesuffix("Z").rstrip("0").removesuffix(".") + zone


def key(text: str) -> str:
    """The same for all spellings of one number (without an exponent), moment, time of day or truth value."""
    if text[:1] not in _FIRST:
        return text
    if text.lower() in ("true", "false"):
        return text.lower()
    if "e" not in text and "E" not in text:
        number = plain_number(text)
        if number is not None:
            return number
    return _moment_key(text)


def plain_number(text: str) -> str | None:
    """The decimal number that a text spells, without needless signs, zeros and exponent; None if it spells none."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", int(match[4] or 0)
    if not whole + fraction or abs(exponent) > MAX_EXPONENT:
        return None
    if exponent > 0:
        fraction = fraction.ljust(exponent, "0")
        whole, fraction = whole + fraction[:exponent], fraction[exponent:]
    elif exponent < 0:
        whole = whole.rjust(-exponent, "0")
        whole, fraction = whole[:exponent], whole[exponent:] + fraction
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    plain = f"{whole}.{fraction}" if fraction else whole
    return f"-{plain}" if sign == "-" and plain != "0" else plain


def _spell_moment(value: dt.datetime) -> str:
    below = getattr(value, "nanosecond", 0)  # of a pandas timestamp, below its microseconds
    zoned = value.tzinfo is not None
    value = value.astimezone(dt.UTC) if zoned else value
    text = value.strftime("%H:%M:%S.") + f"{value.microsecond:06d}{below:03d}"
    return trim(f"{value.date().isoformat()} {text}") + ("Z" if zoned else "")


def _moment_key(text: str) -> str:
    match = _MOMENT.fullmatch(text)
    if match is None:
        clock = _CLOCK.fullmatch(text)
        return text if clock is None else _time(clock[1], clock[2], clock[3], clock[4])
    day, hour, minute, second, fraction, zone = match.groups()
    if hour is None:
        return day
    time = _time(hour, minute, second, fraction)
    if zone is None:
        return day if time == "00:00:00" else f"{day} {time}"
    try:
        return _in_utc(day, time, zone)
    except (ValueError, OverflowError):
        return text


def _time(hour: str, minute: str, second: str | None, fraction: str | None) -> str:
    return trim(f"{hour}:{minute}:{second or '00'}.{fraction or '0'}")


def _in_utc(day: str, time: str, zone: str) -> str:
    digits = zone.lstrip("Z+-").replace(":", "").ljust(4, "0")
    if int(digits) == 0:
        return f"{day} {time}Z"
    ahead = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    clock, _, fraction = time.partition(".")
    moment = dt.datetime.fromisoformat(f"{day} {clock}") + (ahead if zone[0] == "-" else -ahead)
    return f"{moment.isoformat(' ')}{'.' + fraction if fraction else ''}Z"


UNITS = ("year", "month", "week", "day", "hour")
MAX_CELLS = 100_000

_CALENDAR_MOMENT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?: ([0-9]{2}):[0-9]{2}.*)?")
_NAMES = {
    "year": re.compile(r"[0-9]{4}"),
    "month": re.compile(r"[0-9]{4}-[0-9]{2}"),
    "week": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "day": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "hour": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}"),
}
_FULL = "0001-01-01 00:00"
_NAME_OF: dict[str, Callable[[dt.datetime], str]] = {
    "year": lambda m: f"{m.year:04d}",
    "month": lambda m: f"{m.year:04d}-{m.month:02d}",
    "week": lambda m: (m - dt.timedelta(days=m.weekday())).date().isoformat(),
    "day": lambda m: m.date().isoformat(),
    "hour": lambda m: f"{m.date().isoformat()} {m.hour:02d}",
}


def cell_of(text: str, unit: str) -> str | None:
    """The name of the cell of a day or moment in ISO form; None for any other text. Never raises."""
    match = _CALENDAR_MOMENT.fullmatch(key(text))
    if match is None:
        return None
    try:
        year, month, day, hour = (int(part or 0) for part in match.groups())
        return _NAME_OF[unit](dt.datetime(year, month, day, hour))
    except (ValueError, OverflowError):
        return None


def cells(unit: str, first: Any, last: Any) -> tuple[str, ...]:
    """The names of all cells from the first to the last; DomainError for names that are none."""
    if unit not in UNITS:
        raise DomainError(f"calendar is one of {', '.join(UNITS)}, got {unit!r}")
    start, end = _start(unit, first), _start(unit, last)
    if start > end:
        raise DomainError(f"a calendar by {unit} goes from {first} to a later cell, got {last}")
    names: list[str] = []
    while start <= end:
        names.append(_NAME_OF[unit](start))
        if len(names) > MAX_CELLS:
            raise DomainError(
                f"a calendar by {unit} from {first} to {last} has too many cells; use a coarser one"
            )
        start = _next(unit, start)
    return tuple(names)


def _start(unit: str, name: Any) -> dt.datetime:
    if isinstance(name, str) and _NAMES[unit].fullmatch(name):
        text = name if unit != "hour" else f"{name}:00"
        try:
            start = dt.datetime.fromisoformat(text + _FULL[len(text) :])
        except ValueError:
            start = None
        if start is not None and _NAME_OF[unit](start) == name:
            return start
    example = {
        "year": "2013",
        "month": "2013-05",
        "week": "2013-05-06, a Monday",
        "day": "2013-05-07",
        "hour": "2013-05-07 08",
    }[unit]
    raise DomainError(f"expected a cell of a calendar by {unit}, such as {example}, got {name!r}")


def _next(unit: str, start: dt.datetime) -> dt.datetime:
    match unit:
        case "year":
            return start.replace(year=start.year + 1)
        case "month":
            return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        case "week":
            return start + dt.timedelta(days=7)
        case "day":
            return start + dt.timedelta(days=1)
        case _:
            return start + dt.timedelta(hours=1)
