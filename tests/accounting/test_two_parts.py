"""A budget in two parts: what is charged to which, what comes back to which, and why the split is fixed."""

# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from maquette.accounting import UNITS, Budget, Cost, LaplaceEvent
from maquette.accounting.charges import pure_costs, release_costs
from maquette.accounting.ledger import Ledger, Record
from maquette.core.budget import charged
from maquette.core.events import ComposedEvent, GaussianEvent, SelectionEvent, SmoothedEvent
from maquette.core.laws import NoiseRequest
from maquette.core.ledger import decide, store, transaction
from maquette.core.ledger.receipts import ChainState
from maquette.core.ledger.transaction import Transaction
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, KeyReused, LedgerError, ParameterError
from maquette.queries import marginals
from maquette.verify import verdict
from support import privacy_loss
from support.ledger_cases import IDENTITY, create, digest, pay
from support.ledger_postgres import new_database
from support.ledger_tampering import tamper
from support.planted_bugs import changed
from support.privacy_conformance import TINY, Histogram
from support.privacy_doubles import Call, RecordingNoise, ReplayingNoise, TapeCurator, neighbours, table_of

WAYS = ("zcdp", "gaussian")
HALF = Budget(1.0, 1e-6, "zcdp", pure_epsilon=0.5)
WHOLE = HALF.whole


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "survey.ledger"


# --- the budget ---


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("epsilon", "pure"), [(1.0, 0.4), (0.3, 0.1), (10.0, 9.5), (1.0, 0.0)])
def test_the_gaussian_part_is_that_of_the_rest_of_epsilon(way, epsilon, pure):
    both = Budget(epsilon, 1e-6, way, pure_epsilon=pure)
    rest = Budget(float(Fraction(str(epsilon)) - Fraction(str(pure))), 1e-6, way)
    assert both.total_units == rest.total_units
    assert both.pure_units == Fraction(str(pure)) * UNITS
    if way == "gaussian":
        assert both.slack_units == rest.slack_units
    else:  # a variation counts (1 + e^epsilon) times, with all of epsilon
        assert both.slack_units == Budget(epsilon, 1e-6, way).slack_units


@pytest.mark.parametrize("way", WAYS)
def test_a_ledger_that_is_pure_as_a_whole_has_no_gaussian_part(way):
    budget = Budget(1.0, 1e-6, way, pure_epsilon=1.0)
    assert budget.whole == Cost(0, 0, UNITS)
    assert str(budget) == "epsilon=1, delta=1e-06, of it 1 pure"


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"delta": 0.0, "pure_epsilon": 0.5}, "without a delta is pure as a whole"),
        ({"pure_epsilon": 1.5}, "at most epsilon=1"),
        ({"pure_epsilon": -0.1}, "pure_epsilon >= 0"),
        ({"pure_epsilon": float("nan")}, "pure_epsilon >= 0"),
        ({"pure_epsilon": 1e-13}, "below the smallest amount"),
    ],
)
def test_a_part_that_cannot_be_is_refused(terms, said):
    with pytest.raises(ParameterError, match=said):
        Budget(**{"epsilon": 1.0, "delta": 1e-6, **terms})


# --- which part is charged ---


@given(
    st.lists(st.builds(Cost, *[st.integers(0, 50)] * 3), min_size=1, max_size=3),
    st.builds(Cost, *[st.integers(0, 100)] * 3),
    st.builds(Cost, *[st.integers(0, 100)] * 3),
)
def test_the_smallest_share_that_is_left_is_charged(costs, whole, left):
    taken = charged(costs, whole=whole, left=left)

    def share(cost: Cost) -> float:
        pairs = ((cost.units, whole.units), (cost.pure, whole.pure))
        return max(0 if not part else math.inf if not of else part / of for part, of in pairs)

    there = [cost for cost in costs if left.covers(cost)]
    assert taken in costs
    assert share(taken) == min(share(cost) for cost in there or costs)


