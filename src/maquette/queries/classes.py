"""Classes of questions that one number certifies, and which class covers a question. Public structure only.

A class is a family of conditions over small tables: for every table (a set of attributes) and each of its attributes
a family of sets of cells, and all products of them. Which tables and families a class has follows from the domain and
from the sets of attributes that a release looked at together; whether it covers a question follows from the question's
text besides. No released number decides it.

On every attribute the null cell and the cell of other values go along as they like: a condition may take any of them
beside its declared cells, so that "age >= 60" and "age >= 60 or age is null" are covered alike. Every family holds the
empty set, all cells, and with a set its complement.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maquette.core.class_errors import MAX_CELLS, ClassSets, Kind, TableSets
from maquette.domain import Attribute, Domain
from maquette.errors import ParameterError
from maquette.queries.condition import Runs, complement, count, meet
from maquette.queries.rows import Margin

RULES = 2
"""The version of the rules below; a release stores it, since they decide what its certificates cover."""
MAX_ATTRIBUTE = 2**20
"""Attributes with more cells are in no class."""
MAX_STEPS = 2**32
"""Steps of all tables of a class together: some seconds. A table that takes more than its equal share of them has
smaller families."""
MAX_TABLE_STEPS = 2**30
"""Steps of a table with the smallest families; one that takes more is left out."""
MAX_TABLES = 2**20
"""Tables of a class before duplicates are left out."""


SMALL = 16
"""Cells of a small attribute. On generated tables conditions on those are off by half as much as conditions on the
others, or less; errors of comparisons on two attributes hardly grow with their cells
(`python -m benchmarks class_forecasts`)."""
FEW = 10
"""Cells of an attribute that has few. Comparisons on it and another are off by a third to three quarters of what those
on two attributes of many cells are (adult, salary and chicago_taxi, `python -m benchmarks class_certificates`)."""


@dataclass(frozen=True, slots=True)
class Family:
    """Sets of cells of one attribute with `cells` declared cells and `extras` further ones (other values, null)."""

    kind: Kind
    cells: int
    extras: int

    @property
    def size(self) -> int:
        return self.cells + self.extras

    def holds(self, runs: Runs) -> bool:
        """Is this set of cells in the family?"""
        return self.parts(runs) <= 1

    def parts(self, runs: Runs) -> int:
        """How many sets of the family add up to this one, with signs: 0 for no cell and for all, 1 for a member.

        Not always the fewest; never too few.
        """
        declared = meet(runs, ((0, self.cells - 1),))
        cells = count(declared)
        if count(runs) in (0, self.size):
            return 0
        if self.kind is Kind.ANY:
            return 1
        if self.kind is Kind.WHOLE:
            return self.size  # no family of its own: nothing adds up
        if cells in (0, self.cells):
            return 1
        ways = [cells, self.cells - cells]  # cells one by one, or all others taken away
        if self.kind is Kind.SIDE:
            ends = [end for low, high in declared for end in (low > 0, high < self.cells - 1)]
            ways.append(sum(ends))  # every inner border is the end of a one-sided set
        if self.kind is Kind.RANGE:
            ways += [len(declared), len(complement(declared, self.cells))]
        return max(1, min(ways))

    @property
    def sets(self) -> int:
        """How many of its sets a walk stops at, about."""
        per_extras = {
            Kind.WHOLE: 1,
            Kind.ONE: 2 * self.cells + 1,
            Kind.SIDE: 4 * self.cells,
            Kind.RANGE: self.cells * (self.cells + 1),
        }
        if self.kind is Kind.ANY:
            return 2**self.size
        return per_extras[self.kind] * (1 if self.kind is Kind.WHOLE else 2**self.extras)

    def walk(self) -> NDArray[np.int64]:
        """Cells to put in or take out, one after the other, from the empty set on: at which sets to stop.

        A step i turns cell i over and stops there; a step ~i (negative) turns it over and goes on. Every set of the
        family but the empty one is stopped at, or its value is that of one that is; no set outside it ever is.
        """
        return _walk(self)


@lru_cache(maxsize=256)
def _walk(family: Family) -> NDArray[np.int64]:
    """See `Family.walk`; the many tables of a class have few different families."""
    if family.kind is Kind.ANY:
        bits = np.arange(1, 2**family.size, dtype=np.int64)
        return np.round(np.log2(bits & -bits)).astype(np.int64)  # the reflected binary code
    if family.kind is Kind.WHOLE:
        steps = [*(~i for i in range(family.size - 1)), family.size - 1]
    else:
        block = _block(family.kind, family.cells)
        steps = list(block)
        for i in range(1, 2**family.extras):
            steps += [family.cells + (i & -i).bit_length() - 1, *block]
    return np.array(steps, dtype=np.int64)


def _block(kind: Kind, cells: int) -> list[int]:
    """A walk through one family of declared cells that ends where it began."""
    once = [step for i in range(cells) for step in (i, ~i)]
    over = [*(~i for i in range(cells - 1)), cells - 1]
    if kind is Kind.ONE:
        return [*over, *once, *over, *once]
    if kind is Kind.SIDE:
        return [*range(cells), *once, *range(cells), *once]
    intervals = _intervals(cells)
    return [*intervals, *over, *intervals, *over]


def _intervals(cells: int) -> list[int]:
    """From no cell through all intervals, one turned cell apart, and back without a stop."""
    steps: list[int] = []
    low, high = 0, -1
    while low < cells:
        while high < cells - 1:
            high += 1
            steps.append(high)
        if low == cells - 1:
            break
        steps.append(low)
        low += 1
        while high > low:
            steps.append(high)
            high -= 1
        if low == cells - 1:
            break
        high += 1
        steps += [high, low]
        low += 1
    return [*steps, *(~i for i in range(low, high + 1))]


@dataclass(frozen=True, slots=True)
class ClassTable:
    """One table of a class: its attributes in domain order, and on each of them a family.

    Without families the class has every set of cells of the table.
    """

    margin: Margin
    families: tuple[Family, ...] = ()

    @property
    def inner(self) -> int:
        """The axis along which the largest sum is found in one pass; the others are walked through."""
        return min(range(len(self.families)), key=self._cost)

    @property
    def steps(self) -> int:
        """What it takes, about."""
        return self._cost(self.inner) if self.families else 1

    def sets(self) -> TableSets:
        """Its sets of cells as the gate takes them: plain arrays."""
        return _sets(self)

    def _cost(self, inner: int) -> int:
        others = (family.sets for axis, family in enumerate(self.families) if axis != inner)
        return self.families[inner].size * math.prod(others)


@dataclass(frozen=True, slots=True)
class QuestionClass:
    """A class by name: conjunctions on at most `order` attributes, each of them from a family.

    With `free`, every condition on so many attributes, conjunction or not.
    """

    name: str
    order: int
    ordered: Kind
    """The family on numeric and ordinal attributes."""
    unordered: Kind
    """The family on the others."""
    says: str
    """The questions of the class, in words."""
    free: bool = False
    max_cells: int = MAX_ATTRIBUTE
    """Attributes with more cells are not in the class: their errors need not set the bound of the others."""
    smallest: int = MAX_ATTRIBUTE
    """Tables all of whose attributes have more cells are not in the class."""
    parts: tuple[str, ...] = ()
    """Classes whose tables it has, each table of which may have a weight: it is certified by its own bound."""

    def family(self, attribute: Attribute) -> Family:
        """The family that the class has on an attribute, where it can be afforded."""
        return _family(attribute, self.ordered if attribute.ordered else self.unordered)

    def tables(self, domain: Domain, sets: Iterable[Margin]) -> tuple[ClassTable, ...]:
        """Its tables: for all sets of at most `order` attributes that lie inside one of `sets`, the largest ones.

        A table that takes too long has smaller families, the widest first; one that takes far too long even so is
        left out.
        """
        return _tables(self, domain, tuple(sets))

    def each_table(self, domain: Domain, sets: Sequence[Margin]) -> Iterator[ClassTable]:
        """The same, one after the other, worked out anew."""
        if self.parts:
            yield from self._of_parts(domain, sets)
            return
        candidates = _margins(domain, sets, self.order, self.max_cells)
        margins = [one for one in candidates if min(domain[name].size for name in one) <= self.smallest]
        share = MAX_STEPS // max(len(margins), 1)
        for margin in margins:
            table = ClassTable(margin) if self.free else self._table(domain, margin, share)
            if table is not None:
                yield table

    def _of_parts(self, domain: Domain, sets: Sequence[Margin]) -> Iterator[ClassTable]:
        """The tables of other classes; of two over the same attributes the one of the class that is named first."""
        margins: set[Margin] = set()
        for name in self.parts:
            for table in CLASSES[name].tables(domain, sets):
                if table.margin not in margins:
                    margins.add(table.margin)
                    yield table

    def _table(self, domain: Domain, margin: Margin, steps: int) -> ClassTable | None:
        families = [self.family(domain[name]) for name in margin]
        table = ClassTable(margin, tuple(families))
        while table.steps > steps:
            wide = [
                axis
                for axis in range(len(families))
                if axis != table.inner and families[axis].kind in (Kind.RANGE, Kind.ANY)
            ]
            if not wide:
                return table if table.steps <= MAX_TABLE_STEPS else None
            axis = max(wide, key=lambda axis: families[axis].sets)
            attribute = domain[margin[axis]]
            families[axis] = _family(attribute, Kind.SIDE if attribute.ordered else Kind.ONE)
            table = ClassTable(margin, tuple(families))
        return table


@lru_cache(maxsize=16)
def _tables(
    question_class: QuestionClass, domain: Domain, sets: tuple[Margin, ...]
) -> tuple[ClassTable, ...]:
    """The tables of a class, which are needed several times for one release."""
    return tuple(question_class.each_table(domain, sets))


@lru_cache(maxsize=2**12)
def _sets(table: ClassTable) -> TableSets:
    """One value for each table: classes have tables in common, whose errors are found once."""
    if not table.families:
        return TableSets(table.margin)
    inner = table.inner
    walks = tuple(family.walk() for axis, family in enumerate(table.families) if axis != inner)
    along = table.families[inner]
    return TableSets(table.margin, inner, along.kind, along.cells, along.extras, walks)


def _family(attribute: Attribute, kind: Kind) -> Family:
    """Of up to three declared cells every family is all sets, which has the shortest walk."""
    extras = attribute.size - attribute.cells
    if kind is Kind.ANY or attribute.cells <= 3:
        return Family(Kind.ANY, attribute.size, 0)
    return Family(kind, attribute.cells, extras)


def _margins(domain: Domain, sets: Sequence[Margin], order: int, max_cells: int) -> list[Margin]:
    """All sets of `order` attributes inside one of `sets`, and those of `sets` that are smaller, in domain order.

    None where they would be too many.
    """
    candidates: set[Margin] = set()
    if sum(math.comb(len(names), min(order, len(names))) for names in sets) > MAX_TABLES:
        return []
    small = [attribute.name for attribute in domain if attribute.size <= max_cells]
    for names in sets:
        able = [name for name in small if name in names]
        if able:
            candidates.update(itertools.combinations(able, min(order, len(able))))
    inside = {part for margin in candidates if len(margin) > 1 for part in _smaller(margin)}
    place = {name: i for i, name in enumerate(domain.names)}
    return sorted(candidates - inside, key=lambda margin: [place[name] for name in margin])


def _smaller(margin: Margin) -> Iterable[Margin]:
    for length in range(1, len(margin)):
        yield from itertools.combinations(margin, length)


CLASSES = {
    one.name: one
    for one in (
        QuestionClass(
            "one attribute",
            1,
            Kind.ANY,
            Kind.ANY,
            "any condition on one attribute",
            free=True,
        ),
        QuestionClass(
            "one small attribute",
            1,
            Kind.ANY,
            Kind.ANY,
            f"any condition on one attribute of at most {SMALL} values",
            free=True,
            max_cells=SMALL,
        ),
        QuestionClass(
            "two attributes",
            2,
            Kind.SIDE,
            Kind.ONE,
            "any comparisons on two attributes together",
        ),
        QuestionClass(
            "two attributes with a small one",
            2,
            Kind.SIDE,
            Kind.ONE,
            f"any comparisons on two attributes together, one of them of at most {FEW} values",
            smallest=FEW,
        ),
        QuestionClass(
            "three attributes",
            3,
            Kind.SIDE,
            Kind.ONE,
            "any comparisons on three attributes together",
        ),
        QuestionClass(
            "two ranges",
            2,
            Kind.RANGE,
            Kind.ANY,
            "any ranges and lists of values of two attributes together",
        ),
        QuestionClass(
            "three ranges",
            3,
            Kind.RANGE,
            Kind.ANY,
            "any ranges and lists of values of three attributes together",
        ),
        QuestionClass(
            "anything on two attributes",
            2,
            Kind.ANY,
            Kind.ANY,
            "any condition at all on two attributes",
            free=True,
        ),
        QuestionClass(
            "relative",
            1,
            Kind.RANGE,
            Kind.ANY,
            "any condition on one attribute, or ranges and lists of values of two, each with a bound of its own",
            parts=("one attribute", "two ranges"),
        ),
    )
}
"""By the words that users say."""


def cells_of(domain: Domain, tables: Sequence[ClassTable]) -> int:
    """The cells of all tables, each set of attributes once."""
    return sum(domain.cells(margin) for margin in {table.margin for table in tables})


def class_sets(domain: Domain, names: Sequence[str], sets: Sequence[Margin]) -> tuple[ClassSets, ...]:
    """Some classes as the gate takes them; ParameterError where one has no table, or too many cells."""
    if not names or len(set(names)) < len(names) or not set(names) <= set(CLASSES):
        raise ParameterError(f"expected some of the classes {', '.join(CLASSES)}, each once")
    classes: list[ClassSets] = []
    for name in names:
        tables = CLASSES[name].tables(domain, sets)
        if not tables or cells_of(domain, tables) > MAX_CELLS:
            raise ParameterError(f"the class '{name}' has no table here, or tables of too many cells")
        classes.append(ClassSets(name, RULES, tuple(table.sets() for table in tables)))
    return tuple(classes)
