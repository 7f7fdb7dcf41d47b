"""Privacy of whole persons: exact losses between tables that differ in one person, and the price of a group."""

# pyright: reportOperatorIssue=false, reportOptionalSubscript=false

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core import prices
from maquette.core.budget import UNITS, Budget, Unit
from maquette.core.curator import Curator
from maquette.core.events import (
    ComposedEvent,
    CubeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    SmoothedEvent,
    SparseEvent,
)
from maquette.core.laws import NoiseRequest
from maquette.core.rows import persons as bounding
from maquette.domain import Domain, Persons, Relation
from maquette.errors import BudgetExceeded, LedgerError, ParameterError
from maquette.queries import marginals
from support.privacy_cases import DELTA, GAUSSIAN_CASES, MECHANISM_CASES, QUESTION_CASES
from support.privacy_conformance import TINY, check_exactly
from support.privacy_doubles import CAUGHT, histograms, ledger_for, table_of
from support.privacy_replay import ODD, SURVEY, as_csv, check_replay, ordinary, release

pytestmark = pytest.mark.privacy

TWO = Persons("who", 2)
FEW = histograms(TINY.size, most=2)
GAUSSIAN = [case for case in GAUSSIAN_CASES if case.name.split(",")[0] not in ("laplace", "mw", "mwem")]
EVENTS: list[Event] = [
    LaplaceEvent(scale=Fraction(7, 2), l1=Fraction(3, 2)),
    GaussianEvent(sigma_squared=Fraction(50), l2_squared=Fraction(3), total_variation=Fraction(1, 10**20)),
    SmoothedEvent(
        sigma_squared=50, l2_squared=3, mu_squared=Fraction(1, 16), ripple=0, log_ratio=Fraction(1, 10**20)
    ),
    CubeEvent(epsilon=Fraction(1, 9)),
    SelectionEvent(epsilon=Fraction(1, 5), method="exponential"),
    SelectionEvent(epsilon=Fraction(1, 5), method="permute-and-flip"),
    SparseEvent(threshold_scale=9, test_scale=Fraction(40), cap=2),
    PureEvent(epsilon=Fraction(1, 11), what="test"),
]
EVENTS.append(ComposedEvent((EVENTS[0], EVENTS[4], EVENTS[6])))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.tag)
@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_the_cost_of_a_person_is_that_of_a_group(event, rows):
    """k epsilon, k^2 rho, (k mu)^2 / 2; and what a sampler is off by stays, since it is off by that at every table."""
    for unit in Unit:
        try:
            one = event.cost(unit)
        except mq.MechanismError:
            continue
        group = event.of_rows(rows).cost(unit)
        times = rows if unit.is_pure else rows**2
        parts = len(event.events) if isinstance(event, ComposedEvent) else 1
        assert abs(group.units - times * one.units) <= times * parts
        assert group.units >= times * (one.units - parts)
        assert group.slack == one.slack


def test_every_event_knows_the_cost_of_a_group():
    assert {event.tag for event in EVENTS} == {kind.tag for kind in Event.__subclasses__()}
    for event in EVENTS:
        assert event.of_rows(1) == event


@pytest.mark.parametrize("case", [*MECHANISM_CASES, *QUESTION_CASES, *GAUSSIAN], ids=lambda case: case.name)
def test_no_person_loses_more_than_was_charged(case):
    """All pairs of tables of up to two records that differ in one person with up to two of them."""
    if case.queries is None:  # a question by itself, at a price of its own: room for the price of two records
        larger = case.budget.epsilon * (1 if case.budget.pure else 4)
        case = replace(case, budget=Budget(larger, case.budget.delta, case.budget.accounting))
    verdict = check_exactly(case, Relation.ADD_REMOVE, FEW, persons=TWO)
    assert verdict.pairs >= 300
    assert verdict.tightest <= 1
    if case.queries is not None:
        assert verdict.tightest > 0.05


def _laplace_case():
    return next(case for case in QUESTION_CASES if case.name == "laplace")


def _gaussian_case():
    case = next(case for case in QUESTION_CASES if case.name == "gaussian")
    return replace(case, budget=Budget(4.0, DELTA))


