"""The largest error of a released distribution over a whole class of questions, in exact whole numbers.

A table of gaps holds D c - n k for every cell: c records of the private table and the share k / D of the release
are in the cell, n is the number of records and D the common denominator. The gap of a set of cells is the sum of its
cells' gaps, D times (count - n share). The largest absolute gap over all sets of a class, divided by D and rounded up,
is the statistic that is certified.

Sensitivity 1. For a fixed set S the released share q(S) = k(S) / D lies in [0, 1], because no k is negative and all
of them together are at most D. Adding a record y moves c(S) - n q(S) by [y in S] - q(S), replacing one moves it by
[y in S] - [z in S]: both lie in [-1, 1]. Neither the absolute value nor the largest of any number of such
functions moves by more, nor does rounding up make a gap of at most 1 wider than 1. A public weight of at most 1 on
the error of a table makes what it moves by no larger, and the largest weighted error, rounded up again, moves by at
most 1 too. What a kernel computes is such a
maximum whatever the walks and families are, as long as each number it compares is the gap of a set that does not
depend on the table: a mistake in a walk can make a certificate say too little, but not cost privacy.

All numbers fit into 64 bits: every sum that occurs is the gap of some set of cells, or its negative, and those are at
most n D <= 2^32 2^30 (`core/bounds.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.core import bounds
from maquette.core.errors import ParameterError
from maquette.core.forms import Margin
from maquette.core.universe import Universe

Integers = NDArray[np.int64]

MAX_CELLS = 2**28
"""Cells of all tables of a class together."""


class Kind(IntEnum):
    """A family of sets of the declared cells of one attribute; the numbers are those of the kernels."""

    WHOLE = 0
    """All cells, of an attribute that a question does not restrict."""
    ONE = 1
    """One cell, or all but one: equalities and their negations."""
    SIDE = 2
    """One-sided: all cells up to one or from one on, and those of ONE."""
    RANGE = 3
    """An interval of cells, or all but an interval."""
    ANY = 4
    """Any set of cells."""


@dataclass(frozen=True, slots=True, eq=False)
class TableSets:
    """Sets of cells of one table, in plain arrays: all of them, or products of a set from each attribute.

    Which sets they are decides what a certificate says. That each number compared is the gap of a public set, so that a
    record moves it by at most 1, holds for any numbers that `check` lets pass.
    """

    margin: Margin
    """The attributes, in domain order."""
    inner: int | None = None
    """The axis along which the largest sum is found in one pass; None for every set of cells of the table."""
    kind: Kind = Kind.ANY
    """The family of sets along it."""
    cells: int = 0
    """The declared cells along it."""
    extras: int = 0
    """The cells behind them: other values, null."""
    walks: tuple[Integers, ...] = ()
    """For each other axis: cells to put in or take out, one after the other, from the empty set on. A step i turns cell
    i over and stops at the set, a step ~i (negative) turns it over and goes on."""

    def check(self, domain: Universe) -> None:
        """Refuse what would leave its table. Public arguments only."""
        _check_margin(domain, self.margin)
        if self.inner is None:
            return
        bounds.check_whole(self.inner, least=0, most=len(self.margin) - 1, what="the axis of a table")
        bounds.check_type(self.kind, Kind, "a family of sets")
        size = domain[self.margin[self.inner]].size
        bounds.check_whole(self.cells, least=1, most=size, what="declared cells")
        if self.extras != size - self.cells:
            raise ParameterError("expected sets of the cells that an attribute has")
        others = [name for axis, name in enumerate(self.margin) if axis != self.inner]
        bounds.check_list(self.walks, np.ndarray, "walks as arrays")
        if len(others) != len(self.walks) or len(others) > 2:
            raise ParameterError("expected one walk for each other axis, of which there are at most two")
        for name, walk in zip(others, self.walks, strict=True):
            if walk.dtype != np.int64 or walk.ndim != 1:
                raise ParameterError("expected a walk as a list of whole numbers of 64 bits")
            if len(walk) and not -domain[name].size <= int(walk.min()) <= int(walk.max()) < domain[name].size:
                raise ParameterError("expected the steps of a walk among the cells of its attribute")


@dataclass(frozen=True, slots=True, eq=False)
class ClassSets:
    """A class of questions: its name and the version of its rules, for the ledger, and its tables."""

    name: str
    rules: int
    tables: tuple[TableSets, ...]


def gaps(counts: Integers, released: Integers, denominator: int) -> Integers:
    """D c - n k for every cell of a table; n is the total of its counts, as every record is in one cell."""
    return denominator * counts - int(counts.sum()) * released


def largest_error(table: TableSets, gap: Integers, denominator: int) -> int:
    """The largest |count - n share| over all sets of one table, rounded up to whole records."""
    return -(-largest_gap(table, gap) // denominator)


def weigh(error: int, weight: int, *, whole: int) -> int:
    """weight / whole of an error, rounded up."""
    return -(-error * weight // whole)


def largest_gap(table: TableSets, gap: Integers) -> int:
    """The largest absolute gap; `gap` is shaped by the sizes of the table's attributes."""
    if table.inner is None:
        return max(int(gap[gap > 0].sum()), -int(gap[gap < 0].sum()))
    inner = table.inner
    others = [axis for axis in range(gap.ndim) if axis != inner]
    walks = [_NO_AXIS, _NO_AXIS, *table.walks][-2:]
    shape = [1, 1, *(gap.shape[axis] for axis in others)][-2:]
    lines = gap.transpose([*others, inner])
    cells, kind = table.cells, int(table.kind)
    if table.kind in (Kind.ONE, Kind.SIDE):
        (lines, cells), kind = _with_sums(lines, table), _SUMS
    ordered = np.ascontiguousarray(lines).reshape([*shape, lines.shape[-1]])
    by_place, line = np.zeros(cells, dtype=np.int64), np.zeros(ordered.shape[2], dtype=np.int64)
    plane, first_signs, second_signs = (
        np.zeros_like(ordered[0]),
        *(np.ones(k, dtype=np.int64) for k in ordered.shape[:2]),
    )
    one_by_one = _largest(ordered, walks[0], walks[1], kind, plane, line, first_signs, second_signs, by_place)
    return max(int(one_by_one), int(by_place.max()))


