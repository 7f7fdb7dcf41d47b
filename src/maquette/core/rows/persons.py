"""At most k records of each person: a source that stands before another and leaves the rest out.

Which records of a person count is decided by that person's records alone: they are put in the order of a hash of the
person's id and the record's codes, then of the codes themselves, and the first k count. Records with equal codes are
interchangeable, so neither the order of the rows nor the cuts between batches matter, and nothing random is drawn:
every release, from every ledger, sees the same records. The hash only makes the choice look random. The guarantee does
not rest on its secrecy: with one person more or less, the records of all others stay as they are, and at most k come
or go. Records without an id are left out: kept as one person's they would make room for each other.

Two passes over the source: the first counts the records of each person, the second hands on the records of those who
have at most k, and collects and chooses among those of the others. Memory: 24 bytes a person, and k records for each
person who has more than that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.attribute import Attribute, Kind
from maquette.core.errors import SourceError
from maquette.core.neighbours import Persons
from maquette.core.rows.arrow import ArrowArray, ArrowType, pa, pc, stored, text_array
from maquette.core.rows.coding import coded, coders, is_text, spell, widened, words
from maquette.core.rows.commitment import pack
from maquette.core.rows.source import Batch, Source, changed, check_even, fits
from maquette.core.universe import Universe

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]

KEY = b"maquette: records of a person, 1"
"""Of the hash. It never changes: another key would choose other records than earlier releases did."""
PENDING = 2**21
"""Records of persons with too many that are collected before the surplus is dropped."""


class PersonRows(Source):
    """The records of a source that count: at most so many of each person, none without an id."""

    def __init__(
        self,
        source: Source,
        persons: Persons,
        *,
        names: Sequence[str],
        na_values: Sequence[str],
        record: Callable[[Mapping[str, ArrowArray]], Words],
    ) -> None:
        """`record` gives each record of the columns `names` as words of 64 bits, one-to-one or nearly so."""
        check_person(source, persons)
        self.description = source.description
        self.header = source.header
        self._source, self._persons = source, persons
        self._names, self._record = tuple(names), record
        self._missing = missing_words(na_values)

    @classmethod
    def of_domain(cls, source: Source, domain: Universe, persons: Persons) -> PersonRows:
        """With the records as the domain codes them."""
        coding = coders(domain)

        def record(raw: Mapping[str, ArrowArray]) -> Words:
            return pack(domain, coded(coding, raw))

        return cls(source, persons, names=domain.names, na_values=domain.na_values, record=record)

    @property
    def parts(self) -> Sequence[Source]:
        return self._source.parts

    @property
    def notices_changes(self) -> bool:
        return self._source.notices_changes

    def is_unchanged(self) -> bool:
        return self._source.is_unchanged()

    def kind(self, column: str) -> ArrowType:
        return self._source.kind(column)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        column = self._persons.column
        counts = _Counts()
        for raw, _ in self._source.batches([column]):
            counts.add(ids_of(raw[column], self._missing))
        heavy = counts.above(self._persons.rows)
        surplus = _Surplus(self._persons.rows)
        second = _Counts(sums_only=True)
        names = [*dict.fromkeys((*self._names, *columns, column))]
        for raw, share in self._source.batches(names):
            ids = ids_of(raw[column], self._missing)
            second.add(ids)
            place = heavy.find(ids)
            yield _take(raw, columns, np.flatnonzero(ids.present & (place < 0)), of=len(place)), share / 2
            self._collect(surplus, raw, columns, ids, place)
        if not np.array_equal(second.sums, counts.sums):
            raise changed(self.description)
        for part in surplus.chosen():
            yield part, 1.0

    def _collect(
        self,
        surplus: _Surplus,
        raw: Mapping[str, ArrowArray],
        columns: Sequence[str],
        ids: Ids,
        place: Integers,
    ) -> None:
        rows = np.flatnonzero(place >= 0)
        if not len(rows):
            return
        records = self._record(_take(raw, self._names, rows, of=len(place)))
        surplus.add(_take(raw, columns, rows, of=len(place)), place[rows], ids.seeds[rows], records)


def missing_words(na_values: Sequence[str]) -> ArrowArray:
    """Texts that mean that there is no value, as they are compared."""
    return words(text_array(["", *na_values]))


def check_person(source: Source, persons: Persons) -> None:
    """The column that says whose record it is is there once, with a type that can be compared. Looks at no record."""
    anything = Attribute(persons.column, Kind.CATEGORICAL, categories=("x",))
    for part in source.parts:
        times = part.header.count(persons.column)
        if times != 1:
            how = "no column" if not times else "more than one column"
            raise SourceError(
                f"{part.description} has {how} '{persons.column}', which person= names; give the column that says "
                "whose record it is"
            )
        if not fits(anything, part.kind(persons.column)):
            raise SourceError(
                f"column '{persons.column}' of {part.description} has type {part.kind(persons.column)}, which cannot "
                "say whose record it is; convert it to text or whole numbers"
            )


@dataclass(frozen=True, slots=True)
class Ids:
    """Whose record each row is: 128 bits that stand for the id, and 64 more that shuffle that person's records."""

    first: Words
    second: Words
    seeds: Words
    present: NDArray[np.bool_]