def test_noise_for_one_record_does_not_hide_a_person(monkeypatch):
    """A planted bug: the price of a look is charged as if a person had one record."""
    monkeypatch.setattr(prices, "per_person", lambda event, persons: event)
    with pytest.raises(CAUGHT, match="was charged"):
        check_exactly(_laplace_case(), Relation.ADD_REMOVE, FEW, persons=TWO)


def test_rho_grows_by_the_square(monkeypatch):
    """A planted bug: squared sensitivities that grow by k and not by its square."""
    monkeypatch.setattr(
        GaussianEvent, "of_rows", lambda self, rows: replace(self, l2_squared=self.l2_squared * rows)
    )
    with pytest.raises(CAUGHT, match="was charged"):
        check_exactly(_gaussian_case(), Relation.ADD_REMOVE, FEW, persons=TWO)


def test_a_price_that_forgets_the_persons_is_refused_and_not_underpaid():
    """A mechanism that asks for the whole budget as if a person had one record costs accuracy, never privacy."""
    book = ledger_for(TINY, budget=Budget(1.0), relation=Relation.ADD_REMOVE, persons=Persons("who", 3))
    from support.privacy_doubles import set_aside

    set_aside(book, "case", Budget(1.0))
    table = table_of(TINY, FEW[3], persons=Persons("who", 3))
    curator = Curator(table, book, key="case", budget=Budget(1.0))
    assert curator.left == Fraction(UNITS // 3, UNITS)
    with pytest.raises(BudgetExceeded):
        curator.measure(marginals(TINY, k=1), noise=NoiseRequest("laplace", Fraction(1)))
    curator.measure(marginals(TINY, k=1), noise=NoiseRequest("laplace", curator.left))
    assert curator.left == 0


# Record and replay, from files: a person comes or goes, with odd records, too many of them, or an odd id.

THREE = Persons("who", 3)
HEADER = ("who", *SURVEY.names)


def _people(generator, count):
    rows = [
        (str(person), *ordinary(generator))
        for person in range(count)
        for _ in range(generator.integers(1, 6))
    ]
    return [rows[i] for i in generator.permutation(len(rows))]


def _person_neighbours(rows, generator):
    for whose in ("0", "1"):
        yield [row for row in rows if row[0] != whose]
    for whose, many in (("new", 1), ("új", 3), ("900.0", 5)):
        more = [(whose, *ODD[int(generator.integers(len(ODD)))]) for _ in range(many)]
        yield [*more[:1], *rows, *more[1:]]
    yield [*rows, ("", *ODD[0]), ("?", *ODD[3])]  # rows of nobody


@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", 0.0), ("gaussian", 1e-6), ("residual", 1e-6)])
def test_a_release_shows_nothing_of_a_person_beyond_the_draws(mechanism, delta, tmp_path):
    generator = np.random.default_rng(11)
    rows = _people(generator, 30)
    options = {"mechanism": mechanism, "epsilon": 2.0, "delta": delta, "persons": THREE}
    queries = marginals(SURVEY, k=1)
    first = release(as_csv(rows, tmp_path / "0", HEADER), queries, Relation.ADD_REMOVE, None, **options)
    for i, other in enumerate(_person_neighbours(rows, generator), start=1):
        source = as_csv(other, tmp_path / str(i), HEADER)
        seen = release(source, queries, Relation.ADD_REMOVE, first.run.calls, **options)
        check_replay(first, seen, "rho" if delta else "epsilon")


def test_a_bound_by_the_order_of_the_rows_is_caught(monkeypatch, tmp_path):
    """A planted bug: the first k rows of a person as they come. A sorted copy of the table is then another table."""
    monkeypatch.setattr(bounding, "shuffled", lambda seeds, records: np.arange(len(seeds), dtype=np.uint64))
    rows = [("a", "10", "north", "0", "0"), ("a", "80", "south", "1", "3")] * 3 + [
        ("b", *ordinary(np.random.default_rng(1)))
    ]
    counts = []
    for i, order in enumerate((rows, rows[::-1], sorted(rows))):
        source = as_csv(order, tmp_path / str(i), HEADER)
        table = mq.open(source, domain=SURVEY, person="who", rows_per_person=2)
        counts.append(table._engine.margins([("age",)])["age",].tolist())
    with pytest.raises(CAUGHT):
        assert counts[0] == counts[1] == counts[2]


# What a ledger and a request know.


def _opened(rows=2, **options):
    data = {"who": list("aabbccdd"), "x": [0, 1] * 4}
    domain = Domain.from_dict({"attributes": [{"name": "x", "kind": "categorical", "size": 2}]})
    return mq.open(data, domain=domain, person="who", rows_per_person=rows, **options)


def test_a_ledger_of_persons_refuses_other_bounds(tmp_path):
    place = tmp_path / "people.ledger"
    table = _opened()
    queries = mq.marginals(table.domain, 1)
    made = mq.release(table, queries, epsilon=1.0, total_epsilon=4.0, ledger=place)
    assert made.persons == Persons("who", 2)
    for other in (_opened(3), _opened(1), _plain()):
        with pytest.raises(LedgerError, match="protects persons by 'who' with at most 2 records each"):
            mq.release(other, queries, epsilon=1.0, ledger=place)
    with mq.Ledger.open(place) as book:
        assert book.persons == Persons("who", 2)
        assert book.relation is Relation.ADD_REMOVE
        book.verify()
    again = mq.release(_opened(), queries, epsilon=1.0, total_epsilon=4.0, ledger=place)
    assert np.array_equal(again.answers.numerators, made.answers.numerators)


def _plain():
    domain = Domain.from_dict({"attributes": [{"name": "x", "kind": "categorical", "size": 2}]})
    return mq.open({"who": list("aabbccdd"), "x": [0, 1] * 4}, domain=domain)


def test_a_ledger_of_records_refuses_persons(tmp_path):
    place = tmp_path / "records.ledger"
    table = _plain()
    mq.release(table, mq.marginals(table.domain, 1), epsilon=1.0, total_epsilon=4.0, ledger=place)
    with pytest.raises(LedgerError, match="protects single records, and this table was opened for persons"):
        mq.release(_opened(), mq.marginals(table.domain, 1), epsilon=1.0, ledger=place)


def test_an_older_version_refuses_a_ledger_of_persons(tmp_path, monkeypatch):
    from maquette.core.ledger import store

    place = tmp_path / "people.ledger"
    mq.release(_opened(), mq.marginals(_opened().domain, 1), epsilon=1.0, ledger=place)
    monkeypatch.setattr(store, "NEWEST", 2)
    with pytest.raises(LedgerError, match="has format 3"):
        mq.Ledger.open(place)


def test_combinations_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="go together"):
        mq.open({"x": [1]}, domain=_plain().domain, person="who")
    with pytest.raises(ParameterError, match="rows_per_person <= 1000"):
        _opened(1001)
    with pytest.raises(ParameterError, match="'add-remove' only"):
        mq.release(
            _opened(),
            mq.marginals(_plain().domain, 1),
            epsilon=1.0,
            relation="replace-one",
            ledger=tmp_path / "l",
        )
    with pytest.raises(ParameterError, match="'add-remove' only"):
        mq.session(_opened(), epsilon=1.0, relation="replace-one", ledger=tmp_path / "l")
    with pytest.raises(ParameterError, match="'add-remove' only"):
        mq.plan(
            mq.marginals(_plain().domain, 1), n=10, epsilon=1.0, relation="replace-one", rows_per_person=2
        )
    with pytest.raises(ParameterError, match="too small for 1000 records"):
        mq.release(
            _opened(1000), mq.marginals(_plain().domain, 1), epsilon=1e-4, delta=1e-9, ledger=tmp_path / "l"
        )


