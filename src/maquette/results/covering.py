"""Which certified classes cover a question, and by how much: from its text, the domain and the certificates alone.

A question inside a class has the bound of the class. One that is put together from such questions has the sum of
their bounds: a range is the difference of two one-sided comparisons, a list of values the sum of equalities, a union
what its parts have less what they have in common. "Not" changes no bound. All certificates of a release hold
together, so that for every part the smallest may be taken.

The first part writes a query as a weighted sum of the workload's own queries: indices, weights and a constant.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from maquette.core.any_order import Axis, Family
from maquette.core.combinations import axes_of
from maquette.errors import ReleaseError
from maquette.queries import condition
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES, ClassTable, QuestionClass
from maquette.queries.combinations import COMBINATIONS, parts
from maquette.queries.condition import (
    MAX_COMPARED_CELLS,
    MAX_KEYS,
    Condition,
    Every,
    Leaf,
    Runs,
    Some,
    all_cells,
)
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import SetQueries
from maquette.queries.ranges import Prefixes, Ranges
from maquette.queries.rows import Margin
from maquette.results.distribution import Distribution
from maquette.results.statements import ClassCertificate

if TYPE_CHECKING:
    from maquette.results.release import Release


def parts_of(workload: Queries) -> Iterator[tuple[int, Queries]]:
    """The plain classes of a workload, each with the place of its first answer."""
    offset = 0
    for queries in workload.classes:
        yield offset, queries
        offset += queries.count


Combination = tuple[NDArray[Any], NDArray[Any], float]
"""Indices, their weights and a constant: the query is constant + sum of weight times query."""


def combinations(part: Queries, query: Queries) -> Iterator[Combination]:
    if isinstance(part, Marginals):
        yield from _in_marginals(part, query)
    elif isinstance(part, Prefixes):
        yield from _in_prefixes(part, query)
    elif isinstance(part, Ranges) and len(part.over) == 1 and part.count > MAX_KEYS:
        yield from _in_ranges(part, query)
    elif part.count <= MAX_KEYS and set(query.attributes) <= set(part.attributes):
        yield from _by_key(part, query)


def _in_marginals(part: Marginals, query: Queries) -> Iterator[Combination]:
    """A query over some attributes is a sum of cells of any margin that has them, or one minus the others if those are
    fewer."""
    needed = set(query.attributes)
    if query.domain.cells(query.attributes) > MAX_COMPARED_CELLS:
        return
    covering = [margin for margin in part.slices if needed <= set(margin)]
    if not covering:
        return
    margin = min(covering, key=part.domain.cells)
    table = cell_weights(query, margin)
    start = part.slices[margin].start
    sides = ((table, 0.0), (table - 1.0, 1.0))
    weights, constant = min(sides, key=lambda side: float(np.abs(side[0]).sum()))
    indices = np.flatnonzero(weights)
    yield start + indices, weights[indices], constant


def _in_prefixes(part: Prefixes, query: Queries) -> Iterator[Combination]:
    """A query on declared cells is a sum of differences of prefixes: at most two for every run of cells.

    Null and overflow cells are in no prefix, but all of them together are what the last prefix leaves.
    """
    if query.attributes != (part.attribute,):
        return
    if query.domain[part.attribute].size > MAX_COMPARED_CELLS:
        yield from _in_long_prefixes(part, query)
        return
    table = cell_weights(query, (part.attribute,))
    outside = table[part.count :]
    if (outside != outside[:1]).any():
        return
    constant = float(outside[0]) if outside.size else 0.0
    steps = -np.diff(table[: part.count] - constant, append=0.0)
    indices = np.flatnonzero(steps)
    yield indices, steps[indices], constant


def _in_long_prefixes(part: Prefixes, query: Queries) -> Iterator[Combination]:
    """The same for a set of few runs, without looking at every cell."""
    result = _declared_runs(query, part.attribute)
    if result is None:
        return
    runs, constant = result
    steps = [(high, sign) for _, high, sign in runs] + [(low - 1, -sign) for low, _, sign in runs if low]
    yield np.array([i for i, _ in steps], dtype=object), np.array([w for _, w in steps]), constant


def _in_ranges(part: Ranges, query: Queries) -> Iterator[Combination]:
    """A set of declared cells is a sum of intervals, one for every run; so is one minus such a sum."""
    (name,) = part.over
    result = _declared_runs(query, name)
    if query.attributes != (name,) or result is None:
        return
    (runs, constant), cells = result, part.domain[name].cells
    before = [low * cells - low * (low - 1) // 2 + high - low for low, high, _ in runs]
    yield np.array(before, dtype=object), np.array([sign for *_, sign in runs]), constant


def _declared_runs(query: Queries, attribute: str) -> tuple[list[tuple[int, int, float]], float] | None:
    """A set of cells as runs of declared ones with their signs, and a constant; None if it is no such sum.

    A run on to the last cell, with all null and overflow cells in it, is everything but the cells before it.
    """
    runs, column = _runs(query, attribute), query.domain[attribute]
    if runs is None:
        return None
    signed = [(low, high, 1.0) for low, high in runs if high < column.cells]
    beyond = [(low, high) for low, high in runs if high >= column.cells]
    if not beyond:
        return signed, 0.0
    ((low, high), *more) = beyond
    if more or low > column.cells or high + 1 < column.size:
        return None
    return signed + ([(0, low - 1, -1.0)] if low else []), 1.0


def _runs(query: Queries, attribute: str) -> Runs | None:
    """The cells of one attribute that a query counts, if it is a set of cells of that attribute alone."""
    if not isinstance(query, SetQueries):
        return None
    factors = condition.product(query.conditions[0])
    if factors is None or [leaf.attribute for leaf in factors] != [attribute]:
        return None
    return factors[0].runs


def as_set(query: Queries) -> Condition | None:
    """The records that a query counts, in one form however it is written; None if it weighs them.

    A product of sets of cells where it is one, else the complement of such a product, else the condition as it stands.
    """
    written = query.conditions[0] if isinstance(query, SetQueries) else None
    if written is not None and condition.product(written) is not None:
        return written
    names, domain = query.attributes, query.domain
    if domain.cells(names) > MAX_COMPARED_CELLS:
        return written
    weights = cell_weights(query, names).reshape([domain[name].size for name in names])
    if not np.isin(weights, (0.0, 1.0)).all():
        return written
    over, mask = condition.relevant(names, weights == 1)
    for inside, is_complement in ((mask, False), (~mask, True)):
        factors = condition.sets_of(inside)
        if inside.any() and factors is not None:
            leaves = tuple(
                Leaf(name, condition.runs_of(codes)) for name, codes in zip(over, factors, strict=True)
            )
            target = condition.opposite(domain, Every(leaves)) if is_complement else Every(leaves)
            return condition.simplify(domain, target)
    return written


def cell_weights(query: Queries, margin: Margin) -> NDArray[np.float64]:
    """The weight of one query on every cell of a margin that has its attributes, raveled."""
    if isinstance(query, SetQueries):
        return condition.table_mask(query.domain, query.conditions[0], margin).astype(np.float64).ravel()
    own = query.attributes
    sizes = tuple(query.domain[name].size for name in own)
    cells = query.columns_of(all_cells(sizes, own))[0] if own else query.columns_of(one_record(query))[0]
    table = (cells / query.denominator).reshape(sizes if own else ())
    shape = tuple(query.domain[name].size for name in margin)
    spread = table.reshape([query.domain[name].size if name in own else 1 for name in margin])
    return np.broadcast_to(spread, shape).ravel()


def _by_key(part: Queries, query: Queries) -> Iterator[Combination]:
    """Equal keys mean the same query or its complement; one record tells which."""
    key = next(query.query_keys())
    if key is None:
        return
    result = next((i for i, other in enumerate(part.query_keys()) if other == key), None)
    if result is None:
        return
    record = one_record(query)
    ours = int(query.on_rows(record)[0]) / query.denominator
    theirs = int(part.on_rows(record)[result]) / part.denominator
    same = math.isclose(ours, theirs)
    yield np.array([result]), np.array([1.0 if same else -1.0]), 0.0 if same else 1.0


def one_record(query: Queries) -> dict[str, NDArray[np.int64]]:
    return {name: np.zeros(1, dtype=np.int64) for name in query.domain.names}


MAX_TABLES = 16
"""Tables that are kept for the next question."""
MAX_MASKS = 128
"""Sets of values whose rows are kept for the next question."""
MAX_TERMS = 6
"""Products of sets that a question is taken apart into, before what they have in common."""

Product = tuple[Leaf, ...]
"""A conjunction: one set of cells for each of its attributes."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A share of the records, how far it may be off, and the statement that says so."""

    value: float
    error: float
    statement: str
    of: Literal["answers", "rows"]
    """What the value is taken from: rows where some of it is."""


