"""Which exact sampler a workload has, what it costs at worst, and what to do where there is none.

Decided from public quantities only: the structure of the class, |X|, the number of queries, m and the budget's
kind. The worst case is over all tables, so the decision cannot depend on one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from maquette.core.budget import Unit
from maquette.mechanisms import shape
from maquette.queries.base import Queries
from maquette.queries.dimension import HALF
from maquette.queries.marginals import Marginals
from maquette.queries.predicates import Boxes
from maquette.queries.ranges import Prefixes, Ranges
from maquette.queries.shatter import largest, splits_of
from maquette.samplers.atoms import Atoms, atoms, listable, readable
from maquette.samplers.structures import (
    Base,
    Blocks,
    Candidates,
    Forest,
    Intervals,
    Listed,
    Nested,
    Single,
    Structure,
    Thresholds,
    Trellis,
    is_nested,
    rooted,
)
from maquette.theory.existence import Facts, facts_of, log_multisets, log_sequences, log_tree

MAX_PRODUCTS_PER_DRAW = 10**14
"""Elementary products that one draw may take at worst. A typical table takes a small part of that."""
MAX_ROWS_BY_COUNTER = 2000
"""Rows of a small database drawn by a counter."""
MAX_ENUMERATED_DATABASES = 2 * 10**6
"""Databases of a range that is enumerated."""
MAX_ENUMERATED_ROWS = 2**28
"""Rows of all of them, held at once; the gate refuses more."""
MAX_TRELLIS_STATES = 250_000
"""States of a trellis, over all its layers."""
MAX_TRELLIS_MOVES = 8 * 10**6
"""Steps between states of a trellis, per level."""
MAX_WEIGHTS_SEARCHED = 2**12
"""Weights (queries times atoms) of a class whose VC dimension is searched for."""
MIN_ENUMERATED_ROWS = 4
"""Rows below which an enumerated range or a trellis is no use."""
ENOUGH_ENUMERATED_ROWS = 100
"""Rows from which on enumeration, whose time is fixed, is preferred to a trellis."""
MAX_CELLS_OF_ATTRIBUTE = 2**14
"""Cells of an attribute whose histogram is drawn."""
# From here on constants of the predicted time; `python -m benchmarks smalldb` measures draws.
LEVELS = 50
"""Levels that a draw counts, about."""
MAX_SECONDS = 3600.0
"""Predicted for a typical table; a number of rows that would take longer is refused."""
PRODUCTS = 3e6
"""Products of long whole numbers per second."""
TYPICAL_WIDTH = 7
"""Counts in a typical band."""


WINDOWS = 500
"""Windows per level of a draw for intervals, about."""


@dataclass(frozen=True, slots=True)
class Route:
    """An exact sampler for a class of queries."""

    structure: Structure
    base: Base
    facts: Facts
    """What the bounds of SmallDB need to know."""
    sizes: tuple[int, ...]
    """Cells of every attribute of the structure (or, enumerated, the number of atoms)."""

    @property
    def has_counter(self) -> bool:
        """Drawn by a counter, so that m may be as large as is good."""
        return not isinstance(self.structure, Listed)

    def steps(self, m: int) -> int:
        """Elementary products per counted level, at worst over all tables."""
        if isinstance(self.structure, Listed):
            return math.comb(self.sizes[0] + m - 1, m) * m * len(self.structure.atoms.weights)
        if isinstance(self.structure, Trellis):
            return self.structure.layout.states(m) * (m + 1)
        return sum(_steps(part, base, self._cells(part), m) for part, base in self.parts)

    def log_mass(self, m: int) -> float:
        """ln(1 / least share of the base in any one database)."""
        if isinstance(self.structure, (Listed, Trellis)):
            count = log_multisets if self.base == "flat" else log_sequences
            return count(universe=self.sizes[0] if self.base == "flat" else self.facts.universe, rows=m)
        return sum(_log_mass(part, base, self._cells(part), m) for part, base in self.parts)

    @property
    def parts(self) -> tuple[tuple[Single, Base], ...]:
        """The classes that have a counter of their own."""
        match self.structure:
            case Blocks(parts):
                return parts
            case Listed() | Trellis() | Candidates():
                return ()
            case single:
                return ((single, self.base),)

    def refusal(self, m: int) -> str | None:
        """Why m rows cannot be drawn, or None."""
        if isinstance(self.structure, Listed):
            count = math.comb(self.sizes[0] + m - 1, m)
            if count <= MAX_ENUMERATED_DATABASES and count * m <= MAX_ENUMERATED_ROWS:
                return None
            return (
                f"enumeration would score {_about(count)} databases of m={m} rows (at most "
                f"{_about(MAX_ENUMERATED_DATABASES)}, and {_about(MAX_ENUMERATED_ROWS)} rows of all together)"
            )
        if isinstance(self.structure, Trellis):
            states = self.structure.layout.states(m)
            if states <= MAX_TRELLIS_STATES and states * (m + 1) <= MAX_TRELLIS_MOVES:
                return None
            return (
                f"a trellis would have up to {_about(states)} states and {_about(states * (m + 1))} steps per level "
                f"for m={m} rows (at most {_about(MAX_TRELLIS_STATES)} and {_about(MAX_TRELLIS_MOVES)})"
            )
        steps = LEVELS * self.steps(m)
        if m > MAX_ROWS_BY_COUNTER or steps > MAX_PRODUCTS_PER_DRAW:
            return (
                f"the sampler ({self.structure.kind}, {self.base} base) would take up to {_about(steps)} products for "
                f"m={m} rows (at most {_about(MAX_PRODUCTS_PER_DRAW)}, and {_about(MAX_ROWS_BY_COUNTER)} rows); "
                "ask for fewer rows"
            )
        if self.seconds(m) > MAX_SECONDS:
            return (
                f"the sampler ({self.structure.kind}, {self.base} base) would take about "
                f"{self.seconds(m) / 3600:.1f} hours for m={m} rows on a typical table (at most "
                f"{MAX_SECONDS / 3600:g}); ask for fewer rows"
            )
        return None

    def seconds(self, m: int) -> float:
        """About how long a draw takes on a typical table: bands are narrower than m + 1 counts."""
        if not self.has_counter:
            return 0.1 + self.steps(m) / 1e8
        narrow = (min(TYPICAL_WIDTH, m + 1) / (m + 1)) ** 2.5
        if isinstance(self.structure, Trellis):
            return 0.5 + 40 * self.steps(m) * narrow / PRODUCTS
        products = 0.0
        for part, base in self.parts:
            if isinstance(part, Forest):  # measured: 3 s at 49 edges and 50 rows, 41 s at 100 rows
                products += LEVELS * len(part.edges) * (m + 1) ** 3 / 20
            else:
                products += 4 * _steps(part, base, self._cells(part), m) * narrow
        return 0.5 + products / PRODUCTS

    def most_rows(self) -> int:
        """The largest m that is not refused."""
        low, high = 1, MAX_ROWS_BY_COUNTER + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.refusal(middle) is None else (low, middle)
        return low

    def _cells(self, part: Single) -> int:
        return self.sizes[self.structure.attributes.index(part.attributes[0])]


def find_route(queries: Queries, *, base: Base | None = None, rows: int | None = None) -> Route | None:
    """The exact sampler for a class, and for the number of rows if one is asked for, or None."""
    return _for_rows(routes_of(queries, base), rows)


@shape.cached_by_queries
def routes_of(queries: Queries, base: Base | None) -> tuple[Route, ...]:
    """The exact samplers for a class: its counter, or enumeration and a trellis."""
    structure = _countable(queries)
    if structure is not None:
        sizes = tuple(queries.domain[name].size for name in structure.attributes)
        facts = _facts(queries, math.prod(sizes))
        return (Route(structure, structure.bases[0] if base is None else base, facts, sizes),)
    if not listable(queries):
        return ()
    cells = atoms(queries)
    facts = _facts(queries, cells.count)
    if facts.vc is None:
        facts = replace(facts, vc=_vc(cells))
    structures: list[Listed | Trellis] = [Listed(queries)]
    if readable(cells):
        structures.append(Trellis(queries))
    routes = [Route(s, s.bases[0] if base is None else base, facts, (cells.count,)) for s in structures]
    return tuple(route for route in routes if route.refusal(MIN_ENUMERATED_ROWS) is None)


def _for_rows(routes: tuple[Route, ...], rows: int | None) -> Route | None:
    """The only one; or enumeration where it takes enough rows, else whichever takes more."""
    if len(routes) < 2:
        return routes[0] if routes else None
    enough = ENOUGH_ENUMERATED_ROWS if rows is None else rows
    taking = [route for route in routes if route.refusal(enough) is None]
    return taking[0] if taking else max(routes, key=lambda route: route.most_rows())


def find_rows(queries: Queries, base: Base | None, m: int) -> Route:
    """The sampler for m rows of a class that has one."""
    route = find_route(queries, base=base, rows=m)
    assert route is not None
    return route


def no_route(queries: Queries, unit: Unit) -> str:
    """A refusal that names the class, the cost, the nearest class with a sampler and what to use instead."""
    cells, m = shape.universe(queries), 10
    ordered = [a for a in queries.attributes if queries.domain[a].ordered]
    near = f"ranges of {ordered[0]}, or " if ordered else ""
    return (
        f"no exact sampler for {queries.describe()}, which look at {_about(cells)} cells at once: enumeration would "
        f"score {_about(math.comb(cells + m - 1, m))} databases already at m={m} rows; the nearest classes that can "
        f"be drawn are {near}one-way marginals (and two-way marginals of binary attributes that form no cycle); for "
        f"this one use mechanism '{instead(queries, unit)}', or SmallDb(candidates=...) with public candidates"
    )


def instead(queries: Queries, unit: Unit) -> str:
    """A mechanism that can run where SmallDB cannot."""
    if not unit.is_pure:
        return "residual" if shape.is_marginals(queries) else "gaussian"
    return "histogram-laplace" if shape.holds_histogram(queries) else "laplace"


def _countable(queries: Queries) -> Single | Blocks | None:
    """A class with a counter, or classes with counters on disjoint attributes."""
    countable: list[Single] = []
    for part in queries.classes:
        singles = _marginals(part) if isinstance(part, Marginals) else [_single(part)]
        if singles is None or None in singles:
            return None
        countable += [single for single in singles if single is not None]
    names = [name for single in countable for name in single.attributes]
    if not names or len(set(names)) < len(names):
        return None
    return (
        countable[0]
        if len(countable) == 1
        else Blocks(tuple((single, single.bases[0]) for single in countable))
    )


def _single(queries: Queries) -> Single | None:
    match queries:
        case Prefixes(attribute=attribute):
            return Thresholds(attribute)
        case Ranges(over=(attribute,)):
            return Intervals(attribute)
        case Boxes(domain=domain, boxes=boxes):
            names = {name for box in boxes for name, _, _ in box}
            if len(names) != 1 or not all(len(box) == 1 for box in boxes):
                return None
            runs = tuple((low, high) for ((_, low, high),) in boxes)
            (name,) = names
            return Nested(name, runs, domain[name].size) if is_nested(runs) else None
        case _:
            return None


def _marginals(queries: Marginals) -> list[Single | None] | None:
    """One-way marginals as histograms, one by one; binary attributes in two-way marginals as a forest."""
    sizes = {name: queries.domain[name].size for name in queries.attributes}
    margins = [tuple(name for name in margin if sizes[name] > 1) for margin in queries.margins]
    edges = tuple(margin for margin in margins if len(margin) == 2)
    tied = {name for edge in edges for name in edge}
    singles = [margin[0] for margin in margins if len(margin) == 1]
    if any(len(margin) > 2 for margin in margins) or any(sizes[name] != 2 for name in tied):
        return None
    countable: list[Single | None] = [
        Nested(name, tuple((c, c) for c in range(sizes[name])), sizes[name])
        for name in dict.fromkeys(singles)
        if name not in tied and sizes[name] <= MAX_CELLS_OF_ATTRIBUTE
    ]
    if len(countable) < len({name for name in singles if name not in tied}):
        return None
    if tied:
        names = tuple(name for name in queries.attributes if name in tied)
        pairs = tuple(dict.fromkeys((edge[0], edge[1]) for edge in edges))
        if rooted(names, pairs) is None:
            return None
        countable.append(Forest(names, pairs, tuple(name for name in names if name in singles)))
    return countable


def _facts(queries: Queries, cells: int) -> Facts:
    """What the bounds of SmallDB need to know, by the cells that can be told apart."""
    if not shape.distinct(queries):
        return Facts(universe=cells, log_queries=0.0)  # constant: nothing is drawn
    return replace(facts_of(queries), universe=cells)


def _vc(cells: Atoms) -> int | None:
    """The VC dimension of a class with few weights, by search."""
    if cells.denominator != 1 or cells.weights.size > MAX_WEIGHTS_SEARCHED:
        return None
    patterns = np.unique(cells.weights, axis=0)
    return len(largest(splits_of(patterns, 1, HALF), len(patterns)).splits)


def _steps(part: Single, base: Base, cells: int, m: int) -> int:
    """At most 2m marked boundaries or the sets of a family, bands of at most m + 1 counts."""
    match part:
        case Nested(runs=runs):
            return 2 * (len(runs) + 1) * (m + 1) ** 2
        case Forest(edges=edges):
            return len(edges) * (m + 1) ** 3
        case Thresholds() | Intervals():
            windows = WINDOWS if isinstance(part, Intervals) else 1
            if base == "tree":
                return windows * 2 * m * max((cells - 1).bit_length(), 1) * (m + 1) ** 3 // 6
            return windows * (2 * m + 1) * (m + 1) ** 2


def _log_mass(part: Single, base: Base, cells: int, m: int) -> float:
    if isinstance(part, Forest):
        return log_sequences(universe=2 ** len(part.attributes), rows=m)
    count = {"tree": log_tree, "flat": log_multisets}.get(base, log_sequences)
    return count(universe=cells, rows=m)


def _about(count: int) -> str:
    return f"{count:,}" if count < 10**7 else f"10^{math.log10(count):.1f}"
