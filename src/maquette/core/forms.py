"""The seven forms in which linear queries reach the records: plain arrays, no calls.

A class of queries can compute whatever it likes on public cells. What it hands over is one of seven forms, and the
sums over private records are taken by this package's own loops (`core/answering.py`). So a mistake in a class of
queries costs accuracy or raises a clear error, and privacy does not notice:

- what one record contributes follows from the form itself (tables, prefixes, intervals), is computed from the very
  array that is multiplied with (weights, and conditions or scores over few cells), or is *claimed* and then enforced:
  a record that meets more conditions than claimed counts as nothing in all of them. That depends on the record alone,
  so the claim is true by construction;
- a form is checked, against the public sizes of the attributes, before anything is paid.

Guarantee: let v(z) >= 0 be the vector that a record z adds to the sums, all entries at most D = `top`. Adding z moves
them by v(z); replacing z by z' by v(z') - v(z), whose L1 norm is at most min(2 N, k D) if N bounds that of v and k
is the number of queries, whose squared L2 norm is at most twice the largest of v (the cross term is not positive) and
at most k D^2, and whose entries are at most D.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core.errors import WorkloadError
from maquette.core.intervals import range_sensitivity
from maquette.core.lattice import MAX_CUBE, conjunction_counts

Margin = tuple[str, ...]
"""Names of attributes: the table over them."""
Sizes = Mapping[str, int]
"""Cells of every attribute of the domain, those for missing and other values included."""
Columns = Mapping[str, NDArray[Any]]
"""Coded columns of equal length, by attribute."""

MAX_TABLE_CELLS = 2**31
"""Cells that one table may have; flat codes stay inside 32 bits."""
MAX_COUNT = 2**28
"""Answers that are computed at once (2 GB)."""
MAX_TOP = 2**30
"""The largest weight; with at most 2^32 records every sum fits into 64 bits."""
MAX_SCORE = 2**61
"""What the numbers of a score add up to at most."""
MAX_LISTED = 2**24
"""Weights that are listed to find out what a record contributes."""
MAX_LISTED_ALONE = 2**12
"""The same for a single query, of which only a constant one could gain by it."""
MAX_DEPTH = 100
"""How deep conditions may be nested."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far the answers (as counts, denominator divided out) of two neighbouring tables can lie apart."""

    l1: Fraction
    l2_squared: Fraction
    linf: Fraction
    norm: Fraction | None = None
    """In the norm of a body; None where none was asked for."""

    def __add__(self, other: Sensitivity) -> Sensitivity:
        """For two classes whose worst cases meet in one record."""
        return Sensitivity(self.l1 + other.l1, self.l2_squared + other.l2_squared, max(self.linf, other.linf))


def check_count(count: int) -> None:
    """Few enough queries to answer all of them?"""
    if count > MAX_COUNT:
        raise WorkloadError(
            f"{count:,} queries are too many to answer at once (at most {MAX_COUNT:,}); ask a smaller class"
        )


def counting(distance: int) -> Sensitivity:
    """Of queries that count each record with 0 or 1, so many of which move."""
    return Sensitivity(Fraction(distance), Fraction(distance), Fraction(min(distance, 1)))


# Conditions on a record: sets of cells joined by *every* and *some*.

Runs = tuple[tuple[int, int], ...]
"""A set of codes: first and last code of each run."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The record's cell of this attribute is among these."""

    attribute: str
    runs: Runs


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold; without parts, always."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds; without parts, never."""

    parts: tuple[Condition, ...]


Condition = Leaf | Every | Some
ALWAYS = Every(())
NEVER = Some(())


def leaves(condition: Condition) -> Iterator[Leaf]:
    """The sets of cells that a condition is made of."""
    if isinstance(condition, Leaf):
        yield condition
    else:
        for part in condition.parts:
            yield from leaves(part)


