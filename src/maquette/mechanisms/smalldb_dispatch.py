"""Which exact sampler a workload has, what it costs at worst, and what to do where there is none.

Decided from public quantities only: the structure of the class, |X|, the number of queries, m and the budget's
kind. The worst case is over all tables, so the decision cannot depend on one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maquette.mechanisms import shape
from maquette.models.atoms import listable
from maquette.models.draw import Base, Listed, Structure, Thresholds
from maquette.queries.base import Queries
from maquette.queries.ranges import Prefixes
from maquette.theory.existence import Facts, Shape

MOST_STEPS = 10**15
"""Elementary products that one draw may take at worst. A typical table takes a small part of that."""
MOST_ROWS = 2000
"""Rows of a small database drawn by a counter."""
MOST_LISTED = 2 * 10**6
"""Databases of a range that is enumerated."""
LEVELS = 50
"""Levels that a draw counts, about."""


@dataclass(frozen=True, slots=True)
class Route:
    """An exact sampler for a class of queries."""

    structure: Structure
    base: Base
    facts: Facts
    """What the bounds of SmallDB need to know."""
    ordered: bool
    """A class of one dimension, where the best small database has an error of about 1/m."""

    @property
    def sampler(self) -> str:
        return f"{self.structure.kind}, {self.base} base"

    @property
    def cells(self) -> int:
        """What the base spreads over: cells of the attribute, or atoms."""
        return self.facts.universe

    def steps(self, m: int) -> int:
        """Elementary products per counted level, at worst."""
        match self.structure:
            case Thresholds():
                return _column_steps(self.cells, m, self.base)
            case Listed() as listed:
                return math.comb(self.cells + m - 1, m) * m * len(listed.atoms.weights)
            case _:
                raise AssertionError(self.structure.kind)

    def refusal(self, m: int) -> str | None:
        """Why m rows cannot be drawn, or None."""
        if isinstance(self.structure, Listed):
            count = math.comb(self.cells + m - 1, m)
            if count <= MOST_LISTED:
                return None
            return (
                f"enumeration would score {_about(count)} databases of m={m} rows (at most {MOST_LISTED:,})"
            )
        steps = LEVELS * self.steps(m)
        if m <= MOST_ROWS and steps <= MOST_STEPS:
            return None
        return (
            f"the sampler ({self.sampler}) would take up to {_about(steps)} products for m={m} rows "
            f"(at most {_about(MOST_STEPS)} and {MOST_ROWS:,} rows); ask for fewer rows"
        )

    def most_rows(self) -> int:
        """The largest m that is not refused."""
        low, high = 1, MOST_ROWS + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.refusal(middle) is None else (low, middle)
        return low


def find_route(queries: Queries, *, base: Base | None = None) -> Route | None:
    """The exact sampler for a class, or None."""
    found = _structure(queries)
    if found is None:
        return None
    structure, cells, form = found
    facts = Facts(
        universe=cells,
        log_queries=math.log(max(queries.distinct(), 1)),
        shape=form,
    )
    return Route(structure, structure.bases[0] if base is None else base, facts, form is not None)


def no_route(queries: Queries, unit: str) -> str:
    """A refusal that names the class, the cost, the nearest class with a sampler and what to use instead."""
    cells = shape.universe(queries)
    m = 10
    cost = f"{_about(math.comb(cells + m - 1, m))} databases already at m={m} rows"
    near = (
        f"thresholds or ranges of one of {', '.join(queries.attributes[:3])}"
        if any(queries.domain[a].ordered for a in queries.attributes)
        else f"one-way marginals of {', '.join(queries.attributes[:3])}"
    )
    return (
        f"no exact sampler for {queries.describe()} over {_about(cells)} cells: enumeration would score {cost}; the "
        f"nearest class that can be drawn is {near}; for this one use mechanism '{instead(queries, unit)}', or "
        "SmallDb with public candidates"
    )


def instead(queries: Queries, unit: str) -> str:
    """A mechanism that can run where SmallDB cannot."""
    if unit == "rho":
        return "residual" if shape.is_marginals(queries) else "gaussian"
    return "histogram-laplace" if shape.holds_histogram(queries) else "laplace"


def _structure(queries: Queries) -> tuple[Structure, int, Shape | None] | None:
    if isinstance(queries, Prefixes):
        return Thresholds(queries.attribute), queries.domain[queries.attribute].size, "thresholds"
    if listable(queries):
        listed = Listed(queries)
        return listed, listed.atoms.count, None
    return None


def _column_steps(cells: int, m: int, base: Base) -> int:
    """At most 2m marked boundaries, bands of at most m + 1 counts."""
    if base == "tree":
        return 2 * m * max((cells - 1).bit_length(), 1) * (m + 1) ** 3 // 6
    return (2 * m + 1) * (m + 1) ** 2


def _about(count: int) -> str:
    return f"{count:,}" if count < 10**7 else f"10^{math.log10(count):.1f}"
