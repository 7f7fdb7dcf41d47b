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