# The forms. Each says how many queries it is (`count`), over which denominator its sums are (`top`), which tables it is
# answered from (`tables`), and what a record contributes (`added`, `replaced`).


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Cells of tables, each over a few attributes: all of them, or some of each, none twice."""

    margins: tuple[Margin, ...]
    cells: tuple[NDArray[np.int64], ...] | None = None
    """Flat cells of each table, the last attribute running fastest; None for all of all tables."""

    top = 1

    def check(self, sizes: Sizes) -> None:
        """A record lies in one cell of a table: no table and no cell may be asked for twice."""
        _require(_is_tuple(self.margins) and len(set(self.margins)) == len(self.margins), "different tables")
        for margin in self.margins:
            check_table(sizes, margin)
        if self.cells is None:
            return
        _require(_is_tuple(self.cells) and len(self.cells) == len(self.margins), "some cells of every table")
        for margin, cells in zip(self.margins, self.cells, strict=True):
            _check_whole(cells, shape=(len(cells),), least=0, most=math.prod(shape(sizes, margin)) - 1)
            _require(len(np.unique(cells)) == len(cells), "every cell once")

    def count(self, sizes: Sizes) -> int:
        if self.cells is not None:
            return sum(map(len, self.cells))
        return sum(math.prod(shape(sizes, margin)) for margin in self.margins)

    def tables(self) -> tuple[Margin, ...]:
        return self.margins

    def added(self, sizes: Sizes) -> Sensitivity:
        """A record is in one cell of every table."""
        del sizes
        return counting(len(self.margins))

    def replaced(self, sizes: Sizes) -> Sensitivity:
        """It leaves one cell and enters another, if the table has two."""
        if self.cells is None:
            return counting(2 * sum(math.prod(shape(sizes, margin)) > 1 for margin in self.margins))
        return counting(sum(min(2, len(cells)) for cells in self.cells))

    def from_tables(self, tables: Mapping[Margin, NDArray[np.int64]]) -> NDArray[np.int64]:
        flat = [tables[margin].reshape(-1) for margin in self.margins]
        if self.cells is not None:
            flat = [table[cells] for table, cells in zip(flat, self.cells, strict=True)]
        return np.concatenate(flat) if flat else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The cumulative counts of one attribute: query j counts the cells 0 .. j, for the first `declared` cells."""

    attribute: str
    declared: int

    top = 1

    def check(self, sizes: Sizes) -> None:
        check_table(sizes, (self.attribute,))
        _check_number(self.declared, least=1, most=sizes[self.attribute], what="cells")

    def count(self, sizes: Sizes) -> int:
        del sizes
        return self.declared

    def tables(self) -> tuple[Margin, ...]:
        return ((self.attribute,),)

    def added(self, sizes: Sizes) -> Sensitivity:
        """Cell 0 is in every prefix."""
        del sizes
        return counting(self.declared)

    def replaced(self, sizes: Sizes) -> Sensitivity:
        """The last declared cell is in one prefix, a cell beyond it in none."""
        return counting(self.declared - (self.declared == sizes[self.attribute]))

    def from_tables(self, tables: Mapping[Margin, NDArray[np.int64]]) -> NDArray[np.int64]:
        return np.cumsum(tables[(self.attribute,)][: self.declared])