def ids_of(column: ArrowArray, missing: ArrowArray) -> Ids:
    """Ids as texts in normal form: composed (NFC), without space around, whole numbers without a point, zero without a
    minus. No id: not present. Other numbers are not normalised: 12.1 and 12.10 may be two members of a household."""
    column = stored(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_text(column.type) and not pa.types.is_null(column.type):
        column = widened(column)
    encoded = pc.dictionary_encode(column.cast(pa.string()) if pa.types.is_null(column.type) else column)
    values = encoded.dictionary
    texts = words(values if is_text(values.type) else spell(values))
    texts = pc.replace_substring_regex(texts, pattern=r"^([+-]?[0-9]+)[.]0*$", replacement="\\1")
    texts = pc.replace_substring_regex(texts, pattern=r"^-(0+)$", replacement="\\1")
    absent = pc.fill_null(pc.is_in(texts, value_set=missing), True)
    absent = pc.or_(absent, pc.is_null(texts)).to_numpy(zero_copy_only=False).astype(bool)
    digests = b"".join(
        hashlib.blake2b((text or "").encode(errors="surrogatepass"), digest_size=24, key=KEY).digest()
        for text in texts.to_pylist()
    )
    table = np.frombuffer(digests, dtype="<u8").reshape(-1, 3).astype(np.uint64)
    table = np.vstack([table, np.zeros((1, 3), dtype=np.uint64)])  # for null
    absent = np.append(absent, True)
    rows = pc.fill_null(encoded.indices.cast(pa.int64()), len(table) - 1).to_numpy(zero_copy_only=False)
    return Ids(table[rows, 0], table[rows, 1], table[rows, 2], ~absent[rows])


def hashes(column: ArrowArray, missing: ArrowArray) -> Words:
    """64 bits for every value in normal form; missing values are alike."""
    ids = ids_of(column, missing)
    return np.where(ids.present, ids.first, np.uint64(0))


class _Counts:
    """How many records each person has, and an order-free sum by which a second pass is known to see the same ids."""

    def __init__(self, *, sums_only: bool = False) -> None:
        self.sums = np.zeros(3, dtype=np.uint64)
        self._sums_only = sums_only
        self._ids: list[Words] = []
        self._times: list[Integers] = []
        self._rows = 0

    def add(self, ids: Ids) -> None:
        first, second = ids.first[ids.present], ids.second[ids.present]
        self.sums += np.array([first.sum(), second.sum(), len(first)], dtype=np.uint64)
        if self._sums_only:
            return
        self._ids.append(np.stack([first, second]))
        self._times.append(np.ones(len(first), dtype=np.int64))
        self._rows += len(first)
        if self._rows > PENDING:
            self._merge()

    def _merge(self) -> None:
        ids, times = np.concatenate(self._ids, axis=1), np.concatenate(self._times)
        order = np.lexsort((ids[1], ids[0]))
        ids, times = ids[:, order], times[order]
        starts = _starts(ids)
        self._ids = [ids[:, starts]]
        self._times = [np.add.reduceat(times, starts) if len(starts) else times]
        self._rows = 0  # counts what came since

    def above(self, rows: int) -> _Heavy:
        """The persons with more than so many records."""
        if not self._ids:
            return _Heavy(np.zeros((2, 0), dtype=np.uint64))
        self._merge()
        return _Heavy(self._ids[0][:, self._times[0] > rows])


def _starts(ids: Words) -> Integers:
    """Where another person begins in sorted ids."""
    if not ids.shape[1]:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.append(True, (ids[:, 1:] != ids[:, :-1]).any(axis=0)))