@dataclass(frozen=True, slots=True)
class TableStatement:
    """A class of questions on one of its tables, with the bound of each of them."""

    question_class: QuestionClass
    table: ClassTable
    alpha: float

    @property
    def says(self) -> str:
        return self.question_class.says

    def covers(self, names: frozenset[str]) -> bool:
        return names <= set(self.table.margin)

    def parts(self, product: Product) -> int:
        """How many questions of the table add up to a conjunction."""
        if not self.table.families:
            return 1
        sets = {leaf.attribute: leaf.runs for leaf in product}
        return math.prod(
            max(1, family.parts(sets[name]))
            for name, family in zip(self.table.margin, self.table.families, strict=True)
            if name in sets
        )


@dataclass(frozen=True, slots=True)
class RowsStatement:
    """A family of combinations of values of the rows, with the bound of each of them."""

    certificate: ClassCertificate
    axes: Mapping[str, Axis]

    @property
    def alpha(self) -> float:
        return self.certificate.alpha

    @property
    def says(self) -> str:
        return self.certificate.says

    @property
    def family(self) -> Family:
        return COMBINATIONS[self.certificate.name].family

    def covers(self, names: frozenset[str]) -> bool:
        most = self.certificate.columns
        return names <= self.axes.keys() and (most is None or len(names) <= most)

    def parts(self, product: Product) -> int:
        """How many questions of the family add up to a conjunction, for the best choice of the column that is free.

        Every set of values is a sum of values, or all records less a sum; all records together are known exactly.
        """
        by_cell = [self._terms(leaf, Family.CELL) for leaf in product]
        options = [_products_of(by_cell)]
        for i, leaf in enumerate(product):
            free = self._terms(leaf, self.family)
            options.append(_products_of([*by_cell[:i], free, *by_cell[i + 1 :]]))
        return max(1, min(options))

    def _terms(self, leaf: Leaf, family: Family) -> tuple[int, int]:
        return parts(self.axes[leaf.attribute], leaf.runs, family)


