"""Many questions at once: the same as one by one, fewer commits, refusals in their places."""

# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportAttributeAccessIssue=false, reportPossiblyUnboundVariable=false

import itertools
from typing import Any

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core import curator as gate
from maquette.core.budget import Budget
from maquette.core.ledger.transaction import Transaction
from maquette.core.measurement import has_outcome, read_step
from maquette.errors import BudgetExceeded, KeyReused, LedgerError, UselessAnswer, WorkloadError
from maquette.sessions import Refusal, SessionAnswer
from maquette.sessions.planning import LEAST_BATCH, MAX_BATCH
from support.online_cases import PEOPLE, book, people, seeded_session, truth
from support.privacy_doubles import Untouchable

TESTS = {"epsilon": 2.0, "alpha": 0.15, "measure_first": False, "queries": 200}
CASES = {
    "tests": TESTS,
    "both": {"epsilon": 4.0, "alpha": 0.1, "queries": 200},
    "direct": {"epsilon": 1.0, "alpha": 0.2, "mechanism": "direct", "queries": 200},
    "rho": {"epsilon": 3.0, "delta": 1e-6, "alpha": 0.15, "measure_first": False, "queries": 200},
    "lasting": {"epsilon": 2.0, "budget_for_all": True, "queries": 40},
}
TEXTS = [f"age >= {a} and job = {j}" for a, j in itertools.product(range(8), range(4))]
TEXTS += [f"age <= {a} and sex = {s}" for a, s in itertools.product(range(7), range(2))]
TEXTS += ["sex = 1", "not sex = 1", "TRUE", "age >= 3 and job = 1", "age > 7", "not (age < 3 or job <> 1)"]


def opened(monkeypatch, seed: int, table, options: dict[str, Any], location=None):
    ledger = book(Budget(options["epsilon"], options.get("delta", 0.0)), location=location)
    return seeded_session(monkeypatch, seed, table, ledger=ledger, **options), ledger


def one_by_one(session, texts) -> list[Any]:
    found = []
    for text in texts:
        try:
            found.append(session.ask(text))
        except (BudgetExceeded, UselessAnswer) as error:
            found.append(Refusal(session.forecast(text).query, str(error), error.exit_code))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_questions_get_the_answers_costs_and_refusals_of_one_by_one(monkeypatch, name):
    table = people(4000)
    single, _ = opened(monkeypatch, 7, table, CASES[name])
    expected = one_by_one(single, TEXTS)
    many, ledger = opened(monkeypatch, 7, table.for_another_ledger(), CASES[name])
    found = many.ask_many(TEXTS)
    assert [_public(a) for a in found] == [_public(a) for a in expected]
    assert [(p.what, p.value, p.kind, p.cost) for p in many.history()] == [
        (p.what, p.value, p.kind, p.cost) for p in single.history()
    ]
    for answer in found:
        if isinstance(answer, SessionAnswer) and answer.receipt is not None:
            ledger.verify(answer.receipt)


def _public(answer: Any) -> Any:
    if isinstance(answer, Refusal):
        return answer
    return answer.query, answer.value, answer.error, answer.kind, answer.cost, answer.beta, answer.notes


@pytest.mark.slow
def test_free_answers_share_commits(monkeypatch):
    table = people(20_000)
    commits = []
    real = Ledger.begin_all
    monkeypatch.setattr(
        Ledger,
        "begin_all",
        lambda self, records, *, parent: commits.append(len(records)) or real(self, records, parent=parent),
    )
    session, ledger = opened(monkeypatch, 3, table, {**TESTS, "epsilon": 6.0})
    session.ask_many(TEXTS)
    before = len(commits)
    more = [
        f"age >= {a} and sex = {s} and job <> {j}" for a in range(1, 8) for s in range(2) for j in range(4)
    ]
    found = session.ask_many(more)
    assert all(abs(a.value - truth(table, t)) <= a.error for a, t in zip(found, more, strict=True))
    far = sum(a.kind == "paid" for a in found)
    assert len(commits) - before <= 2 * far + 4  # from a few guesses on, twice as many each time
    assert len(more) <= sum(commits[before:]) <= 2 * len(more) + LEAST_BATCH * far
    assert max(commits) <= MAX_BATCH
    ledger.verify()


def test_refusals_stand_in_their_places_and_the_rest_goes_on(monkeypatch):
    session, _ = opened(monkeypatch, 1, people(4000), {**TESTS, "queries": 2})
    texts = ["age >= 3", "sex = 1", "job = 2", "age < 3", "TRUE", "job = 3"]
    found = session.ask_many(texts)
    assert [isinstance(one, Refusal) for one in found] == [False, False, True, False, False, True]
    assert found[2].exit_code == 3
    assert "takes 2 questions" in found[2].why
    assert found[2].query == session.forecast("job = 2").query
    small, ledger = opened(monkeypatch, 1, people(20), {"epsilon": 1.0})
    found = small.ask_many(["age >= 3", "TRUE", "sex = 1"])
    assert [getattr(one, "exit_code", None) for one in found] == [2, None, 2]
    assert len(list(ledger.children(small.key))) == 1  # the number of records and nothing else
    allowed = small.ask_many(["age >= 3", "sex = 1"], allow_useless=True)
    assert isinstance(allowed[0], SessionAnswer)


