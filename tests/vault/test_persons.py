"""At most k records of each person: whatever the order, the batches, the reader, and the neighbours."""

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core.rows import persons as bounding
from maquette.core.rows import source as sources
from maquette.core.rows.coding import code_type
from maquette.core.rows.commitment import pack, packed_words, unpack
from maquette.core.rows.persons import PersonRows
from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.errors import SourceError
from maquette.vault import remote
from maquette.vault.readers import open_engine, open_source
from maquette.vault.spark import SparkEngine, SparkTable
from support.hostile_tables import cut
from support.local_frame import LocalFrame

DOMAIN = Domain(
    (
        Attribute("x", Kind.CATEGORICAL, categories=("a", "b", "c"), overflow=True),
        Attribute("y", Kind.NUMERIC, bounds=(0.0, 8.0), bins=8, nullable=True),
    ),
    na_values=("-",),
)
rows = st.lists(
    st.tuples(st.sampled_from(["p", "q", "r", "s"]), st.sampled_from("abcd"), st.integers(-1, 9)), max_size=40
)


def table(records):
    return pa.table(
        {
            "who": pa.array([r[0] for r in records], pa.string()),
            "x": pa.array([r[1] for r in records], pa.string()),
            "y": pa.array([r[2] for r in records], pa.int64()),
        }
    )


def kept(source, k, **options):
    """The multiset of coded records that count."""
    engine = open_engine(source, DOMAIN, persons=Persons("who", k), **options)
    counts = engine.margins([DOMAIN.names])[DOMAIN.names]
    return Counter({tuple(cell): int(counts[tuple(cell)]) for cell in np.argwhere(counts).tolist()})


@pytest.mark.law
@settings(max_examples=80, deadline=None)
@given(rows, st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(records, k, random):
    shuffled = list(records)
    random.shuffle(shuffled)
    first = kept(table(records), k)
    assert kept(table(shuffled), k) == first
    people = Counter(r[0] for r in records)
    assert sum(first.values()) == sum(min(n, k) for n in people.values())


@pytest.mark.law
@settings(max_examples=80, deadline=None)
@given(rows, st.integers(1, 4))
def test_one_person_less_changes_only_that_person(records, k):
    whole = kept(table(records), k)
    for person in {r[0] for r in records}:
        others = kept(table([r for r in records if r[0] != person]), k)
        alone = kept(table([r for r in records if r[0] == person]), k)
        assert whole == others + alone
        assert sum(alone.values()) <= k


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(rows, st.integers(1, 3), st.integers(1, 5))
def test_cuts_between_batches_do_not_matter(records, k, size):
    whole = kept(table(records), k)
    parts = [table(records[i : i + size]) for i in range(0, len(records), size)] or [table([])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "PENDING", 2)
        assert kept(pa.concat_tables(parts), k) == whole
        assert kept(pa.concat_tables(parts), k, memory_limit=0) == whole


def in_partitions(parts, k):
    """The same in the partitions of a stand-in for a cluster."""
    engine = SparkEngine(DOMAIN, SparkTable(LocalFrame.of(parts)), progress=None, persons=Persons("who", k))
    counts = engine.margins([DOMAIN.names])[DOMAIN.names]
    return Counter({tuple(cell): int(counts[tuple(cell)]) for cell in np.argwhere(counts).tolist()})


IDS = ["p", "q", " p", "12", "12.0", "", "-", None, "é", "e\u0301"]
odd_rows = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from("abcd"), st.integers(-1, 9)), max_size=30)


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(odd_rows, st.integers(1, 3), st.sampled_from([1, 7]))
def test_a_cluster_keeps_the_same_records(records, k, parts):
    """Through a shuffle by person; surplus records are dropped early and late."""
    expected = kept(table(records), k)
    assert in_partitions(cut(table(records), parts, turned=True), k) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "PENDING", 2)
        patch.setattr(remote, "RAW_ROWS", 2)
        assert in_partitions(cut(table(records), parts), k) == expected


def test_a_shuffle_that_divides_persons_is_caught(monkeypatch):
    """A planted bug: rows of one person in several partitions, each of which keeps k of them."""
    records = table([("p", "abc"[i % 3], i % 9) for i in range(30)])
    expected = kept(records, 2)
    assert in_partitions(cut(records, 7), 2) == expected
    monkeypatch.setattr(LocalFrame, "repartition", lambda self, name: self)
    assert in_partitions(cut(records, 7), 2) != expected


