"""What runs on the machines that hold the rows: our own coder and counter over Arrow batches, whole numbers out.

Rows are coded once into blocks: one byte string per column and the keyed digest of their records (`RecordsTask`), in
one row. A pass over blocks returns its sums together with the sum of the digests that it has read, so that it can be
told from a pass over other records.

At most k records of each person count, by the rule of `core/rows/persons.py`. Before a shuffle by person every record
that has an id gets its person (128 bits), its place in the order of that person's records (64 bits), and its packed
codes; records without an id end here. The shuffle brings all records of a person to one partition, where the first k of
them are kept.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette._version import __version__
from maquette.core.rows.arrow import pa
from maquette.core.rows.coding import Coder, code_type, coders
from maquette.core.rows.commitment import LANES, pack, packed_words, unpack
from maquette.core.rows.counting import Coded, RecordsTask, Task
from maquette.core.rows.persons import PENDING, Words, ids_of, missing_words, ranks, shuffled
from maquette.core.universe import Universe
from maquette.vault.texts import hashed, spelled

BLOCK_ROWS = 2**20
"""Rows of a block at most: as many as are counted at a time."""
RAW_ROWS = 2**17
"""Rows that are coded at a time; a cluster hands out fewer, and text is coded once per distinct value."""
PACKAGES = ("maquette", "numpy", "pyarrow", "numba")
"""What decides how a value is coded and counted: the same versions everywhere."""
RECORDS, OTHER_VERSION = -1, -2
"""Parts of a result that are no sums of the task: the digest of the records, and a package that is another one."""

OTHER_PACKAGE = "maquette: other version of package "
"""How a job ends that must not code anything, before the number of the package."""

Triple = tuple[int, NDArray[np.int64], NDArray[np.int64]]
"""Which array of the task, which cells of it, and their sums."""
KEYS = ("person", "more", "place")
"""Columns before those of the record: 128 bits for the person, 64 for the place of the record."""


def versions() -> tuple[str, ...]:
    """The versions of `PACKAGES` here."""
    return (__version__, *(importlib.metadata.version(name) for name in PACKAGES[1:]))


def block_schema(domain: Universe) -> str:
    """The columns of a block, in the words of Spark: the digest, the package that is another one or none, the codes."""
    codes = ", ".join(f"c{i} binary" for i in range(len(domain.columns)))
    return f"records binary, other int, {codes}"


RESULT_SCHEMA = "part int, cell long, sum long"


@dataclass(frozen=True)
class CodeBlocks:
    """From raw Arrow batches (the columns of the domain, in its order) to blocks."""

    domain: Universe
    records: RecordsTask
    expected: tuple[str, ...]

    def __call__(self, raw: Iterable[Any]) -> Iterator[Any]:
        other = _other_version(self.expected)
        if other is not None:
            yield block([b""] * len(self.domain.columns), self.records.zeros(), other)
            return
        for coded in self._gathered(raw):
            sums = self.records.zeros()
            self.records.add(sums, coded)
            yield block([coded[name].tobytes() for name in self.domain.columns], sums, None)

    def _gathered(self, raw: Iterable[Any]) -> Iterator[Coded]:
        """Codes of many raw batches together."""
        coding = coders(self.domain)
        pending: list[Coded] = []
        rows = 0
        for table in stacked(raw):
            pending.append(_codes(coding, self.domain, table.columns))
            rows += table.num_rows
            if rows >= BLOCK_ROWS:
                yield _joined(pending)
                pending, rows = [], 0
        if rows:
            yield _joined(pending)


def _codes(coding: Mapping[str, Coder], domain: Universe, columns: Sequence[Any]) -> Coded:
    """Codes of raw columns, those of the domain in its order."""
    raw = {name: column.combine_chunks() for name, column in zip(domain.names, columns, strict=True)}
    return {name: coder.code(raw[coder.attribute.name]) for name, coder in coding.items()}


def block(codes: Sequence[bytes], sums: Sequence[NDArray[Any]], other: int | None) -> Any:
    """Codes of some records and the digest of them, as one row."""
    digest = pa.array([b"".join(array.tobytes() for array in sums)], pa.binary())
    columns = [digest, pa.array([other], pa.int32()), *(pa.array([code], pa.binary()) for code in codes)]
    return pa.RecordBatch.from_arrays(
        columns, names=["records", "other", *(f"c{i}" for i in range(len(codes)))]
    )


@dataclass(frozen=True)
class FoldBlocks:
    """From blocks (their digest, then the columns of a task) to the sums that are not nought."""

    domain: Universe
    task: Task
    expected: tuple[str, ...]

    def __call__(self, blocks: Iterable[Any]) -> Iterator[Any]:
        sums = self.task.zeros()
        counter = _Counter(self.domain, self.task.names, self.expected)
        for coded in counter.read(blocks):
            self.task.add(sums, coded)
        for part, array in enumerate(sums):
            cells = np.flatnonzero(array)
            yield from results(part, cells, array[cells])
        yield from counter.results()


@dataclass(frozen=True)
class CountBlocks:
    """From blocks (their digest, then one column) to the distinct codes and how many records have each."""

    domain: Universe
    name: str
    expected: tuple[str, ...]

    def __call__(self, blocks: Iterable[Any]) -> Iterator[Any]:
        from maquette.core.rows.engine import merged

        counter = _Counter(self.domain, (self.name,), self.expected)
        codes, counts = merged(
            np.unique(coded[self.name], return_counts=True) for coded in counter.read(blocks)
        )
        yield from results(0, codes, counts)
        yield from counter.results()


class _Counter:
    """Reads blocks, and adds up the digests of what it has read."""

    def __init__(self, domain: Universe, names: Sequence[str], expected: tuple[str, ...]) -> None:
        self._types = {name: code_type(domain.columns[name]) for name in names}
        self._digest = np.zeros(LANES + 1, dtype=np.uint64)
        self._other = _other_version(expected)

    def read(self, blocks: Iterable[Any]) -> Iterator[Coded]:
        for batch in blocks:
            for row in range(batch.num_rows):
                records, other, *codes = (batch.column(i)[row].as_py() for i in range(batch.num_columns))
                self._other = other if self._other is None else self._other
                self._digest += np.frombuffer(records, dtype=np.uint64)
                pairs = zip(self._types.items(), codes, strict=True)
                yield {name: np.frombuffer(code, dtype=kind) for (name, kind), code in pairs}

    def results(self) -> Iterator[Any]:
        yield from results(RECORDS, np.arange(LANES + 1), self._digest)
        if self._other is not None:
            yield from results(OTHER_VERSION, np.array([self._other]), np.ones(1, dtype=np.int64))


def results(part: int, cells: NDArray[Any], sums: NDArray[Any]) -> Iterator[Any]:
    """Cells of an array and their sums, in the form of `RESULT_SCHEMA`."""
    for start in range(0, len(cells), BLOCK_ROWS):
        some = slice(start, start + BLOCK_ROWS)
        columns = [
            pa.array(np.full(len(cells[some]), part, dtype=np.int32)),
            pa.array(_signed(cells[some])),
            pa.array(_signed(sums[some])),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["part", "cell", "sum"])


def _signed(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """64-bit numbers as signed ones of the same bits: a cluster has no others."""
    wide = numbers if numbers.dtype.itemsize == 8 else numbers.astype(np.int64)
    return wide.view(np.int64)


def require_versions(expected: tuple[str, ...]) -> None:
    """Ends a job on a machine with another version, in words that the other side looks for; nothing is coded."""
    other = _other_version(expected)
    if other is not None:
        raise RuntimeError(f"{OTHER_PACKAGE}{other}")


def _other_version(expected: tuple[str, ...]) -> int | None:
    """The first package whose version here is not the expected one."""
    here = versions()
    return next((i for i, version in enumerate(expected) if version != here[i]), None)


def stacked(raw: Iterable[Any]) -> Iterator[Any]:
    """Batches as tables of many rows."""
    pending: list[Any] = []
    rows = 0
    for batch in raw:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= RAW_ROWS:
            yield pa.Table.from_batches(pending)
            pending, rows = [], 0
    if rows:
        yield pa.Table.from_batches(pending)


def _joined(parts: Sequence[Coded]) -> Coded:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


# At most k records of each person: before and after the shuffle.


def keyed_schema(words: int, texts: int = 0) -> str:
    """The columns between the two steps, in the words of Spark."""
    columns = [*KEYS, *(f"w{i}" for i in range(words))]
    return ", ".join([*(f"{name} long" for name in columns), *(f"v{i} string" for i in range(texts))])


@dataclass(frozen=True)
class KeyRecords:
    """From raw batches (the columns of the domain, then the person's) to keys and packed records."""

    domain: Universe
    expected: tuple[str, ...]

    def __call__(self, raw: Iterable[Any]) -> Iterator[Any]:
        require_versions(self.expected)
        coding = coders(self.domain)
        missing = missing_words(self.domain.na_values)
        for table in stacked(raw):
            *columns, person = table.columns
            coded = _codes(coding, self.domain, columns)
            keys, rows = _keyed(person.combine_chunks(), missing, pack(self.domain, coded))
            yield _batch(keys[:, rows], [])


@dataclass(frozen=True)
class BoundBlocks:
    """From the keys and packed records of whole persons to blocks of the records that count."""

    domain: Universe
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
            yield block([coded[name].tobytes() for name in self.domain.columns], sums, None)


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
