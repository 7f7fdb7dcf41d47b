"""Pairs of tables in all worlds, through curator, ledger, session and HTTP, until an observer could tell them apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from maquette.core.budget import Budget
from maquette.errors import MaquetteWarning
from support.gate_arguments import Rng
from support.gate_world import BUDGETS, RHO, draws_on_tape
from support.observed import Call, Fault, Seen, Trio, Watched, observed_time
from support.observed_http import WatchedService, service_call
from support.observed_sessions import SESSIONS, WatchedSession, session_call
from support.observed_worlds import CHANNELS, WORLDS, World, curator_call
from support.privacy_doubles import Divergence

CALLS = 8
"""To one pair; their past decides what is possible next."""
OPENED: dict[str, tuple[Any, Callable[[Rng], tuple[str, Call]]]] = {
    "curator": (Watched, curator_call),
    "session": (WatchedSession, session_call),
    "http": (WatchedService, service_call),
}


@dataclass
class Counts:
    """What was tried: pairs, calls answered, refused and failed, by world."""

    pairs: dict[str, int] = field(default_factory=dict)
    answered: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    unstored: int = 0
    killed: int = 0

    def add(self, seen: Seen) -> None:
        if seen.error is None:
            self.answered += not seen.is_killed
            self.killed += seen.is_killed
        else:
            self.refused[seen.error[0]] = self.refused.get(seen.error[0], 0) + 1
            self.unstored += seen.unstored > 0


def observe(
    seeds: Iterable[int],
    *,
    channel: str = "curator",
    worlds: Iterable[str] | None = None,
    calls: int = CALLS,
) -> Counts:
    """Random calls to pairs in their worlds, until an observer could tell two tables apart: AssertionError."""
    counts, names = Counts(), list(worlds or CHANNELS[channel])
    with draws_on_tape(), observed_time(), warnings.catch_warnings():
        warnings.simplefilter("ignore", MaquetteWarning)
        for seed in seeds:
            name = names[seed % len(names)]
            try:
                _observe_one(seed, name, channel, counts, calls)
            except (AssertionError, Divergence) as error:
                raise AssertionError(f"seed {seed}, {channel}, {name}: {error}") from error
            counts.pairs[name] = counts.pairs.get(name, 0) + 1
    return counts


def _observe_one(seed: int, name: str, channel: str, counts: Counts, calls: int) -> None:
    rng = np.random.default_rng([seed, 9])
    world = WORLDS[name](rng)
    opened, next_call = OPENED[channel]
    if channel == "curator":
        trio = Trio(seed, world.budgets or BUDGETS[int(rng.integers(len(BUDGETS)))])
    else:
        options = {"queries": 1} if world.budgets else SESSIONS[int(rng.integers(len(SESSIONS)))]
        whole = RHO if "delta" in options else Budget(100.0)
        trio = Trio(seed, (whole, whole), partial(opened, options=SESSIONS[0] | options))
    try:
        _run(trio, world, rng, next_call, counts, calls)
    finally:
        for side in trio.sides:
            side.stop()


def _run(trio: Trio, world: World, rng: Rng, next_call: Any, counts: Counts, calls: int) -> None:
    for side in trio.sides:
        world.prepare(side)
    for number in range(calls):
        if number == world.at:
            for side in trio.sides:
                world.arm(side)
            if world.meanwhile is not None:
                counts.add(trio.do("another process", world.meanwhile))
        method, call = next_call(rng)
        seen = trio.do(method, call)
        counts.add(seen)
        _check_refusal(trio, method, call, seen, world, counts)


def _check_refusal(trio: Trio, method: str, call: Call, seen: Seen, world: World, counts: Counts) -> None:
    """Nothing is refused after a look; what could not be stored is kept, and what was lost is charged again."""
    if world.is_lost and seen.error is not None and seen.touched:
        again = trio.do(f"{method} again", call)
        counts.add(again)
        if again.touched or again.charged:
            raise AssertionError(f"{method}: what was answered and not heard is asked again, and is not free")
    elif seen.is_killed:
        if hasattr(trio.sides[0].asked, "catch_up"):
            counts.add(trio.do("catch_up", lambda side: side.asked.catch_up()))
        again = trio.do(f"{method} again", call)
        counts.add(again)
        if again.touched and not again.charged and method not in ("test", "test_all", "open_epoch"):
            raise AssertionError(f"{method}: a look that was lost is repeated for free")
    elif seen.error is not None and seen.unstored:
        if not world.is_faulty:
            raise AssertionError(f"{method} was refused ({seen}) after {seen.unstored} looks and draws")
        for side in trio.sides:
            side.store.fault = Fault()
        again = trio.do(f"{method} again", call)
        counts.add(again)
        # a session goes on with its next step, which is paid for
        if (again.touched or again.draws) and not (
            again.charged and isinstance(trio.sides[0], WatchedSession)
        ):
            raise AssertionError(
                f"{method}: a failed store gives another look ({len(again.draws)} draws) for free"
            )
