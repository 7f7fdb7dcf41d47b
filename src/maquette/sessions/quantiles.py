"""Quantiles in a session: a search over the borders of cells, every step of which is an ordinary question.

Let C be the share of all records that belong to a group and have a declared value of x, and B_t the share of those
below border b_t. On which side of the border the quantile at level p lies is the sign of the gap B_t - p C. One linear
query answers it: with weights 1 for records of the group below the border, 0 for the others of the group and p for all
that are not in it,

    answer  =  B_t + p (1 - C)  =  gap + p.

The quantile is not below b_t where gap + error < 0, and not above it where gap - error >= 0. All answers of a session
hold together, so that whichever borders were asked, the narrowest of these ends hold too. Which border is asked next
follows from the answers so far: two searches by halves, one for the last border that the quantile is surely not below
and one for the first that it is surely not above, so at most 2 ceil(log2 cells) questions for each group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from maquette.domain import Attribute, Domain
from maquette.queries.predicates import Predicate
from maquette.queries.weights import GRID, Weights
from maquette.results.figures import Figures, crossing
from maquette.sessions.question import Question
from maquette.sessions.sums import weighted_cells


@dataclass(eq=False)
class Search:
    """The quantile of one group: the borders that were asked about, and what is left to ask."""

    attribute: Attribute
    level: Fraction
    question: Callable[[int], Question]
    """Of a border."""
    gaps: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    """By border: the gap, and how far it may be off."""
    kinds: list[str] = field(default_factory=list[str])
    """How the answers are known, in words."""

    @property
    def most_questions(self) -> int:
        """What both searches ask at most."""
        return 2 * (self.attribute.cells - 1).bit_length()

    @cached_property
    def first(self) -> Question:
        """The question that is asked whatever the others answer."""
        return self.question(self.attribute.cells // 2)

    @property
    def pending(self) -> Question | None:
        """The question to ask, from the answers so far; None where both ends are found."""
        border = self._next_border()
        return None if border is None else self.question(border)

    def _next_border(self) -> int | None:
        cells = self.attribute.cells
        low, high = 0, cells
        while high - low > 1:
            middle = (low + high) // 2
            if middle not in self.gaps:
                return middle
            low, high = (middle, high) if self._is_not_below(middle) else (low, middle)
        high = cells
        while high - low > 1:
            middle = (low + high) // 2
            if middle not in self.gaps:
                return middle
            low, high = (low, middle) if self._is_not_above(middle) else (middle, high)
        return None

    def take(self, value: float, error: float) -> None:
        """The answer to the question that is pending. A level that is no multiple of 2^-20 was rounded to one."""
        border = self._next_border()
        assert border is not None
        rounding = 0.0 if (self.level * GRID).denominator == 1 else 0.5 / GRID
        self.gaps[border] = (value - float(self.level), error + rounding)

    def _is_not_below(self, border: int) -> bool:
        gap, error = self.gaps[border]
        return gap + error < 0

    def _is_not_above(self, border: int) -> bool:
        gap, error = self.gaps[border]
        return gap - error >= 0

    @property
    def ends(self) -> tuple[float, float, float]:
        """The quantile, and the ends that it is surely between: at worst the bounds of the attribute."""
        cells = self.attribute.cells
        low = max((t for t in self.gaps if self._is_not_below(t)), default=0)
        high = min((t for t in self.gaps if self._is_not_above(t)), default=cells)
        lower, upper = self.attribute.edge(low), self.attribute.edge(high)
        borders = sorted(self.gaps)
        level = float(self.level)
        rising = np.maximum.accumulate([-level, *(self.gaps[t][0] for t in borders), 1 - level])
        value = crossing(rising, np.array([self.attribute.edge(t) for t in (0, *borders, cells)]))
        return min(max(value, lower), upper), lower, upper


def border_query(
    domain: Domain, group: Predicate, below: Predicate, attribute: Attribute, level: Fraction
) -> Weights:
    """Weights 1 for who is below, 0 for the others of the group, the level for all who are not in it."""
    names = (*group.attributes, attribute.name)
    over, columns = weighted_cells(domain, names, f"a quantile of '{attribute.name}'")
    inside, first = (np.asarray(one.columns_of(columns))[0].astype(np.int64) for one in (group, below))
    numerators = GRID * first + round(level * GRID) * (1 - inside)
    return Weights(domain, over, numerators[None, :].astype(np.int32), GRID)


def border_text(attribute: Attribute, level: Fraction, border: int, group: Predicate) -> str:
    """The question of a border in words."""
    value = f"{attribute.edge(border):g}"
    return (
        f"share of {attribute.name} below {value} against {float(level):g} of all, {float(level):g} outside, where "
        f"{group.sql}"
    )


def quantile_figures(searches: list[Search]) -> Figures:
    """The quantiles of all groups."""
    return Figures(*(np.array(ends) for ends in zip(*(search.ends for search in searches), strict=True)))
