"""Tables on which an error may say nothing: fewer answers instead of useless ones, and a refusal before any payment."""

# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportAttributeAccessIssue=false

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget, Unit
from maquette.core.laws import Gaussian, Laplace
from maquette.core.measurement import Receipt, Size
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, UselessAnswer
from maquette.mechanisms.online import PublicNumbers, largest_error, pmw_settings
from maquette.mechanisms.session_plan import FAIR, GOOD, USELESS, few_answers_settings, with_larger_budget
from maquette.owner import Table
from support.online_cases import PEOPLE, book, people, seeded_session, truth
from support.privacy_doubles import Untouchable

TEXTS = [f"age = {a} or job = {j}" for a, j in itertools.product(range(8), range(4))]
QUESTIONS = 10_000


def public(n: int, *, unit: Unit = Unit.EPSILON, k: int = QUESTIONS) -> PublicNumbers:
    noise = (
        Laplace(Fraction(1, 20), Fraction(20))
        if unit == "epsilon"
        else Gaussian(Fraction(1, 20), Fraction(10))
    )
    return PublicNumbers(
        unit=unit,
        price=Fraction(19, 20),
        size=Size(n, noise, Receipt(1, "")),
        k=k,
        beta=0.05,
        alpha=None,
        universe=PEOPLE.size,
    )


def test_a_small_table_gives_few_answers_that_say_something(monkeypatch):
    table = people(890)
    session = seeded_session(monkeypatch, 1, table, ledger=book(), epsilon=1.0)
    errors = []

    def ask_on() -> None:
        for text in TEXTS:
            answer = session.ask(text)
            assert session.questions_left == 9 - len(errors)
            assert abs(answer.value - truth(table, text)) <= answer.error
            errors.append(answer.error)

    with pytest.raises(BudgetExceeded):
        ask_on()
    assert len(errors) == 10
    assert max(errors) <= FAIR


@pytest.mark.parametrize("unit", [Unit.EPSILON, Unit.RHO])
def test_fewer_answers_are_planned_only_as_far_as_the_error_needs_it(unit):
    sizes = (900, 3000, 6000)
    found = [few_answers_settings(public(n, unit=unit)) for n in sizes]
    counts = [int((Fraction(19, 20) - (one.size_price or 0)) / one.measure.price) for one in found]
    assert counts == sorted(counts)
    assert all(10 <= count <= 100 for count in counts)
    assert all(one.error <= GOOD for one, count in zip(found, counts, strict=True) if count > 10)
    assert few_answers_settings(public(900, unit=unit, k=4)).error < found[0].error


def test_the_chance_of_failure_is_shared_among_as_many_answers_as_can_be_paid():
    for n, k in itertools.product((300, 900, 3000), (3, 50, QUESTIONS)):
        asked = public(n, k=k)
        found = few_answers_settings(asked)
        price, rest = found.measure.price, asked.price - (found.size_price or 0)
        payable = rest // price
        assert (payable + 1) * price > rest
        # the tail of one measured value, as many times as it can happen: no more than beta leaves, nor much less
        width = found.measure_gap.count
        tail = 2 * math.exp(-width * float(price)) / (1 + math.exp(-float(price)))
        assert asked.rest / 20 <= payable * tail <= asked.rest


def test_the_usual_plan_stays_where_its_errors_are_fair():
    assert largest_error(pmw_settings(public(20_000))) <= FAIR < largest_error(pmw_settings(public(3000)))


