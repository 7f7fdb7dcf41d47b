"""Finding a domain, from noisy counts to a release: what is declared, refused and paid."""

import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.laws import Gaussian, Laplace
from maquette.discovery.curator import DiscoveryCurator
from maquette.discovery.findings import NUMBERS, YEARS
from maquette.discovery.raw import open_raw
from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.errors import LedgerError, MechanismError, ParameterError
from maquette.releasing.discovery import kind_of
from maquette.releasing.found_cells import (
    Look,
    close_borders,
    end_borders,
    number_attribute,
    occupied,
    share_inside,
)
from support.privacy_doubles import RecordingNoise, ReplayingNoise

# What is made of noisy counts: no promise, but sense.


def test_bounds_are_borders_around_what_is_there():
    noise = Laplace(Fraction(1), Fraction(2))
    counts = np.zeros(len(NUMBERS) + 1, dtype=np.int64)
    assert occupied(counts, noise) is None
    counts[[100, 104]] = 500
    assert occupied(counts, noise) == (100, 104)
    assert kind_of(np.array([900, 0, 3, 5, 50]), noise) == ("number", True)
    assert kind_of(np.array([500, 400, 3, 5, 50]), noise) == ("number", False)
    assert kind_of(np.array([1, 0, 900, 5, 50]), noise)[0] == "date"
    assert kind_of(np.array([400, 0, 0, 500, 50]), noise)[0] == "text"
    assert kind_of(np.array([-3, -2, 0, -5, 2]), noise)[0] == "text"
    assert kind_of(np.array([30, 0, 2, 3, 9000]), noise) == ("number", True)  # missing nearly everywhere
    assert len(YEARS) == 401


def last_borders(table, noise, *, is_whole):
    """The borders of the last look, and what the ladder counted in all, with noise that is always nought."""
    look: Any = Look.by_ladder(table.numbers("c"), noise)
    inside, ends = look.inside, end_borders(look, is_whole=is_whole)
    if ends is not None:
        look = look.closer(table.numbers("c", ends), noise, ends)
    return close_borders(look, is_whole=is_whole), inside


def cells_found(values, *, is_whole, deviation=3) -> Any:
    """The declaration that the looks at some numbers give, with noise that is always nought."""
    noise = Gaussian(Fraction(1), Fraction(deviation**2))
    table = open_raw({"c": [str(value) for value in values]}, ["c"])
    borders, inside = last_borders(table, noise, is_whole=is_whole)
    assert all(a < b for a, b in itertools.pairwise(borders))
    counts = table.numbers("c", borders)
    return number_attribute("c", borders, counts, noise, inside=inside, is_whole=is_whole)


def test_a_second_look_that_the_noise_hides_cuts_nothing_off():
    """The ladder saw records from 10 to 100; no single age stands out of the noise, so none is known to be empty."""
    ages = [i % 90 for i in range(1980)]
    attribute = cells_found(ages, is_whole=True, deviation=40)
    low, high = attribute.ends()[0][0], attribute.ends()[1][-1]
    assert (low, high) == (10, 99)
    clear = cells_found(ages, is_whole=True, deviation=2)
    assert (clear.ends()[0][0], clear.ends()[1][-1]) == (0, 89)


def test_what_is_said_to_be_inside_is_counted():
    counts = np.array([444, 300, 300, 300, 12, 5])  # below 20, three cells, above 50, no number
    borders = (20.0, 30.0, 40.0, 50.0)
    assert share_inside(borders, counts, 20, 49) == 900 / 1356
    assert share_inside(borders, counts, 30, 49) == 600 / 1356
    assert share_inside(borders, -counts, 20, 49) == 0


def test_numbers_that_only_the_ladder_sees_keep_its_steps():
    ids = [i % 700 for i in range(2100)]
    attribute = cells_found(ids, is_whole=True, deviation=100)
    assert attribute.ends()[0][0] <= 200
    assert attribute.ends()[1][-1] >= 699


