"""At most k records of each person, in a cluster: what runs on its machines before and after a shuffle by person.

The rule is that of `vault/persons.py`. Before the shuffle every record that has an id gets its person (128 bits), its
place in the order of that person's records (64 bits), and its packed codes; records without an id end here. The shuffle
brings all records of a person to one partition, where the first k of them are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.vault.arrow import pa
from maquette.vault.coding import coders
from maquette.vault.commitment import pack, packed_words, unpack
from maquette.vault.counting import RecordsTask
from maquette.vault.persons import PENDING, Words, ids_of, missing_words, ranks, shuffled
from maquette.vault.remote import BLOCK_ROWS, block, require_versions, stacked
from maquette.vault.spellings import hashed, spelled

KEYS = ("person", "more", "place")
"""Columns before those of the record: 128 bits for the person, 64 for the place of the record."""


def keyed_schema(words: int, texts: int = 0) -> str:
    """The columns between the two steps, in the words of Spark."""
    columns = [*KEYS, *(f"w{i}" for i in range(words))]
    return ", ".join([*(f"{name} long" for name in columns), *(f"v{i} string" for i in range(texts))])


@dataclass(frozen=True)
class KeyRecords:
    """From raw batches (the columns of the domain, then the person's) to keys and packed records."""

    domain: Domain
    expected: tuple[str, ...]

    def __call__(self, raw: Iterable[Any]) -> Iterator[Any]:
        require_versions(self.expected)
        coding = list(coders(self.domain).items())
        missing = missing_words(self.domain.na_values)
        for table in stacked(raw):
            *columns, person = (column.combine_chunks() for column in table.columns)
            coded = {name: coder.code(raw) for (name, coder), raw in zip(coding, columns, strict=True)}
            keys, rows = _keyed(person, missing, pack(self.domain, coded))
            yield _batch(keys[:, rows], [])


@dataclass(frozen=True)
class BoundBlocks:
    """From the keys and packed records of whole persons to blocks of the records that count."""

    domain: Domain
    records: RecordsTask
    rows: int
    expected: tuple[str, ...]

    def __call__(self, keyed: Iterable[Any]) -> Iterator[Any]:
        require_versions(self.expected)
        records, _ = _bounded(keyed, len(KEYS) + packed_words(self.domain), self.rows)
        for start in range(0, records.shape[1], BLOCK_ROWS):
            coded = unpack(self.domain, records[len(KEYS) :, start : start + BLOCK_ROWS])
            sums = self.records.zeros()
            self.records.add(sums, coded)
            yield block([coded[name].tobytes() for name in self.domain.names], sums, None)


@dataclass(frozen=True)
class KeyTexts:
    """From raw batches (some columns, then the person's) to keys, hashes of the columns, and the columns as texts."""

    na_values: tuple[str, ...]
    expected: tuple[str, ...]

    def __call__(self, raw: Iterable[Any]) -> Iterator[Any]:
        require_versions(self.expected)
        missing = missing_words(self.na_values)
        for table in stacked(raw):
            *columns, person = (column.combine_chunks() for column in table.columns)
            keys, rows = _keyed(person, missing, hashed(columns, missing))
            texts = [spelled(column).cast(pa.string()).take(pa.array(rows)) for column in columns]
            yield _batch(keys[:, rows], texts)


@dataclass(frozen=True)
class BoundTexts:
    """From what `KeyTexts` gives of whole persons to the texts of the records that count."""

    columns: int
    rows: int
    expected: tuple[str, ...]

    def __call__(self, keyed: Iterable[Any]) -> Iterator[Any]:
        require_versions(self.expected)
        _, tables = _bounded(keyed, len(KEYS) + self.columns, self.rows)
        for table in tables:
            yield from table.to_batches(max_chunksize=BLOCK_ROWS)


def _keyed(person: Any, missing: Any, records: Words) -> tuple[Words, NDArray[np.int64]]:
    ids = ids_of(person, missing)
    place = shuffled(ids.seeds, records)
    return np.vstack([ids.first, ids.second, place, records]), np.flatnonzero(ids.present)


def _batch(keys: Words, texts: Sequence[Any]) -> Any:
    columns = [*(pa.array(np.ascontiguousarray(row).view(np.int64)) for row in keys), *texts]
    names = [*KEYS, *(f"w{i}" for i in range(len(keys) - len(KEYS))), *(f"v{i}" for i in range(len(texts)))]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _bounded(keyed: Iterable[Any], width: int, rows: int) -> tuple[Words, list[Any]]:
    """Keys of the records that count, and their other columns; surplus records go as soon as there are many."""
    keys = np.zeros((width, 0), dtype=np.uint64)
    others: list[Any] = []
    pending: list[Any] = []
    size = 0
    for table in stacked(keyed):
        pending.append(table)
        size += table.num_rows
        if size > PENDING:
            keys, others = _first_of_each(keys, others, pending, width, rows)
            pending, size = [], 0
    return _first_of_each(keys, others, pending, width, rows) if pending else (keys, others)


def _first_of_each(
    keys: Words, others: list[Any], pending: Sequence[Any], width: int, rows: int
) -> tuple[Words, list[Any]]:
    table = pa.concat_tables(pending)
    fresh = np.stack([table.column(i).to_numpy().view(np.uint64) for i in range(width)])
    keys = np.concatenate([keys, fresh], axis=1)
    order = np.lexsort(keys[::-1])
    persons = keys[:2, order]
    changes = np.append(0, np.cumsum((persons[:, 1:] != persons[:, :-1]).any(axis=0))) if keys.size else order
    chosen = np.sort(order[ranks(changes) < rows])
    texts = pa.concat_tables([*others, table.select(range(width, table.num_columns))])
    return keys[:, chosen], [texts.take(pa.array(chosen))]
