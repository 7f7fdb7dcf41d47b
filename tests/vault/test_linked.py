"""Rows of several tables: which of them count is a function of each unit's own rows."""

from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maquette as mq
from maquette.core.rows import linked
from maquette.errors import ParameterError, SourceError
from support.census import people, schema_of

SCHEMA = schema_of(2, visits=2)
KEYS = ["1", "2", "3", ""]
sources = st.fixed_dictionaries(
    {
        "household": st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["north", "south"])), max_size=6),
        "person": st.lists(
            st.tuples(st.sampled_from(KEYS), st.sampled_from(["a", "b", "c", ""]), st.sampled_from(["young", "old"])),
            max_size=12,
        ),
        "visit": st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), st.sampled_from(["a", "b"])), max_size=12),
    }
)  # fmt: skip
COLUMNS = {
    "household": ("id", "region"),
    "person": ("household", "number", "age"),
    "visit": ("person", "ward"),
}


def opened(rows, schema=SCHEMA):
    tables = {
        name: {column: [row[i] for row in rows[name]] for i, column in enumerate(COLUMNS[name])}
        for name in schema.names
    }
    return mq.open(tables, schema=schema)


def records(tables):
    """The multiset of coded records of every view."""
    found = {}
    for name, table in tables.views.items():
        counts = table._engine.margins([table.domain.names])[table.domain.names]
        cells = np.argwhere(counts).tolist()
        found[name] = Counter({tuple(cell): int(counts[tuple(cell)]) for cell in cells})
    return found


def own_units(rows):
    """The same rows, each unit with keys of its own for its members, so that units share none."""
    return {
        "household": rows["household"],
        "person": [(h, f"{h}/{p}" if p else "", age) for h, p, age in rows["person"]],
        "visit": [(f"{h}/{p}" if p else "", ward) for (p, ward), h in zip(rows["visit"], KEYS * 3, strict=False)],
    }  # fmt: skip


def without(rows, unit):
    return {
        "household": [row for row in rows["household"] if row[0] != unit],
        "person": [row for row in rows["person"] if row[0] != unit],
        "visit": [row for row in rows["visit"] if not row[0].startswith(f"{unit}/")],
    }


@pytest.mark.law
@settings(max_examples=150, deadline=None)
@given(sources)
def test_a_unit_leaves_all_others_as_they_are(rows):
    """Each view is the sum of what the units make of their own rows alone, at most K_j rows of each."""
    rows = own_units(rows)
    whole = records(opened(rows))
    for unit in KEYS[:3]:
        less = records(opened(without(rows, unit)))
        others = [other for other in KEYS[:3] if other != unit]
        alone = rows
        for other in others:
            alone = without(alone, other)
        own = records(opened(alone))
        for name, most in SCHEMA.unit_rows.items():
            assert whole[name] == less[name] + own[name]
            assert own[name].total() <= most


@pytest.mark.law
@settings(max_examples=80, deadline=None)
@given(sources, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows, random):
    shuffled = {name: random.sample(some, len(some)) for name, some in rows.items()}
    assert records(opened(rows)) == records(opened(shuffled))


@pytest.mark.law
@settings(max_examples=80, deadline=None)
@given(sources)
def test_numbers_of_children_are_those_that_count(rows):
    tables = opened(rows)
    views = records(tables)
    for parent, child in (("household", "person"), ("person", "visit")):
        place = SCHEMA.domain(parent).index(f"number_of_{child}")
        said = sum(cell[place] * times for cell, times in views[parent].items())
        assert said == views[child].total()


def test_rows_of_nobody_are_left_out():
    rows = {
        "household": [("1", "north"), ("", "south"), ("1", "south")],
        "person": [("1", "a", "old"), ("9", "b", "old"), ("", "c", "old"), ("1.0", "d", "young")],
        "visit": [("a", "a"), ("b", "a"), ("d", "b"), ("", "b")],
    }
    totals = {name: counts.total() for name, counts in records(opened(rows)).items()}
    assert totals == {"household": 1, "person": 2, "visit": 2}


def small_universe():
    """Every unit of up to three members of two kinds, in two regions; and every table of up to two of them."""
    members = [own for size in range(4) for own in combinations_with_replacement(["young", "old"], size)]
    units = list(product(["north", "south"], members))
    return units, [few for size in range(2) for few in combinations_with_replacement(units, size)]


def table_of_units(units):
    return {
        "household": [(str(i), region) for i, (region, _) in enumerate(units)],
        "person": [(str(i), age) for i, (_, members) in enumerate(units) for age in members],
    }