def _with_sums(lines: Integers, table: TableSets) -> tuple[Integers, int]:
    """The declared cells along the last axis with their running totals behind them, and how many numbers that is.

    Every one of them is the gap of a set of the family, the last one that of all declared cells, so that the largest
    is found without adding up: sums over the other axes are sums of these too.
    """
    cells, extras = table.cells, table.extras
    sums = cells if table.kind is Kind.SIDE else 1
    whole = np.empty((*lines.shape[:-1], cells + sums + extras), dtype=np.int64)
    whole[..., :cells] = lines[..., :cells]
    whole[..., cells + sums :] = lines[..., cells:]
    declared, ends = whole[..., :cells], whole[..., cells : cells + sums]
    if table.kind is Kind.SIDE:
        np.cumsum(declared, axis=-1, out=ends)
    else:
        np.sum(declared, axis=-1, keepdims=True, out=ends)
    return whole, cells + sums


_NO_AXIS = np.zeros(1, dtype=np.int64)
"""The walk along an axis of one cell: put it in, and stop."""
_WHOLE, _RANGE, _SUMS = int(Kind.WHOLE), int(Kind.RANGE), -1
"""What a line is: the cells of families of these kinds, those of any other set, or sums of cells."""


@numba.njit(cache=True, nogil=True, plain=True)
def _largest(
    gap: Any,
    first: Any,
    second: Any,
    kind: Any,
    plane: Any,
    line: Any,
    first_signs: Any,
    second_signs: Any,
    by_place: Any,
) -> Any:
    """Walk along the first axis, for every set there along the second, for every set there look along the third.

    `plane` is the sum of gap[i] over the cells i that are in the set of the first axis, `line` the sum of its rows
    over the set of the second. A step turns one cell over: its part is added or taken away, as its sign says. `plane`,
    `line` and `by_place` come as zeros, signs as ones: to make them here would take half of the time of compiling.

    Along a line: `above` is what the cells behind the declared ones (other values, null) add at most where they are
    taken, `below` what they take away. A line of comparisons, which take most of the time, holds the sums of its
    sets, the last of which is that of all declared cells; what a set leaves of it is a set too. A sum takes at most
    `more` with the cells behind, the negative of a sum at most `less`; the largest absolute sums are kept by place, in
    `by_place`. Other lines hold their cells, and `high` and `low` are the largest and the smallest sum over sets of
    declared ones. Intervals, or all but one, are differences of running totals (Kadane).

    Returned is the largest sum that is not in `by_place`. One function and no calls of others, nor of `max`: every
    further one is compiled apart and again where it is used.
    """
    (_, rows, length), cells = gap.shape, len(by_place)
    zero = np.int64(
        0
    )  # a bare 0 has a type of its own, and the types of the loop would be inferred once more
    largest = zero
    for s in range(len(first)):
        step = first[s]
        i = step if step >= 0 else ~step
        sign = first_signs[i]
        first_signs[i] = -sign
        for j in range(rows):
            for k in range(length):
                plane[j, k] += sign * gap[i, j, k]
        if step < 0:
            continue
        for k in range(length):
            line[k] = zero
        for j in range(rows):
            second_signs[j] = 1
        for u in range(len(second)):
            turn = second[u]
            j = turn if turn >= 0 else ~turn
            side = second_signs[j]
            second_signs[j] = -side
            for k in range(length):
                line[k] += side * plane[j, k]
            if turn < 0:
                continue
            above = below = high = total = zero
            for k in range(cells, length):
                if line[k] > 0:
                    above += line[k]
                else:
                    below -= line[k]
            if kind == _SUMS:
                total = line[cells - 1]
                more = above if above > below - total else below - total
                less = below if below > above + total else above + total
                for k in range(cells):
                    value = line[k]
                    one = value + more if value + more > less - value else less - value
                    by_place[k] = one if one > by_place[k] else by_place[k]
                one, other = more, less
            elif kind == _RANGE:
                lowest = highest = low = zero
                for k in range(cells):
                    total += line[k]
                    high = high if high > total - lowest else total - lowest
                    low = low if low < total - highest else total - highest
                    lowest = lowest if lowest < total else total
                    highest = highest if highest > total else total
                one = (high if high > total - low else total - low) + above
                other = below - (low if low < total - high else total - high)
            else:
                for k in range(cells):
                    total += line[k]
                    high += line[k] if line[k] > 0 else zero
                if kind == _WHOLE:
                    one = total + above - below
                    other = -one
                else:
                    one, other = high + above, below - (total - high)
            one = one if one > other else other
            largest = one if one > largest else largest
    return largest


