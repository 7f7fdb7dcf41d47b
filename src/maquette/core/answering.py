"""Exact sums of linear queries over coded records, from their forms (`core/forms.py`).

Most forms are read off tables. Conditions over many cells and scores are summed record by record; where a claim is to
be enforced, what every record meets is counted first, and what the records within the claim meet is summed second.
Both are always done, so that the way does not depend on whether any record is left out.

Nothing here refuses: a form that was checked has an answer on every table. And nothing depends on the number of
records: whether a table is counted or records are looked at one by one follows from the form and public sizes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.forms import (
    Columns,
    Condition,
    Conditions,
    Conjunctions,
    Every,
    Form,
    Intervals,
    Leaf,
    Margin,
    Prefixes,
    QueryForms,
    Scores,
    Sizes,
    Tables,
    Weights,
    leaves,
    mask,
    shape,
    table_mask,
)
from maquette.core.tables import corner_sums, count_margins

Integers = NDArray[np.int64]
Times = NDArray[Any] | None
"""How often each record counts; None for once."""

MAX_CONDITION_CELLS = 2**22
"""Cells of a table that conditions are answered from."""
CELLS_PER_CONDITION = 2**16
"""The same for each of them: counting a larger table takes longer than looking at the records of most tables."""
MAX_LOOKUP_CELLS = 2**20
"""Attributes up to this size are looked up in a table, larger ones by comparison."""
MAX_BOX_ATTRIBUTES = 6
"""Attributes of a box that is summed by its 2^d corners."""


class PartCounts(ABC):
    """How one form is answered: from which tables, and from which sums over records."""

    @property
    def margins(self) -> tuple[Margin, ...]:
        """The tables that it is read off."""
        return ()

    @property
    def names(self) -> Margin:
        """The columns that are looked at record by record; none where tables are enough."""
        return ()

    @abstractmethod
    def zeros(self) -> list[Integers]:
        """The sums over no records."""

    @abstractmethod
    def add(self, sums: Sequence[Integers], columns: Columns, times: Times = None) -> None:
        """Add records in place. Neither their order nor any cut can matter."""

    @abstractmethod
    def answers(self, tables: Mapping[Margin, Integers], sums: Sequence[Integers]) -> Integers:
        """Numerators over the form's own denominator."""


def parts_of(query_forms: QueryForms, sizes: Sizes) -> tuple[PartCounts, ...]:
    """How each form of a question that was checked is answered."""
    return tuple(_part(form, sizes) for form in query_forms.parts)


def _part(form: Form, sizes: Sizes) -> PartCounts:
    if isinstance(form, Conditions):
        return ConditionCounts(form, sizes)
    if isinstance(form, Scores):
        return ScoreCounts(form, sizes)
    return TableCounts(form)