def _products_of(terms: Sequence[tuple[int, int]]) -> int:
    """How many products there are of one term of each column, without that of all records."""
    return math.prod(sets + whole for sets, whole in terms) - math.prod(whole for _, whole in terms)


Statement = TableStatement | RowsStatement


@dataclass(frozen=True, slots=True)
class Bound:
    """The smallest bound of one conjunction: by which statement, as a sum of how many of its questions."""

    statement: Statement
    parts: int

    @property
    def error(self) -> float:
        return self.statement.alpha * self.parts


@dataclass(frozen=True)
class Coverage:
    """The certificates of one release with the tables of their classes."""

    distribution: Distribution
    certificates: tuple[ClassCertificate, ...]

    @classmethod
    def of(cls, release: Release) -> Coverage | None:
        """None for a release without such certificates."""
        if not release.certificates or release.distribution is None:
            return None
        return cls(release.distribution, release.certificates)

    @cached_property
    def statements(self) -> list[Statement]:
        """What is certified: of every class by its tables, of combinations as they are."""
        domain, sets = self.distribution.domain, self.distribution.sets
        columns = self.distribution.columns
        axes = dict(zip(columns, axes_of(domain, columns), strict=True))
        statements: list[Statement] = []
        for one in self.certificates:
            if one.name in COMBINATIONS:
                statements.append(RowsStatement(one, axes))
                continue
            tables = CLASSES[one.name].tables(domain, sets)
            bounds = one.bounds or (one.alpha,) * len(tables)
            if len(bounds) != len(tables):
                raise ReleaseError(
                    f"the certificate '{one.name}' has {len(bounds):,} bounds for {len(tables):,} tables"
                )
            statements += [
                TableStatement(CLASSES[one.name], *table) for table in zip(tables, bounds, strict=True)
            ]
        return statements

    def cover(self, query: Queries) -> Covered | None:
        """The smallest error that the classes state for one query; None if they say nothing about it."""
        if not query.attributes:
            return None
        options: list[Covered | None] = []
        if isinstance(query, SetQueries) and query.count == 1:
            target = query.conditions[0]
            options.append(self._sum(target, negated=False))
            if (
                isinstance(target, Leaf) or condition.product(target) is None
            ):  # else a sum has it as one of its parts
                opposite = condition.simplify(query.domain, condition.opposite(query.domain, target))
                options.append(self._sum(opposite, negated=True))
        best = min((one for one in options if one is not None), key=lambda one: one.error, default=None)
        return self._as_any(query, best)

    def _as_any(self, query: Queries, best: Covered | None) -> Covered | None:
        """A query with any weights between 0 and 1, where a class has every condition on its attributes, if less is
        stated for it than `best`.

        A sum with such weights is largest where each of them is 0 or 1: for a set.
        """
        options = [one for one in self._holding(frozenset(query.attributes)) if _has_every_set(one, query)]
        if not options or query.domain.cells(query.attributes) > MAX_COMPARED_CELLS:
            return best
        statement = min(options, key=lambda one: one.alpha)
        if best is not None and best.error <= statement.alpha:
            return best
        margin = statement.table.margin if isinstance(statement, TableStatement) else query.attributes
        shares = self.shares(statement, margin, {})
        value = float((cell_weights(query, margin) * shares.ravel()).sum())
        return Covered(value, statement.alpha, f"certified for {statement.says}", _of(statement))

    def _holding(self, names: frozenset[str]) -> list[Statement]:
        """The statements about questions on these attributes."""
        if names not in self._by_names:
            self._by_names[names] = [one for one in self.statements if one.covers(names)]
        return self._by_names[names]

    @cached_property
    def _by_names(self) -> dict[frozenset[str], list[Statement]]:
        return {}

    def _sum(self, target: Condition, *, negated: bool) -> Covered | None:
        """A sum of conjunctions that are covered, or what such a sum leaves of all records."""
        product = condition.product(target)
        terms = list(_terms(self.distribution, target)) if product is None else [(1, product)]
        if not terms:
            return None
        bounds: list[Bound] = []
        value = error = 0.0
        for sign, product in terms:
            bound = self.bound(product)
            if bound is None:
                return None
            bounds.append(bound)
            value += sign * self.share(product, bound.statement)
            error += bound.error
        of = "answers" if all(_of(bound.statement) == "answers" for bound in bounds) else "rows"
        return Covered(1 - value if negated else value, error, _statement(bounds), of)

    def bound(self, product: Product) -> Bound | None:
        """The smallest bound of a conjunction over all classes and tables."""
        names = frozenset(leaf.attribute for leaf in product)
        is_cell = all(condition.count(leaf.runs) == 1 for leaf in product)  # in every family, as one question
        if is_cell and names in self._of_cells:
            return self._of_cells[names]
        options = [Bound(one, 1 if is_cell else one.parts(product)) for one in self._holding(names)]
        best = min(options, key=self._first, default=None)
        if is_cell:
            self._of_cells[names] = best
        return best

    @cached_property
    def _of_cells(self) -> dict[frozenset[str], Bound | None]:
        return {}

    def _first(self, bound: Bound) -> tuple[float, int, int]:
        """The smallest error first, then the smallest table, then the fewest columns."""
        statement = bound.statement
        if isinstance(statement, TableStatement):
            return bound.error, self.distribution.domain.cells(statement.table.margin), 0
        return bound.error, 0, statement.certificate.columns or len(statement.axes)

    def bound_of_rows(self, product: Product) -> float | None:
        """The smallest bound of a conjunction that is about counts of the rows; None where there is none."""
        names = frozenset(leaf.attribute for leaf in product)
        options = [
            Bound(one, one.parts(product)) for one in self._holding(names) if isinstance(one, RowsStatement)
        ]
        return min((one.error for one in options), default=None)

    def share(self, product: Product, statement: Statement) -> float:
        """The released share of the records in a conjunction, as a statement knows it."""
        return float(self.shares(statement, (), {leaf.attribute: leaf.runs for leaf in product}))

    def shares(self, statement: Statement, by: Margin, sets: Mapping[str, Runs]) -> NDArray[np.float64]:
        """The released shares in every cell of some attributes, of the records in some sets, with an axis for each."""
        domain = self.distribution.domain
        if not _is_of_table(statement):
            return self.of_rows(by, sets)
        counts, names = self._table(statement.table.margin), statement.table.margin
        for axis, name in reversed(list(enumerate(names))):
            if name in sets:
                mask = condition.mask(sets[name], domain[name].size)
                shape = [-1 if i == axis else 1 for i in range(len(names))]
                counts = counts * mask.reshape(shape) if name in by else counts.compress(mask, axis=axis)
        rest = tuple(axis for axis, name in enumerate(names) if name not in by)
        return counts.sum(axis=rest, dtype=np.int64) / self.distribution.denominator

    def of_rows(self, by: Margin, sets: Mapping[str, Runs]) -> NDArray[np.float64]:
        """The same, counted over the rows."""
        database, domain = self.distribution.database, self.distribution.domain
        assert database is not None
        inside = np.ones(database.m, dtype=bool)
        for name, runs in sets.items():
            inside &= self._mask(name, runs)
        if not by:
            return np.array(np.count_nonzero(inside) / database.m)
        cells = np.zeros(np.count_nonzero(inside), dtype=np.int64)
        for name in by:
            cells = cells * domain[name].size + database.columns[name][inside]
        counts = np.bincount(cells, minlength=domain.cells(by))
        return counts.reshape([domain[name].size for name in by]) / database.m

    def _mask(self, name: str, runs: Runs) -> NDArray[np.bool_]:
        """Which rows have one of some values; the last few are kept."""
        if (name, runs) not in self._masks:
            if len(self._masks) >= MAX_MASKS:
                self._masks.clear()
            database = self.distribution.database
            assert database is not None
            values = condition.mask(runs, self.distribution.domain[name].size)
            self._masks[name, runs] = values[database.columns[name]]
        return self._masks[name, runs]

    @cached_property
    def _masks(self) -> dict[tuple[str, Runs], NDArray[np.bool_]]:
        return {}

    def _table(self, margin: Margin) -> NDArray[Any]:
        """One table of the release with an axis for each attribute; the last few are kept."""
        if margin not in self._last_tables:
            if len(self._last_tables) >= MAX_TABLES:
                self._last_tables.clear()
            shape = [self.distribution.domain[name].size for name in margin]
            self._last_tables[margin] = self.distribution.table(margin).reshape(shape)
        return self._last_tables[margin]

    @cached_property
    def _last_tables(self) -> dict[Margin, NDArray[Any]]:
        return {}


