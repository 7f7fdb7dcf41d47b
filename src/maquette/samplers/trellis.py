"""SmallDB's counter for any class over few atoms: a trellis over the rows used and the sums of the open queries.

Atoms are read one after the other. Two beginnings of a database with the same number of rows and the same sums of the
queries that are still open can be continued in the same ways, so that counting needs one number per state. How many
states there can be is bounded from public structure before a table is touched (`samplers/structures.py`); here nothing
is cut off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.answering import PartCounts, joined, parts_of
from maquette.core.drawing import ExactCounts
from maquette.core.forms import Margin, QueryForms
from maquette.core.universe import Universe
from maquette.core.weighting import Weighting
from maquette.errors import ParameterError
from maquette.samplers.atoms import Atoms, Integers, Layout
from maquette.samplers.brackets import Bracket, Scale, Uniform

State = tuple[int, ...]
"""Rows used so far, then the sums of the open queries."""
Small = list[int]
"""The atoms of the m rows, sorted."""
Bounds = list[tuple[int, int]]
"""The least and the largest sum of every query."""
Ways = list[dict[State, int]]
"""For every layer and state, in how many ways it can be completed."""


@dataclass(slots=True, eq=False)
class Trellis:
    """Level: the largest error over the queries. Weights are numerators over the atoms' denominator."""

    atoms: Atoms
    layout: Layout
    records: Integers
    """How many records each atom has."""
    scale: Scale
    """Its grid includes the numerator of D."""
    sequences: bool
    _last: tuple[int, Ways] | None = field(default=None, init=False)
    _exact: list[int] = field(init=False)
    _moves: list[_Move] = field(init=False)

    def __post_init__(self) -> None:
        self._exact = [int(v) for v in self.atoms.weights @ self.records]
        self._moves = _moves(self.atoms, self.layout)

    @property
    def n(self) -> int:
        return int(self.records.sum())

    @property
    def top(self) -> int:
        return self.scale.level(self.n * self.scale.m * self.atoms.span)

    @property
    def start(self) -> int:
        return self.scale.level(self.n * self.atoms.span // 4)

    @property
    def acceptance(self) -> float:
        return 0.15

    @property
    def total(self) -> Bracket:
        m, sizes = self.scale.m, self.atoms.sizes
        return Bracket.whole(
            int(sizes.sum()) ** m if self.sequences else math.comb(m + self.atoms.count - 1, m)
        )

    def mass(self, level: int, *, exact: bool) -> Bracket:
        return Bracket.whole(self._ways(level)[0].get((0,), 0))

    def draw(self, level: int, uniform: Uniform) -> Small:
        bounds, ways = self._bounds(level), self._ways(level)
        state: State = (0,)
        small: Small = []
        for place, atom in enumerate(self.layout.order):
            options = [o for o in self._next(place, state, bounds) if o[1] in ways[place + 1]]
            weights = [self._weight(atom, state[0], c) * ways[place + 1][after] for c, after in options]
            count, state = options[uniform.pick(weights)]
            small += [atom] * count
        return sorted(small)

    def draw_any(self, uniform: Uniform) -> Small:
        m = self.scale.m
        if not self.sequences:
            return uniform.multiset(m, self.atoms.count)
        borders = np.cumsum(self.atoms.sizes)
        cells = [uniform.below(int(borders[-1])) for _ in range(m)]
        return sorted(int(np.searchsorted(borders, cell, side="right")) for cell in cells)

    def level(self, small: Sequence[int]) -> int:
        m, n = self.scale.m, self.n
        sums = self.atoms.weights[:, list(small)].sum(axis=1).tolist()
        return self.scale.level(
            max((abs(m * f - n * k) for f, k in zip(self._exact, sums, strict=True)), default=0)
        )

    def _bounds(self, level: int) -> Bounds:
        m, n, reach = self.scale.m, self.n, self.scale.deviation(level)
        if n == 0:
            return [(0, m * self.atoms.denominator) for _ in self._exact]
        return [(-((reach - m * f) // n), (m * f + reach) // n) for f in self._exact]

    def _ways(self, level: int) -> Ways:
        """All states from the first layer on, then in how many ways each is completed, from the last one back."""
        if self._last is not None and self._last[0] == level:
            return self._last[1]
        bounds, order = self._bounds(level), self.layout.order
        states: list[list[State]] = [[(0,)]]
        for place in range(len(order)):
            after = dict.fromkeys(s for state in states[place] for _, s in self._next(place, state, bounds))
            states.append(list(after))
        ways: Ways = [dict[State, int]() for _ in order]
        ways.append(dict.fromkeys(states[-1], 1))
        for place in range(len(order) - 1, -1, -1):
            later = ways[place + 1]
            for state in states[place]:
                total = sum(
                    self._weight(order[place], state[0], c) * later[after]
                    for c, after in self._next(place, state, bounds)
                    if after in later
                )
                if total:
                    ways[place][state] = total
        self._last = (level, ways)
        return ways

    def _weight(self, atom: int, used: int, count: int) -> int:
        """In how many ways an atom takes `count` of the rows that are left."""
        if not self.sequences:
            return 1
        return math.comb(self.scale.m - used, count) * int(self.atoms.sizes[atom]) ** count

    def _next(self, place: int, state: State, bounds: Bounds) -> Iterator[tuple[int, State]]:
        """How many rows the atom at a place may take, and the state after."""
        move = self._moves[place]
        left = self.scale.m - state[0]
        sums = [state[i] if i else 0 for i in move.carried]
        limits = [bounds[q] for q in move.queries]
        for count in range(left if move.last else 0, left + 1):
            now = [total + count * added for total, added in zip(sums, move.added, strict=True)]
            if any(total > most for total, (_, most) in zip(now, limits, strict=True)):
                return
            ahead = left - count
            enough = zip(now, limits, move.rest, strict=True)
            if all(total + ahead * more >= least for total, (least, _), more in enough):
                yield count, (state[0] + count, *(now[i] for i in move.carried_on))


@dataclass(frozen=True, slots=True)
class _Move:
    """What reading one atom does to the sums."""

    queries: list[int]
    """Those open before or after, and those that weigh the atom."""
    carried: list[int]
    """Where the sum of each stands in the state before; 0 for those that begin here."""
    added: list[int]
    """What each row of the atom adds."""
    rest: list[int]
    """The most that one row of a later atom can add."""
    carried_on: list[int]
    """Which of the sums stand in the state after."""
    last: bool


def _moves(atoms: Atoms, layout: Layout) -> list[_Move]:
    ordered = atoms.weights[:, list(layout.order)]
    rest = np.maximum.accumulate(ordered[:, ::-1], axis=1)[:, ::-1]
    rest = np.hstack([rest, np.zeros((len(rest), 1), dtype=np.int64)])
    moves: list[_Move] = []
    for place in range(atoms.count):
        before, after = layout.layers[place].open, layout.layers[place + 1].open
        queries = sorted({*before, *after, *np.flatnonzero(ordered[:, place]).tolist()})
        moves.append(
            _Move(
                queries,
                [before.index(q) + 1 if q in before else 0 for q in queries],
                ordered[queries, place].tolist(),
                rest[queries, place + 1].tolist(),
                [queries.index(q) for q in after],
                place == atoms.count - 1,
            )
        )
    return moves


# A private table whose records weigh between 0 and 1, seen as a table of whole numbers.
#
# Every count is a sum of numerators over the weighting's grid. One record more or less moves a cell by at
# most the grid, so that scores divided by the grid keep their sensitivity of 1: under add/remove-one a
# residual q(x) - |x| f moves by w (q_z - f), under replace-one by w' (q_z' - f) - w (q_z - f), at most (1 -
# f) + f = 1.


class WeightedTable:
    """The counts of a table whose records weigh, in numerators over the grid. Exact, and private."""

    def __init__(self, engine: ExactCounts, weighting: Weighting) -> None:
        _check_fit(engine.domain, weighting)
        self._engine = engine
        self._name = weighting.attribute
        self._weights = weighting.array()

    @property
    def domain(self) -> Universe:
        return self._engine.domain

    def size(self) -> int:
        """The total weight."""
        return int(self.margins([()])[()])

    def distinct(self, name: str) -> tuple[NDArray[Any], Integers]:
        """Cells of one attribute that hold any weight, increasing, and how much."""
        table = self.margins([(name,)])[(name,)]
        cells = np.flatnonzero(table)
        return cells.astype(np.uint64), table[cells]

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        """Tables over a few attributes each, the weight summed out."""
        order = self.domain.names
        wide = {m: tuple(name for name in order if name in m or name == self._name) for m in margins}
        tables = self._engine.margins(list(dict.fromkeys(wide.values())))
        return {m: self._summed(tables[margin], margin) for m, margin in wide.items()}

    def answer(self, query_forms: QueryForms) -> Integers:
        """Numerators over the queries' denominator times the grid."""
        parts = parts_of(query_forms, self.domain.sizes)
        tables = self.margins(
            list({margin: None for part in parts for margin in (*part.margins, part.names)})
        )
        return joined(query_forms, [part.answers(tables, _sums(part, tables[part.names])) for part in parts])

    def _summed(self, table: Integers, margin: Margin) -> Integers:
        return np.tensordot(table, self._weights, axes=([margin.index(self._name)], [0]))


def _sums(part: PartCounts, table: Integers) -> list[Integers]:
    """The sums over records of a table's cells, each of which weighs what it holds."""
    sums = part.zeros()
    if part.names:
        cells = np.nonzero(table)
        part.add(sums, dict(zip(part.names, cells, strict=True)), table[cells])
    return sums


def _check_fit(domain: Universe, weighting: Weighting) -> None:
    if weighting.attribute not in domain or len(weighting.numerators) != domain[weighting.attribute].size:
        raise ParameterError(f"expected one weight per cell of '{weighting.attribute}'")
