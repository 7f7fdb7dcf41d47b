"""Engines: exact answers, the same in memory and streamed; nothing private shows."""

from __future__ import annotations

import copy
import itertools
import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core.forms import Sensitivity
from maquette.core.rows import engine as engines
from maquette.core.rows import loading
from maquette.core.rows.counting import CountTask, TableCache
from maquette.core.rows.engine import MemoryEngine
from maquette.core.rows.loading import StreamEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import SourceError, WorkloadError
from maquette.queries.base import Queries, TableQueries, union
from maquette.queries.marginals import marginals
from maquette.queries.predicates import where
from maquette.queries.rows import Columns
from maquette.queries.weights import weights
from maquette.vault import sources
from maquette.vault.readers import open_engine

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=3),
        Attribute("b", Kind.CATEGORICAL, categories=("x", "y"), nullable=True),
        Attribute("c", Kind.NUMERIC, bounds=(0, 4), bins=4),
    )
)


class LinearQueries(Queries):
    """What these tests do not look at."""

    domain = DOMAIN

    def distinct(self) -> int:
        return self.count

    def sensitivity(self, relation: Relation) -> Sensitivity:
        raise NotImplementedError

    def on_histogram(self, histogram):
        raise NotImplementedError

    def text(self, index: int) -> str:
        return str(index)

    def spec(self) -> dict[str, Any]:
        return {}


class Pairs(LinearQueries, TableQueries):
    """Every cell of two tables."""

    kind = "pairs"
    count = 9 + 12
    margins = (("a", "b"), ("a", "c"))

    def from_margins(self, tables):
        return np.concatenate([tables[m].ravel() for m in self.margins])


class RowPairs(LinearQueries):
    """The same queries, answered from rows."""

    kind = "row pairs"
    count = 9 + 12
    attributes = ("a", "b", "c")

    def on_rows(self, columns: Columns, weights=None):
        table = np.zeros((3, 3, 4), dtype=np.int64)
        np.add.at(table, (columns["a"], columns["b"], columns["c"]), 1)
        return np.concatenate([table.sum(2).ravel(), table.sum(1).ravel()])


class Everybody(LinearQueries):
    """A query that looks at no attribute: how many records are there?"""

    kind = "everybody"
    count = 1
    attributes = ()

    def on_rows(self, columns: Columns, weights=None):
        return np.array([len(next(iter(columns.values())))])


class Fractions(Everybody):
    """A broken class whose exact answers are not whole numbers."""

    def on_rows(self, columns: Columns, weights=None):
        return np.array([0.5])


def rows_of(n: int, seed: int = 0) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    return {
        "a": rng.integers(0, 3, n).tolist(),
        "b": [["x", "y", None][i] for i in rng.integers(0, 3, n)],
        "c": (rng.random(n) * 4).tolist(),
    }


@pytest.mark.slow
@given(n=st.integers(1, 40), seed=st.integers(0, 1000), batch=st.integers(1, 50))
@settings(deadline=None, max_examples=50)
def test_memory_and_stream_agree_wherever_the_rows_are_cut(n: int, seed: int, batch: int):
    rows = rows_of(n, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "ROWS", batch)
        patch.setattr(sources, "ROWS", batch)
        memory, stream = open_engine(rows, DOMAIN), open_engine(rows, DOMAIN, memory_limit=0)
        assert isinstance(memory, MemoryEngine)
        assert isinstance(stream, StreamEngine)
        expected = np.zeros((3, 3, 4), dtype=np.int64)
        for a, b, c in zip(*rows.values(), strict=True):
            expected[a, {"x": 0, "y": 1, None: 2}[b], int(c)] += 1
        for engine in (memory, stream):
            assert engine.size() == n
            assert engine.answer(Everybody().to_forms()).tolist() == [n]
            margins = [m for k in range(4) for m in itertools.combinations(DOMAIN.names, k)]
            tables = engine.margins(margins)
            for margin in margins:
                gone = tuple(i for i, name in enumerate(DOMAIN.names) if name not in margin)
                assert (tables[margin] == expected.sum(axis=gone)).all()
            codes, counts = engine.distinct("a")
            assert (expected.sum(axis=(1, 2))[codes] == counts).all()
            assert counts.sum() == n
            answers = engine.answer(Pairs().to_forms())
            assert answers.dtype == np.int64
            assert (answers == engine.answer(RowPairs().to_forms())).all()
        assert memory.commitment(b"salt") == stream.commitment(b"salt")


