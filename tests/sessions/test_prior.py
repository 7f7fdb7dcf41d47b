"""Sessions that start from a release: cheaper, never less careful."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportOptionalMemberAccess=false, reportPossiblyUnboundVariable=false

import math
from dataclasses import replace

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Budget
from maquette.domain import Attribute, Kind
from maquette.errors import KeyReused, ParameterError
from maquette.models.answers import Answers
from maquette.models.hypothesis import LOG_MIXING
from maquette.queries import marginals
from maquette.sessions.borrowed import BorrowedAnswers
from maquette.sessions.question import QuestionReader
from maquette.theory import online
from support.online_cases import PEOPLE, book, people, seeded_session, truth

QUESTIONS = [f"age = {a} and sex = {s} and job = {j}" for a in range(8) for s in range(2) for j in range(4)]


def release_of(seed=0, n=20_000):
    """Public rows near the table: a release at a large epsilon."""
    return mq.release(
        people(n, seed),
        marginals(PEOPLE, 3),
        epsilon=5.0,
        mechanism="histogram-laplace",
        certificate=None,
        ledger=book(Budget(5.0)),
    )


def spend(monkeypatch, prior, seed=3, **options):
    table = people()
    options = {"epsilon": 10.0, "alpha": 0.05, "queries": 100} | options
    budget = Budget(options["epsilon"], options.get("delta", 0.0))
    session = seeded_session(monkeypatch, seed, table, ledger=book(budget), prior=prior, **options)
    answers = session.ask_many(QUESTIONS)
    errors = [abs(a.value - truth(table, text)) - a.error for a, text in zip(answers, QUESTIONS, strict=True)]
    return session, session.total - session.left, max(errors)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"measure_first": False}])
def test_a_good_prior_saves_budget_and_states_the_same(monkeypatch, options):
    _, without, first = spend(monkeypatch, None, **options)
    _, within, second = spend(monkeypatch, release_of(), **options)
    assert within < without
    assert max(first, second) <= 0


@pytest.mark.slow
def test_a_wrong_prior_is_never_believed(monkeypatch):
    wrong = release_of()
    codes = {name: np.zeros_like(column) for name, column in wrong.database.columns.items()}
    lying = replace(wrong, database=replace(wrong.database, columns=codes))
    _, spent, outside = spend(monkeypatch, lying)
    _, near, _ = spend(monkeypatch, wrong)
    assert spent > near
    assert outside <= 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"mechanism": "median"}, {"budget_for_all": True}])
def test_sessions_whose_budget_lasts_count_the_start(monkeypatch, options):
    options = {"epsilon": 4.0, "queries": 64, "alpha": None} | options
    session, _, outside = spend(monkeypatch, release_of(), **options)
    assert outside <= 0
    settings = session._planner.settings()
    plain, _, _ = spend(monkeypatch, None, **options)
    before = plain._planner.settings()
    assert max(settings.error, settings.answer_error) > max(before.error, before.answer_error)


BOTH = [f"sex = {s} and job = {j}" for s in range(2) for j in range(4)]


def bound_release(ledger, *, n=20_000):
    return mq.release(people(n), marginals(PEOPLE, 2), epsilon=2.0, ledger=ledger)


def lent(answers):
    return sum("by release" in " ".join(answer.notes) for answer in answers)


@pytest.mark.parametrize("alpha", [None, 0.05])
def test_what_a_release_of_the_same_ledger_states_is_taken_over(tmp_path, alpha):
    table, ledger = people(), book(Budget(4.0), location=tmp_path / "l.ledger")
    prior = bound_release(ledger)
    prior.save(tmp_path / "r")
    options = {"epsilon": 1.0, "alpha": alpha, "queries": 60, "prior": mq.load(tmp_path / "r")}
    session = mq.session(table, ledger=ledger, **options)
    first = session.ask(BOTH[0])  # without alpha the number of records is bought first
    before = session.left
    answers = session.ask_many(BOTH)
    assert session.left == before
    assert lent(answers) == len(BOTH)
    for text, answer in zip(BOTH, answers, strict=True):
        stated = prior.answer(text)
        assert (answer.value, answer.error) == (stated.value, stated.error)
        assert answer.beta == pytest.approx(1 - stated.confidence)
        assert abs(answer.value - truth(table, text)) <= answer.error
    assert first.value == answers[0].value
    again = mq.session(table, ledger=ledger, key=session.key, **options)
    assert [a.value for a in again.ask_many(BOTH)] == [a.value for a in answers]
    assert lent(again.ask_many(BOTH)) == len(BOTH)


def test_what_another_ledger_paid_for_or_was_changed_is_not_believed():
    ledger = book(Budget(4.0))
    bound = bound_release(ledger)
    changed = replace(bound, certificate=replace(bound.certificate, alpha=bound.certificate.alpha / 2))
    elsewhere = bound_release(book(Budget(4.0)), n=2_000)
    for prior, expected in [(bound, len(BOTH)), (changed, 0), (elsewhere, 0)]:
        own = ledger if prior is not elsewhere else book(Budget(4.0))
        session = mq.session(
            people(), epsilon=0.5, alpha=0.1, queries=60, prior=prior, ledger=own, key=f"{id(prior)}"
        )
        assert lent(session.ask_many(BOTH)) == expected


def test_an_error_above_that_of_the_session_is_not_taken_over():
    ledger = book(Budget(4.0))
    prior = bound_release(ledger)
    borrowed = BorrowedAnswers.of(prior, ledger)
    for text in BOTH:
        question, error = QuestionReader(PEOPLE).read(text), prior.answer(text).error
        assert borrowed.find(question, within=error).error == error
        assert borrowed.find(question, within=0.99 * error) is None


def test_an_error_that_holds_for_one_question_alone_is_not_taken_over(monkeypatch):
    ledger = book(Budget(4.0))
    prior = bound_release(ledger)
    question, stated = QuestionReader(PEOPLE).read(BOTH[0]), prior.answer(BOTH[0])
    assert stated.holds_for == "all answers of the release together"
    for changes, taken in [
        ({}, True),
        ({"holds_for": "this question alone"}, False),
        ({"error": None}, False),
    ]:
        monkeypatch.setattr(mq.Release, "answer", lambda _, query, to=changes: replace(stated, **to))
        assert (BorrowedAnswers.of(prior, ledger).find(question, within=1.0) is not None) == taken


def test_the_theorem_pays_for_a_start_that_is_not_uniform():
    public = {"unit": "epsilon", "price": 1.0, "n": 20_000, "universe": 4, "k": 50, "beta": 0.05, "rows": 39}
    uniform, started = online.median(**public), online.median(**public, log_start=LOG_MIXING)
    assert uniform.run.c == 13
    assert started.run.c == 13 + math.floor(LOG_MIXING / math.log(2) + 0.5)
    assert started.run.error > uniform.run.error


def test_going_on_needs_the_same_release(monkeypatch, tmp_path):
    table, prior = people(), release_of()
    options = {"epsilon": 1.0, "alpha": 0.05, "queries": 100}
    first = seeded_session(
        monkeypatch, 1, table, ledger=book(location=tmp_path / "l"), prior=prior, **options
    )
    told = [first.ask(text) for text in QUESTIONS[:40]]
    ledger = mq.Ledger.open(tmp_path / "l")
    again = seeded_session(monkeypatch, 2, table, ledger=ledger, prior=prior, key=first.key, **options)
    assert [again.ask(text).value for text in QUESTIONS[:40]] == [answer.value for answer in told]
    assert again.left == first.left
    for other in (None, release_of(seed=4)):
        with pytest.raises(KeyReused):
            seeded_session(monkeypatch, 2, table, ledger=ledger, prior=other, key=first.key, **options)


def test_what_is_no_prior(monkeypatch):
    table, prior = people(), release_of()
    wider = mq.Domain((*PEOPLE.attributes[:2], Attribute("job", Kind.CATEGORICAL, codes=5)))
    answers_only = replace(prior, database=None, rows_distance=None)
    marked = replace(prior, watermark="a test double")
    for wrong, words in [
        (answers_only, "no rows"),
        (marked, "is not private"),
        (prior.rows, "expected prior to be a Release"),
    ]:
        with pytest.raises(ParameterError, match=words):
            mq.session(table, epsilon=1.0, prior=wrong)
    with pytest.raises(ParameterError, match="pmw or median"):
        mq.session(table, epsilon=1.0, prior=prior, mechanism="direct")
    with pytest.raises(ParameterError, match="another domain"):
        mq.session(
            table,
            epsilon=1.0,
            prior=replace(
                prior,
                workload=marginals(wider, 3),
                answers=Answers.from_fractions(np.zeros(80)),
                deviations=None,
            ),
        )
