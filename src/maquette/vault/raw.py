"""A table before its domain is declared: the spellings of one column at a time, and how many. Only the gate may ask.

Every value is taken in normal form (composed, trimmed, numbers of typed columns as plain decimals), each on its own:
nothing raises because of a value, and no limit on the number of different values can be run into.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Unpack

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.errors import SourceError
from maquette.questions.ladder import FIRST_YEAR, KINDS, NUMBERS, YEARS
from maquette.vault.arrow import ArrowArray, pa, pc, text_array
from maquette.vault.coding import is_text, parse_numbers, spell, widened, words
from maquette.vault.commitment import LANES, add_records, lane_keys, seal
from maquette.vault.persons import PersonRows, hashes
from maquette.vault.readers import ReadOptions, open_source
from maquette.vault.source import Source, fits
from maquette.vault.spark import SparkTable

Integers = NDArray[np.int64]

_BLANK = words(text_array([""]))
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}.*)?")


class RawTable:
    """Columns of a source, without a declaration. Shows its header, which is public; all else is exact, and private."""

    def __init__(
        self, source: Source, columns: Sequence[str], *, na_values: Sequence[str], persons: Persons | None
    ) -> None:
        self.columns = tuple(columns)
        self._missing = words(text_array(["", *na_values]))
        self._whole = source
        self._source = source
        if persons is not None:
            self._source = PersonRows(
                source, persons, names=self.columns, na_values=na_values, record=self._hashed
            )
        self._last: tuple[str, Counter[str], int] | None = None

    def spellings(self, name: str) -> tuple[tuple[str, ...], Integers]:
        """The different values of a column in the order of their texts, and how many records have each."""
        counts, _ = self._count(name)
        texts = tuple(sorted(counts))
        return texts, np.array([counts[text] for text in texts], dtype=np.int64)

    def kinds(self, name: str) -> Integers:
        """How many records look like each of `questions.ladder.KINDS`."""
        counts, missing = self._count(name)
        texts = list(counts)
        times = np.array([counts[text] for text in texts], dtype=np.int64)
        values = _numbers(texts)
        finite = np.isfinite(values)
        whole = finite & (np.floor(np.where(finite, values, 0.5)) == values)
        moments = ~finite & np.array([_year(text) is not None for text in texts], dtype=bool)
        rest = ~finite & ~moments
        tables = [times[whole].sum(), times[finite & ~whole].sum(), times[moments].sum(), times[rest].sum()]
        assert len(tables) + 1 == len(KINDS)
        return np.array([*tables, missing], dtype=np.int64)

    def numbers(self, name: str, borders: Sequence[float] | None = None) -> Integers:
        """Records below some borders, in each cell [a, b) between them, from the last one on, and without a number.

        None are the borders of `questions.ladder.NUMBERS`, and then what is no number is not counted.
        """
        counts, missing = self._count(name)
        edges = np.array(NUMBERS if borders is None else borders)
        values, times = _numbers(list(counts)), np.fromiter(counts.values(), np.int64, len(counts))
        finite = np.isfinite(values)
        cells = np.searchsorted(edges, np.where(finite, values, 0.0), side="right")
        table = np.zeros(len(edges) + 2, dtype=np.int64)
        np.add.at(table, np.where(finite, cells, len(edges) + 1), times)
        table[-1] += missing
        return table[:-1] if borders is None else table

    def years(self, name: str) -> Integers:
        """Records in each of the public years of `questions.ladder.YEARS`, those before and after included."""
        table = np.zeros(len(YEARS) + 2, dtype=np.int64)
        for text, times in self._count(name)[0].items():
            year = _year(text)
            if year is not None:
                table[min(max(year - FIRST_YEAR, -1), len(YEARS)) + 1] += times
        return table

    def commitment(self, salt: bytes) -> str:
        """A keyed digest of the multiset of raw records, all of them: a ledger knows its table by it."""
        keys, sums, rows = lane_keys(salt), np.zeros(LANES, dtype=np.uint64), 0
        for raw, _ in self._whole.batches(self.columns):
            words_of_rows = np.stack([hashes(raw[name], _BLANK) for name in self.columns])
            add_records(words_of_rows, keys, sums)
            rows += words_of_rows.shape[1]
        named = tuple(Attribute(name.strip(), Kind.CATEGORICAL, codes=2**64) for name in self.columns)
        return f"raw {seal(Domain(named), salt, sums, rows)}"

    def _hashed(self, raw: Mapping[str, ArrowArray]) -> NDArray[np.uint64]:
        return np.stack([hashes(raw[name], self._missing) for name in self.columns])

    def _count(self, name: str) -> tuple[Counter[str], int]:
        """Spellings with their numbers of records, and the number of missing values; the last column is remembered."""
        if self._last is None or self._last[0] != name:
            counts: Counter[str] = Counter()
            missing = 0
            for raw, _ in self._source.batches([name]):
                tally = pc.value_counts(_spelled(raw[name]))
                texts = pc.fill_null(tally.field("values"), "")
                absent = pc.is_in(texts, value_set=self._missing).to_pylist()
                times = tally.field("counts").to_pylist()
                for text, is_absent, count in zip(texts.to_pylist(), absent, times, strict=True):
                    if is_absent:
                        missing += count
                    else:
                        counts[text] += count
            self._last = name, counts, missing
        return self._last[1:]

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
    if isinstance(opened, SparkTable):
        raise SourceError("domains are not found on Spark frames yet; declare the domain")
    for name in columns:
        if opened.header.count(name) != 1:
            raise SourceError(f"{opened.description} has no column '{name}', or has it twice; see its header")
        if not is_usable(opened, name):
            raise SourceError(
                f"column '{name}' of {opened.description} has type {opened.kind(name)}, which nothing declares; drop it"
            )
    return RawTable(opened, columns, na_values=na_values, persons=persons)


def raw_commitment(source: Any, columns: Sequence[str], salt: bytes, **options: Unpack[ReadOptions]) -> str:
    """The commitment to some raw columns of a source."""
    return open_raw(source, columns, **options).commitment(salt)


def columns_of(source: Any, **options: Unpack[ReadOptions]) -> dict[str, bool]:
    """The header of a source, and whether each column has a type that can be declared. Looks at no record."""
    opened = open_source(source, **options)
    names = [name for name in opened.header if name]
    if len(set(names)) < len(names):
        raise SourceError(f"{opened.description} has several columns of one name; name the columns apart")
    return {name: name == name.strip() and is_usable(opened, name) for name in names}


def is_usable(source: Source, name: str) -> bool:
    return fits(Attribute(name.strip() or "x", Kind.CATEGORICAL, categories=("x",)), source.kind(name))


def _spelled(column: ArrowArray) -> ArrowArray:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    return words(column if is_text(column.type) else spell(widened(column)))


def _numbers(texts: Sequence[str]) -> NDArray[np.float64]:
    return parse_numbers(words(text_array(texts)), otherwise=np.nan)


def _year(text: str) -> int | None:
    """The year of a day or moment in ISO form, None for any other text."""
    if _MOMENT.fullmatch(text) is None:
        return None
    try:
        return dt.date.fromisoformat(text[:10]).year
    except ValueError:
        return None
