"""Queries that say the same are asked once: copies, complements and constants are taken out, and put back afterwards.

What is found: a margin that several parts of a union hold; and, by the key of each query (`condition.py`), a predicate,
box, half-space or row of weights that is a copy or the complement of another query, in whatever class, or that counts
all records or none; and a whole class whose queries all stand in others, such as prefixes beside ranges. Other classes
are kept whole, and all classes are compared query by query only up to `MAX_COMPARED_QUERIES` of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.queries.base import Part, Queries, Workload
from maquette.queries.condition import Key
from maquette.queries.halfspaces import Halfspaces
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import Boxes, Predicate, Predicates
from maquette.queries.rows import MAX_ANSWERS, Columns, Margin
from maquette.queries.weights import Weights

MAX_COMPARED_QUERIES = 10**5
"""Queries of classes that are compared one by one."""
_PROBES = 16
_NONE, _ALL = -1, -2
"""In the place of a source: counts no record, counts all of them."""

_LISTED = (Predicate, Predicates, Boxes, Halfspaces, Weights)
"""Classes that list their queries one by one, so that any of them can be left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """The queries that are asked, and where each query of the workload gets its answer from."""

    queries: Queries
    source: NDArray[np.int64] | None = None
    """For each query the one that is asked for it, or -1 or -2 if it counts none or all of the records. None where
    every query is asked as it stands."""
    flipped: NDArray[np.bool_] | None = None
    """Is it the complement of the one that is asked?"""

    @property
    def saved(self) -> int:
        """How many queries are not asked."""
        return 0 if self.source is None else len(self.source) - self.queries.count

    def expand(self, numerators: NDArray[np.signedinteger], denominator: int) -> NDArray[np.int64]:
        """Numerators for each query of the workload, out of those of the queries that were asked."""
        if self.source is None or self.flipped is None:
            return numerators
        answers = numerators[np.maximum(self.source, 0)].astype(np.int64)
        np.subtract(denominator, answers, out=answers, where=self.flipped)
        answers[self.source == _NONE] = 0
        answers[self.source == _ALL] = denominator
        return answers

    def expand_errors(self, errors: NDArray[np.floating]) -> NDArray[np.floating]:
        """The same for what they may be off by: a complement is off by as much, a constant not at all."""
        if self.source is None:
            return errors
        return np.where(self.source < 0, 0.0, errors[np.maximum(self.source, 0)])


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a query is asked: in which part, as which of its queries, and which of two complements it is."""

    part: int
    index: int
    side: bool


def merge(queries: Queries) -> Merged:
    """The workload without what it repeats; the workload itself where it repeats nothing or nothing would be left."""
    if not 0 < queries.count <= MAX_ANSWERS:
        return Merged(queries)
    parts = queries.parts
    search = _Search(queries.domain, parts)
    search.take_margins()
    search.take_queries()
    return search.result(queries)


class _Search:
    """What was found so far: for each part the queries that are asked, and for each other query where it is."""

    def __init__(self, domain: Domain, parts: Sequence[Part]) -> None:
        self.parts = list(parts)
        counts = [part.queries.count for part in parts]
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.remaining: list[Queries | None] = [part.queries for part in parts]
        """What is left of each part."""
        self.left: list[NDArray[np.int64]] = [np.arange(count) for count in counts]
        """Its places in the part as it was given."""
        self.elsewhere: list[tuple[NDArray[np.int64], _Place | int, bool]] = []
        """Places in the workload, and what answers them: a run of places from here on, or a constant; and whether they
        are complements of those."""
        self.probes = _probes(domain)

    def take_margins(self) -> None:
        """A margin that an earlier part has is not asked again."""
        places: dict[Margin, tuple[int, slice]] = {}
        for number, part in enumerate(self.parts):
            if not isinstance(part.queries, Marginals):
                continue
            slices = part.queries.slices
            new = [margin for margin in slices if margin not in places]
            for margin in slices.keys() & places.keys():
                other, place = places[margin]
                cells = _range(slices[margin])
                self.elsewhere.append((self.starts[number] + cells, _Place(other, place.start, True), False))
            if len(new) < len(slices):
                none = np.zeros(0, dtype=np.int64)
                self.left[number] = np.concatenate([none, *(_range(slices[margin]) for margin in new)])
                self.remaining[number] = Marginals(part.queries.domain, tuple(new)) if new else None
            places |= {margin: (number, slices[margin]) for margin in new}

    def take_queries(self) -> None:
        """Queries with the key of another one: classes first, the larger ones before, then those given one by one."""
        order = [number for number, queries in enumerate(self.remaining) if queries is not None]
        classes = [number for number in order if not _is_listed(self.remaining[number])]
        listed = [number for number in order if _is_listed(self.remaining[number])]
        if not listed and all(isinstance(self.remaining[number], Marginals) for number in classes):
            return
        place_of: dict[Key, _Place] = {}
        if sum(len(self.left[number]) for number in classes) <= MAX_COMPARED_QUERIES:
            for number in sorted(classes, key=lambda number: -len(self.left[number])):
                self._take_class(number, place_of)
        for number in listed:
            self._take_listed(number, place_of)

    def _take_class(self, number: int, place_of: dict[Key, _Place]) -> None:
        """A class is left out if all its queries are elsewhere, else kept whole."""
        examined = list(self._look(number))
        new = [
            place
            for key, place, constant in examined
            if constant is None and (key is None or key not in place_of)
        ]
        for key, place, constant in examined:
            earlier = None if key is None else place_of.get(key)
            if constant is not None:
                self._answer(number, place.index, constant, False)
            elif earlier is not None and (earlier.part != number or earlier.side == place.side):
                self._answer(number, place.index, earlier, earlier.side != place.side)
            elif key is not None:
                place_of.setdefault(key, place)
        if not new:
            self.remaining[number], self.left[number] = None, np.zeros(0, dtype=np.int64)

    def _take_listed(self, number: int, place_of: dict[Key, _Place]) -> None:
        rest: list[int] = []
        for key, place, constant in self._look(number):
            earlier = None if key is None else place_of.get(key)
            if constant is not None:
                self._answer(number, place.index, constant, False)
            elif earlier is not None:
                self._answer(number, place.index, earlier, earlier.side != place.side)
            else:
                rest.append(place.index)
                if key is not None:
                    place_of[key] = place
        if len(rest) < len(self.left[number]):
            self.left[number] = np.array(rest, dtype=np.int64)
            self.remaining[number] = _some(self.parts[number].queries, rest) if rest else None

    def _look(self, number: int) -> list[tuple[Key | None, _Place, int | None]]:
        """For what is left of a part: the key (None if it says nothing), the place, and which constant it is."""
        queries = self.remaining[number]
        assert queries is not None
        weights = np.asarray(queries.columns_of(self.probes))
        half, whole = queries.denominator / 2, queries.denominator
        examined: list[tuple[Key | None, _Place, int | None]] = []
        for key, index, row in zip(queries.query_keys(), self.left[number].tolist(), weights, strict=True):
            decided = row[row != half]
            place = _Place(number, index, bool(len(decided) and decided[0] > half))
            if key is None and row[0] in (0, whole):
                examined.append((None, place, _ALL if row[0] else _NONE))
            elif key is None:  # one weight for every record
                weight = min(int(row[0]), whole - int(row[0]))
                examined.append((("constant", Fraction(weight, whole)), place, None))
            else:
                examined.append((key if len(decided) else None, place, None))
        return examined

    def _answer(self, number: int, index: int, place: _Place | int, flipped: bool) -> None:
        self.elsewhere.append((self.starts[number] + np.array([index]), place, flipped))

    def result(self, queries: Queries) -> Merged:
        """What is asked, and the way back."""
        parts = [
            replace(p, queries=a) for p, a in zip(self.parts, self.remaining, strict=True) if a is not None
        ]
        if not self.elsewhere or not parts:
            return Merged(queries)
        own = np.full(int(self.starts[-1]), _NONE, dtype=np.int64)
        start = 0
        for number, places in enumerate(self.left):
            own[self.starts[number] + places] = start + np.arange(len(places))
            start += len(places)
        place, flipped = self._followed()
        source = np.where(place < 0, place, own[np.maximum(place, 0)])
        if start == queries.count:
            return Merged(queries, source, flipped)
        rest = parts[0].queries if len(parts) == 1 else Workload(queries.domain, tuple(parts))
        return Merged(rest, source, flipped)

    def _followed(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """For each query the place in the workload that answers it, or a constant; and whether it is the complement.

        That place may be answered elsewhere in turn, where a class was left out after margins were compared with it.
        """
        count = int(self.starts[-1])
        place, flipped = np.arange(count), np.zeros(count, dtype=bool)
        for at, target, turned in self.elsewhere:
            if isinstance(target, int):
                place[at] = target
            else:
                first = int(self.starts[target.part]) + target.index
                place[at] = np.arange(first, first + len(at))
            flipped[at] = turned
        while True:
            onward = np.where(place < 0, place, place[np.maximum(place, 0)])
            if (onward == place).all():
                return place, flipped
            flipped = flipped ^ (flipped[np.maximum(place, 0)] & (place >= 0) & (onward != place))
            place = onward


def _is_listed(queries: Queries | None) -> bool:
    return isinstance(queries, _LISTED)


def _some(queries: Queries, places: Sequence[int]) -> Queries:
    """Some queries of a class that lists them."""
    match queries:
        case Predicates():
            return replace(queries, predicates=tuple(queries.predicates[i] for i in places))
        case Boxes():
            return Boxes(queries.domain, tuple(queries.boxes[i] for i in places))
        case Halfspaces():
            normals, thresholds = queries.normals, queries.thresholds
            return replace(
                queries,
                normals=tuple(normals[i] for i in places),
                thresholds=tuple(thresholds[i] for i in places),
            )
        case Weights():
            return Weights(queries.domain, queries.over, queries.numerators[list(places)], queries.grid)
        case _:
            raise AssertionError(f"{queries.kind} are kept whole")


def _range(places: slice) -> NDArray[np.int64]:
    start, stop = int(places.start), int(places.stop)
    return np.arange(start, stop, dtype=np.int64)


def _probes(domain: Domain) -> Columns:
    """Records that tell a query from its complement; the first does so for all queries of weights 0 and 1."""
    steps = np.arange(_PROBES)
    return {a.name: (steps * (2 * i + 1) + steps // 2) % min(a.size, 2**62) for i, a in enumerate(domain)}
