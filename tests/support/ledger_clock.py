"""A ledger whose clock stands until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from maquette.core.ledger import entry, pace


def stop_the_clock(patch: pytest.MonkeyPatch) -> list[timedelta]:
    """What the one number of the list says has passed, for dates of entries and for rates."""
    start, passed = datetime.now(UTC), [timedelta(0)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return start + passed[0]

    patch.setattr(entry, "datetime", Clock)
    patch.setattr(pace, "datetime", Clock)
    return passed
