"""Tables in which a unit has rows: each look costs as many rows as a unit has there, out of one ledger."""

from dataclasses import replace
from fractions import Fraction

import pytest

import maquette as mq
from maquette.core import barrier
from maquette.core.budget import UNITS, Budget
from maquette.core.curator import Curator
from maquette.core.laws import NoiseRequest
from maquette.core.table import Family
from maquette.domain import Persons, Relation
from maquette.errors import LedgerError, ParameterError
from maquette.owner import exact_answers
from support.census import people, schema_of
from support.privacy_doubles import set_aside

pytestmark = pytest.mark.privacy


def family(at_most=3, count=20):
    return mq.open(people(count), schema=schema_of(at_most))


def ledger_of(tables, budget=None):
    fingerprint, persons = tables.root.ledger_identity
    return mq.Ledger.memory(
        budget=budget or Budget(4.0),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=fingerprint,
        name="tables",
        persons=persons,
    )


def check_price(at_most):
    """The exact loss of a unit of the most members, all alike: what its rows move, by the scale of the noise drawn."""
    whole = people(6)
    whole["person"] = {"household": ["h0"] * at_most + ["h1"], "age": ["old"] * at_most + ["young"]}
    tables = mq.open(whole, schema=schema_of(at_most))
    fewer = mq.open(
        {
            "household": {key: values[1:] for key, values in whole["household"].items()},
            "person": whole["person"],
        },
        schema=schema_of(at_most),
    )
    book, queries = ledger_of(tables), {n: mq.marginals(t.domain, 1) for n, t in tables.views.items()}
    for name, table in tables.views.items():
        set_aside(book, name, Budget(1.0))
        curator = Curator(table, book, key=name, budget=Budget(1.0))
        measured = curator.measure(queries[name], noise=NoiseRequest("laplace", Fraction(1, 10)))
        (paid,) = book.entries(kind="reserve", parent=name)
        gap = (
            exact_answers(table, queries[name]).numerators
            - exact_answers(fewer[name], queries[name]).numerators
        )
        moved = int(abs(gap).sum())
        assert moved == len(table.domain) * tables.schema.unit_rows[name]
        assert Fraction(moved) / Fraction(measured.noise.scale) <= Fraction(paid.units, UNITS)


@pytest.mark.parametrize("at_most", [1, 2, 4, 7])
def test_a_look_costs_what_a_unit_can_lose(at_most):
    check_price(at_most)


def test_noise_by_the_root_of_the_limit_is_caught(monkeypatch):
    """A planted bug: the price of a view grows by the root of K, as if the rows of a unit lay in different cells."""
    real = barrier.prices.per_person

    def by_the_root(event, persons):
        return real(event, None if persons is None else replace(persons, rows=round(persons.rows**0.5)))

    monkeypatch.setattr(barrier.prices, "per_person", by_the_root)
    with pytest.raises(AssertionError):
        check_price(4)


def test_a_handle_protects_whole_units_and_no_less():
    tables = family(at_most=3)
    person = tables["person"]
    assert person.persons == Persons("household.id", 3)
    with pytest.raises(ParameterError, match="the rows that a unit has"):
        replace(person, persons=Persons("household.id", 1))
    with pytest.raises(ParameterError, match="the rows that a unit has"):
        replace(person, _family=tables["household"]._family, _engine=family()["person"]._engine)
    assert isinstance(person._family, Family)


def test_one_ledger_pays_for_all_tables_of_a_family_and_for_no_other(tmp_path):
    tables = family()
    place = tmp_path / "l.ledger"
    terms = {"epsilon": 0.5, "mechanism": "laplace", "ledger": place, "total_epsilon": 2.0}
    mq.release(tables["household"], mq.marginals(tables["household"].domain, 1), **terms)
    mq.release(tables["person"], mq.marginals(tables["person"].domain, 1), **terms)
    again = family()
    mq.release(again["person"], mq.marginals(again["person"].domain, 1), **terms)  # free
    with mq.Ledger.open(place) as book:
        assert UNITS - 3 <= book.balance().spent_units <= UNITS
        assert book.persons == Persons("household.id", 3)
    for other in (family(count=21)["person"], family(at_most=2)["person"]):
        with pytest.raises(LedgerError):
            mq.release(other, mq.marginals(other.domain, 1), **terms | {"key": "another"})
    alone = mq.open(
        people(20)["person"], tables["person"].domain.project(["age"]), person="household", rows_per_person=3
    )
    with pytest.raises(LedgerError):
        mq.release(alone, mq.marginals(alone.domain, 1), **terms)


def test_handles_of_a_family_are_paid_for_by_one_ledger(tmp_path):
    tables = family()
    queries = {name: mq.marginals(table.domain, 1) for name, table in tables.views.items()}
    terms = {"epsilon": 0.5, "mechanism": "laplace"}
    mq.release(tables["household"], queries["household"], ledger=tmp_path / "a", **terms)
    with pytest.raises(LedgerError, match="second budget"):
        mq.release(tables["person"], queries["person"], ledger=tmp_path / "b", **terms)
    mq.release(tables.for_another_ledger()["person"], queries["person"], ledger=tmp_path / "b", **terms)
    mq.release(tables["person"].for_another_ledger(), queries["person"], ledger=tmp_path / "c", **terms)


def test_replacing_a_unit_is_refused(tmp_path):
    table = family()["household"]
    with pytest.raises(ParameterError, match="'add-remove' only"):
        mq.release(
            table, mq.marginals(table.domain, 1), epsilon=1.0, relation="replace-one", ledger=tmp_path / "l"
        )