# A released distribution by its tables: what the errors of a class of questions are measured against.

WHOLE = 2**16
"""The weight of an error that counts as it is. Others count for less: weight / WHOLE of it."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedTables:
    """Tables of whole numerators over one denominator: the released share of the records in every cell."""

    tables: dict[Margin, NDArray[np.signedinteger[Any]]]
    """Flat, by the attributes in domain order."""
    denominator: int
    weights: dict[str, dict[Margin, int]] = field(default_factory=dict[str, dict[Margin, int]])
    """By class and table, from 1 to `WHOLE`, which all others have: what an error counts for. Public numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassQuestion:
    """Several classes, checked: their tables by attributes, each with the place of its class among those asked for and
    with its weight."""

    names: tuple[str, ...]
    rules: int
    by_margin: dict[Margin, list[tuple[int, TableSets, int]]]
    shares: dict[Margin, NDArray[np.signedinteger[Any]]]
    """The released tables that are needed, flat, over `denominator`."""
    denominator: int

    @classmethod
    def of(cls, domain: Universe, classes: Sequence[ClassSets], released: ReleasedTables) -> ClassQuestion:
        """Refuses what the sensitivity of `core/class_errors.py` does not hold for. Public arguments only."""
        names = _check_classes(domain, classes)
        bounds.check_type(released, ReleasedTables, "the released distribution by its tables")
        bounds.check_type(released.tables, dict, "released tables by their attributes")
        bounds.check_whole(released.denominator, least=1, most=bounds.FACTORS, what="the common denominator")
        weights = _weights(names, released.weights)
        by_margin: dict[Margin, list[tuple[int, TableSets, int]]] = {}
        for place, each in enumerate(classes):
            for table in each.tables:
                weight = weights.get((each.name, table.margin), WHOLE)
                by_margin.setdefault(table.margin, []).append((place, table, weight))
        shares = {margin: _table(domain, margin, released) for margin in by_margin}
        return cls(names, classes[0].rules, by_margin, shares, released.denominator)

    def request(self) -> dict[str, Any]:
        """Everything that decides the numbers, for the ledger."""
        hasher = hashlib.sha256()
        for margin, table in self.shares.items():
            hasher.update(repr(margin).encode())
            hasher.update(np.ascontiguousarray(table, dtype="<i4").data)
        request: dict[str, Any] = {
            "ask": "class errors",
            "classes": list(self.names),
            "rules": self.rules,
            "tables": hasher.hexdigest(),
            "denominator": self.denominator,
        }
        weights = [
            (self.names[place], margin, weight)
            for margin, tables in self.by_margin.items()
            for place, _, weight in tables
            if weight < WHOLE
        ]
        if weights:  # a question without them is asked as it always was
            request["weights"] = hashlib.sha256(repr(sorted(weights)).encode()).hexdigest()
        return request


