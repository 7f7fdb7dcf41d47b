"""Queries that are given one by one as conditions: boxes and predicates.

Conditions on few attributes are answered from the table over them, intervals by sums at the corners of the box
(summed-area table); others by a mask over the rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product as corners
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain, Relation
from maquette.queries import canonical, cells, condition, rows, worst
from maquette.queries.base import Columns, Margin, Queries, Sensitivity, sum_margin
from maquette.queries.columns import label_columns
from maquette.queries.condition import ALWAYS, NEVER, Condition, RowMasks
from maquette.queries.worst import Worst

MOST_CELLS = 2**22
"""Cells of a table that conditions may be answered from."""
MOST_CORNERED = 6
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
        used = {leaf.attribute for given in self.conditions for leaf in condition.leaves(given)}
        return tuple(name for name in self.domain.names if name in used)

    def distinct(self) -> int:
        """Exact for products of sets and for conditions on at most 2^16 cells, else never too small."""
        return canonical.count_distinct(self.query_keys())

    def query_keys(self) -> Iterator[canonical.Key | None]:
        return (canonical.merged_key(self.domain, given) for given in self.conditions)

    def canonical(self) -> dict[str, Any]:
        return {"kind": "sets", "sets": [canonical.condition_key(self.domain, c) for c in self.conditions]}

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """Exact where the conditions that share attributes tell few enough records apart to search them."""
        return self._worst(relation).bound

    @property
    def exact_sensitivity(self) -> bool:
        return all(self._worst(relation).exact for relation in Relation)

    @property
    def spread(self) -> bool:
        return self._worst(Relation.REPLACE_ONE).spread

    def twins(self, name: str) -> NDArray[np.int64]:
        sets = {leaf.runs for c in self.conditions for leaf in condition.leaves(c) if leaf.attribute == name}
        size = self.domain[name].size
        if not sets:
            return np.zeros(size, dtype=np.int64)
        if len(sets) * size > MOST_CELLS:  # cells without a border between them are not told apart either
            borders = {end for runs in sets for low, high in runs for end in (low, high + 1)}
            return np.searchsorted(np.array(sorted(borders)), np.arange(size), side="right").astype(np.int64)
        return label_columns(np.stack([cells.mask(runs, size) for runs in sorted(sets)]))

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        masks = RowMasks(self.domain, rows, len(next(iter(rows.values()))))
        return np.stack([masks.of(given) for given in self.conditions]).astype(np.int8)

    def on_rows(self, columns: Columns, weights: NDArray[Any] | None = None) -> NDArray[Any]:
        weights = rows.whole_or_float(weights)
        length = rows.length(columns, weights)
        tabled = {
            names: places
            for names, places in self._by_attributes().items()
            if self.domain.cells(names) <= min(MOST_CELLS, length * len(places))
        }
        answers: dict[int, Any] = {}
        if tabled:
            from maquette.queries.counting import count_margins

            answers = self._from_tables(tabled, count_margins(self.domain, columns, tabled, weights))
        done = {place for places in tabled.values() for place in places}
        masks = RowMasks(self.domain, columns, length)
        for place in range(self.count):
            if place not in done:
                answers[place] = _count(masks.of(self.conditions[place]), weights)
        return _collected(answers, rows.answer_type(weights))

    def on_histogram(self, histogram: NDArray[Any]) -> NDArray[Any]:
        tabled = self._by_attributes()
        tables = {names: sum_margin(self.domain, histogram, names) for names in tabled}
        return _collected(self._from_tables(tabled, tables), rows.answer_type(histogram))

    def _worst(self, relation: Relation) -> Worst:
        return _worst(self.domain, self.conditions, relation)

    def _by_attributes(self) -> dict[Margin, list[int]]:
        found: dict[Margin, list[int]] = {}
        for place, given in enumerate(self.conditions):
            found.setdefault(condition.attributes(self.domain, given), []).append(place)
        return found

    def _from_tables(
        self, tabled: Mapping[Margin, Sequence[int]], tables: Mapping[Margin, NDArray[Any]]
    ) -> dict[int, Any]:
        answers: dict[int, Any] = {}
        for names, places in tabled.items():
            table = np.asarray(tables[names])
            boxes = {place: box for place in places if (box := self._box(place, names)) is not None}
            if boxes:
                answers |= zip(boxes, _corner_sums(table, list(boxes.values())), strict=True)
            for place in places:
                if place not in boxes:
                    mask = condition.table_mask(self.domain, self.conditions[place], names)
                    answers[place] = table[mask].sum()
        return answers

    def _box(self, place: int, names: Margin) -> list[tuple[int, int]] | None:
        """One interval per attribute, if the condition is a product of intervals."""
        factors = condition.product(self.conditions[place])
        if (
            not 0 < len(names) <= MOST_CORNERED
            or factors is None
            or any(len(leaf.runs) > 1 for leaf in factors)
        ):
            return None
        runs = {leaf.attribute: leaf.runs[0] for leaf in factors}
        return [runs[name] for name in names]


@lru_cache(maxsize=256)
def _worst(domain: Domain, conditions: tuple[Condition, ...], relation: Relation) -> Worst:
    groups = worst.connected([_Conditions(domain, (one,)) for one in conditions])
    return worst.total([_worst_of_group(domain, group, relation) for group in groups])


def _worst_of_group(domain: Domain, group: Sequence[Queries], relation: Relation) -> Worst:
    given = tuple(c for part in group if isinstance(part, _Conditions) for c in part.conditions)
    if len(given) == 1 and condition.read_once(given[0]):
        return _worst_of_one(given[0], relation)
    found = worst.search(domain, [_Conditions(domain, given)], relation)
    if found is not None:
        return found
    bound = Sensitivity(Fraction(len(given)), Fraction(len(given)), Fraction(1))
    if relation is Relation.REPLACE_ONE:
        bound = worst.least(bound, worst.twice(_worst(domain, given, Relation.ADD_REMOVE).bound))
    return Worst(bound, exact=False)


def _worst_of_one(given: Condition, relation: Relation) -> Worst:
    """All its sets satisfied or none of them: two records that differ everywhere, one counted, one not."""
    constant = given == NEVER or (given == ALWAYS and relation is Relation.REPLACE_ONE)
    moved = Fraction(0 if constant else 1)
    return Worst(Sensitivity(moved, moved, moved), exact=True, spread=True)


def _corner_sums(table: NDArray[Any], boxes: Sequence[Sequence[tuple[int, int]]]) -> NDArray[Any]:
    """Sums over boxes, each from 2^d entries of the cumulative table."""
    sums = table
    for axis in range(table.ndim):
        zero = np.zeros_like(sums.take([0], axis=axis))
        sums = np.concatenate([zero, np.cumsum(sums, axis=axis)], axis=axis)
    ends = np.array(boxes, dtype=np.int64)
    ends[:, :, 1] += 1
    answers = np.zeros(len(boxes), dtype=sums.dtype)
    for corner in corners((0, 1), repeat=table.ndim):
        sign = math.prod(1 if side else -1 for side in corner)
        answers += sign * sums[tuple(ends[:, axis, side] for axis, side in enumerate(corner))]
    return answers


def _count(mask: NDArray[np.bool_], weights: NDArray[Any] | None) -> Any:
    return np.count_nonzero(mask) if weights is None else weights[mask].sum()


def _collected(answers: Mapping[int, Any], dtype: Any) -> NDArray[Any]:
    return np.array([answers[place] for place in range(len(answers))], dtype=dtype)


@dataclass(frozen=True, slots=True)
class _Conditions(SetQueries):
    """Some of the conditions of a class."""

    kind: ClassVar[str] = "conditions"
    domain: Domain
    conditions: tuple[Condition, ...]  # pyright: ignore[reportIncompatibleMethodOverride]

    def text(self, index: int) -> str:
        return repr(self.conditions[index])

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind}
