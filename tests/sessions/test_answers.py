"""What a session answers, what it charges and what it refuses."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOperatorIssue=false

import itertools
from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import UNITS, Budget
from maquette.domain import Relation
from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    LedgerError,
    MechanismError,
    ParameterError,
    WorkloadError,
)
from maquette.owner import Table
from maquette.queries import marginals, prefixes, weights
from support.online_cases import PEOPLE, book, people, seeded_session, truth
from support.privacy_doubles import Touched, Untouchable

ALPHA = {"epsilon": 1.0, "alpha": 0.1}
SPEND = {"epsilon": 1.0, "alpha": 0.1, "measure_first": False}
QUESTIONS = [
    "age >= 3",
    "sex = 1",
    "age between 1 and 4",
    "job in (0, 2) and sex = 0",
    "age < 2 and job = 1",
    "age = 2 or job = 3",
    "not (sex = 1 and age > 4)",
]


def spent(ledger: Ledger) -> Fraction:
    return Fraction(sum(e.units for e in ledger.entries(kind="reserve") if not e.envelope), UNITS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ALPHA,
        SPEND,
        {"epsilon": 1.0},
        {"epsilon": 1.0, "delta": 1e-6, "alpha": 0.1},
        {"epsilon": 1.0, "delta": 1e-6, "alpha": 0.1, "measure_first": False},
        {"epsilon": 1.0, "relation": "replace-one", "alpha": 0.1},
        {"epsilon": 1.0, "mechanism": "direct", "queries": 20},
        {"epsilon": 2.0, "delta": 1e-6, "mechanism": "direct", "alpha": 0.05},
        {"epsilon": 1.0, "alpha": 0.2, "update": "step"},
        {"epsilon": 1.0, "budget_for_all": True, "queries": 100},
        {"epsilon": 1.0, "delta": 1e-6, "budget_for_all": True, "queries": 100},
        {"epsilon": 2.0, "mechanism": "median", "queries": 100},
        {"epsilon": 2.0, "delta": 1e-6, "mechanism": "median", "queries": 100},
        {"epsilon": 1.0, "delta": 1e-6, "budget_for_all": True, "relation": "replace-one", "queries": 100},
    ],
    ids=str,
)
def test_answers_are_within_their_error_and_the_ledger_knows_what_was_paid(monkeypatch, options):
    table = people()
    ledger = book(
        Budget(options["epsilon"], options.get("delta", 0.0)),
        relation=Relation(options.get("relation", "add-remove")),
    )
    session = seeded_session(monkeypatch, 3, table, ledger=ledger, **options)
    total = 0.0
    for text in QUESTIONS:
        before = session.left
        answer = session.ask(text)
        assert abs(answer.value - truth(table, text)) <= answer.error
        assert answer.beta == 0.05
        assert answer.left == pytest.approx(before - answer.cost, abs=1e-15)
        assert (answer.kind == "free") <= (answer.cost == 0)
        assert answer.receipt is not None
        ledger.verify(answer.receipt)
        total += answer.cost
    assert total == pytest.approx(float(spent(ledger)), abs=1e-12)
    assert sum(past.cost for past in session.history()) == pytest.approx(total, abs=1e-12)
    assert session.left == pytest.approx(session.total - total, abs=1e-12)
    if "alpha" in options:
        assert all(p.error <= options["alpha"] + 1e-12 for p in session.history() if p.error is not None)


def test_the_same_question_in_other_words_is_free_and_the_same(monkeypatch):
    session = seeded_session(monkeypatch, 1, people(), ledger=book(), **ALPHA)
    first = session.ask("age >= 3 and sex = 1")
    for text in ("sex = 1 and not age < 3", "sex <> 0 and age in (3,4,5,6,7)", "age > 2 and sex = 1"):
        again = session.ask(text)
        assert (again.value, again.error, again.kind, again.cost) == (first.value, first.error, "cached", 0.0)
        assert again.receipt == first.receipt
    turned = session.ask("age < 3 or sex = 0")
    assert (turned.value, turned.kind) == (1 - first.value, "cached")
    assert session.ask("age >= 3").kind == "paid"  # a near duplicate is another question


def test_queries_of_every_class_are_taken_one_at_a_time(monkeypatch):
    session = seeded_session(monkeypatch, 1, people(), ledger=book(), **ALPHA)
    value = session.ask("age <= 2").value
    with pytest.raises(WorkloadError, match="one query at a time"):
        session.ask(prefixes(PEOPLE, "age"))
    matrix = np.zeros((1, PEOPLE.size))
    matrix[0, : PEOPLE.size * 3 // 8] = 1.0
    assert session.ask(weights(PEOPLE, matrix)).kind == "cached"
    assert session.ask(weights(PEOPLE, matrix)).value == value
    assert session.ask(weights(PEOPLE, 1 - matrix)).value == 1 - value
    half = np.full((1, PEOPLE.size), 0.5)
    half[0, 0], half[0, 1] = 0.25, 0.75
    mixed = session.ask(weights(PEOPLE, half))
    assert mixed.kind == "paid"
    assert abs(mixed.value - 0.5) < 0.2
    with pytest.raises(ParameterError, match="expected query to be a text or a class of queries"):
        session.ask(3)


def test_constant_questions_need_no_data_and_no_payment():
    ledger = book()
    session = mq.session(Table(Untouchable(PEOPLE), name="x", source="x"), ledger=ledger, **ALPHA)
    for text, value in (("sex = 0 or sex = 1", 1.0), ("age > 7", 0.0), ("TRUE", 1.0)):
        answer = session.ask(text)
        assert (answer.value, answer.error, answer.kind, answer.cost) == (value, 0.0, "free", 0.0)
    assert not list(ledger.children(session.key))
    with pytest.raises(Touched, match="touched"):
        session.ask("sex = 1")


def test_a_key_gives_the_same_answer_for_ever_and_belongs_to_one_question(monkeypatch, tmp_path):
    location = tmp_path / "people.ledger"
    table = people()
    session = seeded_session(monkeypatch, 1, table, ledger=book(location=location), **ALPHA)
    first = session.ask("age >= 3", key="k1")
    assert session.ask("age >= 3", key="k2").kind == "cached"
    assert session.ask("age < 3", key="k3").value == 1 - first.value
    assert session.ask("sex in (0, 1)", key="k4").kind == "free"
    again = seeded_session(monkeypatch, 99, table, ledger=Ledger.open(location), **ALPHA)
    for one in (session, again):
        for key, text, value in (
            ("k1", "age >= 3", first.value),
            ("k2", "age > 2", first.value),
            ("k3", "not age >= 3", 1 - first.value),
            ("k4", "TRUE", 1.0),
        ):
            answer = one.ask(text, key=key)
            assert (answer.value, answer.kind, answer.cost) == (value, "cached", 0.0)
        for key, text in (("k1", "age >= 4"), ("k2", "sex = 1"), ("k4", "FALSE"), ("k4", "age >= 3")):
            with pytest.raises(KeyReused):
                one.ask(text, key=key)
    with pytest.raises(ParameterError):
        session.ask("age >= 3", key="")


@pytest.mark.parametrize(
    "options", [ALPHA, SPEND, {"epsilon": 1.0, "mechanism": "direct", "queries": 9}], ids=str
)
def test_a_restart_goes_on_where_it_stopped(monkeypatch, tmp_path, options):
    table = people()
    location = tmp_path / "people.ledger"
    session = seeded_session(monkeypatch, 5, table, ledger=book(location=location), **options)
    given = {text: session.ask(text) for text in QUESTIONS[:5]}
    again = seeded_session(monkeypatch, 6, table, ledger=Ledger.open(location), **options)
    assert again.key == session.key
    assert again.left == session.left
    assert again.history() == session.history()
    for text, answer in given.items():
        repeated = again.ask(text)
        assert (repeated.value, repeated.error, repeated.cost) == (answer.value, answer.error, 0.0)
    guesses = [one.forecast("age = 5").guess for one in (session, again)]
    assert guesses[0] == guesses[1]
    assert again.synthetic(50).equals(session.synthetic(50))


def test_the_median_mechanism_answers_from_small_databases_and_goes_on_after_a_restart(monkeypatch, tmp_path):
    table, location = people(), tmp_path / "people.ledger"
    options = {"epsilon": 4.0, "mechanism": "median", "attributes": ["sex"], "queries": 20}
    session = seeded_session(monkeypatch, 5, table, ledger=book(Budget(4.0), location=location), **options)
    answer = session.ask("sex = 1")
    assert abs(answer.value - truth(table, "sex = 1")) <= answer.error < 0.2
    again = seeded_session(monkeypatch, 6, table, ledger=Ledger.open(location), **options)
    assert again.ask("sex = 0").value == 1 - answer.value
    assert again.synthetic(10).equals(session.synthetic(10))


def test_a_changed_hypothesis_is_found_at_the_restart(monkeypatch, tmp_path):
    from maquette.models.dense import Dense

    table = people()
    location = tmp_path / "people.ledger"
    session = seeded_session(monkeypatch, 5, table, ledger=book(location=location), **SPEND)
    for text in QUESTIONS:
        session.ask(text)
    assert any(past.kind == "paid" for past in session.history())
    monkeypatch.setattr(Dense, "digest", lambda self: "another")
    with pytest.raises(LedgerError, match="hypothesis that follows"):
        seeded_session(monkeypatch, 6, table, ledger=Ledger.open(location), **SPEND)


@pytest.mark.slow
def test_a_question_beyond_the_budget_is_refused_before_the_table_is_touched(monkeypatch, tmp_path):
    location = tmp_path / "people.ledger"
    options = {"epsilon": 0.2, "alpha": 0.1}
    table = people()
    session = seeded_session(monkeypatch, 2, table, ledger=book(Budget(0.2), location=location), **options)
    asked = []

    def ask_on() -> None:
        for age, job, sex in itertools.product(range(8), range(4), range(2)):
            session.ask(text := f"age = {age} or job = {job} and sex = {sex}")
            asked.append(text)

    with pytest.raises(BudgetExceeded, match="of the session's budget") as refused:
        ask_on()
    assert refused.value.exit_code == 3
    assert refused.value.needed > refused.value.left
    assert asked
    engine = Untouchable(PEOPLE)
    engine.commitment = table._engine.commitment
    blind = mq.session(Table(engine, name="people", source="x"), ledger=Ledger.open(location), **options)
    with pytest.raises(BudgetExceeded):
        blind.ask("age = 7 and sex = 1 and job = 0")
    assert blind.ask(asked[0]).kind == "cached"
    assert blind.forecast("age = 7 and sex = 1 and job = 0").refusal == "budget"


def test_the_number_of_questions_is_limited_and_repeats_do_not_count(monkeypatch):
    session = seeded_session(monkeypatch, 2, people(), ledger=book(), queries=2, **ALPHA)
    session.ask("age >= 3")
    session.ask("age < 3")
    session.ask("sex = 1")
    assert session.questions_left == 0
    with pytest.raises(BudgetExceeded, match="takes 2 questions") as refused:
        session.ask("sex = 1 and age > 2")
    assert refused.value.unit == "questions"
    assert session.ask("sex = 0").kind == "cached"


def test_an_error_that_the_table_cannot_carry_is_refused(monkeypatch):
    session = seeded_session(monkeypatch, 2, people(200), ledger=book(), epsilon=1.0, alpha=0.001)
    with pytest.raises(MechanismError, match="cannot be guaranteed"):
        session.ask("age >= 3")
    assert session.left == pytest.approx(0.95)


@pytest.mark.slow
def test_a_forecast_looks_at_nothing_and_is_never_below_the_cost(monkeypatch):
    table = people()
    session = seeded_session(monkeypatch, 4, table, ledger=book(), **SPEND)
    session.ask("age >= 1")
    engine = session._planner.curator._engine
    for text in QUESTIONS:
        session._planner.curator._engine = Untouchable(PEOPLE)
        before = session.left
        told = session.forecast(text)
        assert session.left == before
        session._planner.curator._engine = engine
        answer = session.ask(text)
        assert answer.cost <= told.cost
        assert answer.error <= told.error
        assert session.forecast(text).kind == "cached"


def test_an_epoch_is_opened_once_and_serves_until_its_cap(monkeypatch):
    ledger = book()
    session = seeded_session(monkeypatch, 4, people(), ledger=ledger, **SPEND)
    costs = [session.ask(text).cost for text in QUESTIONS]
    epochs = [e for e in ledger.children(session.key) if e.body["ask"] == "epoch"]
    far = sum(p.kind == "paid" for p in session.history())
    assert far // 4 <= len(epochs) <= far // 4 + 1
    assert sum(1 for c in costs if c > 0) == len(epochs)


@pytest.mark.slow
def test_bypass_measures_first_and_tests_when_guesses_hold(monkeypatch):
    ledger = book(Budget(4.0))
    session = seeded_session(monkeypatch, 4, people(), ledger=ledger, epsilon=4.0, alpha=0.1, queries=200)
    texts = [f"age >= {a} and job = {j}" for a in range(8) for j in range(4)]
    texts += [f"age <= {a} and sex = {s}" for a in range(7) for s in range(2)]
    texts += [f"age between {a} and {b}" for a in range(1, 7) for b in range(a, 7)]
    for text in texts:
        session.ask(text)
    kinds = [e.body["ask"] for e in ledger.children(session.key)]
    assert kinds[:3] == ["size", "measure", "measure"]
    assert "test" in kinds
    assert kinds.index("epoch") > kinds.index("measure")


def test_several_sessions_and_analysts_share_one_ledger_and_never_overspend(monkeypatch):
    table, ledger = people(), book(Budget(1.0))
    ana = seeded_session(
        monkeypatch, 1, table, ledger=ledger, epsilon=0.3, alpha=0.2, analyst="ana", share=0.5
    )
    ben = seeded_session(
        monkeypatch, 2, table, ledger=ledger, epsilon=0.4, alpha=0.2, analyst="ben", share=0.4
    )
    ana.ask("age >= 3")
    ben.ask("age >= 3")
    assert ana.key != ben.key
    assert ledger.left_units == UNITS // 10
    with pytest.raises(BudgetExceeded, match="analyst-ana"):
        seeded_session(monkeypatch, 3, table, ledger=ledger, epsilon=0.3, analyst="ana", share=0.5)
    with pytest.raises(BudgetExceeded, match="ledger 'people'"):
        seeded_session(monkeypatch, 3, table, ledger=ledger, epsilon=0.2, analyst="eve", share=0.2)
    with pytest.raises(KeyReused):
        seeded_session(monkeypatch, 3, table, ledger=ledger, epsilon=0.1, analyst="ana", share=0.1)
    more = seeded_session(monkeypatch, 3, table, ledger=ledger, epsilon=0.2, analyst="ana", share=0.5)
    assert more.left == 0.2
    ledger.verify()


def test_settling_gives_the_rest_back_and_ends_the_session(monkeypatch):
    table, ledger = people(), book(Budget(1.0))
    session = seeded_session(monkeypatch, 1, table, ledger=ledger, **ALPHA)
    cost = session.ask("age >= 3").cost
    rest = session.settle()
    assert rest == pytest.approx(1.0 - cost)
    assert ledger.left() == pytest.approx(rest)
    with pytest.raises(LedgerError, match="settled"):
        session.ask("sex = 1")
    with pytest.raises(BudgetExceeded, match="was ended"):
        seeded_session(monkeypatch, 1, table, ledger=ledger, **ALPHA)


def test_two_handles_on_one_session_see_each_other(monkeypatch, tmp_path):
    table, location = people(), tmp_path / "people.ledger"
    one = seeded_session(monkeypatch, 1, table, ledger=book(location=location), **SPEND)
    two = seeded_session(monkeypatch, 2, table, ledger=Ledger.open(location), **SPEND)
    for text in QUESTIONS:
        first, second = one.ask(text), two.ask(text)
        assert (first.value, second.kind) == (second.value, "cached")
        turned = two.ask(f"sex = 0 and ({text})")
        assert one.ask(f"sex = 0 and ({text})").value == turned.value
    assert one.history() == two.history()
    steps = [e.key for e in Ledger.open(location).children(one.key)]
    assert steps == [f"{one.key}/{i:04d}" for i in range(len(steps))]


def test_a_lost_race_for_a_step_is_tried_again(monkeypatch, tmp_path):
    table, location = people(), tmp_path / "people.ledger"
    one = seeded_session(monkeypatch, 1, table, ledger=book(location=location), **SPEND)
    two = seeded_session(monkeypatch, 2, table, ledger=Ledger.open(location), **SPEND)
    one.ask("age >= 3")
    two.ask("age >= 3")
    curator = two._planner.curator
    real, raced = curator._look, []

    def late(*given):
        if not raced:
            raced.append(one.ask("sex = 1"))
        return real(*given)

    monkeypatch.setattr(curator, "_look", late)
    answer = two.ask("job = 1 and age < 4")
    assert raced
    assert abs(answer.value - truth(table, "job = 1 and age < 4")) <= answer.error
    assert two.ask("sex = 1").value == raced[0].value
    Ledger.open(location).verify()


def test_a_session_over_some_attributes_takes_questions_about_these(monkeypatch):
    session = seeded_session(monkeypatch, 1, people(), ledger=book(), attributes=["sex", "age"], **ALPHA)
    session.ask("age >= 3 and sex = 1")
    with pytest.raises(WorkloadError, match="age, sex"):
        session.ask("job = 1")
    assert session.synthetic(20).num_rows == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": 1.0}, "beta"),
        ({"alpha": 2.0}, "alpha"),
        ({"mechanism": "magic"}, "mechanism"),
        ({"update": "magic"}, "update"),
        ({"queries": 0}, "queries"),
        ({"share": 0.5}, "analyst"),
        ({"share": 1.5, "analyst": "a"}, "share"),
        ({"analyst": ""}, "analyst"),
        ({"budget_for_all": True, "alpha": 0.1}, "their own error"),
        ({"budget_for_all": True, "measure_first": True}, "measure_first"),
        ({"relation": "friends"}, "relation"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_opened(options, message, tmp_path):
    location = tmp_path / "people.ledger"
    with pytest.raises(ParameterError, match=message):
        mq.session(Table(Untouchable(PEOPLE), name="x", source="x"), epsilon=1.0, ledger=location, **options)
    assert not location.exists()


def test_a_pure_session_can_be_paid_from_a_ledger_in_rho_but_not_the_other_way(monkeypatch):
    table = people()
    with pytest.warns(mq.PureCostWarning, match="give it unless the promise has to be pure"):
        session = seeded_session(
            monkeypatch, 1, table, ledger=book(Budget(4.0, 1e-6)), epsilon=0.5, alpha=0.1
        )
    assert session.unit == "epsilon"
    assert session.ask("age >= 3").cost > 0
    with pytest.raises(LedgerError, match="cannot pay for a delta"):
        seeded_session(monkeypatch, 1, people(), ledger=book(Budget(2.0)), epsilon=0.5, delta=1e-6)


def test_a_session_shows_nothing_private_and_cannot_be_pickled(monkeypatch):
    import pickle

    session = seeded_session(monkeypatch, 1, people(1234), ledger=book(), **ALPHA)
    assert "1234" not in repr(session)
    with pytest.raises(TypeError, match="private table"):
        pickle.dumps(session)


def test_a_class_of_one_query_is_a_question(monkeypatch):
    session = seeded_session(monkeypatch, 1, people(), ledger=book(), **ALPHA)
    with pytest.raises(WorkloadError):
        session.ask(marginals(PEOPLE, k=1))
    other = mq.Domain((PEOPLE["age"],))
    with pytest.raises(WorkloadError, match="own domain"):
        session.ask(mq.where(other, "age > 1"))