def joined(query_forms: QueryForms, answers: Sequence[Integers]) -> Integers:
    """The answers of all forms over their common denominator."""
    scales = [query_forms.top // form.top for form in query_forms.parts]
    scaled = [part if scale == 1 else part * scale for part, scale in zip(answers, scales, strict=True)]
    return scaled[0] if len(scaled) == 1 else np.concatenate(scaled)


def answers_on(query_forms: QueryForms, sizes: Sizes, columns: Columns) -> Integers:
    """Numerators of all answers on a few coded records, by the same rules as on a table."""
    parts = parts_of(query_forms, sizes)
    tables = count_margins(sizes, columns, [margin for part in parts for margin in part.margins])
    answers: list[Integers] = []
    for part in parts:
        sums = part.zeros()
        if part.names:
            part.add(sums, columns)
        answers.append(part.answers(tables, sums))
    return joined(query_forms, answers)


@dataclass(frozen=True)
class TableCounts(PartCounts):
    """A form that is read off tables."""

    form: Tables | Prefixes | Intervals | Conjunctions | Weights

    @property
    def margins(self) -> tuple[Margin, ...]:
        return self.form.tables()

    def zeros(self) -> list[Integers]:
        return []

    def add(self, sums: Sequence[Integers], columns: Columns, times: Times = None) -> None:
        """Tables are all that it needs."""

    def answers(self, tables: Mapping[Margin, Integers], sums: Sequence[Integers]) -> Integers:
        del sums
        return self.form.from_tables(tables)


@dataclass(frozen=True)
class ConditionCounts(PartCounts):
    """Conditions on few cells are read off the table over their attributes, the others are looked up.

    Where the claim is enforced, these tables are of the records within the claim, and so are private to this form.
    """

    form: Conditions
    sizes: Sizes = field(repr=False)

    @cached_property
    def is_enforced(self) -> bool:
        return self.form.is_enforced(self.sizes)

    @cached_property
    def tabled(self) -> dict[Margin, list[int]]:
        """For every table the conditions that are read off it."""
        places_of: dict[Margin, list[int]] = {}
        for place, condition in enumerate(self.form.conditions):
            used = {leaf.attribute for leaf in leaves(condition)}
            places_of.setdefault(tuple(name for name in self.sizes if name in used), []).append(place)
        return {
            margin: places
            for margin, places in places_of.items()
            if math.prod(shape(self.sizes, margin))
            <= min(MAX_CONDITION_CELLS, CELLS_PER_CONDITION * len(places))
        }

    @cached_property
    def looked_up(self) -> list[int]:
        """The other conditions."""
        done = {place for places in self.tabled.values() for place in places}
        return [place for place in range(len(self.form.conditions)) if place not in done]

    @property
    def margins(self) -> tuple[Margin, ...]:
        return () if self.is_enforced else tuple(self.tabled)

    @property
    def names(self) -> Margin:
        places = range(len(self.form.conditions)) if self.is_enforced else self.looked_up
        used = {leaf.attribute for place in places for leaf in leaves(self.form.conditions[place])}
        names = tuple(name for name in self.sizes if name in used)
        return (
            names or tuple(self.sizes)[: 1 if places else 0]
        )  # constants look at no attribute, but at records

    def zeros(self) -> list[Integers]:
        own = self.tabled if self.is_enforced else ()
        cells = [math.prod(shape(self.sizes, margin)) for margin in own]
        return [np.zeros(count, dtype=np.int64) for count in (*cells, len(self.looked_up))]

    def add(self, sums: Sequence[Integers], columns: Columns, times: Times = None) -> None:
        masks = RowMasks(self.sizes, columns)
        met = {place: masks.of(self.form.conditions[place]) for place in self.looked_up}
        if self.is_enforced:
            total = np.zeros(masks.length, dtype=np.int64)
            for margin in self.tabled:
                total += self._met_by_cell[margin][flat_codes(self.sizes, columns, margin)]
            for one in met.values():
                total += one
            within = total <= self.form.claim
            own = {name: columns[name][within] for name in self.names}
            into = dict(zip(self.tabled, sums, strict=False))
            count_margins(self.sizes, own, self.tabled, None if times is None else times[within], into=into)
            met = {place: one & within for place, one in met.items()}
        for place, one in enumerate(met.values()):
            sums[-1][place] += np.count_nonzero(one) if times is None else int(times[one].sum())

    def answers(self, tables: Mapping[Margin, Integers], sums: Sequence[Integers]) -> Integers:
        answers = np.zeros(len(self.form.conditions), dtype=np.int64)
        answers[self.looked_up] = sums[-1]
        own = (
            zip(self.tabled, sums, strict=False)
            if self.is_enforced
            else ((m, tables[m]) for m in self.tabled)
        )
        for margin, table in own:
            places = self.tabled[margin]
            answers[places] = _sums_in(self.sizes, margin, table, [self.form.conditions[p] for p in places])
        return answers

    @cached_property
    def _met_by_cell(self) -> dict[Margin, Integers]:
        """How many of its conditions every cell of a table meets."""
        met: dict[Margin, Integers] = {}
        for margin, places in self.tabled.items():
            met[margin] = np.zeros(math.prod(shape(self.sizes, margin)), dtype=np.int64)
            for place in places:
                met[margin] += table_mask(self.sizes, self.form.conditions[place], margin).reshape(-1)
        return met


@dataclass(frozen=True)
class ScoreCounts(PartCounts):
    """Scores are added up record by record, and their places among the thresholds counted."""

    form: Scores
    sizes: Sizes = field(repr=False)

    @property
    def names(self) -> Margin:
        return self.form.attributes

    @cached_property
    def is_enforced(self) -> bool:
        return self.form.is_enforced(self.sizes)

    def zeros(self) -> list[Integers]:
        return [np.zeros(len(some) + 1, dtype=np.int64) for some in self.form.thresholds]

    def add(self, sums: Sequence[Integers], columns: Columns, times: Times = None) -> None:
        declared = [len(cells) for cells in self.form.numbers[0]]
        inside = np.all(
            [columns[name] < cells for name, cells in zip(self.form.attributes, declared, strict=True)],
            axis=0,
        )
        codes = [columns[name][inside] for name in self.form.attributes]
        own = None if times is None else times[inside]
        places: list[Integers] = []
        for numbers, thresholds in zip(self.form.numbers, self.form.thresholds, strict=True):
            scores = np.zeros(int(np.count_nonzero(inside)), dtype=np.int64)
            for cells, code in zip(numbers, codes, strict=True):
                scores += cells[code]
            places.append(np.searchsorted(np.sort(thresholds), scores, side="right"))
        if self.is_enforced:
            within = np.sum(places, axis=0) <= self.form.claim
            places = [place[within] for place in places]
            own = None if own is None else own[within]
        for total, place in zip(sums, places, strict=True):
            total += count_places(place, len(total), own)

    def answers(self, tables: Mapping[Margin, Integers], sums: Sequence[Integers]) -> Integers:
        """A record at place p is in the p half-spaces with the smallest thresholds of its score."""
        del tables
        answers: list[Integers] = []
        for total, thresholds in zip(sums, self.form.thresholds, strict=True):
            at_least = total[::-1].cumsum()[::-1][1:]
            answers.append(at_least[np.argsort(np.argsort(thresholds, kind="stable"))])
        return np.concatenate(answers)[self.form.order]


@dataclass(frozen=True, slots=True, eq=False)
class RowMasks:
    """Which records meet conditions; those of each set of cells are looked up once."""

    sizes: Sizes
    columns: Columns
    _masks: dict[Leaf, NDArray[np.bool_]] = field(default_factory=dict[Leaf, NDArray[np.bool_]])

    @property
    def length(self) -> int:
        return len(next(iter(self.columns.values())))

    def of(self, condition: Condition) -> NDArray[np.bool_]:
        if isinstance(condition, Leaf):
            if condition not in self._masks:
                self._masks[condition] = holds(
                    condition, self.columns[condition.attribute], self.sizes[condition.attribute]
                )
            return self._masks[condition]
        every = isinstance(condition, Every)
        met = np.full(self.length, every, dtype=bool)
        for part in condition.parts:
            met = met & self.of(part) if every else met | self.of(part)
        return met


def holds(leaf: Leaf, codes: NDArray[Any], size: int) -> NDArray[np.bool_]:
    """Which of these codes are in the set."""
    if size <= MAX_LOOKUP_CELLS:
        return mask(leaf.runs, size)[codes]
    member = np.zeros(len(codes), dtype=bool)
    for low, high in leaf.runs:
        member |= (codes >= low) & (codes <= high)
    return member


def flat_codes(sizes: Sizes, columns: Columns, margin: Margin) -> NDArray[np.int32]:
    """The cell of a table of at most 2^22 cells that every record is in, the last attribute running fastest."""
    flat = np.zeros(len(next(iter(columns.values()))), dtype=np.int32)
    for name in margin:
        flat *= sizes[name]
        flat += columns[name].astype(np.int32, copy=False)
    return flat


def count_places(places: NDArray[Any], length: int, times: Times) -> Integers:
    """How many records are at every place."""
    if times is None:
        return np.bincount(places, minlength=length)
    total = np.zeros(length, dtype=np.int64)
    np.add.at(total, places, times)
    return total


def _sums_in(sizes: Sizes, margin: Margin, table: Integers, conditions: Sequence[Condition]) -> Integers:
    """The number of records in the cells of each condition; products of intervals from the corners of their box."""
    shaped = table.reshape(shape(sizes, margin))
    boxes = [_box(condition, margin) for condition in conditions]
    sums = np.zeros(len(conditions), dtype=np.int64)
    listed = [(place, box) for place, box in enumerate(boxes) if box is not None]
    if listed:
        sums[[place for place, _ in listed]] = corner_sums(shaped, [box for _, box in listed])
    for place, box in enumerate(boxes):
        if box is None:
            sums[place] = shaped[table_mask(sizes, conditions[place], margin)].sum()
    return sums


def _box(condition: Condition, margin: Margin) -> list[tuple[int, int]] | None:
    """One interval per attribute, if the condition is a product of intervals."""
    parts = (condition,) if isinstance(condition, Leaf) else condition.parts
    is_product = isinstance(condition, Leaf | Every) and all(isinstance(part, Leaf) for part in parts)
    if not is_product or not 0 < len(margin) <= MAX_BOX_ATTRIBUTES:
        return None
    runs = {leaf.attribute: leaf.runs for leaf in parts if isinstance(leaf, Leaf)}
    if len(runs) < len(parts) or any(len(of_one) != 1 for of_one in runs.values()):
        return None
    return [runs[name][0] for name in margin]
