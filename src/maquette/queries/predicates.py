"""Predicates as queries: one, or a list."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check, forms
from maquette.core._arguments import checks, checks_arguments
from maquette.core.forms import Sensitivity
from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries import condition, names, sensitivity
from maquette.queries import condition as cells
from maquette.queries.base import Queries
from maquette.queries.condition import ALWAYS, NEVER, Condition, Every, Leaf, RowMasks, simplify
from maquette.queries.names import condition_text
from maquette.queries.rows import (
    Columns,
    Margin,
    answer_type,
    check_index,
    label_columns,
    length,
    sum_margin,
    whole_or_float,
)
from maquette.queries.sensitivity import SensitivityBound
from maquette.queries.sql_cells import Parsed

# Queries that are given one by one as conditions: boxes and predicates.
# Conditions on few attributes are answered from the table over them, intervals by sums at the corners of
# the box (summed-area table); others by a mask over the rows.

MAX_CONDITION_TABLE_CELLS = 2**22
"""Cells of a table that conditions may be answered from."""
MAX_BOX_ATTRIBUTES = 6
"""Attributes of a box that is summed by its 2^d corners."""


class SetQueries(Queries):
    """One simplified condition per query."""

    @property
    @abstractmethod
    def conditions(self) -> tuple[Condition, ...]:
        """What a record must satisfy to be counted."""

    @property
    def count(self) -> int:
        return len(self.conditions)

    @property
    def attributes(self) -> Margin:
        used = {leaf.attribute for one in self.conditions for leaf in condition.leaves(one)}
        return tuple(name for name in self.domain.names if name in used)

    def distinct(self) -> int:
        """Exact for products of sets and for conditions on at most 2^16 cells, else never too small."""
        return condition.count_distinct(self.query_keys())

    def query_keys(self) -> Iterator[condition.Key | None]:
        return (condition.merged_key(self.domain, one) for one in self.conditions)

    def canonical(self) -> dict[str, Any]:
        return {"kind": "sets", "sets": [condition.condition_key(self.domain, c) for c in self.conditions]}

    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Exact where the conditions that share attributes tell few enough records apart to search them."""
        return _bound(self.domain, self.conditions, relation).bound

    @property
    def exact_sensitivity(self) -> bool:
        return all(_bound(self.domain, self.conditions, relation).exact for relation in Relation)

    @property
    def spread(self) -> bool:
        return _bound(self.domain, self.conditions, Relation.REPLACE_ONE).spread

    @checks_arguments
    def twins(self, name: str) -> NDArray[np.int64]:
        sets = {leaf.runs for c in self.conditions for leaf in condition.leaves(c) if leaf.attribute == name}
        size = self.domain[name].size
        if not sets:
            return np.zeros(size, dtype=np.int64)
        if len(sets) * size > MAX_CONDITION_TABLE_CELLS:
            # cells without a border between them are not told apart either
            borders = {end for runs in sets for low, high in runs for end in (low, high + 1)}
            return np.searchsorted(np.array(sorted(borders)), np.arange(size), side="right").astype(np.int64)
        return label_columns(np.stack([cells.mask(runs, size) for runs in sorted(sets)]))

    def sides(self, codes: Mapping[str, NDArray[np.int64]]) -> Mapping[str, NDArray[np.bool_]]:
        return condition.sides(self.domain, self.conditions, codes)

    @property
    def are_products(self) -> bool:
        return all(one in (ALWAYS, NEVER) or condition.product(one) is not None for one in self.conditions)

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        masks = RowMasks(self.domain, rows, len(next(iter(rows.values()))))
        return np.stack([masks.of(one) for one in self.conditions]).astype(np.int8)

    def form(self) -> forms.Conditions:
        most = self.sensitivity(Relation.ADD_REMOVE).l1 if self.count > 1 else Fraction(1)
        return forms.Conditions(self.conditions, int(most))

    def on_rows(self, columns: Columns, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        weights = whole_or_float(weights)
        records = length(columns, weights)
        tabled = {
            names: places
            for names, places in self._by_attributes().items()
            if self.domain.cells(names) <= min(MAX_CONDITION_TABLE_CELLS, records * len(places))
        }
        answers: dict[int, Any] = {}
        if tabled:
            from maquette.core.tables import count_margins

            answers = self._from_tables(tabled, count_margins(self.domain.sizes, columns, tabled, weights))
        done = {place for places in tabled.values() for place in places}
        masks = RowMasks(self.domain, columns, records)
        for place in range(self.count):
            if place not in done:
                answers[place] = _count(masks.of(self.conditions[place]), weights)
        return np.array([answers[place] for place in range(self.count)], dtype=answer_type(weights))

    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        tabled = self._by_attributes()
        tables = {names: sum_margin(self.domain, histogram, names) for names in tabled}
        answers = self._from_tables(tabled, tables)
        return np.array([answers[place] for place in range(self.count)], dtype=answer_type(histogram))

    def _by_attributes(self) -> dict[Margin, list[int]]:
        places_of: dict[Margin, list[int]] = {}
        for place, one in enumerate(self.conditions):
            places_of.setdefault(condition.attributes(self.domain, one), []).append(place)
        return places_of

    def _from_tables(
        self, tabled: Mapping[Margin, Sequence[int]], tables: Mapping[Margin, NDArray[Any]]
    ) -> dict[int, Any]:
        answers: dict[int, Any] = {}
        for margin, places in tabled.items():
            table = np.asarray(tables[margin])
            boxes = {place: box for place in places if (box := self._box(place, margin)) is not None}
            if boxes:
                from maquette.core.tables import corner_sums

                answers |= zip(boxes, corner_sums(table, list(boxes.values())), strict=True)
            for place in places:
                if place not in boxes:
                    mask = condition.table_mask(self.domain, self.conditions[place], margin)
                    answers[place] = table[mask].sum()
        return answers

    def _box(self, place: int, names: Margin) -> list[tuple[int, int]] | None:
        """One interval per attribute, if the condition is a product of intervals."""
        factors = condition.product(self.conditions[place])
        if (
            not 0 < len(names) <= MAX_BOX_ATTRIBUTES
            or factors is None
            or any(len(leaf.runs) > 1 for leaf in factors)
        ):
            return None
        runs = {leaf.attribute: leaf.runs[0] for leaf in factors}
        return [runs[name] for name in names]


@lru_cache(maxsize=256)
def _bound(domain: Domain, conditions: tuple[Condition, ...], relation: Relation) -> SensitivityBound:
    if len(conditions) == 1:
        return _group_bound(domain, conditions, relation)
    groups = sensitivity.connected([of_condition(domain, one) for one in conditions])
    return sensitivity.total(
        [_group_bound(domain, tuple(one.conditions[0] for one in group), relation) for group in groups]
    )


def _group_bound(domain: Domain, conditions: tuple[Condition, ...], relation: Relation) -> SensitivityBound:
    """The bound of conditions that share attributes."""
    if len(conditions) == 1:
        one, names = conditions[0], [leaf.attribute for leaf in condition.leaves(conditions[0])]
        if len(set(names)) == len(names):
            # each attribute once: all sets satisfied or none of them, by two records that differ everywhere
            constant = one == NEVER or (one == ALWAYS and relation is Relation.REPLACE_ONE)
            distance = Fraction(0 if constant else 1)
            return SensitivityBound(Sensitivity(distance, distance, distance), exact=True, spread=True)
    searched = sensitivity.search(domain, [_Conditions(domain, conditions)], relation)
    if searched is not None:
        return searched
    if relation is Relation.ADD_REMOVE:
        return sensitivity.most_at_once(domain, [_Conditions(domain, conditions)])
    added, every = _bound(domain, conditions, Relation.ADD_REMOVE).bound, Fraction(len(conditions))
    bound = sensitivity.least(Sensitivity(every, every, Fraction(1)), sensitivity.twice(added))
    return SensitivityBound(bound, exact=False)


def _count(mask: NDArray[np.bool_], weights: NDArray[Any] | None) -> Any:
    return np.count_nonzero(mask) if weights is None else weights[mask].sum()


@dataclass(frozen=True, slots=True, repr=False)
class _Conditions(SetQueries):
    """Some of the conditions of a class."""

    kind: ClassVar[str] = "conditions"
    domain: Domain
    conditions: tuple[Condition, ...]  # pyright: ignore[reportIncompatibleMethodOverride]

    def text(self, index: int) -> str:
        return repr(self.conditions[index])

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind}


