"""How often somebody may ask: requests per minute of a person or an address, counted in memory."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_BUCKETS = 10_000
"""People and addresses whose pace is remembered; those that were quiet longest are forgotten first."""
VISITOR_REQUESTS = 1200
"""Requests per minute of one address, where nobody is signed in."""


class Pace:
    """So many per minute for each name: a bucket that fills evenly. Keeps one from stopping others."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._mutex = threading.Lock()

    def wait(self, name: str, per_minute: int) -> int:
        """Whole seconds until the next may come, rounded up; 0 if it may come now. Counts nothing."""
        with self._mutex:
            return _seconds(self._level(name, per_minute, self._clock()), per_minute)

    def count(self, name: str, per_minute: int) -> int:
        """Count one more; 0 if it may go on, else the whole seconds that are left to wait if no other comes.

        One that is refused counts too: asking again and again makes nothing sooner. At most a minute is owed.
        """
        now = self._clock()
        with self._mutex:
            level = self._level(name, per_minute, now)
            rest = max(level - 1, 1.0 - per_minute)
            self._buckets[name] = (rest, now)
            self._buckets.move_to_end(name)
            while len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        return 0 if level >= 1 else _seconds(rest, per_minute)

    def _level(self, name: str, per_minute: int, now: float) -> float:
        level, at = self._buckets.get(name, (float(per_minute), now))
        return min(level + (now - at) * per_minute / 60, float(per_minute))


def _seconds(level: float, per_minute: int) -> int:
    return 0 if level >= 1 else math.ceil((1 - level) * 60 / per_minute)


def sender(request: Request, proxies: Collection[str]) -> str:
    """The address of the browser: of the connection, or what a trusted proxy says; of IPv6 the network of one site.

    Any program on this machine connects from 127.0.0.1: that address is believed only where it is named. A proxy adds
    its word behind what the browser sent, in the same line or in another one.
    """
    address = peer(request)
    forwarded = ",".join(request.headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
    text = forwarded[:64] if address in proxies and forwarded else address
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(parsed, ipaddress.IPv4Address):
        return text
    return text if parsed.is_loopback else str(ipaddress.ip_network((parsed, 64), strict=False))


def peer(request: Request) -> str:
    """The address that the connection comes from: that of the proxy, where there is one."""
    return request.client.host if request.client else ""
