"""Values of a column that nobody declared, in normal form: how many records have each, and sums over them.

Every value is taken by itself (composed, trimmed, numbers of typed columns as plain decimals): nothing raises because
of a value. A sum is additive over parts of a table, so that it can be taken where the rows are.
"""

from __future__ import annotations

import datetime as dt
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.core.rows.arrow import ArrowArray, pc, text_array
from maquette.core.rows.coding import parse_numbers, words
from maquette.discovery.findings import FIRST_YEAR, KINDS, YEARS
from maquette.vault.texts import spelled

Integers = NDArray[np.int64]

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}.*)?")


@dataclass(slots=True)
class Spellings:
    """The different values of a column with their numbers of records, and the number of missing values."""

    counts: Counter[str]
    missing: int = 0

    def add(self, column: ArrowArray, missing: ArrowArray) -> None:
        tally = pc.value_counts(spelled(column))
        texts = pc.fill_null(tally.field("values"), "")
        absent = pc.is_in(texts, value_set=missing).to_pylist()
        times = tally.field("counts").to_pylist()
        for text, is_absent, count in zip(texts.to_pylist(), absent, times, strict=True):
            if is_absent:
                self.missing += count
            else:
                self.counts[text] += count


class CellSum(ABC):
    """Numbers of records in public cells, from the spellings of some rows."""

    @abstractmethod
    def of(self, spellings: Spellings) -> Integers:
        """One count for each cell; every record is in one at most."""


@dataclass(frozen=True)
class Kinds(CellSum):
    """How many records look like each of `questions.ladder.KINDS`."""

    def of(self, spellings: Spellings) -> Integers:
        texts = list(spellings.counts)
        times = np.array([spellings.counts[text] for text in texts], dtype=np.int64)
        values = _numbers(texts)
        finite = np.isfinite(values)
        whole = finite & (np.floor(np.where(finite, values, 0.5)) == values)
        moments = ~finite & np.array([_year(text) is not None for text in texts], dtype=bool)
        rest = ~finite & ~moments
        tables = [times[whole].sum(), times[finite & ~whole].sum(), times[moments].sum(), times[rest].sum()]
        assert len(tables) + 1 == len(KINDS)
        return np.array([*tables, spellings.missing], dtype=np.int64)


@dataclass(frozen=True)
class NumbersBetween(CellSum):
    """Records below some borders, in each cell [a, b) between them, from the last one on, and without a number."""

    borders: tuple[float, ...]

    def of(self, spellings: Spellings) -> Integers:
        counts, borders = spellings.counts, np.array(self.borders)
        values, times = _numbers(list(counts)), np.fromiter(counts.values(), np.int64, len(counts))
        cells = np.searchsorted(borders, np.where(np.isfinite(values), values, 0.0), side="right")
        table = np.zeros(len(borders) + 2, dtype=np.int64)
        np.add.at(table, np.where(np.isfinite(values), cells, len(borders) + 1), times)
        table[-1] += spellings.missing
        return table


@dataclass(frozen=True)
class Years(CellSum):
    """Records in each of the public years of `questions.ladder.YEARS`, those before and after included."""

    def of(self, spellings: Spellings) -> Integers:
        table = np.zeros(len(YEARS) + 2, dtype=np.int64)
        for text, times in spellings.counts.items():
            year = _year(text)
            if year is not None:
                table[min(max(year - FIRST_YEAR, -1), len(YEARS)) + 1] += times
        return table


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