def test_an_evaluation_counts_the_same_records(tmp_path):
    table = _opened()
    made = mq.release(table, mq.marginals(table.domain, 1), epsilon=1.0, ledger=tmp_path / "l")
    assert mq.evaluate(made, table).records == 8
    with pytest.raises(mq.ReleaseError, match="same person="):
        mq.evaluate(made, _plain())
    made.save(tmp_path / "release")
    assert mq.load(tmp_path / "release").persons == made.persons
    assert "persons by 'who' with at most 2 records each" in made.facts()["privacy"]


def test_stated_errors_and_forecasts_grow_with_the_bound(tmp_path):
    """Laplace noise k times as wide; the forecast, the guarantee and the noise of the gate say the same.

    Of an error in counts two parts do not grow with the noise: the step of whole numbers, once for the count and p
    times for the number of records, and how far post-processing really moved an answer, which differs from draw to
    draw. What is left is the quantile of the noise, and grows by k.
    """
    generator = np.random.default_rng(2)
    ids = np.repeat(np.arange(2000), 3)
    data = {"who": ids, "x": generator.integers(0, 5, 6000)}
    domain = Domain.from_dict({"attributes": [{"name": "x", "kind": "categorical", "size": 5}]})
    queries = mq.marginals(domain, 1)
    of_noise, deviations, planned = {}, {}, {}
    for rows in (None, 3):
        table = mq.open(
            data, domain=domain, **({} if rows is None else {"person": "who", "rows_per_person": rows})
        )
        for post in ("none", "auto"):
            made = mq.release(
                table.for_another_ledger(),
                queries,
                epsilon=1.0,
                mechanism="laplace",
                certificate=0.0,
                post=post,
                ledger=tmp_path / f"{rows}-{post}",
            )
            n, moved = made.size.divisor, made.parameters["moved_counts"]
            least, most = n * made.guarantee.alpha - moved, n * made.guarantee.alpha
            if post == "none":
                of_noise[rows] = most - 1 - float(made.answers.fractions.max())
                unmoved = most
            else:
                assert least <= 1.02 * unmoved
                assert most >= 0.98 * unmoved
        deviations[rows] = float(made.deviations[0])
        plan = mq.plan(
            queries,
            n=6000,
            epsilon=1.0,
            mechanisms=["laplace"],
            certificate=0.0,
            rows_per_person=rows or 1,
        )
        planned[rows] = plan.forecasts[0].guaranteed
    assert deviations[3] == pytest.approx(3 * deviations[None], rel=0.02)
    assert of_noise[3] == pytest.approx(3 * of_noise[None], rel=0.02)
    assert planned[3] == pytest.approx(3 * planned[None], rel=0.1)
    need = {
        k: mq.required(queries, alpha=0.05, epsilon=1.0, mechanisms=["laplace"], rows_per_person=k)[0].n
        for k in (1, 3)
    }
    assert need[3] == pytest.approx(3 * need[1], rel=0.1)


