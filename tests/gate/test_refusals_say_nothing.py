"""After a look there is one path: store, return. What refuses is decided before it, by public numbers alone."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from fractions import Fraction

import pytest

from maquette.accounting.ledger import Ledger, Rate
from maquette.core.budget import Budget, Cost
from maquette.core.curator import Curator, OnlineCurator
from maquette.core.laws import NoiseRequest
from maquette.core.ledger import ledger as calls
from maquette.core.ledger import looks
from maquette.core.ledger.transaction import Transaction
from maquette.core.measurement import EpochTerms, Verdict, read_step, verdict_of
from maquette.core.sparse import Guess
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, KeyReused, LedgerError, LookFailed, ParameterError, RateExceeded
from maquette.owner import Table
from maquette.queries import where
from support.ledger_cases import digest
from support.ledger_clock import stop_the_clock
from support.privacy_conformance import TINY
from support.privacy_doubles import LooseEngine, Untouchable, columns_of, ledger_for, set_aside, table_of

NEAR, FAR, VOID, LOST = Verdict
pytestmark = pytest.mark.privacy

PURE = Budget(1.0)
HISTOGRAM = (3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2)
QUERY = where(TINY, "b = 0")
TERMS = EpochTerms(4, 3, Fraction(1, 10), Fraction(2, 10), Fraction(1, 10))
PRICE = Fraction(1, 4)


def online(ledger, far_at=None, table=None, key="session") -> OnlineCurator:
    """A curator whose tests are far at given guesses and nowhere else."""
    if ledger.find(key) is None:
        set_aside(ledger, key, PURE)
    curator = OnlineCurator(table or table_of(TINY, HISTOGRAM), ledger, key=key, budget=PURE)
    curator.catch_up()
    if curator.epoch is None:
        curator.open_epoch(TERMS)
    exact = int(curator._engine.answer(QUERY.to_forms())[0]) if table is None else 0
    wanted = {exact - guess for guess in far_at or ()}
    curator._far = lambda score, *rest: score in {abs(one) for one in wanted}
    return curator


def new_ledger(location=None, total=PURE):
    return ledger_for(TINY, budget=total, relation=Relation.ADD_REMOVE, location=location)


def guesses(*numbers: int) -> list[Guess]:
    return [Guess(QUERY, number) for number in numbers]


def verdicts(ledger, key="session") -> list[int]:
    steps = [read_step(entry) for entry in ledger.children(key)]
    return [verdict_of(step) for step in steps if step.ask == "test"]


def process_ends() -> None:
    """What a process knows ends with it."""
    looks._BY_LEDGER.clear()


# --- tests of guesses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far_at", [(), (100,), (103,), (107,)])
def test_a_rate_decides_by_the_number_of_guesses_given_and_before_the_look(far_at, monkeypatch):
    """Whatever the outcome: the same steps begun, the same words, the same seconds, the same room afterwards."""
    stop_the_clock(monkeypatch)
    seen = []
    ledger = new_ledger()
    curator = online(ledger, far_at)
    ledger.limit("session", Rate(6, 3600))
    outcomes = curator.test_all(guesses(*range(100, 108)))  # one step is the epoch: five of eight fit
    assert len(outcomes) == next((i + 1 for i in range(5) if 100 + i in far_at), 5)
    assert len(verdicts(ledger)) == 5
    curator._engine = Untouchable(TINY)
    for _ in range(3):
        with pytest.raises(RateExceeded) as refusal:
            curator.test_all(guesses(1, 2, 3))
        seen.append((str(refusal.value), refusal.value.seconds))
    assert seen == [("at most 6 new steps in 3,600 s; ask again in 3,600 s", 3600)] * 3
    assert len(verdicts(ledger)) == 5


def test_guesses_after_a_far_one_are_stored_as_not_tested_in_as_much_room():
    ledger = new_ledger()
    curator = online(ledger, [102])
    assert [one.far for one in curator.test_all(guesses(*range(100, 106)))] == [False, False, True]
    assert verdicts(ledger) == [NEAR, NEAR, FAR, VOID, VOID, VOID]
    assert curator.tests_left == 2
    with ledger._store.reading() as connection:
        rows = connection.exec_driver_sql("SELECT length(data) FROM payload WHERE key LIKE 'session/%'").all()
    assert len({length for (length,) in rows[1:]}) == 1
    ledger.verify()
    again = online(ledger, [102])
    assert again.tests_left == 2
    assert [step.number for step in again.catch_up()] == []


def test_a_settled_envelope_and_a_taken_key_refuse_before_the_look():
    ledger = new_ledger()
    curator, other = online(ledger), online(ledger)
    other.test_all(guesses(1))
    curator._engine = Untouchable(TINY)
    with pytest.raises(KeyReused):
        curator.test_all(guesses(1, 2))
    ledger.settle("session")
    curator.catch_up()
    with pytest.raises(LedgerError, match="settled"):
        curator.test_all(guesses(1, 2))


def test_an_envelope_that_is_settled_during_the_look_takes_what_was_begun():
    ledger = new_ledger()
    curator = online(ledger, [5])
    real = curator._look_all

    def look(*arguments):
        ledger.settle("session")
        return real(*arguments)

    curator._look_all = look
    assert [one.far for one in curator.test_all(guesses(4, 5))] == [False, True]
    ledger.verify()


def test_a_test_is_dated_before_its_look(monkeypatch):
    ledger = new_ledger()
    curator = online(ledger)
    at_look = []
    real = curator._look_all

    def look(*arguments):
        (entry,) = [e for e in ledger.children("session") if e.answered is None]
        at_look.append(entry.created)
        return real(*arguments)

    curator._look_all = look
    curator.test_all(guesses(1))
    begun, answered = [e for e in ledger.entries() if e.key == "session/0001"]
    assert [begun.created, answered.created] == at_look * 2


@pytest.mark.parametrize("far_at", [(), (4,)])
def test_outcomes_that_could_not_be_stored_are_kept_counted_and_given_to_the_same_guesses(
    far_at, monkeypatch, tmp_path
):
    location = tmp_path / "a.ledger"
    ledger = new_ledger(location)
    curator = online(ledger, far_at)
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", _full)
        for _ in range(3):
            with pytest.raises(LedgerError, match="full"):
                curator.test_all(guesses(3, 4, 5))
            curator._engine = Untouchable(TINY)
    outcomes = curator.test_all(guesses(3, 4, 5))
    assert [one.far for one in outcomes] == ([False, True] if far_at else [False] * 3)
    assert curator.tests_left == 3 - len(far_at)
    assert len(verdicts(ledger)) == 3


def test_other_guesses_after_a_failure_do_not_get_rid_of_a_far_outcome(monkeypatch):
    ledger = new_ledger()
    curator = online(ledger, [4])
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", _full)
        with pytest.raises(LedgerError, match="full"):
            curator.test_all(guesses(4, 5))
    assert [one.far for one in curator.test_all(guesses(6))] == [False]
    assert verdicts(ledger) == [FAR, VOID, NEAR]
    assert curator.tests_left == 2
    assert [step.number for step in curator.catch_up()] == [0, 1, 2, 3]


def test_tests_that_were_lost_with_their_process_count_as_one_far_guess(tmp_path, monkeypatch):
    location = tmp_path / "a.ledger"
    curator = online(new_ledger(location))
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", _full)
        with pytest.raises(LedgerError):
            curator.test_all(guesses(3, 4, 5))
    process_ends()
    monkeypatch.setattr(calls, "PATIENCE", 0.0)
    again = online(Ledger.open(location))
    assert verdicts(again._ledger) == [LOST, VOID, VOID]
    assert again.tests_left == 2
    assert [one.far for one in again.test_all(guesses(3, 4, 5))] == [False] * 3
    again._ledger.verify()


def test_tests_that_were_begun_and_not_looked_at_cost_nothing(monkeypatch):
    ledger = new_ledger()
    curator = online(ledger)
    real = ledger.begin_all

    def begins(*arguments, **more):
        real(*arguments, **more)
        raise LedgerError("the receipt cannot be written")

    monkeypatch.setattr(ledger, "begin_all", begins)
    with pytest.raises(LedgerError, match="receipt"):
        curator.test_all(guesses(3, 4))
    curator.catch_up()
    assert verdicts(ledger) == [VOID, VOID]
    assert curator.tests_left == 3


# --- questions that are paid for ------------------------------------------------------------------------------------


def curator_on(ledger, engine=None) -> Curator:
    if ledger.find("release") is None:
        set_aside(ledger, "release", PURE)
    table = table_of(TINY, HISTOGRAM) if engine is None else Table(engine, name="tiny", source="test")
    return Curator(table, ledger, key="release", budget=PURE)


def _full(*_: object) -> None:
    raise LedgerError("the disk is full")


def test_a_store_that_fails_gives_one_look_and_the_next_try_stores_the_same_bytes(monkeypatch, tmp_path):
    location = tmp_path / "a.ledger"
    ledger = new_ledger(location)
    curator, looked = curator_on(ledger), []
    real = curator._noise.laplace
    curator._noise.laplace = lambda *a, **b: looked.append(real(*a, **b)) or looked[-1]
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", _full)
        for _ in range(5):
            with pytest.raises(LedgerError, match="full"):
                curator.size(price=PRICE)
        with pytest.raises(LedgerError, match="full"):  # another object of the same process
            curator_on(Ledger.open(location), OnlyCompared()).size(price=PRICE)
    assert len(looked) == 1
    assert curator.size(price=PRICE).value == int(looked[0][0])
    assert curator.left == 1 - PRICE
    assert curator_on(Ledger.open(location)).size(price=PRICE).value == int(looked[0][0])
    assert not [e for e in ledger.entries() if "/again/" in e.key]


class OnlyCompared(LooseEngine):
    """A table that may be compared with its ledger and not be asked."""

    def __init__(self) -> None:
        super().__init__(TINY, columns_of(TINY, HISTOGRAM))

    def size(self) -> int:
        raise AssertionError("a second look")


def test_a_look_that_was_lost_with_its_process_is_charged_again_outside_of_its_envelope(
    monkeypatch, tmp_path
):
    location = tmp_path / "a.ledger"
    curator = curator_on(new_ledger(location, Budget(2.0)))
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", _full)
        with pytest.raises(LedgerError):
            curator.size(price=PRICE)
        process_ends()
        monkeypatch.setattr(calls, "PATIENCE", 0.0)
        with pytest.raises(LedgerError):
            curator_on(Ledger.open(location)).size(price=PRICE)
        process_ends()
    ledger = Ledger.open(location)
    spent = ledger.spent_units
    again = curator_on(ledger)
    again.size(price=PRICE)
    assert again.left == 1 - PRICE
    (paid,) = ledger.children("release")
    further = [e for e in ledger.entries(kind="reserve") if "/again/" in e.key]
    assert [(e.key, e.parent, e.units, e.tag) for e in further] == [
        (f"release/0000/again/{i}", None, paid.units, paid.tag) for i in (1, 2)
    ]
    assert ledger.spent_units == spent + paid.units
    assert ledger.settle("release").settlement is not None
    ledger.verify()


def test_a_lost_look_that_the_total_does_not_cover_is_refused_in_words(monkeypatch, tmp_path):
    location = tmp_path / "a.ledger"
    curator = curator_on(new_ledger(location))
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", _full)
        with pytest.raises(LedgerError):
            curator.size(price=PRICE)
    process_ends()
    monkeypatch.setattr(calls, "PATIENCE", 0.0)
    again = curator_on(Ledger.open(location), OnlyCompared())
    with pytest.raises(BudgetExceeded, match=r"paid to see was lost.*charged once more.*is left"):
        again.size(price=PRICE)


def test_what_another_process_may_still_be_looking_at_is_waited_for(monkeypatch, tmp_path):
    location = tmp_path / "a.ledger"
    first = curator_on(new_ledger(location))
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", _full)
        with pytest.raises(LedgerError):
            first.size(price=PRICE)
    kept = dict(looks._BY_LEDGER)
    process_ends()
    waits = []

    def answered_meanwhile(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            ours, looks._BY_LEDGER = looks._BY_LEDGER, kept
            first.size(price=PRICE)
            looks._BY_LEDGER = ours

    monkeypatch.setattr(calls.time, "sleep", answered_meanwhile)
    value = curator_on(Ledger.open(location), OnlyCompared()).size(price=PRICE).value
    assert len(waits) == 3
    assert value == curator_on(Ledger.open(location)).size(price=PRICE).value
    assert not [e for e in Ledger.open(location).entries() if "/again/" in e.key]


class Fails(LooseEngine):
    """A machine that fails, in words that depend on the rows."""

    error: type[Exception] = MemoryError

    def size(self) -> int:
        raise self.error(f"{super().size()} rows")


@pytest.mark.parametrize("error", [MemoryError, AssertionError, ValueError, RecursionError])
def test_a_machine_that_fails_is_charged_and_says_nothing_of_the_rows(error, monkeypatch):
    monkeypatch.setattr(Fails, "error", error)
    ledger = new_ledger(total=Budget(2.0))
    curator = curator_on(ledger, Fails(TINY, columns_of(TINY, HISTOGRAM)))
    with pytest.raises(LookFailed, match="the price stays charged") as failure:
        curator.size(price=PRICE)
    assert "12" not in str(failure.value)
    assert (failure.value.__cause__, failure.value.__context__) == (None, None)
    assert curator.left == 1 - PRICE
    curator.measure(QUERY, noise=NoiseRequest("laplace", PRICE))  # another question goes on
    assert [e.key for e in ledger.children("release")] == ["release/0000", "release/0001"]


def test_a_test_on_a_machine_that_fails_counts_as_far():
    ledger = new_ledger()
    curator = online(ledger)
    curator._look = lambda *_: (_ for _ in ()).throw(MemoryError("12 rows"))
    with pytest.raises(LookFailed) as failure:
        curator.test_all(guesses(1, 2))
    assert failure.value.__context__ is None
    curator.catch_up()
    assert verdicts(ledger) == [LOST, VOID]
    assert curator.tests_left == 2


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["session/0007", "a/b/12345", "session/0007/again/1", "session/again/3"])
def test_a_name_that_reads_like_a_step_of_another_envelope_is_refused(key):
    ledger = new_ledger()
    set_aside(ledger, "other", Budget(0.1))
    for parent in (None, "other"):
        with pytest.raises(ParameterError, match="reads like a step of"):
            ledger.reserve(
                key, request=digest(key), tag="x", cost=Cost(1), body={}, parent=parent, envelope=True
            )


def test_other_names_with_a_slash_or_digits_pass():
    ledger = new_ledger()
    for key in ("survey/spring", "2024/07", "session-0007"):
        ledger.reserve(key, request=digest(key), tag="x", cost=Cost(1), body={}, envelope=True)
        assert ledger.find(key) is not None
