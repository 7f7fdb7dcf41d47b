"""How often an envelope may be drawn on: what the chain holds of a window of time, and what was refused in it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from maquette.core import _check
from maquette.core.errors import RateExceeded


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many new reservations inside an envelope in so many seconds."""

    entries: int
    seconds: int

    def __post_init__(self) -> None:
        _check.whole(entries=self.entries)
        _check.whole(seconds=self.seconds)


class Pace:
    """A rate with the requests that it refused. These are kept in memory, no more than the rate allows entries.

    A request is refused by public numbers: how many steps it asks for, how many entries there are and when they were
    begun. A refusal counts as one step, so that asking again and again gains nothing; it is no entry of the ledger.
    """

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._refused: deque[str] = deque(maxlen=rate.entries)

    def room(self, entries: Sequence[str]) -> int:
        """How many steps may be begun now; `entries` are the dates of those in the window."""
        return max(self.rate.entries - len(self.dates(entries, present())), 0)

    def dates(self, entries: Sequence[str], now: datetime) -> list[str]:
        """Of everything in the window, entries and refusals, the oldest first."""
        since = _text(now - timedelta(seconds=self.rate.seconds))
        return sorted(date for date in (*entries, *self._refused) if date > since)

    def note_refusal(self) -> None:
        """Count a request that was refused."""
        self._refused.append(_text(present()))


def over_rate(rate: Rate, dates: Sequence[str], *, new: int, now: datetime) -> RateExceeded | None:
    """Why so many more steps are refused, if there is no room for them beside the `dates` in the window."""
    if new <= max(rate.entries - len(dates), 0):
        return None
    with_refusal = [*dates, _text(now)]
    over = len(with_refusal) + new - rate.entries
    freed = rate.seconds - _age(with_refusal[min(over, len(with_refusal)) - 1], now)
    seconds = math.ceil(min(max(freed, 1), rate.seconds))
    many = f", and this request has {new:,}: ask fewer at once" if new > rate.entries else ""
    return RateExceeded(
        f"at most {rate.entries:,} new steps in {rate.seconds:,} s{many}; ask again in {seconds:,} s",
        seconds=seconds,
    )


def present() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def seconds_since(date: str) -> float:
    """The age of an entry; infinite if its date was edited and cannot be read."""
    return _age(date, present())


def _age(date: str, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(date)).total_seconds()
    except (ValueError, TypeError):
        return math.inf


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
