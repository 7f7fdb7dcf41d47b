"""The largest error over combinations of values is the same number from memory, from a stream and by the core."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maquette.core.any_order import Family, Statistic, largest_errors
from maquette.core.budget import Budget
from maquette.core.combinations import CombinationQuestion, ReleasedRows, axes_of
from maquette.core.curator import Curator
from maquette.core.rows import engine as vault
from maquette.core.rows.engine import Engine, MemoryEngine
from maquette.domain import Relation
from maquette.errors import MechanismError, SourceError
from maquette.vault.readers import open_engine
from maquette.vault.spark import SparkEngine
from support.class_cases import TINY
from support.privacy_doubles import ledger_for, set_aside, table_of
from vault.test_class_statistics import stream, table

EVERY = [Statistic(family, order) for family in Family for order in (1, 2, 64)]


def question(names=TINY.names) -> CombinationQuestion:
    sizes = [TINY[name].size for name in names]
    rng = np.random.default_rng(4)
    codes = np.stack([rng.integers(size, size=9) for size in sizes], axis=1).astype(np.uint16)
    return CombinationQuestion.of(TINY, ReleasedRows(names, codes), EVERY)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("n", [1, 400])
def test_memory_and_stream_agree_with_the_core(tmp_path, monkeypatch, n, form):
    monkeypatch.setattr(vault, "ROWS", 16)  # records are brought together many times
    asked = question()
    memory = open_engine(table(n), TINY)
    assert isinstance(memory, MemoryEngine)
    batches = [np.stack([one[name] for name in TINY.names], axis=1) for one in memory._batches(TINY.names)]
    records = np.concatenate(batches).astype(np.uint16)
    expected = largest_errors(axes_of(TINY, TINY.names), records, asked.released.codes, EVERY)
    assert vault.combination_errors(memory, asked).tolist() == expected
    found = vault.combination_errors(memory, asked).tolist()
    assert vault.combination_errors(stream(tmp_path, table(n), form), asked).tolist() == found
    codes, times = memory.distinct_records(TINY.names)
    assert times.sum() == n
    assert len({tuple(record) for record in codes.tolist()}) == len(codes) <= TINY.size


def test_some_columns_are_those_of_the_question():
    some = question(("a", "c"))
    memory = open_engine(table(400), TINY)
    codes, times = memory.distinct_records(("a", "c"))
    expected = largest_errors(some.axes, codes, some.released.codes, EVERY, times=times)
    assert vault.combination_errors(memory, some).tolist() == expected


def test_a_table_elsewhere_lists_no_records():
    assert not SparkEngine.lists_records
    assert MemoryEngine.lists_records
    with pytest.raises(SourceError, match="not collected on this machine"):
        Engine.distinct_records(open_engine(table(5), TINY), ("a",))


def test_the_gate_refuses_it_before_payment(monkeypatch):
    ledger = ledger_for(TINY, budget=Budget(1.0), relation=Relation.ADD_REMOVE)
    set_aside(ledger, "one", Budget(1.0))
    curator = Curator(table_of(TINY, (1,) * TINY.size), ledger, key="one", budget=Budget(1.0))
    monkeypatch.setattr(MemoryEngine, "lists_records", False)
    before = curator.left, len(list(ledger.entries()))
    with pytest.raises(MechanismError, match="Nothing was paid"):
        curator.combination_errors(question().released, EVERY, price=Fraction(1, 10))
    assert (curator.left, len(list(ledger.entries()))) == before