class _Heavy:
    """The persons with too many records, sorted by their ids."""

    def __init__(self, ids: Words) -> None:
        self._first, self._second = ids
        runs = np.diff(
            np.append(np.flatnonzero(np.diff(self._first, prepend=~self._first[:1])), len(self._first))
        )
        self._longest = int(runs.max(initial=0))
        """Persons that share their first 64 bits: one, but for a coincidence that is looked through all the same."""

    def find(self, ids: Ids) -> Integers:
        """The number of the person whose record each row is; -1 where it is nobody with too many."""
        place = np.full(len(ids.first), -1, dtype=np.int64)
        start = np.searchsorted(self._first, ids.first)
        for shift in range(self._longest):
            at = np.minimum(start + shift, len(self._first) - 1)
            same = ids.present & (self._first[at] == ids.first) & (self._second[at] == ids.second)
            place[same] = at[same]
        return place


class _Surplus:
    """Records of persons who have too many: collected, and of each person the first few kept."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._parts: list[dict[str, ArrowArray]] = []
        self._keys: list[tuple[Integers, Words, Words]] = []
        self._since = 0

    def add(self, part: dict[str, ArrowArray], place: Integers, seeds: Words, records: Words) -> None:
        self._parts.append(part)
        self._keys.append((place, shuffled(seeds, records), records))
        self._since += len(place)
        if self._since > PENDING:
            self._prune()

    def chosen(self) -> list[dict[str, ArrowArray]]:
        self._prune()
        return self._parts

    def _prune(self) -> None:
        self._since = 0
        if not self._parts:
            return
        place = np.concatenate([key[0] for key in self._keys])
        hashes = np.concatenate([key[1] for key in self._keys])
        records = np.concatenate([key[2] for key in self._keys], axis=1)
        order = np.lexsort((*records[::-1], hashes, place))
        rank = ranks(place[order])
        counts = np.zeros(len(place), dtype=bool)
        counts[order[rank < self._rows]] = True
        ends = np.cumsum([len(key[0]) for key in self._keys])
        for i, rows in enumerate(np.split(counts, ends[:-1])):
            chosen = np.flatnonzero(rows)
            one, two, three = self._keys[i]
            self._parts[i] = _take(self._parts[i], list(self._parts[i]), chosen, of=len(one))
            self._keys[i] = one[chosen], two[chosen], three[:, chosen]


def ranks(place: Integers) -> Integers:
    """0, 1, 2, ... within each run of equal numbers."""
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1])) if len(place) else np.zeros(0, np.int64)
    lengths = np.diff(np.append(starts, len(place)))
    return np.arange(len(place), dtype=np.int64) - np.repeat(starts, lengths)


def shuffled(seeds: Words, records: Words) -> Words:
    """A 64-bit hash of the person and the packed record: the order in which that person's records are taken."""
    mixed = seeds.copy()
    for word in records:
        mixed = _mix(mixed ^ _mix(word))
    return mixed


def _mix(words: Words) -> Words:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): one-to-one, and every bit depends on all."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _take(
    raw: Mapping[str, ArrowArray], columns: Sequence[str], rows: NDArray[Any], *, of: int
) -> dict[str, ArrowArray]:
    """Some of the rows, of which there are `of` in every column."""
    return {name: _rows_of(raw[name], rows, of) for name in columns}


def _rows_of(column: ArrowArray, rows: NDArray[Any], of: int) -> ArrowArray:
    check_even([column, range(of)])
    return column if len(rows) == len(column) else column.take(pa.array(rows))