def test_few_whole_numbers_have_a_cell_each_the_last_one_too():
    """A closed last cell held two numbers before, and half of the largest came back as one that is not there."""
    attribute = cells_found([0] * 400 + [5] * 300 + [9] * 500 + [""] * 50, is_whole=True)
    assert [attribute.label(i) for i in range(attribute.cells)] == [str(i) for i in range(10)]
    codes = attribute.bin_index(np.arange(10.0))
    assert codes.tolist() == list(range(10))
    assert attribute.decode(codes)[0].tolist() == list(range(10))
    assert attribute.nullable
    assert not cells_found([1] * 400 + [2] * 300, is_whole=True).nullable
    assert cells_found([1] * 400 + [2] * 300, is_whole=True).cells == 2


def test_a_thin_tail_of_whole_numbers_is_not_lost_in_the_noise_of_many_cells():
    """500 of 30,000 numbers lie thinly from 300 on: with a cell for each number noise would hide them."""
    rng = np.random.default_rng(5)
    weights = np.concatenate([rng.integers(1, 120, 29_500), rng.integers(300, 400, 500)])
    noise = Gaussian(Fraction(1), Fraction(30**2))
    table = open_raw({"c": [str(value) for value in weights]}, ["c"])
    borders = np.array(last_borders(table, noise, is_whole=True)[0])
    tail = np.diff(borders[borders >= 200])
    assert 3 * 30 * np.sqrt(len(tail)) < 500  # the records of the tail stand out from the noise of its cells
    assert len(tail) > 5  # and are not thrown together either
    assert (np.diff(borders[(borders >= 1) & (borders <= 100)]) == 1).all()
    upper = cells_found(weights, is_whole=True, deviation=15).ends()[1][-1]
    assert (weights <= upper).mean() > 0.99


def test_cells_hold_about_the_same_share_and_single_values_stay_alone():
    rng = np.random.default_rng(5)
    pay = np.concatenate([np.zeros(9000), rng.lognormal(10, 1, 20000).round(2)])
    attribute = cells_found(pay, is_whole=False)
    counts = np.bincount(attribute.bin_index(pay), minlength=attribute.cells)
    assert 60 <= attribute.cells <= 130
    assert counts[0] == 9000  # the nought alone, in a cell of its own
    assert counts[1:].max() <= 2 * 20000 / 60
    whole = rng.integers(18, 5000, 20000)
    attribute = cells_found(whole, is_whole=True)
    assert attribute.integer
    assert all(float(edge).is_integer() for edge in attribute.edges)
    assert sum(edge % 10 == 0 for edge in attribute.edges) >= 0.9 * len(
        attribute.edges
    )  # round where it may be
    apart = np.concatenate([rng.integers(0, 1000, 5000), rng.integers(9000, 9900, 5000)]).astype(float)
    gap = cells_found(apart.astype(int), is_whole=True)
    wide = np.diff(gap.edges) > 500
    counts = np.bincount(gap.bin_index(apart), minlength=gap.cells)
    assert wide.any()
    assert counts[wide].sum() <= 100  # hardly anything is there, and so hardly anything is spread over it


def people(n=6000, seed=1):
    rng = np.random.default_rng(seed)
    day = np.datetime64("2013-01-01") + rng.integers(0, 365, n).astype("timedelta64[D]")
    return pa.table(
        {
            "id": [f"person {i}" for i in range(n)],
            "age": rng.integers(18, 91, n),
            "pay": rng.exponential(30000, n).round(2),
            "where": rng.choice(["north", "south", "west"], n),
            "when": [str(d) for d in day],
            "code": rng.choice(["a", "b"], n),
        }
    )


def find(source, place, **options) -> Any:
    settings = {"epsilon": 4.0, "delta": 1e-6, "total_epsilon": 8.0, "total_delta": 1e-5, "ledger": place}
    return mq.discover(source, **(settings | options))


