"""A table before its domain is declared: the spellings of one column at a time, and how many. Only the gate may ask.

Every value is taken in normal form, each on its own (`discovery/spellings.py`), and no limit on the number of different
values can be run into. Where the rows are, here or in a cluster, says `RawRows`; every question is written once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from maquette.core.attribute import Attribute, Kind
from maquette.core.neighbours import Persons
from maquette.core.rows.arrow import ArrowArray
from maquette.core.rows.commitment import LANES, add_records, lane_keys, seal
from maquette.core.rows.persons import PersonRows, check_person, missing_words
from maquette.core.rows.source import Source, fits
from maquette.core.universe import Universe
from maquette.discovery.findings import NUMBERS
from maquette.discovery.spark_raw import SparkRows
from maquette.discovery.spellings import CellSum, Integers, Kinds, NumbersBetween, Spellings, Years
from maquette.errors import SourceError
from maquette.vault.readers import ReadOptions, open_source, public_name
from maquette.vault.spark import SparkTable
from maquette.vault.texts import hashed

Words = NDArray[np.uint64]


class RawRows(Protocol):
    """Where raw rows are. All that it gives is exact, and private."""

    def spellings(self, name: str) -> Spellings:
        """The different values of a column."""
        ...

    def sums(self, name: str, of: CellSum) -> Integers:
        """Numbers of records in public cells."""
        ...

    def records(self, keys: Words) -> tuple[Words, int]:
        """Keyed sums over all records, those that do not count for their person too, and how many there are."""
        ...


class LocalRows:
    """Columns of a source that is read here."""

    def __init__(
        self, source: Source, columns: Sequence[str], *, na_values: Sequence[str], persons: Persons | None
    ) -> None:
        self._columns = tuple(columns)
        self._missing = missing_words(na_values)
        self._whole = self._source = source
        if persons is not None:
            self._source = PersonRows(
                source, persons, names=self._columns, na_values=na_values, record=self._hashed
            )
        self._last: tuple[str, Spellings] | None = None

    def spellings(self, name: str) -> Spellings:
        """The last column is remembered: several questions are asked of it."""
        if self._last is None or self._last[0] != name:
            spellings = Spellings(Counter())
            for raw, _ in self._source.batches([name]):
                spellings.add(raw[name], self._missing)
            self._last = name, spellings
        return self._last[1]

    def sums(self, name: str, of: CellSum) -> Integers:
        return of.of(self.spellings(name))

    def records(self, keys: Words) -> tuple[Words, int]:
        sums, rows, blank = np.zeros(LANES, dtype=np.uint64), 0, missing_words(())
        for raw, _ in self._whole.batches(self._columns):
            words = hashed([raw[name] for name in self._columns], blank)
            add_records(words, keys, sums)
            rows += words.shape[1]
        return sums, rows

    def _hashed(self, raw: Mapping[str, ArrowArray]) -> Words:
        return hashed([raw[name] for name in self._columns], self._missing)


class RawTable:
    """Columns of a source, without a declaration. Shows its header, which is public; all else is exact, and private."""

    def __init__(
        self, rows: RawRows, columns: Sequence[str], *, name: str, persons: Persons | None = None
    ) -> None:
        """`name` is what the source is called in public words. `persons` says whose rows were bounded, where a person
        may have several; None where nobody's were."""
        self.columns = tuple(columns)
        self.name = name
        self.persons = persons
        self._rows = rows

    def spellings(self, name: str) -> tuple[tuple[str, ...], Integers]:
        """The different values of a column in the order of their texts, and how many records have each."""
        counts = self._rows.spellings(name).counts
        texts = tuple(sorted(counts))
        return texts, np.array([counts[text] for text in texts], dtype=np.int64)

    def kinds(self, name: str) -> Integers:
        """How many records look like each of `questions.ladder.KINDS`."""
        return self._rows.sums(name, Kinds())

    def numbers(self, name: str, borders: Sequence[float] | None = None) -> Integers:
        """Records below some borders, in each cell [a, b) between them, from the last one on, and without a number.

        None are the borders of `questions.ladder.NUMBERS`, and then what is no number is not counted.
        """
        table = self._rows.sums(name, NumbersBetween(NUMBERS if borders is None else tuple(borders)))
        return table[:-1] if borders is None else table

    def years(self, name: str) -> Integers:
        """Records in each of the public years of `questions.ladder.YEARS`, those before and after included."""
        return self._rows.sums(name, Years())

    def commitment(self, salt: bytes) -> str:
        """A keyed digest of the multiset of raw records, all of them: a ledger knows its table by it."""
        sums, rows = self._rows.records(lane_keys(salt))
        named = tuple(Attribute(name.strip(), Kind.CATEGORICAL, codes=2**64) for name in self.columns)
        return f"raw {seal(Universe(named), salt, sums, rows)}"

    def __repr__(self) -> str:
        return f"RawTable({len(self.columns)} columns)"

    def __reduce__(self) -> NoReturn:
        raise SourceError("a private table cannot be copied or pickled; open it again where it is needed")


def open_raw(
    source: Any,
    columns: Sequence[str],
    *,
    na_values: Sequence[str] = (),
    persons: Persons | None = None,
    **options: Unpack[ReadOptions],
) -> RawTable:
    """The columns of a source without a declaration. Only public structure can fail."""
    more = [] if persons is None else [persons.column]
    opened = open_source(source, names=[*dict.fromkeys((*columns, *more))], **options)
    for name in columns:
        if opened.header.count(name) != 1:
            raise SourceError(f"{opened.description} has no column '{name}', or has it twice; see its header")
        if not is_usable(opened, name):
            raise SourceError(
                f"column '{name}' of {opened.description} has type {opened.kind(name)}, which no attribute can "
                "declare; leave it out"
            )
    if persons is not None:
        check_person(opened, persons)
    if isinstance(opened, SparkTable):
        rows: RawRows = SparkRows(opened, columns, na_values=na_values, persons=persons)
    else:
        rows = LocalRows(opened, columns, na_values=na_values, persons=persons)
    return RawTable(rows, columns, name=public_name(source, options.get("table")), persons=persons)


def raw_commitment(source: Any, columns: Sequence[str], salt: bytes, **options: Unpack[ReadOptions]) -> str:
    """The commitment to some raw columns of a source."""
    return open_raw(source, columns, **options).commitment(salt)


def columns_of(source: Any, **options: Unpack[ReadOptions]) -> dict[str, bool]:
    """The header of a source, and whether each column has a type that can be declared. Looks at no record."""
    opened = open_source(source, **options)
    names = [name for name in opened.header if name]
    if len(set(names)) < len(names):
        raise SourceError(
            f"{opened.description} has several columns of one name; give every column its own name"
        )
    return {name: name == name.strip() and is_usable(opened, name) for name in names}


def is_usable(source: Source, name: str) -> bool:
    return fits(Attribute(name.strip() or "x", Kind.CATEGORICAL, categories=("x",)), source.kind(name))
