"""Clients of a ledger that retry, crash and race: no noise is drawn that is not paid for, and nothing is told twice."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import maquette.queries as q
from maquette.accounting.ledger import Ledger
from maquette.core.budget import UNITS, Budget
from maquette.core.laws import NoiseRequest
from maquette.core.ledger import looks
from maquette.core.ledger.looks import Looks
from maquette.core.ledger.transaction import Transaction
from maquette.domain import Relation
from maquette.errors import MaquetteError
from support.gate_world import DOMAIN, TapedCurator, draws_on_tape, neighbouring_rows
from support.observed import KEY, Fault, Killed, ObservedTape, Watched, observed_time

pytestmark = pytest.mark.privacy
PRICE, PROMISE = Fraction(1, 100), Budget(0.08)
QUESTIONS = [
    q.marginals(DOMAIN, attributes=[["b"]]),
    q.where(DOMAIN, "d > 2"),
    q.prefixes(DOMAIN, "a"),
]


class Clients:
    """Three processes with one envelope, on a store that fails as it is told to."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 21])
        rows, _ = neighbouring_rows(self.rng, Relation.ADD_REMOVE)
        budgets = Budget(1000.0), PROMISE
        self.side = Watched(rows, Relation.ADD_REMOVE, budgets, ObservedTape(np.random.default_rng(seed)))
        self.clients = [self.opened() for _ in range(3)]
        self.seen: Counter[str] = Counter()
        self.told: dict[str, str] = {}

    def opened(self) -> TapedCurator:
        ledger = Ledger(self.side.store)
        return TapedCurator(self.side.table, ledger, key=KEY, budget=PROMISE, noise=self.side.tape)

    def ask(self, who: int) -> None:
        """One question of one client; whatever comes of it is what an observer sees."""
        asked = QUESTIONS[int(self.rng.integers(len(QUESTIONS)))]
        try:
            found = self.clients[who].measure(asked, noise=NoiseRequest("laplace", PRICE))
        except Killed:
            self.clients[who] = self.opened()
            self.seen["killed"] += 1
        except MaquetteError as error:
            self.seen[type(error).__name__] += 1
            with suppress(MaquetteError):
                self.clients[who].catch_up()
        else:
            self.seen["answered"] += 1
            place = f"{found.receipt.seq}"
            assert self.told.setdefault(place, repr(found.values.tolist())) == repr(found.values.tolist())

    def step(self) -> None:
        """Something goes wrong, or not, and somebody asks."""
        who = int(self.rng.integers(3))
        self.side.store.fault = Fault()
        self.side.engine.meanwhile = None
        match int(self.rng.integers(8)):
            case 0:
                self.side.store.fault = Fault(fails_at=int(self.rng.integers(1, 4)))
            case 1:
                self.side.store.fault = Fault(room=self.side.stored_bytes + int(self.rng.integers(40)))
            case 2:
                self.side.engine.meanwhile = _die
            case 3:
                self.side.engine.meanwhile = partial(self.ask, (who + 1) % 3)
            case 4:
                self.clients[who] = self.opened()
            case 5:
                self.side.engine.meanwhile = _break
            case _:
                pass
        self.ask(who)

    @property
    def charged(self) -> int:
        """Looks that the ledger was paid for."""
        entries = Ledger(self.side.store).entries(kind="reserve")
        own = [
            entry for entry in entries if entry.key.startswith(f"{KEY}/")
        ]  # what is repeated has no envelope
        return round(sum(Fraction(entry.units, UNITS) for entry in own) / PRICE)


def _die() -> None:
    raise Killed


def _break() -> None:
    raise MemoryError


def play(seeds: range) -> Counter[str]:
    """Forty steps each; AssertionError where more was drawn than was paid for."""
    seen: Counter[str] = Counter()
    with draws_on_tape(), observed_time():
        for seed in seeds:
            clients = Clients(seed)
            clients.side.tape.start(None)
            for _ in range(40):
                clients.step()
                drawn = sum(call.method == "laplace" for call in clients.side.tape.calls)
                assert drawn <= clients.charged, f"seed {seed}: {drawn} draws, {clients.charged} paid for"
            assert clients.charged * PRICE <= 1000
            seen += clients.seen
    return seen


def test_clients_that_retry_crash_and_race_pay_for_every_draw():
    seen = play(range(12))
    assert {"answered", "killed", "BudgetExceeded", "LedgerError"} <= set(seen)
    assert seen["answered"] > 60


def test_a_ledger_that_repeats_lost_looks_for_free_would_be_noticed(monkeypatch):
    monkeypatch.setattr(Transaction, "again", lambda self, entry: entry)
    with pytest.raises(AssertionError, match="paid for"):
        play(range(12))


def test_a_store_that_forgets_what_was_seen_would_be_noticed(monkeypatch):
    def take(self: Any, entries: Any, look: Any) -> Any:
        return list(looks._run(look))

    monkeypatch.setattr(Looks, "take", take)
    with pytest.raises(AssertionError, match="paid for"):
        play(range(12))