@pytest.mark.slow
def test_a_domain_is_found_and_released_with(tmp_path):
    place = tmp_path / "people.ledger"
    code = Attribute("code", Kind.CATEGORICAL, categories=("a", "b", "c"))
    result = find(people(), place, columns={"id": "drop", "code": code})
    how = {one.name: one.how for one in result.findings}
    assert how == {
        "id": "dropped",
        "age": "discovered",
        "pay": "discovered",
        "where": "discovered",
        "when": "discovered",
        "code": "declared",
    }
    domain = result.domain
    low, high = domain["age"].bounds
    assert (low, high) == (17.5, 90.5)
    assert not domain["age"].nullable
    assert domain["age"].integer
    assert not domain["pay"].integer
    assert domain["where"].categories == ("north", "south", "west")
    assert domain["when"].calendar == "month"
    assert domain["when"].categories[0] == "2013-01"
    assert domain["code"] == code
    with mq.Ledger.open(place) as book:
        assert book.awaits_domain
        paid = [r for one in result.findings for r in one.receipts]
        assert len(paid) == 10
        assert all(book.holds(receipt) for receipt in paid)
        spent = book.spent_units
    domain.save(tmp_path / "d.json")
    loaded = Domain.load(tmp_path / "d.json")
    assert loaded == domain
    assert loaded.notes["columns"]["where"]["how"] == "discovered"
    assert json.dumps(loaded.notes["discovery"]["epsilon"]) == "4.0"
    again = find(people(), place, columns={"id": "drop", "code": code})
    assert again.domain == domain
    made = mq.release(
        mq.open(people(), domain=loaded), mq.marginals(loaded, 1), epsilon=1.0, delta=1e-6, ledger=place
    )
    assert made.answers is not None
    with mq.Ledger.open(place) as book:
        assert book.domain_fingerprint == domain.fingerprint
        assert not book.awaits_domain
        assert book.spent_units > spent
        book.verify()
    with pytest.raises(LedgerError, match="has a domain already"):
        find(people(), place, epsilon=0.1)
    other = Domain((code,))
    with pytest.raises(LedgerError, match="another domain"):
        mq.release(
            mq.open(people(), domain=other), mq.marginals(other, 1), epsilon=1.0, delta=1e-6, ledger=place
        )


@pytest.mark.privacy
def test_a_discovery_shows_nothing_of_a_record_beyond_the_draws(tmp_path, monkeypatch):
    """Record and replay: one record more or less, with values that others have, or odd ones among numbers."""
    base = people(3000)
    odd = [("x", "-1e300"), ("9e99", "nan"), ("", "forty")]
    tables = [base.slice(1), pa.concat_tables([base, base.slice(7, 1)])]
    texts = base.set_column(1, "age", base["age"].cast(pa.string())).set_column(
        2, "pay", base["pay"].cast(pa.string())
    )
    for age, pay in odd:
        row = texts.slice(3, 1).set_column(1, "age", pa.array([age])).set_column(2, "pay", pa.array([pay]))
        tables.append(pa.concat_tables([row, texts]))
    tape, shown = None, None
    for number, table in enumerate([base, *tables]):
        noise = RecordingNoise() if tape is None else ReplayingNoise(tape)
        monkeypatch.setattr(DiscoveryCurator, "_source", lambda self, noise=noise: noise)
        result = find(table, tmp_path / f"{number}", columns={"id": "drop"})
        seen = str(result), list(result.domain)
        with mq.Ledger.open(tmp_path / f"{number}") as book:
            charges = [(e.tag, e.units, e.slack, e.body.get("ask")) for e in book.entries(kind="reserve")]
        if tape is None:
            tape, shown = noise.calls, (seen, charges)
        assert (seen, charges) == shown


@pytest.mark.slow
def test_before_the_domain_a_ledger_knows_its_table(tmp_path):
    place = tmp_path / "l"
    result = find(people(), place, columns={"id": "drop"})
    with pytest.raises(LedgerError, match="belongs to another table"):
        find(people(seed=2), place, columns={"id": "drop"}, epsilon=0.5)
    changed = people().set_column(5, "code", pa.array(["a"] * 6000))
    table = mq.open(changed, domain=result.domain)
    with pytest.raises(LedgerError, match="belongs to another table"):
        mq.release(table, mq.marginals(result.domain, 1), epsilon=1.0, delta=1e-6, ledger=place)
    order = np.random.default_rng(3).permutation(6000)
    shuffled = mq.open(people().take(pa.array(order)), domain=result.domain)
    mq.release(shuffled, mq.marginals(result.domain, 1), epsilon=1.0, delta=1e-6, ledger=place)