@dataclass(frozen=True, slots=True, repr=False)
class Predicate(SetQueries):
    """The number of records that satisfy an SQL predicate.

    Where a literal cuts a cell, no count of cells can be that number: `notes` say how the predicate was read instead,
    and `ends` are the two predicates, exact on cells, between which the number lies.
    """

    kind: ClassVar[str] = "predicate"
    domain: Domain
    sql: str
    undeclared: bool = field(default=False, compare=False, repr=False)
    """Whether a value that is not declared equals no record; else it is refused."""
    condition: Condition = field(init=False, compare=False, repr=False)
    notes: tuple[str, ...] = field(init=False, compare=False, repr=False)  # pyright: ignore[reportIncompatibleMethodOverride]
    _parsed: Parsed = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        from maquette.queries.sql_parse import parse

        parsed = parse(self.domain, self.sql, undeclared=self.undeclared)
        object.__setattr__(self, "condition", parsed.condition)
        object.__setattr__(self, "notes", parsed.notes)
        object.__setattr__(self, "_parsed", parsed)

    @property
    def exact(self) -> bool:
        """Does it count, from cells, just the records that satisfy the words?"""
        return self._parsed.surely == self._parsed.maybe

    @property
    def cuts(self) -> tuple[str, ...]:
        """Which comparison cuts which cells; none if it is exact."""
        return self._parsed.cuts

    @property
    def remarks(self) -> tuple[str, ...]:
        """Which of its values are not declared, where that is allowed."""
        return self._parsed.remarks

    def ends(self) -> tuple[Predicate, Predicate]:
        """Two exact predicates: one counts the records that surely satisfy this one, the other those that may.

        Both are the predicate itself if it is exact. `WorkloadError` if it is too long to be said so.
        """
        if self.exact:
            return self, self
        return self._end(self._parsed.surely), self._end(self._parsed.maybe)

    def _end(self, end: Condition) -> Predicate:
        text = condition_text(self.domain, end)
        try:
            predicate = None if text is None else Predicate(self.domain, text)
        except WorkloadError:  # longer than a predicate may be
            predicate = None
        if predicate is None or not predicate.exact or predicate.condition != end:
            raise WorkloadError(
                f"{self.cuts[0]}, and both of its sides are too long to write; compare with borders of cells"
            )
        return predicate

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return (self.condition,)

    def box(self) -> dict[str, tuple[int, ...]] | None:
        """The predicate as a product: for each attribute that matters the codes it allows. None if it is none."""
        if self.condition == NEVER:
            return {self.domain.names[0]: ()}
        factors = condition.product(self.condition)
        if factors is not None:
            return {leaf.attribute: cells.codes(leaf.runs) for leaf in factors}
        key = condition.condition_key(self.domain, self.condition)
        if key == ("constant", True):
            return {}
        if key == ("constant", False):
            return {self.domain.names[0]: ()}
        return {name: cells.codes(runs) for name, runs in key[1]} if key[0] == "box" else None

    def text(self, index: int) -> str:
        check_index(index, 1)
        return self.sql

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "where": self.sql}

    def describe(self) -> str:
        return self.sql


