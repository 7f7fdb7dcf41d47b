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

    @property
    def since(self) -> str:
        """The beginning of the window."""
        return _text(datetime.now(UTC) - timedelta(seconds=self.rate.seconds))

    def room(self, entries: Sequence[str]) -> int:
        """How many steps may be begun now; `entries` are the dates of those in the window."""
        return max(self.rate.entries - len(self._dates(entries)), 0)

    def check(self, entries: Sequence[str], *, new: int) -> None:
        """Refuse more steps than there is room for."""
        if new <= self.room(entries):
            return
        rate = self.rate
        dates = [*self._dates(entries), _text(datetime.now(UTC))]  # with this refusal
        over = len(dates) + new - rate.entries
        freed = rate.seconds - seconds_since(dates[min(over, len(dates)) - 1])
        seconds = math.ceil(min(max(freed, 1), rate.seconds))
        many = f", and this request has {new:,}: ask fewer at once" if new > rate.entries else ""
        raise RateExceeded(
            f"at most {rate.entries:,} new steps in {rate.seconds:,} s{many}; ask again in {seconds:,} s",
            seconds=seconds,
        )

    def note_refusal(self) -> None:
        """Count a request that was refused."""
        self._refused.append(_text(datetime.now(UTC)))

    def _dates(self, entries: Sequence[str]) -> list[str]:
        """Of everything in the window, the oldest first."""
        since = self.since
        return sorted(date for date in (*entries, *self._refused) if date > since)


def seconds_since(date: str) -> float:
    """The age of an entry; infinite if its date was edited and cannot be read."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(date)).total_seconds()
    except (ValueError, TypeError):
        return math.inf


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