WIDE = Domain(
    tuple(
        Attribute(f"a{i}", Kind.ORDINAL, codes=size)
        for i, size in enumerate([3, 1, 2**30, 2**31, 2**64, 1, 7, 2**33, 2, 100, 2**53])
    )
)


@pytest.mark.parametrize("count", [1, 2, 4, 5, 11])
def test_packed_records_come_back(count):
    domain = Domain(WIDE.attributes[:count])
    generator = np.random.default_rng(count)
    coded = {
        a.name: np.append(
            generator.integers(0, a.size - 1, 50, dtype=np.uint64, endpoint=True), np.uint64(a.size - 1)
        ).astype(code_type(a.size))
        for a in domain
    }
    words = pack(domain, coded)
    assert words.shape[0] == packed_words(domain)
    back = unpack(domain, words)
    assert all(np.array_equal(back[name], codes) for name, codes in coded.items())
    assert all(back[name].dtype == codes.dtype for name, codes in coded.items())


def test_every_reader_keeps_the_same_records(tmp_path):
    generator = np.random.default_rng(4)
    n = 4000
    who = (generator.zipf(1.5, n) % 300).astype(np.int64)
    data = pa.table(
        {
            "who": who,
            "x": pa.array(generator.choice(list("abcd"), n)),
            "y": generator.integers(-1, 10, n),
        }
    )
    first = kept(data, 3)
    assert sum(first.values()) == int(np.minimum(np.unique(who, return_counts=True)[1], 3).sum())
    order = generator.permutation(n)
    pq.write_table(data.take(pa.array(order)), tmp_path / "t.parquet", row_group_size=333)
    pl.from_arrow(data).write_csv(tmp_path / "t.csv")
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):
        pq.write_table(data.slice(i * 1500, 1500), folder / f"{i}.parquet")
    connection = duckdb.connect()
    connection.register("t", data)
    connection.execute("CREATE TABLE r AS SELECT * FROM t ORDER BY random()")
    words = data.set_column(0, "who", data["who"].cast(pa.string()))
    coded = words.set_column(0, "who", words["who"].dictionary_encode())
    decimal = data.set_column(0, "who", data["who"].cast(pa.decimal128(20, 1)))
    for source in (
        tmp_path / "t.parquet",
        tmp_path / "t.csv",
        folder,
        words,
        coded,
        decimal,
        data.to_pandas(),
    ):
        assert kept(source, 3) == first
    assert kept(connection, 3, table="r") == first
    assert kept(connection, 3, table="r", memory_limit=0) == first
    assert kept(tmp_path / "t.csv", 3, memory_limit=0) == first


def test_rows_of_nobody_are_left_out():
    records = [(None, "a", 1), ("", "b", 1), ("  ", "b", 1), ("-", "c", 1), ("p", "a", 2)]
    assert sum(kept(table(records), 5).values()) == 1
    numbers = table(records).set_column(0, "who", pa.array([None, float("nan"), 1.0, 1.0, 2.0]))
    assert sum(kept(numbers, 1).values()) == 2
    nulls = table(records).set_column(0, "who", pa.nulls(5))
    assert not kept(nulls, 5)
    assert not kept(table([]), 5)


def test_ids_are_compared_in_normal_form():
    """Space around, composed and decomposed letters, and a whole number with a point are one person."""
    for same in (["12", " 12", "12\t", "12.0", "12."], ["é", "e\u0301", " é"]):
        assert sum(kept(table([(who, "a", 1) for who in same]), 2).values()) == 2
    for apart in (["12", "012"], ["Ann", "ann"], ["1", "1.5"], ["1e1", "10"]):
        assert sum(kept(table([(who, "a", 1) for who in apart]), 1).values()) == 2


def test_the_choice_does_not_follow_the_values():
    """Of 2,000 people with one record in each of four cells, about a quarter is counted in each."""
    records = [(f"p{i}", x, 1) for i in range(2000) for x in "abcd"]
    counts = kept(table(records), 1)
    assert sum(counts.values()) == 2000
    assert all(abs(n - 500) < 120 for n in counts.values())  # six deviations


