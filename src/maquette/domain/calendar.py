"""Days and moments in calendar cells: years, months, weeks, days or hours, from a first to a last one.

A cell is named by how its moments begin: 2013, 2013-05, 2013-05-07, 2013-05-07 08; a week by its Monday. A moment
with a zone is taken in UTC, one without as it is written.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from maquette.domain.values import key
from maquette.errors import DomainError

UNITS = ("year", "month", "week", "day", "hour")
MAX_CELLS = 100_000

_MOMENT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?: ([0-9]{2}):[0-9]{2}.*)?")
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
    match = _MOMENT.fullmatch(key(text))
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
