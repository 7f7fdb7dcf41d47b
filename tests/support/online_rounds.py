"""Rounds of asking in a session until the process is killed: where each is to die, and what the ledger shows of it.

A worker kills itself at a named point, by SIGKILL, at a planned visit; `Round.check` reads off the ledger and the
client's journal that it died there and nowhere else. A kill at random comes from outside.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from maquette.accounting.ledger import Ledger
from support.ledger_process import seen_by_clients
from support.online_child import BEFORE_REPLY, KINDS, QUESTIONS

RANDOM = "random"
PER_ROUND = 12
"""New questions that a planned round may ask: more than any plan needs."""


@dataclass(frozen=True)
class Seen:
    """What is durable: answered steps in order, whether one is paid and not answered, lines of the journal."""

    steps: tuple[str, ...]
    pending: bool
    lines: int


def seen(location: Path, journal: Path, kind: str) -> Seen:
    with Ledger.open(location) as ledger:
        found = list(ledger.children(kind))
    steps = tuple(str(e.body["ask"]) for e in found if e.answered is not None)
    return Seen(steps, len(steps) < len(found), len(seen_by_clients(journal)))


@dataclass(frozen=True)
class Round:
    """One kill: in which kind of session, at which point, at which visit; `early` counts visits from the opening on."""

    kind: str
    point: str
    visit: int = 1
    early: bool = False
    leaves: bool = False
    """Is the payment without an answer, if any, left for the next round to finish?"""
    many: bool = False
    """Are all questions of the round asked at once?"""

    @property
    def crash_at(self) -> str:
        return "" if self.point == RANDOM else f"{self.point}:{self.visit}"

    def asks(self, number: int) -> list[int]:
        """New questions; at random also some of earlier rounds, with their keys."""
        first = number * PER_ROUND
        if self.point != RANDOM:
            return [q % QUESTIONS for q in range(first, first + PER_ROUND)]
        rng = random.Random(number)
        return [rng.randrange(max(0, first - PER_ROUND), first + PER_ROUND) % QUESTIONS for _ in range(3000)]

    def check(self, before: Seen, after: Seen) -> None:
        """Did it die where it was to die?"""
        new, lines = after.steps[len(before.steps) :], after.lines - before.lines
        assert after.steps[: len(before.steps)] == before.steps, "answered steps changed"
        if self.many:
            # a batch is begun whole and stored whole, and shown when all are
            expected = (len(new), self.point == "before-answer", 0)
            assert len(new) >= self.visit - (self.point != "after-answer"), f"{self}: {len(new)} steps"
        elif self.early:
            expected = (self.point == "after-answer", self.point == "before-answer", 0)
        else:
            expected = self._asking(new)
        found = (len(new), after.pending, lines)
        assert found == expected, f"{self}: expected (steps, pending, lines) {expected}, found {found}"

    def _asking(self, new: tuple[str, ...]) -> tuple[int, bool, int]:
        """Each step is one reservation and one stored answer: a question, which is then shown, or an epoch."""
        if self.point == BEFORE_REPLY:
            return len(new), False, self.visit - 1
        whole, shown = self.visit - 1, len(new) - new.count("epoch")
        match self.point:
            case "before-reserve":
                return whole, False, shown
            case "after-reserve" | "before-answer":
                return whole, True, shown
            case "mid-transaction":  # a payment and an answer for every step
                return whole // 2, whole % 2 == 1, shown
            case _:
                return self.visit, False, shown - (new[-1] != "epoch")


def _planned() -> list[Round]:
    both = [("after-answer", 3), ("before-answer", 3), ("mid-transaction", 4), (BEFORE_REPLY, 3)]
    paid = [("before-reserve", 3), ("after-reserve", 3)]
    # while a session finishes what was paid and not answered, while it opens again, and with many questions at once
    found = [
        Round("measures", "after-reserve", leaves=True),
        Round("measures", "before-answer", early=True, leaves=True),
        Round("measures", "after-answer", early=True),
    ]
    found += [
        Round(kind, point, early=True) for kind in KINDS for point in ("before-reserve", "after-reserve")
    ]
    found += [Round("tests", point, many=True) for point, _ in both[:3]]
    for visit in range(1, 5):
        found += [Round("measures", point, visit) for point, top in paid + both if visit <= top]
        found += [Round("tests", point, visit) for point, top in paid + both if visit <= top]
    return found


def plan(rounds: int) -> Iterator[Round]:
    """Two of three die at a named point, each in its turn; every third is killed at random."""
    planned = itertools.cycle(_planned())
    kinds = itertools.cycle(KINDS)
    left_over = False
    for number in range(rounds):
        if number % 3 == 2 and not left_over:
            yield Round(next(kinds), RANDOM)
            continue
        chosen = next(planned)
        left_over = chosen.leaves
        yield chosen
