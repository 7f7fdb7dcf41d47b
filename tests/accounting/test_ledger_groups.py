"""A group that shares one transaction is the sequence of its parts: the same outcomes, entries and balances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.accounting import Cost
from maquette.accounting.ledger import Ledger, Rate
from maquette.core.ledger.writer import _Job
from maquette.errors import MaquetteError
from support.ledger_cases import digest, memory, pay

Call = Callable[[Ledger], object]
KEYS = st.sampled_from(["a", "b", "c", "d"])
UNITS = st.integers(0, 40)


def reserve(key: str, units: int, parent: str | None, other: bool) -> Call:
    more: dict[str, Any] = {"request": digest("another request")} if other else {}
    return lambda ledger: pay(ledger, key, units, parent=parent, **more)


def record(key: str, units: int, parent: str | None) -> Call:
    named: dict[str, Any] = {"request": digest(key), "tag": "pure", "cost": Cost(units), "body": {}}
    return lambda ledger: ledger.record(key, payload=key.encode(), parent=parent, **named)


PARENTS = st.sampled_from([None, "anna", "bert", "nobody"])
CALLS = st.one_of(
    st.builds(reserve, KEYS, UNITS, PARENTS, st.booleans()),
    st.builds(record, KEYS, UNITS, PARENTS),
    st.builds(lambda key, data: lambda ledger: ledger.answer(key, data), KEYS, st.binary(max_size=3)),
    st.builds(
        lambda key: lambda ledger: ledger.settle(key), st.sampled_from(["anna", "bert", "a", "nobody"])
    ),
)


def opened() -> Ledger:
    """100 units: half of them anna's, who may take three steps, a fifth bert's."""
    ledger = memory(100)
    pay(ledger, "anna", 50, envelope=True)
    pay(ledger, "bert", 20, envelope=True)
    ledger.limit("anna", Rate(3, 3600))
    return ledger


def outcome(get: Callable[[], Any]) -> object:
    """What a caller sees, but for the hashes, which hold the time."""
    try:
        entry = get()
    except MaquetteError as error:
        return type(error).__name__, str(error).partition("ask again in")[0]
    return entry.key, entry.units, entry.parent, entry.payload, entry.fresh, entry.answered is not None


def one_by_one(ledger: Ledger, calls: list[Call]) -> list[object]:
    return [outcome(lambda call=call: call(ledger)) for call in calls]


def together(ledger: Ledger, calls: list[Call]) -> list[object]:
    """All in one transaction, in this order."""
    jobs: list[_Job[Any]] = []

    class Collecting:
        def submit(self, work: Any, *, keys: tuple[str, ...] = ()) -> None:
            jobs.append(_Job(work, keys))

    writer, ledger._writer = ledger._writer, Collecting()  # pyright: ignore[reportAttributeAccessIssue]
    outcomes: dict[int, object] = {}
    for i, call in enumerate(calls):
        before = len(jobs)
        refused = outcome(lambda call=call: call(ledger) or _NOTHING)
        if len(jobs) == before:
            outcomes[i] = refused
    ledger._writer = writer
    writer._commit(jobs)
    waiting = iter(jobs)
    return [outcomes[i] if i in outcomes else outcome(next(waiting).result) for i in range(len(calls))]


class _Nothing:
    key = units = parent = payload = fresh = answered = None


_NOTHING = _Nothing()


def facts(ledger: Ledger) -> list[object]:
    rows = [(e.seq, e.kind, e.key, e.parent, e.units, e.payload_sha256) for e in ledger.entries()]
    balance = ledger.balance()
    return [rows, balance.spent_units, balance.reserved_units, balance.left_units]


@pytest.mark.law
@settings(max_examples=60, deadline=None)
@given(st.lists(CALLS, min_size=1, max_size=12))
def test_a_group_equals_the_sequence(calls):
    first, second = opened(), opened()
    assert together(first, calls) == one_by_one(second, calls)
    assert facts(first) == facts(second)
    assert first.verify().seq == second.verify().seq
    assert 0 <= first.spent_units <= 100
    for ledger in (first, second):
        ledger.close()


def test_the_comparison_sees_a_group_that_forgets_what_its_parts_took(monkeypatch):
    from maquette.core.ledger.transaction import Transaction

    calls = [reserve("a", 15, "bert", False), reserve("b", 15, "bert", False)]
    assert together(opened(), calls) == one_by_one(opened(), calls)
    holder = Transaction._rest_of
    rests: dict[
        tuple[Transaction, str], Cost
    ] = {}  # keeps each transaction: a second one may not get its identity

    def stale(self: Transaction, entry: Any) -> Cost:
        return rests.setdefault((self, entry.key), holder(self, entry))

    monkeypatch.setattr(Transaction, "_rest_of", stale)
    assert together(opened(), calls) != one_by_one(opened(), calls)
