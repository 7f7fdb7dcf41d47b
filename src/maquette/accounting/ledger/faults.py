"""Named points where a test can kill the process. Test-only.

Nothing happens unless the environment variable MAQUETTE_CRASH_AT names a point, optionally with the number of the
visit at which to die ("after-reserve:3"). It can only end the process that it is set for.
"""

from __future__ import annotations

import os
import signal
from typing import Literal

Point = Literal["before-reserve", "after-reserve", "before-answer", "after-answer", "mid-transaction"]

VARIABLE = "MAQUETTE_CRASH_AT"

_visits: dict[str, int] = {}


def point(name: Point) -> None:
    """Die here, as by kill -9, if the environment says so."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    place, _, visit = wanted.partition(":")
    if place == name:
        _visits[name] = _visits.get(name, 0) + 1
        if _visits[name] >= int(visit or 1):
            os.kill(os.getpid(), signal.SIGKILL)
