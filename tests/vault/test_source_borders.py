"""Borders of sources: columns without a declaration, types that few libraries make, failures without a place."""

from __future__ import annotations

import datetime as dt
from dataclasses import fields

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from maquette.core.rows import loading
from maquette.core.rows.counting import TableCache
from maquette.core.rows.persons import ids_of, missing_words
from maquette.discovery.raw import columns_of, open_raw
from maquette.discovery.spellings import _year
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import SourceError
from maquette.vault import fit
from maquette.vault.readers import open_engine
from maquette.vault.texts import spelled


@pytest.mark.parametrize(
    ("columns", "words"), [(["b"], "has no column 'b'"), (["nested"], "which no attribute can declare")]
)
def test_raw_columns_that_cannot_be_looked_at_are_refused(columns, words):
    table = pa.table({"a": [1, 2], "nested": [[1], [2]]})
    with pytest.raises(SourceError, match=words):
        open_raw(table, columns)
    assert columns_of(table) == {"a": True, "nested": False}


def test_columns_of_one_name_are_refused():
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SourceError):
        columns_of(table)


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (pa.nulls(2), [None, None]),
        (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"\x00" * 16], pa.binary(16))), None),
    ],
)
def test_odd_columns_are_spelled_by_their_values(column, texts):
    words = spelled(column).to_pylist()
    assert words == texts if texts is not None else len(words) == 1


@pytest.mark.parametrize(("text", "year"), [("2020-02-28", 2020), ("2021-02-30", None), ("spring", None)])
def test_a_day_that_no_calendar_has_is_of_no_year(text, year):
    assert _year(text) == year


def test_truth_in_a_numeric_column_is_one_and_zero():
    domain = Domain((Attribute("a", Kind.NUMERIC, bounds=(0, 2), bins=2, integer=True),))
    report = fit.fit_report(pa.table({"a": [True, False, None]}), domain)
    (column,) = report.columns
    assert (column.undeclared, column.missing) == (0, 1)


def test_a_failure_that_is_no_matter_of_encoding_is_raised_as_it_is(monkeypatch):
    def broken(source, domain):
        raise SourceError("it has changed since it was opened")

    monkeypatch.setattr(fit, "_count", broken)
    domain = Domain((Attribute("a", Kind.ORDINAL, codes=3),))
    with pytest.raises(SourceError, match=r"^it has changed since it was opened$"):
        fit.fit_report(pd.DataFrame({"a": [0, 1]}), domain)


def test_counts_there_are_the_counts_here():
    """What is counted in a cluster from distinct codes is what is counted here record by record."""
    domain = Domain((Attribute("a", Kind.ORDINAL, codes=3),))

    class There:
        def __init__(self, declared: Domain) -> None:
            self.domain = declared

        def size(self) -> int:
            return 6

        def distinct(self, name: str):
            cells = [0, self.domain["a"].overflow_cell, self.domain["a"].null_cell]
            return np.array(cells), np.array([3, 2, 1])

    here = fit.fit_report(pd.DataFrame({"a": [0, 0, 0, 7, 8, None]}), domain)
    assert fit.count_fit(domain, There) == here  # pyright: ignore[reportArgumentType]


def test_a_moment_without_a_time_is_a_day():
    assert spelled(pa.array([dt.date(2020, 1, 2)])).to_pylist() == ["2020-01-02"]


def test_a_column_whose_name_is_a_space_is_read_and_not_offered():
    table = pa.table({" ": [1, 2], "a": [3, 4]})
    assert columns_of(table) == {" ": False, "a": True}
    open_raw(table, [" "])


def test_batches_are_cut_at_their_length(monkeypatch):
    monkeypatch.setattr(loading, "ROWS", 2)
    domain = Domain((Attribute("a", Kind.ORDINAL, codes=3),))
    table = pa.Table.from_batches([pa.record_batch({"a": [i % 3]}) for i in range(7)])
    engine = open_engine(table, domain, memory_limit=0)
    assert isinstance(engine, loading.StreamEngine)
    assert engine.margins([("a",)])["a",].tolist() == [3, 2, 2]


def test_a_table_larger_than_the_cache_is_not_kept():
    domain = Domain((Attribute("a", Kind.ORDINAL, codes=3),))
    cache = TableCache(domain, cells=2)
    cache.add({("a",): np.array([1, 2, 3])})
    assert cache.get(("a",)) is None


def test_ids_of_an_extension_type_are_those_of_its_storage():
    values = pa.array([7, 8, 7, None], pa.int64())
    own = pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "id", "test"), values)
    missing = pa.array([], pa.string())
    wrapped, plain = ids_of(own, missing), ids_of(values, missing)
    assert wrapped.present.tolist() == plain.present.tolist() == [True, True, True, False]
    assert all(np.array_equal(getattr(wrapped, f.name), getattr(plain, f.name)) for f in fields(plain))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("-0", "0", True),
        ("-0.0", "0", True),
        ("12.0", "12", True),
        (-0.0, 0.0, True),
        (0.1, 0.10, True),
        ("0.1", "0.10", False),
        ("12.1", "12.10", False),
        ("-1", "1", False),
        ("012", "12", False),
    ],
)
def test_ids_of_persons_are_texts_in_normal_form(one, other, is_same):
    """As the page about people says: members 1 and 10 of household 12 are two."""
    ids = ids_of(pa.array([one, other]), missing_words(()))
    assert ids.present.all()
    assert bool(ids.first[0] == ids.first[1]) is is_same
