"""How far a release is off typically: kinds of questions with the law that they are drawn by, and whole tables.

*The law.* How many columns: each number of the kind is as likely. Which columns: all sets of so many alike. A released
row is drawn, and a further one for every column. A question asks on each of its columns for the value of the first row;
where the column has an order and both rows have declared values, for all values from the one to the other. It counts
where at least one of 100 released rows meets it (seen on 16,384 of them, evenly taken, where there are more), else
another one is drawn. Nothing but released rows and public randomness takes part.

*What is said.* The error of the drawn question at some rank is measured, and a smaller part of all questions of the
kind is then said to be off by no more. That the drawn ones are better than their kind by so much happens with a chance
that is a tail of the binomial law, and the rank is taken so high that it is a hundredth of the chance to fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from maquette.core.any_order import Axis, Codes
from maquette.core.combinations import ReleasedRows, axes_of
from maquette.core.typical import MAX_CELLS, Conjunctions, Distance, Quantile
from maquette.core.universe import Universe
from maquette.queries.combinations import count

RULES = 1
"""The version of the law."""
QUESTIONS = 2_000
"""That are drawn of a kind."""
MOST_COLUMNS = 4
"""Of a question."""
LEAST_SHARE = 0.01
"""Of the released rows that meet a question, at least."""
SEEN_ROWS = 2**14
"""Released rows on which that is counted."""
TRIES = 25
"""Questions that are drawn for one that is met often enough, at most."""
SAMPLE_PART = 0.01
"""Of the chance to fail, for drawn questions that are unlike their kind."""
_COLUMNS = {1: "one column", 2: "two columns", 3: "three columns"}
_RANK_AT = {0.9: 0.95, 0.5: 0.55}
"""The part of the drawn questions whose error is measured, for each part that is said of the kind."""


@dataclass(frozen=True, slots=True)
class QuestionKind:
    """Questions on some numbers of columns, and the part of them that a bound is for."""

    name: str
    part: float
    orders: tuple[int, ...]

    @property
    def says(self) -> str:
        """What is bounded, in words."""
        columns = "one to four columns" if len(self.orders) > 1 else _COLUMNS[max(self.orders)]
        return f"{part_in_words(self.part)} random questions on {columns}"

    def has(self, columns: int) -> bool:
        """Is a question on so many columns of the kind?"""
        return columns in self.orders

    def rank(self, number: int, *, chance: float) -> int:
        """Of so many drawn questions, the one whose error is measured.

        Accuracy: as many have an error below what `part` of all questions have at most with probability `chance`,
            at most.
        """
        from scipy.special import betainc  # pyright: ignore[reportMissingTypeStubs]

        rank = round(_RANK_AT[self.part] * number)
        while betainc(rank, number - rank + 1, self.part) > chance:
            rank += 1
        return rank

    def statistic(
        self, domain: Universe, released: ReleasedRows, *, rng: np.random.Generator, chance: float
    ) -> Quantile | None:
        """What is measured of it: questions are drawn with `rng`, unlike their kind with probability `chance`."""
        questions = self.draw(axes_of(domain, released.names), released.codes, rng)
        return None if questions is None else Quantile(questions, self.rank(len(questions), chance=chance))

    def draw(self, axes: Sequence[Axis], rows: Codes, rng: np.random.Generator) -> Conjunctions | None:
        """Questions by the law of the kind; None where too few are met often enough."""
        sample = rows[:: -(-len(rows) // SEEN_ROWS)]
        orders = [k for k in self.orders if k <= len(axes)]
        if not orders:
            return None
        parts: list[Conjunctions] = []
        number = 0
        for _ in range(TRIES):
            tried = _tried(axes, rows, orders, rng)
            met = tried.counts(sample, np.ones(len(sample), dtype=np.int64)) >= LEAST_SHARE * len(sample)
            parts.append(Conjunctions(tried.columns[met], tried.low[met], tried.high[met]))
            number += len(parts[-1])
            if number >= QUESTIONS:
                return _joined(parts)
        return None


def _tried(
    axes: Sequence[Axis], rows: Codes, orders: Sequence[int], rng: np.random.Generator
) -> Conjunctions:
    """As many questions as are wanted, by the law without its last part.

    All have as many places; a place that is not used has the first column with all of its values.
    """
    d, most = len(axes), max(orders)
    columns = np.argsort(rng.random((QUESTIONS, d)), axis=1)[:, :most]
    used = np.arange(most) < rng.choice(orders, QUESTIONS)[:, None]
    columns[~used] = 0
    first = rows[rng.integers(len(rows), size=(QUESTIONS, 1)), columns]
    second = rows[rng.integers(len(rows), size=columns.shape), columns]
    declared = np.array([axis.declared if axis.ordered else 0 for axis in axes])[columns]
    is_interval = (first < declared) & (second < declared)
    low = np.where(is_interval, np.minimum(first, second), first)
    high = np.where(is_interval, np.maximum(first, second), first)
    low[~used], high[~used] = 0, axes[0].size - 1
    return Conjunctions(columns.astype(np.uint16), low.astype(np.uint16), high.astype(np.uint16))


def _joined(parts: Sequence[Conjunctions]) -> Conjunctions:
    """The first of several lists, as many as are wanted."""
    columns, low, high = (
        np.concatenate(arrays)[:QUESTIONS]
        for arrays in zip(*((one.columns, one.low, one.high) for one in parts), strict=True)
    )
    return Conjunctions(columns, low, high)


@dataclass(frozen=True, slots=True)
class TableKind:
    """All tables over so many columns."""

    name: str
    order: int

    @property
    def says(self) -> str:
        """What is bounded, in words."""
        return f"the mean over all tables of {_COLUMNS[self.order]} of their total variation"

    def statistic(
        self, domain: Universe, released: ReleasedRows, *, rng: np.random.Generator, chance: float
    ) -> Distance | None:
        """What is measured of it; None where there is no such table, or they have too many cells. Nothing is drawn."""
        del rng, chance
        names = released.names
        cells = count(domain, names, self.order) - count(domain, names, self.order - 1)
        if cells > MAX_CELLS or len(names) < self.order:
            return None
        return Distance(tuple(combinations(names, self.order)))


def part_in_words(part: float) -> str:
    """Nine in ten, or half of all."""
    return {0.9: "nine in ten", 0.5: "half of all"}[part]


def _kinds() -> Iterator[QuestionKind | TableKind]:
    for part, word in ((0.9, "nine in ten questions"), (0.5, "half of questions")):
        yield QuestionKind(word, part, tuple(range(1, MOST_COLUMNS + 1)))
        for order in (1, 2, 3):
            columns = "one column" if order == 1 else f"{order} columns"
            yield QuestionKind(f"{word} on {columns}", part, (order,))
    for order, word in ((1, "average column"), (2, "average pair"), (3, "average triple")):
        yield TableKind(word, order)


TYPICAL = {one.name: one for one in _kinds()}
"""By the words that users say."""
