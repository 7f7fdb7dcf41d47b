"""Predicates on cells against a database engine on raw values, values on every border included.

The generator and the comparison are those of `benchmarks/predicates.py`, which compares far more of them.
"""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from benchmarks import predicates

import maquette.queries as mq
from maquette.core.rows.coding import coders
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries import sql_compare

pytestmark = pytest.mark.law

TABLES, EACH = 24, 20


def test_where_no_note_is_the_count_is_that_of_the_values_and_else_it_lies_between_both_ends():
    tally = predicates.Tally()
    for seed in range(TABLES):
        tally.add(predicates.compare(predicates.generated(1_000_000 + seed), EACH, seed=seed))
    assert tally.compared == TABLES * EACH
    assert tally.unexplained == []
    # neither way of passing is empty: many are exact, many are noted, and of these most are read as another number
    assert min(tally.exact, tally.noted, tally.differing) > tally.compared / 10


def _before(attribute, sign, value):
    """As if a border belonged to both of its cells: what was wrong with <= and > at borders."""
    sign = {"<=": "<", ">": ">="}.get(sign, sign)
    return _compared(attribute, sign, value)


def _without_the_outside(attribute, values):
    """As if nothing lay beyond the bounds."""
    if attribute.kind is not Kind.NUMERIC:
        return _touched(attribute, values)
    low, high = (Fraction(attribute.edge(i)) for i in (0, attribute.cells))
    return _touched(attribute, values.meet(sql_compare.ValueSet((((low, 0), (high, 1)),), True)))


_compared, _touched = sql_compare.compared, sql_compare.touched


@pytest.mark.parametrize(
    ("name", "broken"), [("compared", _before), ("touched", _without_the_outside)], ids=["borders", "outside"]
)
def test_a_reading_that_forgets_borders_or_the_outside_is_caught(monkeypatch, name, broken):
    monkeypatch.setattr(sql_compare, name, broken)
    found: list[str] = []
    for seed in range(4):
        try:
            found += predicates.compare(predicates.generated(seed), EACH, seed=seed).unexplained
        except WorkloadError as error:  # an end that its own words do not mean
            found.append(str(error))
    assert found


def test_the_cases_that_were_seen():
    """Age in cells two wide, lengths in cells one wide that hold fractions, values beyond the bounds."""
    domain = Domain(
        (
            Attribute("Age", Kind.NUMERIC, bounds=(0, 90), bins=45, nullable=True),
            Attribute("bill", Kind.NUMERIC, bounds=(30, 60), bins=30, nullable=True),
        )
    )
    ages = [29.0, 30.0, 30.0, 30.5, 31.9, 32.0, 0.0, 90.0, None, -1.0, 95.0, float("nan")]
    bills = [39.0, 39.1, 39.9, 40.0, 60.0, 30.0, 29.5, 61.0, None, float("nan"), 38.9, 39.0]
    table = pa.table({"Age": pa.array(ages), "bill": pa.array(bills)})
    columns = {name: rule.code(table[name].combine_chunks()) for name, rule in coders(domain).items()}
    values = duckdb.connect()
    values.register("given", table)
    clean = ", ".join(f"nullif({name}, 'nan'::DOUBLE) AS {name}" for name in domain.names)
    values.execute(f"CREATE TABLE raw AS SELECT {clean} FROM given")
    for text, exact in [
        ("Age <= 30", False),
        ("Age < 30", True),
        ("Age > 30", False),
        ("Age >= 30", True),
        ("Age BETWEEN 30 AND 32", False),
        ("Age = 30", False),
        ("Age <> 30", False),
        ("Age NOT IN (30, 32)", False),
        ("Age > 200", False),
        ("Age < 0", False),
        ("Age >= 0", False),
        ("Age IS NULL", True),
        ("NOT Age IS NULL", True),
        ("NOT (Age < 30)", True),
        ("bill = 39", False),
        ("bill <= 39", False),
        ("bill >= 39 AND bill < 40", True),
    ]:
        asked = mq.where(domain, text)
        (truth,) = values.execute(f"SELECT count(*) FROM raw WHERE {text}").fetchone()
        assert asked.exact is exact, text
        assert bool(asked.notes) is not exact, text
        low, high = (int(end.on_rows(columns)[0]) for end in asked.ends())
        assert low <= truth <= high, text
        assert (low == truth == high) or not exact, text
    assert np.asarray(mq.where(domain, "Age < 30").on_rows(columns)).tolist() == [3]
