"""The largest error over classes of questions is the same number from memory, from a stream and by enumeration."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from maquette.core.class_errors import ClassQuestion, ReleasedTables
from maquette.core.rows import engine as vault
from maquette.core.rows.engine import MemoryEngine
from maquette.core.rows.loading import StreamEngine
from maquette.queries.classes import CLASSES, class_sets
from maquette.vault.readers import open_engine
from support.class_cases import TINY, largest

NAMES = list(CLASSES)
DENOMINATOR = 11


def table(n: int) -> pa.Table:
    rng = np.random.default_rng(n)
    a = rng.binomial(2, 0.3, n)
    return pa.table({"a": a, "b": (a + rng.integers(0, 2, n)) % 2, "c": rng.integers(0, 2, n)})


def question() -> tuple[ClassQuestion, np.ndarray]:
    """A released distribution over the whole universe, by all tables that the classes need."""
    shares = (
        np.random.default_rng(8)
        .multinomial(DENOMINATOR, np.full(TINY.size, 1 / TINY.size))
        .reshape(TINY.shape)
    )
    margins = {t.margin for name in NAMES for t in CLASSES[name].tables(TINY, [TINY.names])}
    tables = {
        margin: shares.sum(axis=tuple(i for i, name in enumerate(TINY.names) if name not in margin)).ravel()
        for margin in margins
    }
    return ClassQuestion.of(
        TINY, class_sets(TINY, NAMES, [TINY.names]), ReleasedTables(tables, DENOMINATOR)
    ), shares


def stream(folder: Path, records: pa.Table, form: str) -> StreamEngine:
    """The same records, read anew on every pass."""
    if form == "csv":
        csv.write_csv(records, folder / "t.csv")
        engine = open_engine(folder / "t.csv", TINY, memory_limit=0)
    else:
        pq.write_table(records, folder / "t.parquet", row_group_size=7)
        engine = open_engine(folder / "t.parquet", TINY, memory_limit=0)
    assert isinstance(engine, StreamEngine)
    return engine


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("n", [1, 400])
def test_a_stream_and_memory_give_the_same_statistic(n, form, tmp_path, monkeypatch):
    asked, shares = question()
    records = table(n)
    memory = open_engine(records, TINY)
    assert isinstance(memory, MemoryEngine)
    found = vault.largest_errors(memory, asked)
    assert found.tolist() == vault.largest_errors(stream(tmp_path, records, form), asked).tolist()
    counts = np.zeros(TINY.shape, dtype=np.int64)
    np.add.at(counts, tuple(records[name].to_numpy() for name in TINY.names), 1)
    assert found.tolist() == [
        ceil(round(largest(name, TINY, counts, shares / DENOMINATOR), 9)) for name in NAMES
    ]
    monkeypatch.setattr(MemoryEngine, "cells_per_pass", 1)  # table by table
    assert found.tolist() == vault.largest_errors(memory, asked).tolist()


def test_another_table_would_be_noticed(tmp_path):
    asked, _ = question()
    one = vault.largest_errors(open_engine(table(400), TINY), asked)
    other = vault.largest_errors(stream(tmp_path, table(401), "csv"), asked)
    assert one.tolist() != other.tolist()