def test_what_cannot_be_read_is_told_before_anything_is_asked(monkeypatch):
    session, ledger = opened(monkeypatch, 1, people(100), TESTS)
    session._planner.curator._engine = Untouchable(PEOPLE)
    with pytest.raises(WorkloadError, match="height"):
        session.ask_many(["age >= 3", "height > 2"])
    assert not list(ledger.children(session.key))
    assert session.ask_many([]) == []


@pytest.mark.slow
def test_a_batch_ends_with_the_first_far_guess_and_never_exceeds_the_cap(monkeypatch):
    monkeypatch.setattr(gate.OnlineCurator, "_far", lambda self, score, held, denominator: True)
    session, ledger = opened(monkeypatch, 1, people(4000), {**TESTS, "epsilon": 8.0})
    session.ask_many(TEXTS)
    run = 0
    for step in ledger.children(session.key):
        if step.body["ask"] == "epoch":
            cap, run = step.body["terms"]["cap"], 0
        elif step.body["ask"] == "test" and has_outcome(read_step(step)):
            run += 1
            assert run <= cap


def test_outcomes_of_a_batch_that_is_not_stored_are_not_shown_and_are_stored_by_the_next_try(monkeypatch):
    session, ledger = opened(monkeypatch, 3, people(20_000), {**TESTS, "epsilon": 6.0})
    session.ask_many(TEXTS)
    curator = session._planner.curator
    state = curator._open

    def fails(self, key, data):
        raise LedgerError("the disk is full")

    fresh = [f"age = {a} or sex = {a % 2}" for a in range(8)]
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "answer", fails)
        with pytest.raises(LedgerError, match="full"):
            session.ask_many(fresh)
        with pytest.raises(LedgerError, match="full"):
            session.ask(fresh[0])
    assert curator._open == state
    begun = [e.key for e in ledger.children(session.key) if e.answered is None]
    assert begun
    engine, curator._engine = curator._engine, Untouchable(PEOPLE)
    first = session.ask(fresh[0])  # kept, and stored without a look
    assert (first.kind, first.cost) == ("cached", 0.0)
    curator._engine = engine
    assert all(isinstance(a, SessionAnswer) for a in session.ask_many(fresh))
    assert all(ledger.find(key).answered is not None for key in begun)
    ledger.verify()


@pytest.mark.slow
def test_a_step_that_another_process_took_is_seen_and_the_batch_goes_on(monkeypatch, tmp_path):
    table, location = people(20_000), tmp_path / "people.ledger"
    options = {**TESTS, "epsilon": 6.0}
    one, _ = opened(monkeypatch, 1, table, options, location)
    one.ask_many(TEXTS[:20])
    other = seeded_session(monkeypatch, 2, table, ledger=Ledger.open(location), **options)
    real, turns = Ledger.begin_all, itertools.count()
    clashes = []

    def slower(self, records, *, parent):
        if self is one._ledger and next(turns) == 0:
            other.ask(TEXTS[25])
            other.ask("age = 5 and sex = 0")
        try:
            return real(self, records, parent=parent)
        except KeyReused:
            clashes.append(len(records))
            raise

    monkeypatch.setattr(Ledger, "begin_all", slower)
    found = one.ask_many(TEXTS[20:])
    assert clashes
    assert clashes[0] > 1
    assert found[5].value == other.ask(TEXTS[25]).value
    assert one.history() == other.history()
    Ledger.open(location).verify()


def test_a_random_order_of_single_and_many_questions_is_one_history(monkeypatch):
    table = people(4000)
    session, ledger = opened(monkeypatch, 9, table, {**TESTS, "epsilon": 6.0})
    rng = np.random.default_rng(5)
    given: dict[str, float] = {}
    for _ in range(12):
        texts = [str(t) for t in rng.choice(TEXTS, int(rng.integers(1, 12)))]
        for text, answer in zip(texts, session.ask_many(texts), strict=True):
            assert isinstance(answer, SessionAnswer)
            assert given.setdefault(text, answer.value) == answer.value
        text = str(rng.choice(TEXTS))
        assert given.setdefault(text, session.ask(text).value) == given[text]
    tests = [e for e in ledger.children(session.key) if e.body["ask"] == "test" and has_outcome(read_step(e))]
    assert len({e.body["meaning"] for e in tests}) == len(tests)
