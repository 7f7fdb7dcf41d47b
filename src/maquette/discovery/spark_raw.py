"""Raw columns of a Spark frame, before a domain is declared: counted in the cluster, as `discovery/raw.py` does here.

Numbers of records in public cells are summed in the partitions. Of a column whose values are to be listed the different
values come to this machine, each with its number of records: noise is added to them here, and nowhere else.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.rows.arrow import pa
from maquette.core.rows.commitment import LANES, add_records
from maquette.core.rows.persons import missing_words
from maquette.discovery.spellings import CellSum, Integers, Spellings
from maquette.domain import Persons
from maquette.vault import remote
from maquette.vault.remote import BoundTexts, KeyTexts, keyed_schema
from maquette.vault.spark import SparkTable, collected, storage, unpersist, without_pandas
from maquette.vault.texts import hashed

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class CountSpellings:
    """From one column to its different values and how many records have each; null are those that are missing."""

    na_values: tuple[str, ...]
    expected: tuple[str, ...]

    def __call__(self, raw: Iterable[Any]) -> Iterator[Any]:
        spellings = _spellings_of(raw, self.na_values, self.expected)
        texts = [*spellings.counts, None]
        times = [*spellings.counts.values(), spellings.missing]
        for start in range(0, len(texts), remote.BLOCK_ROWS):
            some = slice(start, start + remote.BLOCK_ROWS)
            columns = [pa.array(texts[some], pa.string()), pa.array(times[some], pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, names=["text", "times"])


@dataclass(frozen=True)
class SumSpellings:
    """From one column to numbers of records in public cells."""

    of: CellSum
    na_values: tuple[str, ...]
    expected: tuple[str, ...]

    def __call__(self, raw: Iterable[Any]) -> Iterator[Any]:
        table = self.of.of(_spellings_of(raw, self.na_values, self.expected))
        yield from remote.results(0, np.arange(len(table)), table)


@dataclass(frozen=True)
class SumRecords:
    """From raw columns to the keyed sums by which a ledger knows its table, and the number of records."""

    keys: Words = field(repr=False)
    expected: tuple[str, ...]

    def __call__(self, raw: Iterable[Any]) -> Iterator[Any]:
        remote.require_versions(self.expected)
        sums = np.zeros(LANES + 1, dtype=np.uint64)
        blank = missing_words(())
        for table in remote.stacked(raw):
            words = hashed([column.combine_chunks() for column in table.columns], blank)
            add_records(words, self.keys, sums[:LANES])
            sums[LANES] += np.uint64(words.shape[1])
        yield from remote.results(0, np.arange(LANES + 1), sums)


class SparkRows:
    """Some columns of a frame; with persons, the texts of the records that count, kept in the cluster."""

    def __init__(
        self, source: SparkTable, columns: Sequence[str], *, na_values: Sequence[str], persons: Persons | None
    ) -> None:
        self._description = source.description
        self._versions = remote.versions()
        self._na_values = tuple(na_values)
        self._places = {name: f"v{i}" for i, name in enumerate(columns)}
        names = [f"x{i}" for i in range(len(source.header))]
        chosen = [f"{names[source.header.index(name)]} AS {place}" for name, place in self._places.items()]
        with without_pandas():
            frame = source.frame.toDF(*names)  # by position: Spark knows no case
            self._whole = self._rows = frame.selectExpr(*chosen)
            if persons is not None:
                whose = f"{names[source.header.index(persons.column)]} AS person"
                self._rows = self._bounded(frame.selectExpr(*chosen, whose), persons.rows)
                weakref.finalize(self, unpersist, self._rows)

    def spellings(self, name: str) -> Spellings:
        """The different values of a column."""
        job = CountSpellings(self._na_values, self._versions)
        table = self._run(self._rows.select(self._places[name]), job, "text string, times long")
        result = Spellings(Counter())
        for text, times in zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True):
            if text is None:
                result.missing += times
            else:
                result.counts[text] += times
        return result

    def sums(self, name: str, of: CellSum) -> Integers:
        """Numbers of records in public cells."""
        job = SumSpellings(of, self._na_values, self._versions)
        return self._added(self._rows.select(self._places[name]), job).view(np.int64)

    def records(self, keys: Words) -> tuple[Words, int]:
        """Keyed sums over all records, those that do not count too, and how many there are."""
        sums = self._added(self._whole, SumRecords(keys, self._versions))
        return sums[:LANES], int(sums[LANES])

    def _bounded(self, frame: Any, rows: int) -> Any:
        columns = len(self._places)
        keyed = frame.mapInArrow(KeyTexts(self._na_values, self._versions), keyed_schema(columns, columns))
        schema = ", ".join(f"{place} string" for place in self._places.values())
        rows_of = keyed.repartition("person").mapInArrow(BoundTexts(columns, rows, self._versions), schema)
        return rows_of.persist(storage())

    def _added(self, frame: Any, job: Any) -> Words:
        table = self._run(frame, job, remote.RESULT_SCHEMA)
        cells, values = (table.column(i).to_numpy() for i in (1, 2))
        sums = np.zeros(int(cells.max()) + 1, dtype=np.uint64)
        np.add.at(sums, cells, values.view(np.uint64))
        return sums

    def _run(self, frame: Any, job: Any, schema: str) -> Any:
        with without_pandas():
            return collected(frame.mapInArrow(job, schema), self._description, self._versions)


def _spellings_of(raw: Iterable[Any], na_values: tuple[str, ...], expected: tuple[str, ...]) -> Spellings:
    remote.require_versions(expected)
    missing = missing_words(na_values)
    result = Spellings(Counter())
    for table in remote.stacked(raw):
        result.add(table.column(0).combine_chunks(), missing)
    return result