@dataclass(frozen=True, slots=True)
class Intervals:
    """All products of intervals of the first `declared` cells of some attributes; by low end, then by high end."""

    attributes: Margin
    declared: tuple[int, ...]

    top = 1

    def check(self, sizes: Sizes) -> None:
        check_table(sizes, self.attributes)
        _require(
            _is_tuple(self.declared) and len(self.attributes) == len(self.declared) > 0,
            "one number of cells for every attribute",
        )
        for name, cells in zip(self.attributes, self.declared, strict=True):
            _check_number(cells, least=1, most=sizes[name], what="cells")

    def count(self, sizes: Sizes) -> int:
        del sizes
        return math.prod(cells * (cells + 1) // 2 for cells in self.declared)

    def tables(self) -> tuple[Margin, ...]:
        return (self.attributes,)

    def added(self, sizes: Sizes) -> Sensitivity:
        """Cell c is in (c + 1)(cells - c) intervals, the most in the middle."""
        del sizes
        return counting(math.prod((cells + 1) ** 2 // 4 for cells in self.declared))

    def replaced(self, sizes: Sizes) -> Sensitivity:
        """An attribute of one cell in all is the same in every record, and left out."""
        parts = [(n, sizes[name]) for name, n in zip(self.attributes, self.declared, strict=True)]
        parts = [part for part in parts if part[1] > 1] or parts[:1]
        closed = all(cells == size for cells, size in parts)
        return counting(range_sensitivity([cells for cells, _ in parts], closed=closed).distance)

    def from_tables(self, tables: Mapping[Margin, NDArray[np.int64]]) -> NDArray[np.int64]:
        answers = tables[self.attributes]
        for axis, cells in enumerate(self.declared):
            declared = answers.take(range(cells), axis=axis)
            zero = np.zeros_like(declared.take([0], axis=axis))
            sums = np.concatenate([zero, np.cumsum(declared, axis=axis)], axis=axis)
            low, high = np.triu_indices(cells)
            answers = sums.take(high + 1, axis=axis) - sums.take(low, axis=axis)
        return answers.reshape(-1)


@dataclass(frozen=True, slots=True)
class Conjunctions:
    """All conjunctions of 1 .. width attributes, each with one of `values`; few attributes first."""

    attributes: Margin
    values: tuple[int, ...]
    width: int

    top = 1

    def check(self, sizes: Sizes) -> None:
        check_table(sizes, self.attributes)
        _require(_is_tuple(self.values) and len(self.values) > 0, "values of conjunctions")
        smallest = min((sizes[name] for name in self.attributes), default=0)
        for value in self.values:
            _check_number(value, least=0, most=smallest - 1, what="a value")
        _require(len(set(self.values)) == len(self.values), "every value once")
        _check_number(self.width, least=1, most=len(self.attributes), what="a number of attributes")
        entries = math.prod(max(sizes[name], len(self.values) + 1) for name in self.attributes)
        _require(entries <= MAX_CUBE, f"conjunctions whose counts take at most {MAX_CUBE:,} numbers")

    def count(self, sizes: Sizes) -> int:
        del sizes
        return self._sets(len(self.values))

    def tables(self) -> tuple[Margin, ...]:
        return (self.attributes,)

    def added(self, sizes: Sizes) -> Sensitivity:
        """A record meets at most one conjunction on every set of attributes."""
        del sizes
        return counting(self._sets(1))

    def replaced(self, sizes: Sizes) -> Sensitivity:
        """It leaves one and meets another, where there are two values."""
        del sizes
        return counting(self._sets(1) * min(2, len(self.values)))

    def from_tables(self, tables: Mapping[Margin, NDArray[np.int64]]) -> NDArray[np.int64]:
        return conjunction_counts(tables[self.attributes], self.values, self.width)

    def _sets(self, values: int) -> int:
        d = len(self.attributes)
        return sum(math.comb(d, j) * values**j for j in range(1, self.width + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Any weights of the cells of one table, as whole numbers from 0 to `top`: a row for each query."""

    margin: Margin
    numerators: NDArray[np.int32]
    top: int

    def check(self, sizes: Sizes) -> None:
        check_table(sizes, self.margin)
        _check_number(self.top, least=1, most=MAX_TOP, what="the largest weight")
        _require(_is_array(self.numerators) and self.numerators.ndim == 2, "a matrix")
        cells = math.prod(shape(sizes, self.margin))
        _check_whole(self.numerators, shape=(len(self.numerators), cells), least=0, most=self.top)
        _require(
            len(self.numerators) * (2 * self.top) ** 2 <= 2**62, "weights whose squares add up in 64 bits"
        )

    def count(self, sizes: Sizes) -> int:
        del sizes
        return len(self.numerators)

    def tables(self) -> tuple[Margin, ...]:
        return (self.margin,)

    def added(self, sizes: Sizes) -> Sensitivity:
        """The largest column."""
        del sizes
        return largest_column(self.numerators, self.top)

    def replaced(self, sizes: Sizes) -> Sensitivity:
        """The two columns that lie farthest apart, or a bound on them."""
        del sizes
        return farthest_columns(self.numerators, self.top)

    def from_tables(self, tables: Mapping[Margin, NDArray[np.int64]]) -> NDArray[np.int64]:
        table = tables[self.margin].reshape(-1)
        step = max(1, _BLOCK // len(table))
        blocks = (self.numerators[i : i + step] for i in range(0, len(self.numerators), step))
        return np.concatenate([block.astype(np.int64) @ table for block in blocks])


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """Each query counts the records that meet a condition; a record that meets more than `claim` counts for none."""

    conditions: tuple[Condition, ...]
    claim: int

    top = 1

    def check(self, sizes: Sizes) -> None:
        _require(_is_tuple(self.conditions) and len(self.conditions) > 0, "at least one condition")
        _check_number(
            self.claim, least=0, most=len(self.conditions), what="the conditions that a record meets"
        )
        for condition in self.conditions:
            _check_condition(sizes, condition, depth=0)

    def count(self, sizes: Sizes) -> int:
        del sizes
        return len(self.conditions)

    @property
    def attributes(self) -> Margin:
        used = dict.fromkeys(leaf.attribute for one in self.conditions for leaf in leaves(one))
        return tuple(used)

    def added(self, sizes: Sizes) -> Sensitivity:
        """What is claimed, or what the cells show where they are few."""
        return claimed(self.claim, self.listed(sizes))

    def replaced(self, sizes: Sizes) -> Sensitivity:
        return claimed_twice(self.claim, len(self.conditions), self.listed(sizes))

    def is_enforced(self, sizes: Sizes) -> bool:
        """Must records be looked at one by one, because the cells do not show that the claim is true?"""
        return must_enforce(self.claim, len(self.conditions), self.listed(sizes))

    def listed(self, sizes: Sizes) -> NDArray[np.bool_] | None:
        """Which condition (down) every cell of the attributes (across) meets; None where these are too many."""
        names = self.attributes
        if not may_list(len(self.conditions), math.prod(shape(sizes, names))):
            return None
        return _masks_of_cells(self, tuple((name, sizes[name]) for name in names))


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Query (i, j) counts the records whose score i is at least thresholds[i][j]; scores are sums of public numbers.

    A record beyond the declared cells of an attribute is in none, nor is one that would be in more than `claim`.
    """

    attributes: Margin
    numbers: tuple[tuple[NDArray[np.int64], ...], ...]
    """For every score and attribute the number of each declared cell."""
    thresholds: tuple[NDArray[np.int64], ...]
    order: NDArray[np.int64]
    """Where the queries stand: query q is the order[q]-th of all (i, j), score by score."""
    claim: int

    top = 1

    def check(self, sizes: Sizes) -> None:
        check_margin(sizes, self.attributes)
        _require(_is_tuple(self.numbers) and _is_tuple(self.thresholds), "scores and thresholds as tuples")
        _require(len(self.numbers) == len(self.thresholds) > 0, "thresholds for every score")
        for numbers, thresholds in zip(self.numbers, self.thresholds, strict=True):
            _require(
                _is_tuple(numbers) and len(numbers) == len(self.attributes) > 0, "numbers for every attribute"
            )
            reach = 0
            for name, cells in zip(self.attributes, numbers, strict=True):
                _require(_is_array(cells) and 0 < len(cells) <= sizes[name], "a number for every cell")
                _check_whole(cells, shape=(len(cells),), least=-MAX_SCORE, most=MAX_SCORE)
                reach += max(-int(cells.min()), int(cells.max()))
            _require(reach <= MAX_SCORE, "scores within 64 bits")
            _check_whole(thresholds, shape=(len(thresholds),), least=-MAX_SCORE, most=MAX_SCORE)
        count = sum(map(len, self.thresholds))
        _check_whole(self.order, shape=(count,), least=0, most=count - 1)
        _require(len(np.unique(self.order)) == count > 0, "every query once")
        _check_number(self.claim, least=0, most=count, what="the half-spaces that a record is in")

    def count(self, sizes: Sizes) -> int:
        del sizes
        return len(self.order)

    def added(self, sizes: Sizes) -> Sensitivity:
        """What is claimed, or what the cells show where they are few."""
        return claimed(self.claim, self.listed(sizes))

    def replaced(self, sizes: Sizes) -> Sensitivity:
        return claimed_twice(self.claim, len(self.order), self.listed(sizes))

    def is_enforced(self, sizes: Sizes) -> bool:
        """Must records be looked at one by one, because the cells do not show that the claim is true?"""
        return must_enforce(self.claim, len(self.order), self.listed(sizes))

    def listed(self, sizes: Sizes) -> NDArray[np.bool_] | None:
        """In which half-space (down) every declared cell of the attributes (across) is, and one beyond them, if any.

        None where these are too many.
        """
        declared = [len(cells) for cells in self.numbers[0]]
        if not may_list(len(self.order), math.prod(declared)):
            return None
        numbers = tuple(tuple(map(_as_bytes, cells)) for cells in self.numbers)
        is_closed = declared == [sizes[name] for name in self.attributes]
        return _scores_of_cells(numbers, tuple(map(_as_bytes, self.thresholds)), is_closed)


def may_list(count: int, cells: int) -> bool:
    """Are the weights of so many queries on so many cells few enough?"""
    return count * cells <= (MAX_LISTED if count > 1 else MAX_LISTED_ALONE)


@lru_cache(maxsize=8)
def _masks_of_cells(form: Conditions, sizes: tuple[tuple[str, int], ...]) -> NDArray[np.bool_]:
    by_name, names = dict(sizes), tuple(name for name, _ in sizes)
    return np.stack([table_mask(by_name, one, names).reshape(-1) for one in form.conditions])


def _as_bytes(whole: NDArray[Any]) -> bytes:
    """What is remembered of an array is what it held: the array itself may be filled anew."""
    return whole.astype(np.int64).tobytes()


@lru_cache(maxsize=8)
def _scores_of_cells(
    numbers: tuple[tuple[bytes, ...], ...], thresholds: tuple[bytes, ...], closed: bool
) -> NDArray[np.bool_]:
    axes = len(numbers[0])
    inside: list[NDArray[np.bool_]] = []
    for of_score, least in zip(numbers, thresholds, strict=True):
        scores = np.zeros([1] * axes, dtype=np.int64)
        for axis, cells in enumerate(of_score):
            along = np.frombuffer(cells, dtype=np.int64)
            scores = scores + along.reshape([-1 if i == axis else 1 for i in range(axes)])
        inside.append(scores.reshape(-1) >= np.frombuffer(least, dtype=np.int64)[:, None])
    listed = np.concatenate(inside)
    return listed if closed else np.concatenate([listed, np.zeros((len(listed), 1), dtype=bool)], axis=1)


Form = Tables | Prefixes | Intervals | Conjunctions | Weights | Conditions | Scores
FORMS = (Tables, Prefixes, Intervals, Conjunctions, Weights, Conditions, Scores)
_BLOCK = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class QueryForms:
    """Linear queries as the gate takes them: forms one after the other, and the name that the ledger compares."""

    parts: tuple[Form, ...]
    name: str
    """64 hexadecimal digits. A wrong one returns a stored value or is refused: no look."""

    def check(self, sizes: Sizes) -> None:
        """Refuse whatever could not be answered exactly; WorkloadError, before anything is paid."""
        _require(_is_tuple(self.parts) and len(self.parts) > 0, "at least one form of queries")
        _require(all(type(part) in FORMS for part in self.parts), "one of the seven forms of queries")
        for part in self.parts:
            try:
                part.check(sizes)
            except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
                raise WorkloadError(
                    f"expected {type(part).__name__.lower()} in whole numbers and names, got something else "
                    f"({type(error).__name__})"
                ) from None
        check_count(self.count(sizes))
        _check_number(self.top, least=1, most=MAX_TOP, what="the common denominator of the weights")
        _require(_is_text(self.name) and len(self.name) == 64, "a name of 64 digits")

    @property
    def top(self) -> int:
        """Answers are whole numbers over this."""
        return math.lcm(*(part.top for part in self.parts))

    def count(self, sizes: Sizes) -> int:
        return sum(part.count(sizes) for part in self.parts)

    def pieces(self, sizes: Sizes, *, most: int) -> Iterator[tuple[int, QueryForms]]:
        """Where consecutive pieces begin, and the pieces: at most so many cells of tables, other forms whole."""
        if self.count(sizes) <= most:
            yield 0, self
            return
        start = 0
        for part in self.parts:
            for piece in (
                _cut(part, sizes, most) if isinstance(part, Tables) and part.cells is None else [part]
            ):
                yield start, QueryForms((piece,), self.name)
                start += piece.count(sizes)

    def added(self, sizes: Sizes) -> Sensitivity:
        """What adding or removing a record moves."""
        return _summed([part.added(sizes) for part in self.parts])

    def replaced(self, sizes: Sizes) -> Sensitivity:
        """What replacing a record moves."""
        return _summed([part.replaced(sizes) for part in self.parts])


def _cut(tables: Tables, sizes: Sizes, most: int) -> Iterator[Tables]:
    margins: list[Margin] = []
    room = most
    for margin in tables.margins:
        cells = math.prod(shape(sizes, margin))
        if margins and cells > room:
            yield Tables(tuple(margins))
            margins, room = [], most
        margins.append(margin)
        room -= cells
    yield Tables(tuple(margins))


def _summed(parts: Sequence[Sensitivity]) -> Sensitivity:
    first, *others = parts
    for part in others:
        first = first + part
    return first


# Norms of columns.


def claimed(claim: int, listed: NDArray[np.bool_] | None) -> Sensitivity:
    """What adding a record moves: at most what is claimed, and what the cells show."""
    bound = counting(claim)
    return bound if listed is None else smaller(bound, largest_column(listed, 1))


def claimed_twice(claim: int, count: int, listed: NDArray[np.bool_] | None) -> Sensitivity:
    """What replacing one moves: min(2 N, k), or less where the cells show it.

    Where the claim leaves records out, two of the others may still lie as far apart, and one of them and nothing too:
    the cells are asked only where it leaves out none.
    """
    bound = counting(min(2 * int(claimed(claim, listed).l1), count))
    if listed is None or must_enforce(claim, count, listed):
        return bound
    return smaller(bound, farthest_columns(listed, 1))


def must_enforce(claim: int, count: int, listed: NDArray[np.bool_] | None) -> bool:
    """Could a record count for more than is claimed?"""
    return claim < count and (listed is None or largest_column(listed, 1).l1 > claim)


def smaller(first: Sensitivity, second: Sensitivity) -> Sensitivity:
    """The better of two bounds, norm by norm."""
    return Sensitivity(
        min(first.l1, second.l1), min(first.l2_squared, second.l2_squared), min(first.linf, second.linf)
    )


def largest_column(matrix: NDArray[Any], top: int) -> Sensitivity:
    """The largest norms of a column of numerators."""
    l1 = l2 = linf = 0
    for block in _blocks(matrix):
        l1 = max(l1, int(block.sum(axis=0).max(initial=0)))
        l2 = max(l2, int((block * block).sum(axis=0).max(initial=0)))
        linf = max(linf, int(block.max(initial=0)))
    return Sensitivity(Fraction(l1, top), Fraction(l2, top**2), Fraction(linf, top))


def farthest_columns(matrix: NDArray[Any], top: int) -> Sensitivity:
    """How far two columns of numerators lie apart, at most."""
    labels = np.unique(np.ascontiguousarray(matrix.T), axis=0).T.astype(np.int64)
    l1 = farthest(labels, power=1)[0]
    l2 = l1 if top == 1 else farthest(labels, power=2)[0]
    linf = int((labels.max(axis=1) - labels.min(axis=1)).max(initial=0))
    return Sensitivity(Fraction(l1, top), Fraction(l2, top**2), Fraction(linf, top))


MAX_SEARCH_STEPS = 2**28
"""Elementary steps of a search for the two columns that lie farthest apart: a second or two."""


def farthest(
    columns: NDArray[np.int64], *, power: int, most_steps: int = MAX_SEARCH_STEPS
) -> tuple[int, bool]:
    """The largest sum of |difference|^power between two columns, and whether it is exact or only an upper bound.

    Columns are taken by their distance r from a common centre, the farthest first. Two columns of distance at most
    r lie at most 2r apart, so the search ends as soon as a pair as far apart as this is known.
    """
    centre = columns.max(axis=1, keepdims=True) + columns.min(axis=1, keepdims=True)
    # in doubled units (2r)^power is the bound on a pair, and (2r)^power / 2^power that in the units of the columns
    bounds = (np.abs(2 * columns - centre) ** power).sum(axis=0)
    order = np.argsort(-bounds, kind="stable")
    columns, bounds = columns[:, order], bounds[order]
    best, steps = 0, 0
    for i in range(columns.shape[1]):
        if bounds[i] <= best:
            return best, True
        if steps > most_steps:
            return int(bounds[i]), False
        gaps = np.abs(columns[:, i:] - columns[:, i, None]) ** power
        best = max(best, int(gaps.sum(axis=0).max()))
        steps += gaps.size
    return best, True


def _blocks(matrix: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
    step = max(1, _BLOCK // max(1, len(matrix)))
    for start in range(0, matrix.shape[1], step):
        yield matrix[:, start : start + step].astype(np.int64)


# Cells of tables.


def shape(sizes: Sizes, margin: Margin) -> tuple[int, ...]:
    """Cells per attribute."""
    return tuple(sizes[name] for name in margin)


def mask(runs: Runs, size: int) -> NDArray[np.bool_]:
    """True at the members of a set of codes."""
    member = np.zeros(size, dtype=bool)
    for low, high in runs:
        member[low : high + 1] = True
    return member


def table_mask(sizes: Sizes, condition: Condition, names: Margin) -> NDArray[np.bool_]:
    """Which cells of the table over `names` meet the condition."""
    return np.broadcast_to(_open_mask(sizes, condition, names), shape(sizes, names))


def _open_mask(sizes: Sizes, condition: Condition, names: Margin) -> NDArray[Any]:
    """The mask with axes of length 1 where it does not matter."""
    if isinstance(condition, Leaf):
        size = sizes[condition.attribute]
        axes = [size if name == condition.attribute else 1 for name in names]
        return mask(condition.runs, size).reshape(axes)
    every = isinstance(condition, Every)
    table = np.full([1] * len(names), every, dtype=bool)
    for part in condition.parts:
        other = _open_mask(sizes, part, names)
        table = table & other if every else table | other
    return table


# Checks: public arguments against public sizes.


def check_margin(sizes: Sizes, margin: object) -> None:
    """Attributes of the domain, each once."""
    names = cast("Margin", margin)
    _require(_is_tuple(margin) and all(_is_text(name) for name in names), "a margin as a tuple of names")
    unknown = [name for name in names if name not in sizes]
    if unknown:
        raise WorkloadError(f"unknown attribute {unknown[0]!r:.80}; the domain has {', '.join(sizes)}")
    _require(len(set(names)) == len(names), "a margin that names each attribute once")


def check_table(sizes: Sizes, margin: Margin) -> None:
    """The same, of few enough cells to be counted."""
    check_margin(sizes, margin)
    cells = math.prod(shape(sizes, margin))
    if cells > MAX_TABLE_CELLS:
        raise WorkloadError(
            f"the table over ({', '.join(margin)}) has {cells:,} cells, more than {MAX_TABLE_CELLS:,}; ask a margin of "
            "fewer attributes or declare coarser cells"
        )


def _check_condition(sizes: Sizes, condition: object, *, depth: int) -> None:
    _require(depth <= MAX_DEPTH, f"conditions nested at most {MAX_DEPTH} deep")
    if type(condition) is Leaf:
        check_margin(sizes, (condition.attribute,))
        _require(_is_tuple(condition.runs) and all(map(_is_tuple, condition.runs)), "runs of codes as tuples")
        before = -1
        for low, high in condition.runs:
            _check_number(low, least=before + 1, most=sizes[condition.attribute] - 1, what="a code")
            _check_number(high, least=low, most=sizes[condition.attribute] - 1, what="a code")
            before = high
        return
    _require(type(condition) in (Every, Some), "conditions made of sets of cells")
    _require(_is_tuple(cast("Every | Some", condition).parts), "parts of a condition as a tuple")
    for part in cast("Every | Some", condition).parts:
        _check_condition(sizes, part, depth=depth + 1)


def _check_number(value: object, *, least: int, most: int, what: str) -> None:
    if type(value) is not int or not least <= value <= most:
        raise WorkloadError(f"expected {what} as a whole number from {least} to {most}")


def _check_whole(array: object, *, shape: tuple[int, ...], least: int, most: int) -> None:
    numbers = cast("NDArray[Any]", array)
    _require(_is_array(array) and numbers.dtype.kind in "iu", "arrays of whole numbers")
    _require(numbers.shape == shape, f"an array of shape {shape}")
    if numbers.size and not least <= int(numbers.min()) <= int(numbers.max()) <= most:
        raise WorkloadError(f"expected whole numbers from {least} to {most}, found one outside")


# Nobody checks annotations at run time. What is derived from these types may be read otherwise each time (masked arrays
# leave numbers out of their least and largest ones), and so is not what was checked.


def _is_tuple(value: object) -> bool:
    return type(value) is tuple


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_array(value: object) -> bool:
    return type(value) is np.ndarray


def _require(holds: bool, expected: str) -> None:
    if not holds:
        raise WorkloadError(f"expected {expected} in the queries that are asked")
