"""Worlds of a ledger, and random calls of a curator and of the ledger itself in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from maquette.accounting.ledger import Rate
from maquette.core.budget import Budget, Cost
from maquette.core.measurement import EpochTerms
from maquette.core.sparse import Guess
from support.gate_arguments import CLASSES, Rng, pick
from support.gate_calls import STRATEGIES
from support.gate_world import PURE
from support.observed import KEY, Call, Fault, Killed, Watched

Act = Callable[[Watched], None]


def _nothing(_: Watched) -> None: ...


@dataclass(frozen=True)
class World:
    """What is done to the ledger before the first call, and before the call of some number."""

    prepare: Act = _nothing
    arm: Act = _nothing
    meanwhile: Call | None = None
    """What another process does then, seen as a call is."""
    at: int = 0
    is_faulty: bool = False
    """May storing fail?"""
    budgets: tuple[Budget, Budget] | None = None
    is_lost: bool = False
    """May a reply be lost?"""


def _limited(rate: Rate) -> Act:
    return lambda side: side.ledger.limit(side.key, rate)


def _settled(side: Watched) -> None:
    side.other_process.settle(side.key)


def _taken(ahead: int) -> Call:
    return lambda side: side.take_step(ahead)


def _of_another_table(side: Watched) -> None:
    """The ledger was used with other records: whatever is opened from now on is refused."""
    side.engine.digest = "another"


def _while_looking(act: Call) -> Act:
    def arm(side: Watched) -> None:
        side.engine.meanwhile = lambda: act(side)

    return arm


def _kill(_: Watched) -> None:
    raise Killed


def _lose_reply(side: Any) -> None:
    """The next reply of a worker does not reach the service."""
    side.link.loses_reply = True


def _faulty(**fault: Any) -> Act:
    def arm(side: Watched) -> None:
        side.store.fault = Fault(**fault)

    return arm


def _by_size(more: int) -> Act:
    def arm(side: Watched) -> None:
        side.store.fault = Fault(room=side.stored_bytes + more)

    return arm


SMALL = Budget(0.0102)
WORLDS: dict[str, Callable[[Rng], World]] = {
    "wide": lambda rng: World(),
    "one price left": lambda rng: World(budgets=(PURE, SMALL)),
    "rate full": lambda rng: World(prepare=_limited(Rate(1, 3600))),
    "rate with room for half a batch": lambda rng: World(
        prepare=_limited(Rate(int(rng.integers(2, 6)), int(rng.integers(3, 40))))
    ),
    "settled envelope": lambda rng: World(meanwhile=_settled, at=int(rng.integers(1, 5))),
    "foreign key ahead": lambda rng: World(
        meanwhile=_taken(int(rng.integers(3))), at=int(rng.integers(1, 5))
    ),
    "other table": lambda rng: World(arm=_of_another_table, at=int(rng.integers(1, 5))),
    "read-only": lambda rng: World(
        arm=_faulty(is_read_only=True), at=int(rng.integers(0, 4)), is_faulty=True
    ),
    "a store that fails at its m-th write": lambda rng: World(
        arm=_faulty(fails_at=int(rng.integers(1, 4))), at=int(rng.integers(0, 6)), is_faulty=True
    ),
    "a store that fails by size": lambda rng: World(
        arm=_by_size(int(rng.integers(0, 120))), at=int(rng.integers(0, 6)), is_faulty=True
    ),
    "settled between begin and store": lambda rng: World(
        arm=_while_looking(_settled), at=int(rng.integers(0, 6))
    ),
    "a step taken between begin and store": lambda rng: World(
        arm=_while_looking(_taken(int(rng.integers(1, 3)))), at=int(rng.integers(0, 6))
    ),
    "killed between begin and store": lambda rng: World(
        arm=_while_looking(_kill), at=int(rng.integers(0, 6)), is_faulty=True
    ),
    "reply lost": lambda rng: World(arm=_lose_reply, at=int(rng.integers(0, 6)), is_lost=True),
}
"""By name; parameters are drawn once for all sides."""
_OF_PROCESSES = {"foreign key ahead", "other table", "a step taken between begin and store"}
CHANNELS = {
    "curator": [name for name in WORLDS if name != "reply lost"],
    "session": [name for name in WORLDS if name != "reply lost"],
    "http": [name for name in WORLDS if name not in _OF_PROCESSES],
}
"""Which worlds there are behind each; the service's worker is the only process that has its ledger."""


# --- curator and ledger -----------------------------------------------------------------------------------------------

GOOD = EpochTerms(3, 5, Fraction(1, 10), Fraction(1, 10), Fraction(1, 100))


def _batch(rng: Rng) -> list[Guess]:
    return [
        Guess(pick(rng, CLASSES["single"]), int(rng.integers(0, 60)), {})
        for _ in range(int(rng.integers(1, 7)))
    ]


def curator_call(rng: Rng) -> tuple[str, Call]:
    """A question of the gate, mostly a sound one, or one of the ledger."""
    match int(rng.integers(10)):
        case 0 | 1:
            return "open_epoch", lambda side: side.asked.open_epoch(GOOD)
        case 2 | 3 | 4:
            guesses = _batch(rng)
            return "test_all", lambda side: side.asked.test_all(guesses)
        case 5:
            return pick(rng, LEDGER_CALLS)
        case _:
            method = pick(rng, sorted(STRATEGIES))
            arguments = STRATEGIES[method](rng)
            return method, lambda side: getattr(side.asked, method)(**arguments)


def _balance(side: Watched) -> Any:
    found = side.ledger.balance()
    return found.spent_units, found.reserved_units, found.slack_spent


def _reserve(side: Watched) -> Any:
    entry = side.ledger.reserve("aside", request="a" * 64, tag="x", cost=Cost(5), body={})
    return entry.units, entry.fresh


LEDGER_CALLS: list[tuple[str, Call]] = [
    ("balance", _balance),
    ("reserve", _reserve),
    ("verify", lambda side: side.ledger.verify().sequence),
    ("heads", lambda side: side.ledger.entry_heads()),
    ("envelopes", lambda side: [(one.entry.key, one.left) for one in side.ledger.open_envelopes()]),
    ("find", lambda side: side.ledger.find(f"{KEY}/0001") is None),
    ("open it again", lambda side: side.start()),
]