@dataclass(frozen=True, slots=True, repr=False)
class Predicates(SetQueries):
    """Several predicates as one class."""

    kind: ClassVar[str] = "predicates"
    domain: Domain
    predicates: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        if not self.predicates:
            raise WorkloadError("expected at least one predicate")
        if any(one.domain != self.domain for one in self.predicates):
            raise WorkloadError("all predicates must be over the same domain")

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(one.condition for one in self.predicates)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read otherwise than it was written, each note once."""
        return tuple(dict.fromkeys(note for one in self.predicates for note in one.notes))

    def text(self, index: int) -> str:
        check_index(index, self.count)
        return self.predicates[index].sql

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "where": [one.sql for one in self.predicates]}


def of_condition(domain: Domain, given: Condition) -> SetQueries:
    """The query that counts the records meeting a condition on cells."""
    return _Conditions(domain, (given,))


@checks("domain")
def where(domain: Domain, predicate: str, *, undeclared: bool = False) -> Predicate:
    """The query that counts the records satisfying an SQL predicate over declared attributes.

    A value that is not declared is refused, or with `undeclared` no record has it, and `remarks` say so.
    """
    return Predicate(domain, predicate, undeclared)


def predicates(domain: Domain, texts: Iterable[str]) -> Predicates:
    """A list of predicates as one class of queries."""
    if isinstance(texts, str):
        raise WorkloadError("expected a list of predicates, got one text; use where() for a single predicate")
    return Predicates(domain, tuple(Predicate(domain, text) for text in texts))


def exact_predicates(domain: Domain, texts: Iterable[str]) -> Predicate | Predicates:
    """Predicates that cells can count exactly: each as it is, or both sides of one that cuts cells."""
    ends = [end for text in texts for end in dict.fromkeys(Predicate(domain, text).ends())]
    return ends[0] if len(ends) == 1 else Predicates(domain, tuple(ends))


# An explicit list of products of intervals.


Interval = tuple[str, int, int]
"""An attribute and the first and last code that are meant."""


@dataclass(frozen=True, slots=True, repr=False)
class Boxes(SetQueries):
    """Each query counts the records whose codes lie in all the intervals of its box."""

    kind: ClassVar[str] = "boxes"
    domain: Domain
    boxes: tuple[tuple[Interval, ...], ...]
    conditions: tuple[Condition, ...] = field(init=False, compare=False, repr=False)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        if not self.boxes:
            raise WorkloadError("boxes need at least one box")
        tidy = tuple(_tidy(self.domain, box) for box in self.boxes)
        leaves = [tuple(Leaf(name, ((low, high),)) for name, low, high in box) for box in tidy]
        object.__setattr__(self, "boxes", tidy)
        object.__setattr__(
            self, "conditions", tuple(simplify(self.domain, Every(factors)) for factors in leaves)
        )

    def text(self, index: int) -> str:
        check_index(index, self.count)
        parts = [_interval_text(self.domain, interval) for interval in self.boxes[index]]
        return " AND ".join(parts) or "TRUE"

    def spec(self) -> dict[str, Any]:
        listed = [{name: [low, high] for name, low, high in box} for box in self.boxes]
        return {"kind": self.kind, "boxes": listed}


@checks("domain", lists=["given"])
def boxes(domain: Domain, given: Iterable[Mapping[str, tuple[int, int]]]) -> Boxes:
    """The listed boxes: for each a mapping from attributes to (first code, last code), both included."""
    return Boxes(domain, tuple(_box_intervals(box) for box in given))


def _box_intervals(box: object) -> tuple[Interval, ...]:
    if not isinstance(box, Mapping):
        raise WorkloadError(f"expected a box such as {{'age': (3, 5)}}, got {_check.shown(box)}")
    intervals: list[Interval] = []
    for name, ends in cast("Mapping[str, Any]", box).items():
        if not isinstance(ends, (tuple, list)) or len(cast("list[Any]", ends)) != 2:
            raise WorkloadError(
                f"expected (first code, last code) for '{name}' of a box, got {_check.shown(cast('object', ends))}"
            )
        low, high = cast("tuple[int, int]", ends)
        intervals.append((name, low, high))
    return tuple(intervals)


def _tidy(domain: Domain, box: tuple[Interval, ...]) -> tuple[Interval, ...]:
    order = names.margin(domain, [name for name, _, _ in box])
    for interval in box:
        _check_codes(domain, *interval)
    return tuple(sorted(box, key=lambda interval: order.index(interval[0])))


def _check_codes(domain: Domain, name: str, low: object, high: object) -> None:
    column = domain[name]
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (low, high))
    if not (whole and 0 <= cast("int", low) <= cast("int", high) < column.cells):
        raise WorkloadError(
            f"expected codes 0 <= first <= last <= {column.cells - 1} for '{name}', got "
            f"({_check.shown(low)}, {_check.shown(high)})"
        )
    if low != high:
        names.ordered(domain, name, purpose="intervals of more than one cell")


def _interval_text(domain: Domain, interval: Interval) -> str:
    name, low, high = interval
    column = domain[name]
    return names.run_text(column, low, high) if column.ordered else names.code_text(column, low)