def error_of(product: Product, bound: Bound) -> float:
    """The error of another conjunction by the same statement."""
    return bound.statement.alpha * bound.statement.parts(product)


def _is_of_table(statement: Statement) -> TypeGuard[TableStatement]:
    return isinstance(statement, TableStatement)


def _of(statement: Statement) -> Literal["answers", "rows"]:
    """What a statement is about."""
    return "answers" if _is_of_table(statement) else "rows"


def _has_every_set(statement: Statement, query: Queries) -> bool:
    """Is every condition on the attributes of a query among its questions?"""
    if isinstance(statement, TableStatement):
        return not statement.table.families
    return statement.family is Family.LIST and len(query.attributes) == 1


def _statement(bounds: Sequence[Bound]) -> str:
    """By what a sum of conjunctions is covered, in words."""
    says = list(dict.fromkeys(f"certified for {bound.statement.says}" for bound in bounds))
    total = sum(bound.parts for bound in bounds)
    if total == 1:
        return says[0]
    return f"put together from {total:,} questions whose errors add up, {' or '.join(says)}"


def _terms(distribution: Distribution, target: Condition) -> Iterator[tuple[int, Product]]:
    """A condition as a sum of conjunctions with signs: its products, less what they have in common, and so on.

    None where they are too many.
    """
    domain = distribution.domain
    products = _products(target)
    if products is None or not products:
        return
    for length in range(1, len(products) + 1):
        for chosen in itertools.combinations(products, length):
            joint = condition.simplify(domain, Every(tuple(itertools.chain(*chosen))))
            factors = condition.product(joint)
            if factors is not None and joint != condition.NEVER:
                yield (-1) ** (length + 1), factors


def _products(target: Condition) -> list[Product] | None:
    """The conjunctions of which a condition is the union; None where they are too many."""
    if isinstance(target, Leaf):
        return [(target,)]
    inner = [_products(part) for part in target.parts]
    if any(one is None for one in inner):
        return None
    lists = [one for one in inner if one is not None]
    if isinstance(target, Some):
        joined = [product for one in lists for product in one]
        return joined if len(joined) <= MAX_TERMS else None
    if math.prod(map(len, lists)) > MAX_TERMS:
        return None
    return [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*lists)]
