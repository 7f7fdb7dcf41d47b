"""Everything observable of two neighbouring tables is equal when the stored payloads are, whatever refuses or fails.

`python -m benchmarks observables` tries many more pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.ledger import entry, transaction
from maquette.core.ledger.looks import Looks
from maquette.core.ledger.transaction import Transaction
from maquette.core.rows.engine import MemoryEngine
from maquette.errors import LedgerError, RateExceeded, WorkloadError
from support.observed_run import observe
from support.observed_worlds import CHANNELS

pytestmark = [pytest.mark.privacy, pytest.mark.slow]


@pytest.mark.parametrize("world", CHANNELS["curator"])
def test_a_curator_and_its_ledger_tell_no_more_than_they_store(world):
    counts = observe(range(16), worlds=[world])
    assert counts.pairs == {world: 16}
    assert counts.answered > 16


def test_refusals_and_failures_of_every_kind_were_met():
    counts = observe(range(300, 300 + 4 * len(CHANNELS["curator"])))
    assert {"BudgetExceeded", "RateExceeded", "KeyReused", "LedgerError", "ParameterError"} <= set(
        counts.refused
    )
    assert counts.unstored > 0
    assert counts.killed > 0


def test_a_session_tells_no_more_than_it_stores():
    counts = observe(range(2 * len(CHANNELS["session"])), channel="session")
    assert sum(counts.pairs.values()) == 2 * len(CHANNELS["session"])
    assert {"RateExceeded", "LedgerError", "WorkloadError"} <= set(counts.refused)
    assert counts.answered > 60


def test_the_service_tells_no_more_than_its_ledger_stores():
    counts = observe(range(len(CHANNELS["http"])), channel="http", calls=5)
    assert sum(counts.pairs.values()) == len(CHANNELS["http"])
    assert counts.answered > 10
    assert counts.refused["Refused"] > 5


# Planted faults, the old ones among them: each is found by some pair.

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """What is done wrong, where it shows, and the words in which it is found."""

    plant: Plant
    world: str
    found: str
    channel: str = "curator"
    seed: int = 0
    """Where to begin."""


def _rate_after_the_look(patch: pytest.MonkeyPatch) -> None:
    """By how many outcomes are like the first: where the first far guess was."""
    real = Ledger.store_all

    def store_all(self, begun, look):
        seen = list(look())
        alike = sum(one == seen[0] for one in seen)
        if self._paces.get(begun[0].parent) is not None and len(seen) > 1:
            raise RateExceeded(f"too fast; ask again in {alike} s", seconds=alike)
        return real(self, begun, lambda: seen)

    patch.setattr(Ledger, "store_all", store_all)


def _settled_after_the_look(patch: pytest.MonkeyPatch) -> None:
    real = Ledger.store_all

    def store_all(self, begun, look):
        seen = list(look())
        holder = self.find(begun[0].parent)
        if holder is not None and holder.settlement is not None:
            raise LedgerError("it is settled")
        return real(self, begun, lambda: seen)

    patch.setattr(Ledger, "store_all", store_all)


def _forgets_what_it_saw(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Looks, "take", lambda self, entries, look: list(look()))


def _repeats_lost_looks_for_free(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transaction, "again", lambda self, entry: entry)


def _refuses_in_the_look(patch: pytest.MonkeyPatch) -> None:
    real = MemoryEngine.answer

    def answer(self, queries):
        if self._rows() % 2:
            raise WorkloadError("too many cells")
        return real(self, queries)

    patch.setattr(MemoryEngine, "answer", answer)


def _dated_after_the_look(patch: pytest.MonkeyPatch) -> None:
    def next_row(kind, *, created=None, **values):
        return entry.next_row(kind, **values)

    patch.setattr(transaction, "next_row", next_row)


FAULTS = {
    "a rate that is checked after the look": Fault(
        _rate_after_the_look, "rate with room for half a batch", "looks and draws|another"
    ),
    "an envelope that is checked after the look": Fault(
        _settled_after_the_look, "settled between begin and store", "looks and draws"
    ),
    "a store by size that forgets what was seen": Fault(
        _forgets_what_it_saw, "a store that fails by size", "another look"
    ),
    "a failed write that forgets what was seen": Fault(
        _forgets_what_it_saw, "a store that fails at its m-th write", "another look"
    ),
    "a lost look that is repeated for free": Fault(
        _repeats_lost_looks_for_free, "killed between begin and store", "repeated for free"
    ),
    "a refusal in the look": Fault(_refuses_in_the_look, "wide", "another error|looks and draws"),
    "a step that is dated after its look": Fault(_dated_after_the_look, "wide", "another entries"),
    "a session that refuses in the look": Fault(
        _refuses_in_the_look, "wide", "another|looks and draws|one draw more", "session"
    ),
    "a service that refuses in the look": Fault(
        _refuses_in_the_look, "wide", "another|looks and draws", "http", seed=3
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name, monkeypatch):
    fault = FAULTS[name]
    fault.plant(monkeypatch)
    with pytest.raises(AssertionError, match=fault.found):
        observe(range(fault.seed, fault.seed + 200), channel=fault.channel, worlds=[fault.world])