@pytest.mark.parametrize("limit", [None, 0])
def test_a_union_is_answered_in_one_pass_as_its_parts_are(limit, monkeypatch):
    parts = [
        marginals(DOMAIN, k=2),
        where(DOMAIN, "a = 1 and c < 2"),
        weights(DOMAIN, [[0.5, 0.25, 0.0], [1.0, 0.125, 0.75]], attributes=("a",)),
        marginals(DOMAIN, k=1),
    ]
    asked = union(*parts)
    engine = open_engine(rows_of(300), DOMAIN, memory_limit=limit)
    apart = [engine.answer(part.to_forms()) * (asked.denominator // part.denominator) for part in parts]
    passes: list[object] = []
    plain = type(engine)._batches
    monkeypatch.setattr(
        type(engine), "_batches", lambda self, names: passes.append(names) or plain(self, names)
    )
    assert engine.answer(asked.to_forms()).tolist() == np.concatenate(apart).tolist()
    assert len(passes) == 1
    columns = open_engine(rows_of(300), DOMAIN)._columns
    assert engine.answer(asked.to_forms()).tolist() == asked.on_rows(columns).tolist()


def test_weights_that_are_no_whole_numbers_are_refused_before_any_record_is_read():
    with pytest.raises(WorkloadError, match="whole numerators"):
        Fractions().to_forms()


def test_a_failure_in_one_of_several_threads_is_the_failure_of_the_pass(monkeypatch):
    monkeypatch.setattr(engines, "ROWS", 10)
    engine = open_engine(rows_of(300), DOMAIN)
    assert engine.size() == 300
    monkeypatch.setattr(CountTask, "add", _fail)
    with pytest.raises(ArithmeticError):
        engine.answer(Everybody().to_forms())


def _fail(*_: object) -> None:
    raise ArithmeticError


def test_a_column_cannot_lend_rows_to_another():
    domain = Domain((Attribute("a", Kind.ORDINAL, codes=3), Attribute("b", Kind.ORDINAL, codes=3)))
    one = open_engine({"a": [1, 2], "b": [0, 0]}, domain).commitment(b"s")
    two = open_engine({"a": [0, 0], "b": [1, 2]}, domain).commitment(b"s")
    assert one != two


@pytest.mark.parametrize("limit", [None, 0])
def test_engines_show_nothing_private_and_cannot_be_copied(limit):
    small = open_engine(rows_of(7), DOMAIN, memory_limit=limit)
    large = open_engine(rows_of(900), DOMAIN, memory_limit=limit)
    assert repr(small) == repr(large)
    assert str(small) == str(large)
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(SourceError, match="cannot be copied or pickled"):
            way(small)
    assert not hasattr(small, "__len__")
    assert not hasattr(small, "__dict__")
    assert {name for name in dir(small) if not name.startswith("_")} == {
        "answer", "binned", "cells_per_pass", "commitment", "distinct", "distinct_records", "domain", "fold",
        "in_order", "lists_records", "margins", "size",
    }  # fmt: skip


def test_columns_in_memory_cannot_be_written():
    engine = open_engine(rows_of(5), DOMAIN)
    with pytest.raises(ValueError, match="read-only"):
        engine._columns["a"][0] = 1


def test_the_codes_decide_between_memory_and_stream():
    rows = rows_of(100)  # 300 bytes of codes, which may take half of the limit
    assert isinstance(open_engine(rows, DOMAIN, memory_limit=600), MemoryEngine)
    assert isinstance(open_engine(rows, DOMAIN, memory_limit=599), StreamEngine)


@pytest.mark.parametrize("stored", ["memory", "file", "frame"])
def test_tables_beyond_the_limit_are_counted_in_several_passes(tmp_path, monkeypatch, stored):
    for module in (engines, loading):
        monkeypatch.setattr(module, "LEAST_CELLS_PER_PASS", 16)
    monkeypatch.setattr("maquette.core.rows.counting.COVER_CELLS", 1)
    source, limit = rows_of(300), 0
    if stored == "memory":
        limit = 1800
    if stored == "file":
        pq.write_table(pa.table(source), tmp_path / "t.parquet")
        source = tmp_path / "t.parquet"
    asked = [m for k in (1, 2) for m in combinations(DOMAIN.names, k)]
    exact = open_engine(rows_of(300), DOMAIN).margins(asked)
    engine = open_engine(source, DOMAIN, memory_limit=limit)
    assert isinstance(engine, MemoryEngine) == (stored == "memory")
    largest: list[int] = []
    plain = type(engine).fold

    def fold(self, task):
        largest.append(sum(array.size for array in task.zeros()))
        return plain(self, task)

    monkeypatch.setattr(type(engine), "fold", fold)
    counts = engine.margins(asked)
    assert all(np.array_equal(counts[margin], exact[margin]) for margin in asked)
    assert len(largest) > 1
    most = max(DOMAIN.cells(margin) for margin in asked)
    assert max(largest) <= max(most, engine.cells_per_pass)
    if engine._tables is not None:
        assert sum(table.size for table in engine._tables._tables.values()) <= 16


def test_lists_of_tables_hold_what_fits():
    assert engines.in_passes([3, 4, 5, 20, 1, 1], int, 8) == [[3, 4], [5], [20], [1, 1]]
    assert engines.in_passes([], int, 8) == []
    assert engines.in_passes([4, 4, 4], int, 8) == [[4, 4], [4]]


def counted_passes(engine: Any, monkeypatch) -> list[object]:
    passes: list[object] = []
    plain = type(engine)._batches
    monkeypatch.setattr(
        type(engine), "_batches", lambda self, names: passes.append(names) or plain(self, names)
    )
    return passes


@pytest.mark.parametrize("stored", ["memory", "file"])
def test_tables_of_many_rows_are_counted_once(tmp_path, monkeypatch, stored):
    monkeypatch.setattr(engines, "MANY_ROWS", 100)
    source, limit = rows_of(300), None
    if stored == "file":
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table(source), path)
        source, limit = path, 0
    engine = open_engine(source, DOMAIN, memory_limit=limit)
    exact = open_engine(rows_of(300), DOMAIN, memory_limit=0)
    passes = counted_passes(engine, monkeypatch)
    first = engine.margins([("a", "b"), ("b", "c"), ("c",)])
    first[("a", "b")][:] = -1  # a caller's own copy
    asked = [("b", "a"), ("c", "b"), ("b",), (), ("a", "b")]
    again = engine.margins(asked)
    assert engine.size() == 300
    assert len(passes) == 1
    assert engine.margins([("a", "c")])[("a", "c")].sum() == 300  # in none of them
    assert len(passes) == 2
    expected = exact.margins(asked)
    for margin in asked:
        assert (again[margin] == expected[margin]).all()


def test_cached_tables_give_way_to_newer_ones():
    cache = TableCache(DOMAIN, cells=20)
    counts = {
        m: np.arange(DOMAIN.cells(m)).reshape([DOMAIN[n].size for n in m]) for m in (("a", "b"), ("a", "c"))
    }
    cache.add({("a", "b"): counts["a", "b"]})
    cache.add({("a", "c"): counts["a", "c"] + 2**32})
    assert cache.get(("a", "b")) is None
    kept = cache.get(("c", "a"))
    assert kept is not None
    assert (kept == counts["a", "c"].T + 2**32).all()


@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("least", [1, 10**6])
def test_row_groups_read_by_column_or_in_batches_are_the_same_table(tmp_path, monkeypatch, limit, least):
    monkeypatch.setattr(sources, "MIN_GROUP_ROWS", least)
    path = tmp_path / "t.parquet"
    table = pa.table(rows_of(300))
    pq.write_table(table, path, row_group_size=70)
    engine = open_engine(path, DOMAIN, memory_limit=limit)
    exact = open_engine(rows_of(300), DOMAIN)
    for margin, counts in exact.margins([("a", "b", "c"), ()]).items():
        assert (engine.margins([margin])[margin] == counts).all()
    assert engine.commitment(b"s") == exact.commitment(b"s")


def test_a_damaged_row_group_is_refused_without_words_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MIN_GROUP_ROWS", 1)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(rows_of(300)), path, row_group_size=70, compression="none")
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    path.write_bytes(content)
    with pytest.raises(SourceError, match="damaged") as refused:
        open_engine(path, DOMAIN)
    assert refused.value.__context__ is None
