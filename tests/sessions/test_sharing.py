"""Answers that one session was given are free in every other session on the same ledger."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import UNITS, Budget, Cost
from maquette.errors import LedgerError
from maquette.owner import Table
from maquette.sessions import Refusal
from maquette.sessions.opening import session as open_session
from support.online_cases import PEOPLE, book, people, seeded_session, truth
from support.privacy_doubles import Untouchable

ANA = {"epsilon": 0.5, "alpha": 0.1, "beta": 0.02, "key": "ana"}
BEN = {"epsilon": 0.4, "alpha": 0.1, "beta": 0.1, "key": "ben"}
QUESTIONS = ["age >= 3", "sex = 1 and age < 5", "job = 2 or sex = 0"]


def spent(ledger: Ledger, name: str) -> int:
    return sum(entry.units for entry in ledger.children(name))


def blind_session(table: Table, ledger: Ledger, **options):
    """A session on an engine that fails when it is asked."""
    engine = Untouchable(PEOPLE)
    engine.commitment = table._engine.commitment
    return open_session(Table(engine, name="people", source="x"), ledger=ledger, **options)


@pytest.mark.parametrize("more", [{}, {"measure_first": False}, {"mechanism": "direct"}], ids=str)
def test_an_answer_of_another_session_is_free_looks_at_nothing_and_keeps_its_statement(monkeypatch, more):
    table, ledger = people(), book()
    ana = seeded_session(monkeypatch, 1, table, ledger=ledger, **ANA, **more)
    given = {text: ana.ask(text) for text in QUESTIONS}
    ben = blind_session(table, ledger, **BEN)
    total = ledger.spent_units
    for text, first in given.items():
        told = ben.forecast(text)
        assert (told.kind, told.cost, told.error, told.guess) == ("cached", 0.0, first.error, first.value)
        answer = ben.ask(text)
        assert (answer.value, answer.error, answer.kind, answer.cost) == (
            first.value,
            first.error,
            "cached",
            0.0,
        )
        assert answer.beta == ANA["beta"]
        assert "ana" in answer.notes[-1]
        assert abs(answer.value - truth(table, text)) <= answer.error
        ledger.verify(answer.receipt)
    turned = ben.ask("not (age >= 3)")
    assert turned.value == 1 - given["age >= 3"].value
    assert turned.beta == ANA["beta"]
    assert spent(ledger, "ben") == 0
    assert ledger.spent_units == total
    assert ben.questions_left == 10_000


def test_what_was_taken_over_stays_the_same_after_a_restart_and_under_a_key(monkeypatch, tmp_path):
    table, location = people(), tmp_path / "people.ledger"
    ana = seeded_session(monkeypatch, 1, table, ledger=book(location=location), **ANA)
    first = ana.ask("age >= 3")
    ben = blind_session(table, Ledger.open(location), **BEN)
    assert ben.ask("age >= 3", key="k").value == first.value
    again = blind_session(table, Ledger.open(location), **BEN)
    for text, key in (("age > 2", None), ("age >= 3", "k"), ("age >= 3", "other")):
        answer = again.ask(text, key=key)
        assert (answer.value, answer.kind, answer.beta) == (first.value, "cached", ANA["beta"])
    assert [past.kind for past in again.history()] == ["cached"] * 2
    assert again.left == again.total


def test_an_answer_with_a_larger_error_than_was_asked_for_is_not_taken_over(monkeypatch):
    table, ledger = people(), book()
    seeded_session(monkeypatch, 1, table, ledger=ledger, **{**ANA, "alpha": 0.2}).ask("age >= 3")
    ben = seeded_session(monkeypatch, 2, table, ledger=ledger, **BEN)
    answer = ben.ask("age >= 3")
    assert answer.kind == "paid"
    assert answer.error <= BEN["alpha"]
    assert answer.beta == BEN["beta"]
    carl = seeded_session(monkeypatch, 3, table, ledger=ledger, epsilon=0.1, alpha=0.2, key="carl")
    assert carl.ask("age >= 3").value == answer.value  # of two, the one with the smaller error


def test_a_session_without_a_wanted_error_takes_over_what_it_could_state_itself(monkeypatch):
    table, ledger = people(), book()
    ana = seeded_session(monkeypatch, 1, table, ledger=ledger, **ANA)
    first = ana.ask("age >= 3")
    ben = seeded_session(monkeypatch, 2, table, ledger=ledger, epsilon=0.4, key="ben")
    assert ben.ask("age >= 3").value == first.value
    own = ben.ask("sex = 1")
    assert own.kind == "paid"
    assert ben.ask("age >= 3").value == first.value


def test_an_exhausted_session_still_takes_over(monkeypatch):
    table, ledger = people(), book()
    ben = seeded_session(monkeypatch, 2, table, ledger=ledger, queries=1, **BEN)
    ben.ask("sex = 1")
    assert isinstance(ben.ask_many(["age >= 3"])[0], Refusal)
    ana = seeded_session(monkeypatch, 1, table, ledger=ledger, **ANA)
    answers = ana.ask_many(QUESTIONS)
    assert [a.value for a in ben.ask_many(QUESTIONS)] == [a.value for a in answers]


def test_analysts_keep_their_shares(monkeypatch):
    table, ledger = people(), book(Budget(1.0))
    ana = seeded_session(
        monkeypatch, 1, table, ledger=ledger, epsilon=0.5, alpha=0.1, analyst="ana", share=0.5
    )
    ben = seeded_session(
        monkeypatch, 2, table, ledger=ledger, epsilon=0.5, alpha=0.1, analyst="ben", share=0.5
    )
    paid = sum(ana.ask(text).cost for text in QUESTIONS)
    for text in QUESTIONS:
        ben.ask(text)
    assert ben.left == ben.total
    assert ana.left == pytest.approx(ana.total - paid)
    assert (spent(ledger, ana.key) + spent(ledger, ben.key)) / UNITS == pytest.approx(paid)
    ledger.verify()


def test_a_secret_threshold_is_never_taken_over(monkeypatch):
    table, ledger = people(), book()
    ana = seeded_session(monkeypatch, 1, table, ledger=ledger, **ANA, measure_first=False)
    ana.ask_many(QUESTIONS)
    assert any(e.body["ask"] == "epoch" for e in ledger.children("ana"))
    ben = blind_session(table, ledger, **BEN)
    ben.ask_many(QUESTIONS)
    steps = [step for found in ben._planner.shared._steps._steps.values() for _, step in found]
    assert {step.ask for step in steps} == {"test"}
    assert not any(e.body["ask"] == "epoch" for e in ledger.children("ben"))


def test_a_payment_that_was_never_answered_is_waited_for(monkeypatch):
    table, ledger = people(), book()
    ana = seeded_session(monkeypatch, 1, table, ledger=ledger, **ANA, mechanism="direct")
    ana.ask("sex = 1")

    def stop(*words, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "store_all", stop)
        with pytest.raises(KeyboardInterrupt):
            ana.ask("age >= 3")
    ben = blind_session(table, ledger, **BEN)
    assert ben.forecast("age >= 3").kind == "size"  # a new question: there is nothing to share yet
    first = ana.ask("age >= 3")
    assert ben.ask("age >= 3").value == first.value


def test_what_something_else_reserved_in_a_session_stops_that_session_alone(monkeypatch):
    table, ledger = people(), book()
    ana = seeded_session(monkeypatch, 1, table, ledger=ledger, **ANA)
    first = ana.ask(QUESTIONS[0])
    ledger.reserve("aside", request="1" * 64, tag="pure", cost=Cost(5), body={}, parent="ana")
    ben = seeded_session(monkeypatch, 2, table, ledger=ledger, **BEN)
    assert ben.ask(QUESTIONS[0]).value == first.value
    with pytest.raises(LedgerError, match="found 'aside', which something else reserved"):
        ana.ask(QUESTIONS[1])