def blind(location, table, **options):
    """The same session on an engine that fails when it is asked."""
    engine = Untouchable(PEOPLE)
    engine.commitment = table._engine.commitment
    return mq.session(Table(engine, name="people", source="x"), ledger=Ledger.open(location), **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 1.0},
        {"epsilon": 1.0, "mechanism": "direct"},
        {"epsilon": 1.0, "budget_for_all": True},
        {"epsilon": 1.0, "mechanism": "median"},
        {"epsilon": 1.0, "alpha": 0.9},
        {"epsilon": 1.0, "measure_first": False, "alpha": 0.95},
    ],
    ids=str,
)
def test_a_useless_answer_is_refused_before_it_is_paid_and_before_the_table_is_touched(
    monkeypatch, tmp_path, options
):
    sizes = {0.9: 400, 0.95: 1500, None: 20 if options == {"epsilon": 1.0} else 150}
    table = people(sizes[options.get("alpha")])
    location = tmp_path / "x.ledger"
    session = seeded_session(monkeypatch, 1, table, ledger=book(location=location), **options)
    with pytest.raises(UselessAnswer, match="only the number of records was paid for") as refused:
        session.ask("age >= 3")
    assert refused.value.error >= USELESS
    assert "more records" in str(refused.value)
    assert "--allow-useless" in str(refused.value)
    assert [past.kind for past in session.history()] == ["size"]
    unseen = blind(location, table, **options)
    left, entries = unseen.left, len(list(Ledger.open(location).entries()))
    told = unseen.forecast("age >= 3")
    assert (told.refusal, told.error) == ("error", refused.value.error)
    for key in (None, "k"):
        with pytest.raises(UselessAnswer):
            unseen.ask("age >= 3", key=key)
    assert (unseen.left, len(list(Ledger.open(location).entries()))) == (left, entries)
    assert unseen.ask("TRUE").kind == "free"


def test_whoever_allows_any_error_gets_the_answer_and_its_repeats(monkeypatch):
    table = people(20)
    session = seeded_session(monkeypatch, 1, table, ledger=book(), epsilon=1.0)
    assert session.forecast("age >= 3").refusal is None  # the number of records is not known yet
    answer = session.ask("age >= 3", allow_useless=True)
    assert answer.error >= USELESS
    assert answer.kind == "paid"
    assert session.ask("age >= 3").kind == "cached"
    assert session.forecast("sex = 1").refusal == "error"
    assert session.forecast("sex = 1", allow_useless=True).refusal in (None, "budget")
    with pytest.raises(UselessAnswer, match="nothing was charged"):
        session.ask("sex = 1")


def test_where_the_number_of_records_is_public_a_refusal_charges_nothing_at_all(monkeypatch):
    ledger = book(relation=Relation.REPLACE_ONE)
    session = seeded_session(
        monkeypatch, 1, people(10), ledger=ledger, epsilon=1.0, relation="replace-one", mechanism="direct"
    )
    with pytest.raises(UselessAnswer, match="nothing was charged"):
        session.ask("age >= 3")
    assert session.left == session.total
    assert not list(ledger.children(session.key))


def test_the_recommended_budget_would_do(monkeypatch):
    def opened(epsilon: float) -> mq.Session:
        ledger = book(Budget(epsilon), relation=Relation.REPLACE_ONE)
        return seeded_session(
            monkeypatch,
            1,
            people(4),
            ledger=ledger,
            epsilon=epsilon,
            relation="replace-one",
            queries=QUESTIONS,
        )

    with pytest.raises(UselessAnswer, match="a budget about 2 times as large"):
        opened(1.0).ask("age >= 3")
    assert opened(2.0).ask("age >= 3").error < USELESS
    asked = replace(public(4), size=Size(4, None, None))
    assert (
        largest_error(few_answers_settings(with_larger_budget(asked, 2)))
        < USELESS
        <= largest_error(few_answers_settings(asked))
    )


def test_fewer_questions_are_recommended_where_they_help(monkeypatch):
    session = seeded_session(monkeypatch, 1, people(3000), ledger=book(), epsilon=1.0, mechanism="direct")
    with pytest.raises(UselessAnswer, match="fewer questions, such as 10"):
        session.ask("age >= 3")
    fewer = seeded_session(
        monkeypatch, 1, people(3000), ledger=book(), epsilon=1.0, mechanism="direct", queries=10
    )
    assert fewer.ask("age >= 3").error < 0.1
