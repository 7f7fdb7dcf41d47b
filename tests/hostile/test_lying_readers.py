"""Readers that shuffle, cut, double, drop and change: a record has one value in every column, a person k records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from maquette.core.rows import loading
from maquette.core.rows.persons import PersonRows
from maquette.core.rows.source import Batch, Source
from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.errors import SourceError

pytestmark = pytest.mark.privacy
SMALL = Domain((Attribute("a", Kind.ORDINAL, codes=3, nullable=True), Attribute("b", Kind.BOOLEAN, codes=2)))
Records = list[tuple[str | None, str, str]]
"""Of a, b and whose it is."""
NAMES = ("a", "b", "who")
Lie = Callable[[list[Any], np.random.Generator, int], list[Any]]


class LyingReader(Source):
    """Records in batches, after a lie about each column of a pass."""

    def __init__(self, records: Records, lie: Lie, seed: int = 1, *, every: bool = True) -> None:
        self.description, self.header = "lies", NAMES
        self._records, self._lie, self._seed, self._every = records, lie, seed, every
        self.passes = 0

    def kind(self, column: str) -> pa.DataType:
        return pa.string()

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        self.passes += 1
        rng = np.random.default_rng([self._seed, self.passes])
        cuts = np.sort(rng.integers(0, len(self._records) + 1, 3)).tolist()
        for begin, end in zip([0, *cuts], [*cuts, len(self._records)], strict=True):
            part = self._records[begin:end]
            if self._every or self.passes == 2:
                told: Any = self._lie(list(part), rng, self.passes)
            else:
                told = part
            if isinstance(told, dict):
                yield {name: pa.array(told[name], pa.string()) for name in columns}, 1.0
                continue
            yield {n: pa.array([row[NAMES.index(n)] for row in told], pa.string()) for n in columns}, 1.0


def _shuffled(part: list[Any], rng: np.random.Generator, number: int) -> list[Any]:
    return [part[i] for i in rng.permutation(len(part))]


def _ragged(part: list[Any], rng: np.random.Generator, number: int) -> Any:
    columns = {name: [row[i] for row in part] for i, name in enumerate(NAMES)}
    columns["b"] = columns["b"][: max(0, len(part) - 1)]
    return columns


def _longer(part: list[Any], rng: np.random.Generator, number: int) -> Any:
    columns = {name: [row[i] for row in part] for i, name in enumerate(NAMES)}
    columns["b"] = columns["b"] * 2
    return columns


HARMLESS: dict[str, Lie] = {"as it is": lambda part, rng, number: part, "shuffled": _shuffled}
RAGGED: dict[str, Lie] = {"a value less in a column": _ragged, "a column twice as long": _longer}
CHANGING: dict[str, Lie] = {
    "doubled": lambda part, rng, number: part * 2,
    "dropped": lambda part, rng, number: part[1:],
    "other values": lambda part, rng, number: [("2", "0", who) for _, _, who in part],
    "codes that no domain has": lambda part, rng, number: [("99", "7", who) for _, _, who in part],
}


def records(rng: np.random.Generator, count: int) -> Records:
    return [
        (str(rng.choice(["0", "1", "2", "x", ""])), str(rng.integers(2)), f"p{rng.integers(4)}")
        for _ in range(count)
    ]


def table(source: Source, *, streams: bool = False) -> Any:
    """Loaded into memory, or read anew on every pass."""
    if streams:
        return loading.StreamEngine(SMALL, source, cells=2**20)
    return loading.load(source, SMALL, memory_limit=None, progress=None)


def counts(engine: Any) -> np.ndarray:
    return engine.margins([("a", "b")])[("a", "b")]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("lie", HARMLESS)
def test_order_and_cuts_of_a_reader_change_nothing(lie, streams):
    for seed in range(20):
        rows = records(np.random.default_rng(seed), 9)
        found = counts(table(LyingReader(rows, HARMLESS[lie], seed), streams=streams))
        alone = [counts(table(LyingReader([row], HARMLESS["as it is"]))) for row in rows]
        assert found.tolist() == np.sum(alone, axis=0).tolist()


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("lie", RAGGED)
def test_columns_of_different_lengths_are_refused_when_a_table_is_opened(lie, streams):
    """They would join the values of different records, or be read beyond their end."""
    for seed in range(10):
        rows = records(np.random.default_rng(seed), 9)
        with pytest.raises(SourceError, match="different lengths"):
            table(LyingReader(rows, RAGGED[lie], seed), streams=streams)
        bounded = PersonRows.of_domain(LyingReader(rows, RAGGED[lie], seed), SMALL, Persons("who", 1))
        with pytest.raises(SourceError, match=r"different lengths|no longer holds"):
            table(bounded, streams=streams)


@pytest.mark.parametrize("lie", CHANGING)
def test_another_pass_over_other_records_gives_no_answer(lie):
    rows = records(np.random.default_rng(3), 12)
    for at, act in (("b", lambda engine: counts(engine)), ("a", lambda engine: engine.distinct("a"))):
        engine = table(LyingReader(rows, CHANGING[lie], every=False), streams=True)
        with pytest.raises(SourceError, match="no longer holds the records"):
            act(engine)
        assert at


@pytest.mark.parametrize("lie", [*HARMLESS, *CHANGING])
def test_every_code_that_a_reader_leads_to_is_a_cell_of_the_domain(lie):
    for seed in range(10):
        rows = records(np.random.default_rng(seed), 9)
        engine = table(LyingReader(rows, (HARMLESS | CHANGING)[lie], seed))
        for name in SMALL.names:
            assert (engine.distinct(name)[0] < SMALL[name].size).all()


@pytest.mark.parametrize("rows_of", [1, 2, 3])
@pytest.mark.parametrize("lie", ["as it is", "shuffled", "doubled"])
def test_a_person_moves_a_table_by_no_more_records_than_declared(lie, rows_of):
    """Also where the reader doubles every record, always in the same way."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = records(rng, int(rng.integers(0, 9)))
        whole = [row for row in rows if row[2] != "p9"]
        more = whole + [(*row[:2], "p9") for row in records(rng, int(rng.integers(1, 6)))]
        found = [
            counts(
                table(
                    PersonRows.of_domain(
                        LyingReader(part, (HARMLESS | CHANGING)[lie], seed), SMALL, Persons("who", rows_of)
                    )
                )
            )
            for part in (whole, more)
        ]
        moved = found[1].astype(np.int64) - found[0]
        assert (moved >= 0).all(), "another person's records changed"
        assert moved.sum() <= rows_of


def test_a_loader_that_took_columns_of_any_length_would_be_noticed(monkeypatch):
    monkeypatch.setattr(loading, "check_even", lambda columns: None)
    with pytest.raises(pytest.fail.Exception):
        test_columns_of_different_lengths_are_refused_when_a_table_is_opened("a column twice as long", False)