def largest_moves(schema, neighbours):
    """The largest L1 and L2 distance of any table over a view, and the moved rows, over all neighbouring units."""
    moved = {name: [0.0, 0.0] for name in schema.names}
    for fewer, more in neighbours:
        one, two = (
            mq.open({
                "household": {"id": [r[0] for r in t["household"]], "region": [r[1] for r in t["household"]]},
                "person": {"household": [r[0] for r in t["person"]], "age": [r[1] for r in t["person"]]},
            }, schema=schema) for t in (fewer, more)
        )  # fmt: skip
        for name in schema.names:
            names = schema.domain(name).names
            for margin in [(), *[(a,) for a in names], names]:
                gap = (
                    two[name]._engine.margins([margin])[margin] - one[name]._engine.margins([margin])[margin]
                )
                moved[name][0] = max(moved[name][0], float(np.abs(gap).sum()))
                moved[name][1] = max(moved[name][1], float(np.sqrt((gap**2).sum())))
    return moved


def neighbouring():
    units, tables = small_universe()
    for table in tables:
        for unit in units:
            yield table_of_units(table), table_of_units([*table, unit])


def test_a_unit_moves_a_table_by_its_limit_and_no_more():
    """Over all neighbours of a small universe: 1 for the units, K for their members, whatever the norm."""
    moved = largest_moves(schema_of(2), neighbouring())
    assert moved == {"household": [1.0, 1.0], "person": [2.0, 2.0]}


def test_a_limit_by_row_number_is_caught(monkeypatch):
    """A planted bug: the first rows of the table as they come, whosever they are."""

    def first_rows(place, read, rows, most):
        return np.arange(len(rows)) < most

    monkeypatch.setattr(linked, "_first_few", first_rows)
    rows = {
        "household": [("1", "north"), ("2", "south")],
        "person": [("1", "1/a", "old"), ("1", "1/b", "old"), ("2", "2/a", "young")],
        "visit": [],
    }
    fewer = without(rows, "1")
    with pytest.raises(AssertionError):
        assert not records(opened(fewer))["person"] - records(opened(rows))["person"]


def test_a_number_of_children_before_the_limit_of_others_is_caught(monkeypatch):
    """A planted bug: the number of children as a rank among all units."""
    real = linked.degrees

    def ranked(parent, child):
        return np.argsort(np.argsort(real(parent, child), kind="stable"), kind="stable").astype(np.int64)

    monkeypatch.setattr(linked, "degrees", ranked)
    moved = largest_moves(schema_of(2), neighbouring())
    with pytest.raises(AssertionError):
        assert moved["household"] == [1.0, 1.0]


# Readers.


def test_all_kinds_of_sources_give_the_same_records(tmp_path):
    import duckdb
    import pandas as pd

    data = people(40)
    schema = schema_of(3)
    frames = {name: pd.DataFrame(columns) for name, columns in data.items()}
    frames["household"].to_csv(tmp_path / "household.csv", index=False)
    pq.write_table(pa.table(data["person"]), tmp_path / "person.parquet")
    con = duckdb.connect(str(tmp_path / "census.duckdb"))
    for name, frame in frames.items():
        con.register("frame", frame)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
        con.unregister("frame")
    con.close()
    files = {"household": tmp_path / "household.csv", "person": tmp_path / "person.parquet"}
    first = records(mq.open(data, schema=schema))
    assert first["household"].total() == 40
    for source in (frames, files, tmp_path / "census.duckdb"):
        assert records(mq.open(source, schema=schema)) == first


def test_a_stray_quote_reaches_no_other_table(tmp_path):
    (tmp_path / "h.csv").write_text('id,region\n1,north\n2,"so"uth\n3,south\n')
    (tmp_path / "p.csv").write_text("household,age\n1,old\n3,young\n3,old\n")
    tables = mq.open({"household": tmp_path / "h.csv", "person": tmp_path / "p.csv"}, schema=schema_of(3))
    assert records(tables)["person"].total() == 3


def test_what_cannot_be_opened_is_refused_in_words():
    schema = schema_of(2)
    data = people(3)
    with pytest.raises(ParameterError, match="a source for each of the tables household, person"):
        mq.open({"household": data["household"]}, schema=schema)
    with pytest.raises(SourceError, match="no column 'household'"):
        mq.open(data | {"person": {"age": ["old"]}}, schema=schema)
    with pytest.raises(ParameterError, match="are for one table"):
        mq.open(data, schema=schema, person="id", rows_per_person=2)
    with pytest.raises(ParameterError, match="domain="):
        mq.open(data)


def test_the_handles_show_nothing():
    tables = mq.open(people(3), schema=schema_of(2))
    assert repr(tables) == "Tables(household, person; a unit is a row of 'household')"
    assert repr(tables["person"]) == repr(mq.open(people(9), schema=schema_of(2))["person"])
    with pytest.raises(ParameterError, match="household, person"):
        tables["nobody"]