def test_a_session_shows_what_is_charged(tmp_path):
    generator = np.random.default_rng(3)
    data = {"who": np.repeat(np.arange(3000), 2), "x": generator.integers(0, 2, 6000)}
    table = mq.open(data, domain=_plain().domain, person="who", rows_per_person=2)
    with mq.Ledger.create(
        tmp_path / "l",
        budget=Budget(1.0),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=table.domain.fingerprint,
        name="people",
        persons=table.persons,
    ) as book:
        session = mq.session(table, epsilon=1.0, ledger=book)
        assert session.total == session.left == 1.0
        forecast = session.forecast("x = 1")
        answer = session.ask("x = 1")
        assert abs(answer.value - data["x"].mean()) <= answer.error
        charged = sum(e.units for e in book.entries(kind="reserve", parent=session.key)) / UNITS
        assert answer.cost == pytest.approx(charged) == pytest.approx(1 - answer.left)
        assert forecast.cost >= answer.cost
        assert math.fsum(past.cost for past in session.history()) == pytest.approx(charged)


def test_the_tags_of_charges_stay(tmp_path):
    """Persons change amounts, not the words of the ledger."""
    tags = []
    for table in (_plain(), _opened(1)):
        place = tmp_path / f"{len(tags)}"
        mq.release(table, mq.marginals(table.domain, 1), epsilon=1.0, ledger=place)
        with mq.Ledger.open(place) as book:
            tags.append(Counter(e.tag for e in book.entries(kind="reserve")))
    assert tags[0] == tags[1]
