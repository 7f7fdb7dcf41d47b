"""One decision for a file, a server and a list: the same requests get the same outcome, word by word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.accounting import Budget, Cost
from maquette.accounting.ledger import Entry, Ledger, Rate
from maquette.core.budget import Unit
from maquette.core.ledger import transaction
from maquette.core.ledger.decide import Accept, Account, Refuse, Repeat, Reservation, decide
from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    LedgerError,
    MaquetteError,
    ParameterError,
    RateExceeded,
)
from support.ledger_cases import IDENTITY, digest
from support.ledger_clock import stop_the_clock
from support.ledger_list import ListLedger
from support.ledger_postgres import new_database

BUDGET = Budget(1.0, 1e-6, "zcdp", pure_epsilon=0.5)
FILL = BUDGET.whole - Cost(300, 20, 300)

KEYS = st.sampled_from([f"key-{i}" for i in range(6)])
PARENTS = st.sampled_from([None, None, *(f"key-{i}" for i in range(4)), "nobody"])
AMOUNTS = st.builds(Cost, st.integers(0, 90), st.integers(0, 3), st.just(0))
MOVES = st.lists(
    st.one_of(
        st.tuples(
            st.just("reserve"),
            KEYS,
            st.fixed_dictionaries(
                {
                    "request": st.sampled_from([digest("a"), digest("b")]),
                    "tag": st.just("pure"),
                    "cost": AMOUNTS,
                    "pure": st.none() | st.builds(Cost, st.just(0), st.just(0), st.integers(0, 90)),
                    "parent": PARENTS,
                    "envelope": st.booleans(),
                }
            ),
        ),
        st.tuples(st.just("settle"), KEYS, st.just({})),
        st.tuples(st.just("answer"), KEYS, st.just({"payload": b"x"})),
        st.tuples(st.just("wait"), st.integers(1, 40), st.just({})),
    ),
    max_size=30,
)


def outcome(work: Callable[[], Entry]) -> tuple[Any, ...]:
    try:
        entry = work()
    except MaquetteError as error:
        return type(error), str(error), getattr(error, "needed", None), getattr(error, "seconds", None)
    return entry.fresh, entry.cost, entry.parent, entry.settlement is not None, entry.answered is not None


def compare(moves: list[Any], ledger: Ledger, passed: list[timedelta]) -> None:
    """The same moves on a ledger and on a list."""
    double = ListLedger(BUDGET)
    for one in (ledger, double):
        one.reserve("filled", request=digest("x"), tag="pure", cost=FILL, body={})
        for parent in ("key-0", "key-1"):
            one.limit(parent, Rate(2, 30))
    for move, key, terms in moves:
        if move == "wait":
            passed[0] += timedelta(seconds=key)
            continue
        if move == "settle" and (there := double.find(key)) is not None and not there.envelope:
            continue  # a look stays charged: the file refuses, and a list has no words for it
        body = {"body": {}} if move == "reserve" else {}
        seen = [outcome(partial(getattr(one, move), key, **terms, **body)) for one in (ledger, double)]
        if move != "reserve":  # a file says once that what closes or answers a reservation is fresh
            seen = [one[1:] for one in seen]
        assert seen[0] == seen[1], (move, key, terms)
    assert ledger.balance().left == double.left_in(None)


@given(MOVES)
@settings(max_examples=150, deadline=None)
def test_a_list_and_a_ledger_decide_alike(moves):
    with pytest.MonkeyPatch.context() as patch:
        passed = stop_the_clock(patch)
        with Ledger.memory(budget=BUDGET, **IDENTITY) as ledger:
            compare(moves, ledger, passed)


@pytest.mark.parametrize("kind", ["file", "server"])
def test_so_do_a_file_and_a_server(kind, tmp_path: Path, monkeypatch):
    passed = stop_the_clock(monkeypatch)
    moves: list[Any] = [
        (move, f"key-{key}", {"request": digest("a"), "tag": "pure", "cost": Cost(cost), "pure": Cost(0, pure=pure),
         "parent": parent, "envelope": envelope})
        for move, key, cost, pure, parent, envelope in [
            ("reserve", 0, 200, 10, None, True), ("reserve", 1, 5, 90, "key-0", False),
            ("reserve", 2, 90, 5, "key-0", False), ("reserve", 3, 1, 1, "key-0", False),
            ("reserve", 4, 400, 400, None, False), ("reserve", 4, 1, 1, "key-1", False),
            ("reserve", 0, 200, 10, None, True), ("reserve", 0, 201, 11, None, True),
        ]
    ]  # fmt: skip
    moves += [("wait", 40, {}), moves[3], ("settle", "key-0", {}), moves[3], moves[2]]
    with Ledger.create(
        tmp_path / "x.ledger" if kind == "file" else new_database(), budget=BUDGET, **IDENTITY
    ) as ledger:
        compare(moves, ledger, passed)
        ledger.verify()


NOW = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNT = Account("survey", Unit.RHO, 1e-6, Cost(100, 10, 100), Cost(50, 5, 50))
ASKED = Reservation("a/0000", digest("a"), "pure", (Cost(10),), "{}", None, False)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"costs": (Cost(51),)}, BudgetExceeded),
        ({"costs": (Cost(1, 6),)}, BudgetExceeded),
        ({"costs": (Cost(0, pure=51),)}, BudgetExceeded),
        ({"costs": (Cost(51), Cost(0, pure=51))}, BudgetExceeded),
        ({"key": "k" * 181, "envelope": True}, ParameterError),
        ({"parent": "nobody"}, LedgerError),
    ],
    ids=str,
)
def test_what_is_not_covered_or_has_no_room_is_refused(change, refusal):
    taken = dict.fromkeys([change.get("key", ASKED.key), "nobody"])
    decision = decide(ACCOUNT, taken, [], NOW, None, replace(ASKED, **change))
    assert isinstance(decision, Refuse)
    assert type(decision.error) is refusal


def test_a_decision_is_a_function_of_its_arguments():
    dates = [NOW.isoformat(timespec="milliseconds")] * 2
    assert decide(ACCOUNT, {ASKED.key: None}, [], NOW, None, ASKED) == Accept(Cost(10))
    assert decide(ACCOUNT, {ASKED.key: None}, dates, NOW, Rate(3, 60), ASKED) == Accept(Cost(10))
    late = decide(ACCOUNT, {ASKED.key: None}, dates, NOW, Rate(2, 60), ASKED)
    assert isinstance(late, Refuse)
    assert isinstance(late.error, RateExceeded)
    assert late.error.seconds == 60
    double = ListLedger(BUDGET)
    entry = double.reserve(ASKED.key, request=ASKED.request, tag="pure", cost=Cost(10), body={})
    assert decide(ACCOUNT, {ASKED.key: entry}, dates, NOW, Rate(2, 60), ASKED) == Repeat(entry)
    other = decide(ACCOUNT, {ASKED.key: entry}, [], NOW, None, replace(ASKED, request=digest("b")))
    assert isinstance(other, Refuse)
    assert isinstance(other.error, KeyReused)


@pytest.mark.parametrize("more", [Cost(1), Cost(0, 1), Cost(0, pure=1)], ids=str)
def test_a_ledger_that_decides_otherwise_is_caught(more, monkeypatch):
    real = transaction.decide
    one_too_much = {"tag": "pure", "request": digest("a"), "cost": BUDGET.whole - FILL + more}
    moves = [("reserve", "key-0", one_too_much)]
    passed = stop_the_clock(monkeypatch)
    with Ledger.memory(budget=BUDGET, **IDENTITY) as ledger:
        compare(moves, ledger, passed)

    def lenient(account: Account, *rest: Any) -> Any:
        return real(replace(account, left=account.left + more), *rest)

    monkeypatch.setattr(transaction, "decide", lenient)
    with Ledger.memory(budget=BUDGET, **IDENTITY) as ledger, pytest.raises(AssertionError):
        compare(moves, ledger, passed)