def _weights(names: Sequence[str], weights: object) -> dict[tuple[str, Margin], int]:
    """Weights of tables by class, none of them above that of an error as it is."""
    bounds.check_type(weights, dict, "weights by class")
    flat: dict[tuple[str, Margin], int] = {}
    for name, by_margin in cast("dict[object, object]", weights).items():
        if name not in names:
            raise ParameterError("expected weights of classes that are asked for")
        bounds.check_type(by_margin, dict, "weights by the attributes of their table")
        for margin, weight in cast("dict[Margin, int]", by_margin).items():
            bounds.check_whole(weight, least=1, most=WHOLE, what="a weight")
            flat[cast("str", name), margin] = weight
    return flat


def _check_classes(domain: Universe, classes: object) -> tuple[str, ...]:
    """The names of some classes, each once, all of one version, whose sets stay inside their tables."""
    bounds.check_list(classes, ClassSets, "a list of classes of questions by their sets")
    question_classes = cast("Sequence[ClassSets]", classes)
    bounds.check_list([one.name for one in question_classes], str, "classes of questions with a name")
    bounds.check_list(
        [one.rules for one in question_classes], int, "classes of questions with the version of their rules"
    )
    names = tuple(one.name for one in question_classes)
    if not names or len(set(names)) < len(names) or len({one.rules for one in question_classes}) > 1:
        raise ParameterError("expected some classes of questions, each once, by the same rules")
    for one in question_classes:
        bounds.check_list(one.tables, TableSets, "the tables of a class by their sets")
        for table in one.tables:
            table.check(domain)
        if not one.tables or sum(domain.cells(m) for m in {table.margin for table in one.tables}) > MAX_CELLS:
            raise ParameterError(f"the class '{one.name}' has no table here, or tables of too many cells")
    return names


def _check_margin(domain: Universe, margin: object) -> None:
    """Some attributes of the domain, each named once and in order."""
    bounds.check_type(margin, tuple, "the attributes of a table as a tuple of names")
    bounds.check_list(margin, str, "the attributes of a table as a tuple of names")
    names = cast("Margin", margin)
    if not names or tuple(name for name in domain.names if name in names) != names:
        raise ParameterError("expected the attributes of every table in the order of the domain, each once")


def _table(domain: Universe, margin: Margin, released: ReleasedTables) -> NDArray[np.signedinteger[Any]]:
    """A distribution, or part of one: no negative share, and no more than everything."""
    over = ", ".join(margin)
    table = released.tables.get(margin)
    bounds.check_type(table, np.ndarray, f"a released table over {over} in an array")
    assert table is not None
    if table.dtype.kind != "i" or table.shape != (domain.cells(margin),):
        raise ParameterError(f"expected the released table over {over} as flat whole numbers")
    inside = int(table.min()) >= 0 and int(table.max()) <= released.denominator
    if not inside or int(table.sum(dtype=np.int64)) > released.denominator:
        raise ParameterError(f"expected shares in the table over {over} that are at most 1 together")
    return table