def test_a_pure_ledger_finds_numbers_and_no_lists(tmp_path):
    options = {"delta": 0.0, "total_delta": None}
    found = find(
        people(), tmp_path / "a", columns=dict.fromkeys(("id", "where", "code", "when"), "drop"), **options
    )
    assert found.domain["age"].bounds == (17.5, 90.5)
    with pytest.raises(MechanismError, match="'where' needs a delta"):  # public: before there is a ledger
        find(people(), tmp_path / "b", columns={"id": "drop", "where": "text"}, **options)
    assert not (tmp_path / "b").exists()
    # found out at a price: the others are found all the same, and nothing stays reserved
    found = find(people(), tmp_path / "c", columns={"id": "drop"}, **options)
    where = next(one for one in found.findings if one.name == "where")
    assert (where.how, len(where.receipts)) == ("dropped", 1)
    assert "needs a delta" in where.text
    assert "age" in found.domain
    with Ledger.open(tmp_path / "c") as book:
        assert not book.balance().reserved_units
    with pytest.raises(LedgerError, match="counts pure epsilon"):
        find(
            people(),
            tmp_path / "a",
            columns={"id": "drop"},
            epsilon=1.0,
            total_epsilon=None,
            total_delta=None,
        )


def test_persons_find_a_domain(tmp_path):
    rng = np.random.default_rng(5)
    n = 9000
    data = pa.table(
        {
            "who": rng.integers(0, 3000, n),
            "ward": rng.choice(["a", "b", "c"], n),
            "days": rng.integers(0, 30, n),
        }
    )
    result = find(data, tmp_path / "l", person="who", rows_per_person=2)
    assert {one.name: one.how for one in result.findings}["who"] == "dropped"
    assert result.domain["ward"].categories == ("a", "b", "c")
    assert result.domain["days"].bounds[1] == 29.5
    table = mq.open(data, domain=result.domain, person="who", rows_per_person=2)
    made = mq.release(table, mq.marginals(result.domain, 1), epsilon=1.0, delta=1e-6, ledger=tmp_path / "l")
    assert made.persons == Persons("who", 2)
    plain = mq.open(data, domain=result.domain)
    with pytest.raises(LedgerError, match="protects persons"):
        mq.release(plain, mq.marginals(result.domain, 1), epsilon=1.0, delta=1e-6, ledger=tmp_path / "l")


def test_what_makes_no_sense_is_refused(tmp_path):
    table = people(50)
    with pytest.raises(ParameterError, match="no column 'name'"):
        find(table, tmp_path / "l", columns={"name": "drop"})
    with pytest.raises(ParameterError, match="'number', 'text', 'date' or 'drop'"):
        find(table, tmp_path / "l", columns={"age": "whole"})
    with pytest.raises(ParameterError, match="nothing to find"):
        find(table, tmp_path / "l", columns=dict.fromkeys(table.column_names, "drop"))
    with pytest.raises(ParameterError, match="under the name 'age'"):
        find(table, tmp_path / "l", columns={"age": Attribute("pay", Kind.CATEGORICAL, codes=2)})
    with pytest.raises(ParameterError, match="'add-remove' only"):
        find(table, tmp_path / "l", relation="replace-one", person="id", rows_per_person=2)
    assert not (tmp_path / "l").exists()
    place = tmp_path / "plain.ledger"
    domain = Domain((Attribute("code", Kind.CATEGORICAL, categories=("a", "b")),))
    mq.release(mq.open(table, domain=domain), mq.marginals(domain, 1), epsilon=1.0, delta=1e-6, ledger=place)
    with pytest.raises(LedgerError, match="has a domain already"):
        find(table, place, total_epsilon=None, total_delta=None)
    with pytest.raises(mq.BudgetExceeded, match="this discovery needs"):
        find(table, tmp_path / "m", total_epsilon=1.0)