def test_pure_events_have_two_prices_and_others_one():
    laplace = LaplaceEvent(scale=Fraction(10), l1=Fraction(1))
    choice = SelectionEvent(Fraction(1, 10), "exponential")
    gaussian = GaussianEvent(sigma_squared=Fraction(50), l2_squared=Fraction(1))
    smoothed = SmoothedEvent(Fraction(50), Fraction(1), Fraction(1, 40), Fraction(0), Fraction(0))
    tenth = Cost(0, pure=UNITS // 10)
    assert laplace.costs(HALF) == (Cost(UNITS // 200), tenth)
    assert choice.costs(HALF) == (Cost(UNITS // 800), tenth)  # a choice is as pure as noise is
    assert ComposedEvent((laplace, choice)).costs(HALF)[1] == tenth + tenth
    assert gaussian.costs(HALF) == (gaussian.cost(HALF.unit),)
    assert smoothed.costs(HALF) == (smoothed.cost(HALF.unit),)
    assert ComposedEvent((laplace, gaussian)).costs(HALF) == (
        laplace.cost(HALF.unit) + gaussian.cost(HALF.unit),
    )
    one_part = Budget(1.0, 1e-6)
    assert laplace.costs(one_part) == (laplace.cost(one_part.unit),)


def test_a_pure_release_and_one_with_a_delta_are_charged_where_they_belong():
    assert release_costs(Budget(0.25), HALF) == pure_costs(Fraction(1, 4), HALF)
    ((units, slack, pure),) = [(c.units, c.slack, c.pure) for c in release_costs(Budget(0.25, 1e-6), HALF)]
    assert (units, pure) == (Budget(0.25, 1e-6).total_units, 0)
    assert 0 < slack <= HALF.slack_units


# --- the ledger ---


def two_parts(place: object = None, **changes) -> Ledger:
    terms = {"budget": Budget(1.0, 1e-6), "pure": 0.5, **IDENTITY, **changes}
    return Ledger.memory(**terms) if place is None else Ledger.create(place, **terms)


def begin(ledger: Ledger, number: int, cost: Cost, pure: Cost | None, parent: str = "release"):
    record = Record(f"{parent}/{number:04d}", digest(str(number)), "pure", {"ask": "measure"})
    return ledger.begin(record, cost=cost, pure=pure, parent=parent)


def open_pair(ledger: Ledger, units: int, pure: int, key: str = "release", **changes):
    return pay(ledger, key, cost=Cost(units, 0, pure), envelope=True, **changes)


@pytest.mark.parametrize("postgres", [False, True], ids=["sqlite", "postgres"])
def test_it_is_kept_opened_charged_and_verified(path, postgres):
    place = new_database() if postgres else path
    made = two_parts(place)
    open_pair(made, 1000, 600)
    assert begin(made, 0, Cost(100), Cost(0, pure=30)).cost == Cost(0, pure=30)  # a tenth against a twentieth
    assert begin(made, 1, Cost(10), Cost(0, pure=300)).cost == Cost(10)  # a hundredth against a half
    made.store(made.find("release/0000"), lambda: b"noisy")
    made.close()
    with Ledger.open(place) as again:
        assert again.budget == HALF
        balance = again.balance()
        assert (balance.spent_units, balance.pure_spent) == (1000, 600)
        assert (balance.reserved_units, balance.pure_reserved) == (990, 570)
        assert balance.left == Cost(WHOLE.units - 1000, WHOLE.slack, WHOLE.pure - 600)
        assert again.settle("release").fresh
        assert again.balance().left == WHOLE - Cost(10, 0, 30)
        assert next(again.entries(kind="settle")).cost == Cost(990, 0, 570)
        again.verify()
    if not postgres:
        assert (
            verdict([str(path)])[0] == 1
        )  # 'pure' has no event in its body: the independent verifier reads that far
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (4,)


def test_where_the_smaller_share_is_not_left_the_other_is_taken_and_then_nothing(path):
    ledger = two_parts(path)
    open_pair(ledger, 1000, 600)
    assert begin(ledger, 0, Cost(900), Cost(0, pure=500)).pure == 500
    assert begin(ledger, 1, Cost(900), Cost(0, pure=500)).units == 900  # of the pure part too little is left
    with pytest.raises(BudgetExceeded):
        begin(ledger, 2, Cost(900), Cost(0, pure=500))
    assert ledger.find("release/0002") is None
    assert begin(ledger, 2, Cost(1), Cost(0, pure=100)).units == 1
    assert begin(ledger, 1, Cost(900), Cost(0, pure=500)).fresh is False  # a begun one never changes part


def test_a_repeat_at_another_price_is_refused_in_both_parts(path):
    ledger = two_parts(path)
    open_pair(ledger, 1000, 600)
    begin(ledger, 0, Cost(900), Cost(0, pure=500))
    with pytest.raises(KeyReused, match="at another cost"):
        begin(ledger, 0, Cost(900), Cost(0, pure=499))


def test_an_inner_envelope_gives_each_part_back_to_its_own(path):
    ledger = two_parts(path)
    open_pair(ledger, 1000, 600)
    open_pair(ledger, 400, 200, key="inner", parent="release")
    begin(ledger, 0, Cost(300), Cost(0, pure=20), parent="inner")
    ledger.settle("inner")
    assert {e.entry.key: e.left for e in ledger.open_envelopes()} == {"release": Cost(1000, 0, 580)}
    ledger.settle("release")
    assert ledger.balance().left == WHOLE - Cost(0, pure=20)
    ledger.verify()


def test_of_the_total_no_part_is_overspent_and_the_refusal_says_what_fits(path):
    ledger = two_parts(path)
    with pytest.raises(
        BudgetExceeded, match=r"100\.1 % of the pure part of ledger .* a pure epsilon=0\.5 still fits"
    ):
        pay(ledger, "too much", cost=Cost(0, pure=WHOLE.pure + 1))
    with pytest.raises(BudgetExceeded, match=r"epsilon=0\.5 with delta=1e-06 still fits"):
        pay(ledger, "too much", cost=Cost(WHOLE.units + 1))
    pay(ledger, "all", cost=WHOLE)
    assert ledger.balance().left == Cost(0)


def test_a_lost_look_is_charged_again_in_its_part(path):
    ledger = two_parts(path)
    open_pair(ledger, 1000, 600)
    begun = begin(ledger, 0, Cost(900), Cost(0, pure=50))
    ledger._looks.forget([begun])  # as if by a process that ended
    ledger.wait = lambda entry: entry  # type: ignore[method-assign]
    begin(ledger, 0, Cost(900), Cost(0, pure=50))
    assert ledger.find("release/0000/again/1").cost == Cost(0, pure=50)
    assert ledger.balance().pure_spent == 650


def test_its_parts_cannot_be_changed(path):
    two_parts(path).close()
    for change in ("pure_epsilon = '0.6'", "pure_total = pure_total + 1", "pure_spent = pure_total + 1"):
        with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.IntegrityError):
            connection.execute(f"UPDATE account SET {change}")


TAMPERED = {
    "a larger part": "UPDATE account SET pure_total = pure_total + 1",
    "another part": "UPDATE account SET pure_epsilon = '0.6'",
    "less spent": "UPDATE account SET pure_spent = pure_spent - 1",
    "a cheaper entry": "UPDATE entry SET pure = pure - 1 WHERE seq = 2",
    "charged to the other part": "UPDATE entry SET pure = 0, units = pure WHERE seq = 3",
    "more given back": "UPDATE entry SET pure = pure + 1 WHERE kind = 'settle'",
    "an older format": "UPDATE account SET format = 1",
}


@pytest.mark.parametrize("change", TAMPERED)
def test_an_edit_of_a_part_is_found_by_both_verifiers(path, change):
    ledger = two_parts(path)
    open_pair(ledger, 1000, 600)
    event = LaplaceEvent(scale=Fraction(10**10), l1=Fraction(1))
    record = Record("release/0000", digest("x"), event.tag, event.to_dict() | {"ask": "measure"})
    cost, pure = event.costs(HALF)
    assert ledger.begin(record, cost=cost, parent="release").cost == cost
    ledger.settle("release")
    ledger.close()
    assert verdict([str(path)])[0] == 1  # the envelope of this test has the tag of an event
    tamper(path, TAMPERED[change])
    assert pure is not None
    with pytest.raises(LedgerError), Ledger.open(path) as opened:
        opened.verify()


def test_a_ledger_in_one_part_is_as_it_was(path):
    """No column, no word and no number of a ledger of formats 1 to 3 is another than before."""
    with create(path, budget=Budget(1.0, 1e-6)) as ledger:
        pay(ledger, "x", cost=Cost(5))
        (opening, _) = ledger.entries()
        assert "pure_epsilon" not in opening.body
        state = ledger._store.last_state()
        assert state is not None
        assert state.pure_spent is None
        assert b"pure" not in state.pack()
    with closing(sqlite3.connect(path)) as connection:
        text = " ".join(
            sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
        )
        assert "pure" not in text
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_program_that_knows_one_part_refuses_it(path, monkeypatch):
    two_parts(path).close()
    monkeypatch.setattr(store, "NEWEST", 3)
    with pytest.raises(LedgerError, match="has format 4"):
        Ledger.open(path)


def test_the_receipt_beside_it_knows_the_pure_part(path):
    with two_parts(path) as ledger:
        pay(ledger, "x", cost=Cost(1, 2, 3))
        state = ledger._store.last_state()
    assert state is not None
    assert (state.spent, state.slack_spent, state.pure_spent) == (1, 2, 3)
    assert ChainState.unpack(state.pack().ljust(8192)) == state
    tamper(path, "UPDATE account SET pure_spent = 2")
    with pytest.raises(LedgerError, match="not the one that its receipt knows"):
        Ledger.open(path)


def test_what_was_lost_of_each_part_is_charged(path, tmp_path):
    with two_parts(path) as ledger:
        pay(ledger, "kept", cost=Cost(1, 0, 10))
    data = path.read_bytes()
    with Ledger.open(path) as ledger:
        pay(ledger, "lost", cost=Cost(0, pure=25))
        pay(ledger, "lost too", cost=Cost(4))
    for tail in ("-wal", "-shm"):
        path.with_name(path.name + tail).unlink(missing_ok=True)
    path.write_bytes(data)
    with pytest.raises(LedgerError, match="entries that were paid for are lost"):
        Ledger.open(path)
    done = Ledger.recover(path)
    assert (done.charged, done.exceeded) == (Cost(4, 0, 25), False)
    with Ledger.open(path) as ledger:
        assert (ledger.spent_units, ledger.balance().pure_spent) == (5, 35)
        ledger.verify()


# --- any order of requests, against a model ---

_MOVES = st.lists(
    st.tuples(
        st.sampled_from(["open", "step", "settle"]), st.integers(0, 5), st.integers(0, 40), st.integers(0, 40)
    ),
    max_size=25,
)


def replayed(moves: list[tuple[str, int, int, int]]) -> tuple[Ledger, Cost]:
    """A ledger after the moves, and what a model in three numbers says is left; each move is held against it."""
    ledger = two_parts()
    total, held = WHOLE, dict[str, list[Cost]]()  # by envelope: its amount, what it has left
    pay(ledger, "fill", cost=(fill := WHOLE - Cost(100, WHOLE.slack, 100)))
    left = total - fill
    for place, (move, which, units, pure) in enumerate(moves):
        key = f"envelope-{which}"
        if move == "open" and key not in held:
            cost = Cost(units, 0, pure)
            if left.covers(cost):
                open_pair(ledger, units, pure, key=key)
                held[key], left = [cost, cost], left - cost
            else:
                with pytest.raises(BudgetExceeded):
                    open_pair(ledger, units, pure, key=key)
        elif move == "step" and len(held.get(key, ())) == 2:
            whole, rest = held[key]
            ways = [Cost(units), Cost(0, pure=pure)]
            wanted = charged(ways, whole=whole, left=rest)
            if rest.covers(wanted):
                assert begin(ledger, place, *ways, parent=key).cost == (
                    wanted if Cost(0) not in ways else Cost(0)
                )
                held[key][1] = rest - (wanted if Cost(0) not in ways else Cost(0))
            elif Cost(0) not in ways:
                with pytest.raises(BudgetExceeded):
                    begin(ledger, place, *ways, parent=key)
        elif move == "settle" and len(held.get(key, ())) == 2:
            ledger.settle(key)
            left += held[key][1]
            held[key] = []
    return ledger, left


@given(_MOVES)
@settings(max_examples=60, deadline=None)
def test_every_part_keeps_its_own_account(moves):
    ledger, left = replayed(moves)
    assert ledger.balance().left == left
    ledger.verify()


# --- exactly, on a small universe: interleaved questions of both kinds ---

PAIRS = marginals(TINY, k=2)
TABLES: list[Histogram] = [
    tuple(row) for row in np.random.default_rng(5).multinomial(2, np.full(12, 1 / 12), size=6).tolist()
]
TABLES += [tuple(np.array(t) + np.eye(12, dtype=int)[i]) for i, t in enumerate(TABLES)]


def ask_by_turns(curator: TapeCurator) -> None:
    """Pure and Gaussian noise and choices by turns, as long as each is paid."""
    for number in range(4):
        curator.measure(PAIRS, noise=NoiseRequest("laplace", Fraction(1 + number, 30)))
        curator.size(price=Fraction(1, 2000))
        curator.measure(PAIRS, noise=NoiseRequest("gaussian", Fraction(1, 3000)))


def by_entry(table: Histogram, way: str, tape: list[Call] | None) -> tuple[list[Call], list[Cost], Budget]:
    budget = Budget(1.0, 1e-6, way, pure_epsilon=0.5)
    ledger = Ledger.memory(
        budget=budget, relation=Relation.ADD_REMOVE, domain_fingerprint=TINY.fingerprint, name="x"
    )
    pay(ledger, "case", cost=budget.whole, envelope=True)
    noise = RecordingNoise() if tape is None else ReplayingNoise(tape)
    ask_by_turns(TapeCurator(table_of(TINY, table), ledger, key="case", budget=budget, noise=noise))
    return noise.calls, [entry.cost for entry in ledger.entries(kind="reserve", parent="case")], budget


def check_parts(way: str) -> None:
    """Every draw loses no more than its part was charged, in the part's own measure; each part stays in its total."""
    runs, tape = {}, None
    for table in TABLES:
        runs[table] = by_entry(table, way, tape)
        tape = runs[table][0]
    lossy = {"rho": privacy_loss.rho, "mu^2/2": privacy_loss.half_square}
    for one, other in neighbours(TABLES, Relation.ADD_REMOVE):
        (calls, costs, budget), (others, same, _) = runs[one], runs[other]
        assert costs == same
        assert {bool(cost.pure) for cost in costs} == {True, False}
        for call, near, cost in zip(calls, others, costs, strict=True):
            loss = privacy_loss.pure(call, near) if cost.pure else lossy[budget.unit](call, near)
            assert loss * UNITS <= (cost.pure or cost.units)
        assert budget.whole.covers(sum(costs, Cost(0)))


@pytest.mark.parametrize("way", WAYS)
def test_what_each_part_is_charged_covers_what_is_lost(way):
    check_parts(way)


# --- why the split is fixed ---

STEPS, GRID, DELTA = 40, 0.005, 1e-3
LOSSES = np.arange(-6.0, 8.0, GRID)


def worst_delta(epsilon: float, total_units: int, pure_left: Sequence[float]) -> float:
    """The delta of whoever spends mu^2 / 2 in so many steps and, when the loss is high, all that is left as pure.

    `pure_left[k]` is what may still be spent so after k steps. Optimal stopping on a grid of losses: the value is the
    expectation of (1 - e^(epsilon - loss))+ under the first table, the loss of Gaussian steps a random walk, that of a
    pure event +-e.
    """
    step = total_units / UNITS / STEPS
    deviation = math.sqrt(2 * step)
    reach = math.ceil(9 * deviation / GRID)
    kernel = norm.pdf(np.arange(-reach, reach + 1) * GRID, step, deviation)
    kernel /= kernel.sum()

    def stopped(e: float) -> np.ndarray:
        up = math.exp(e) / (1 + math.exp(e))
        high, low = (np.maximum(0, 1 - np.exp(epsilon - LOSSES - loss)) for loss in (e, -e))
        return up * high + (1 - up) * low

    value = stopped(pure_left[STEPS])
    for k in range(STEPS - 1, -1, -1):
        walked = np.convolve(np.pad(value, reach, mode="edge"), kernel[::-1], mode="valid")
        value = np.maximum(walked, stopped(pure_left[k]))
    return float(np.interp(0.0, LOSSES, value))


def asked_of(whole: Budget) -> list[float]:
    """What a ledger pays for as a pure event after each of so many Gaussian steps: it is asked, and gets it back."""
    left: list[float] = []
    with Ledger.memory(budget=whole, **IDENTITY) as ledger:
        for k in range(STEPS + 1):
            paid, refused = 0.0, 2.0
            while refused - paid > 1e-3:
                middle = (paid + refused) / 2
                key = f"probe-{k}-{middle}"
                try:
                    open_pair(ledger, 0, int(middle * UNITS), key=key)
                except BudgetExceeded:
                    refused = middle
                else:
                    ledger.settle(key)
                    paid = middle
            left.append(paid)
            if k < STEPS:
                pay(ledger, f"step-{k}", cost=Cost(whole.total_units // STEPS))
    return left


def test_stopping_at_the_best_moment_gains_nothing_on_a_ledger():
    whole = Budget(1.0, DELTA, "gaussian", pure_epsilon=0.5)
    left = asked_of(whole)
    assert min(left) > 0.498
    assert 0.3 * DELTA < worst_delta(1.0, whole.total_units, left) <= DELTA


def test_a_split_that_moves_with_the_run_is_caught(monkeypatch):
    """Planted: pure events may spend whatever of epsilon = 1 the Gaussian steps so far did not need."""
    both = Budget(2.0, DELTA, "gaussian", pure_epsilon=1.0)  # each part could be all of the promise
    epsilons = np.linspace(0.01, 1.0, 100)
    units = [Budget(float(e), DELTA, "gaussian").total_units for e in epsilons]

    def moved(real: Any) -> property:
        def left(self: Transaction) -> Cost:
            needed = float(np.interp(self._spent.units, [0, *units], [0.0, *epsilons]))
            cost = real.fget(self)
            return Cost(cost.units, cost.slack, min(cost.pure, int((1 - needed) * UNITS)))

        return property(left)

    changed(monkeypatch, Transaction, "left", moved)
    left = asked_of(both)
    assert left[0] > 0.99
    assert left[STEPS] < 0.02
    assert worst_delta(1.0, both.total_units, left) > 2.5 * DELTA


# --- planted bugs ---


def _other_part(real: Callable) -> Callable:
    def rest_of(connection, envelope):
        left = real(connection, envelope)
        return Cost(left.units, left.slack, 0) + Cost(left.pure)

    return rest_of


BUGS = {
    "settling returns the pure part to the other": (transaction, "rest_of", _other_part),
    "settling returns the first part alone": (
        transaction,
        "rest_of",
        lambda real: lambda *given: Cost(real(*given).units),
    ),
    "the larger share is charged": (
        decide,
        "charged",
        lambda real: lambda costs, **of: real(costs, **of) if len(costs) == 1 else costs[0],
    ),
    "a pure charge is not counted": (
        transaction,
        "decide",
        lambda real: (
            lambda *given: (
                decide.Accept(Cost(0)) if getattr(taken := real(*given), "cost", Cost(0)).pure else taken
            )
        ),
    ),
}


def check_some_moves() -> None:
    for moves in (
        [("open", 0, 40, 30), ("step", 0, 20, 3), ("settle", 0, 0, 0), ("open", 1, 60, 60)],
        [("open", 0, 40, 30), ("step", 0, 2, 20), ("step", 0, 30, 8), ("settle", 0, 0, 0)],
    ):
        ledger, left = replayed(moves)
        assert ledger.balance().left == left
        ledger.verify()


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    check_some_moves()
    changed(monkeypatch, *BUGS[bug])
    with pytest.raises((AssertionError, LedgerError, BudgetExceeded, ParameterError, pytest.fail.Exception)):
        check_some_moves()


def _half_price(real: Callable) -> Callable:
    def costs(self, budget):
        return tuple(Cost(c.units, c.slack, c.pure // 2) for c in real(self, budget))

    return costs


def test_a_pure_part_that_is_charged_half_is_caught(monkeypatch):
    from maquette.core.events import Event

    changed(monkeypatch, Event, "costs", _half_price)
    with pytest.raises(AssertionError):
        check_parts("zcdp")