def test_the_choice_never_changes():
    """Another hash would choose other records than earlier releases did."""
    records = [(who, "abc"[i % 3], i) for who in ("p", "q") for i in range(6)]
    assert kept(table(records), 2) == CHOSEN


CHOSEN = {(1, 1): 1, (1, 4): 2, (2, 2): 1}


def test_a_column_that_cannot_say_whose_row_it_is_is_refused():
    records = table([("p", "a", 1)])
    with pytest.raises(SourceError, match="no column 'id', which person= names"):
        open_engine(records, DOMAIN, persons=Persons("id", 2))
    twice = pa.table([records["who"], *records.columns], names=["who", "who", "x", "y"])
    with pytest.raises(SourceError, match="more than one column 'who'"):
        open_engine(twice, DOMAIN, persons=Persons("who", 2))
    lists = records.set_column(0, "who", pa.array([[1]]))
    with pytest.raises(SourceError, match="cannot say whose record it is"):
        open_engine(lists, DOMAIN, persons=Persons("who", 2))


def test_a_table_that_changes_between_the_passes_is_refused():
    class Changing(sources.Source):
        description, header = "changing table", ("who", "x", "y")
        passes = 0

        def kind(self, column):
            return table([]).schema.field(column).type

        def batches(self, columns):
            Changing.passes += 1
            data = table([("p", "a", 1), ("q" if Changing.passes == 1 else "p", "a", 1)])
            yield {name: data[name].chunk(0) for name in columns}, 1.0

    with pytest.raises(SourceError, match="no longer holds the records"):
        list(PersonRows.of_domain(Changing(), DOMAIN, Persons("who", 1)).batches(["x"]))


def test_persons_whose_hashes_begin_alike_are_told_apart(monkeypatch):
    """The first 64 bits of the ids agree: the others decide."""
    real = bounding.ids_of

    def alike(column, missing):
        ids = real(column, missing)
        return bounding.Ids(ids.first & np.uint64(1), ids.second, ids.seeds, ids.present)

    records = [(who, "abc"[i % 3], i) for who in "pqrstuvw" for i in range(5)]
    first = kept(table(records), 2)
    monkeypatch.setattr(bounding, "ids_of", alike)
    assert kept(table(records), 2) == first


def test_a_person_without_a_source_of_names():
    """Plain records and columns are read for the person's column too."""
    records = [{"who": "p", "x": "a", "y": 1}] * 3
    assert sum(kept(records, 2).values()) == 2
    assert open_source(records).header == ("who", "x", "y")


# People instead of rows: the view of docs/people.md, as it is printed there.


def people_counted(records):
    """The counts of the view, by wards and days, in sixths of a person."""
    page = (Path(__file__).parents[2] / "docs" / "people.md").read_text(encoding="utf-8")
    view = next(block for block in page.split("```sql\n")[1:] if "number < 6 // r" in block)
    columns = {
        "patient": pa.array([r[0] for r in records], pa.string()),
        "ward": pa.array([r[1] for r in records], pa.string()),
        "days": pa.array([r[2] for r in records], pa.int64()),
    }
    with duckdb.connect() as connection:
        connection.register("given", pa.table(columns))
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")
        connection.execute(view.split("```")[0])
        domain = Domain(
            (
                Attribute("ward", Kind.CATEGORICAL, categories=("a", "b", "c"), overflow=True),
                Attribute("days", Kind.NUMERIC, bounds=(0.0, 8.0), bins=8),
            )
        )
        engine = open_engine(connection, domain, table="equal", persons=Persons("patient", 6))
        return engine.margins([domain.names])[domain.names]


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(rows.filter(bool))
def test_in_the_view_of_people_everybody_weighs_the_same_and_moves_nobody_else(records):
    """One person more or less moves every table by one person in all: sensitivity 1 in units of persons, whatever k."""
    counts = people_counted(records)
    names = {r[0] for r in records}
    assert counts.sum() == 6 * len(names)
    gone = records[0][0]
    without = people_counted([r for r in records if r[0] != gone])
    assert (counts - without).min() >= 0
    assert (counts - without).sum() == 6
    alone = people_counted([r for r in records if r[0] == gone])
    assert ((counts - without) == alone).all()
