"""Sums and means in a session: linear queries with weights in [0, 1], one or two for each group of records.

A numeric attribute x with declared cells that hold values between l_t and h_t: with base b and width w such that all of
them lie in [b, b + w], the records of a group S have

    sum of x over S  =  b |S| + w sum over S of (x - b) / w,

and the last sum lies between those of (l_t - b) / w and (h_t - b) / w. Both are linear queries with weights in [0, 1]:
the gate knows their sensitivities, and the session tests or measures them like any condition. Where all values of a
cell are within a factor 1 - k to 1 + k of its middle, k at most a hundredth, one query of the middles serves both: the
true sum is within that factor of it. (The last cell of whole numbers mostly holds two.) Weights are multiples of 2^-20,
rounded down at the lower and up at the upper ends; where one query serves both, to the nearest, and half a step for
each record counts as error.

From shares within their errors, |S| in [C-, C+] and the two sums in [L-, L+] and [U-, U+], all of the same n records:

    sum    n times (b C- + w L-) to n times (b C+ + w U+), with C+ and C- exchanged where b < 0
    mean   b + w L- / C+ to b + w min(U+ / C-, 1)

Quantiles in a session: a search over the borders of cells, every step of which is an ordinary question.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Attribute, Domain
from maquette.errors import WorkloadError
from maquette.queries.predicates import Predicate
from maquette.queries.rows import Margin
from maquette.queries.weights import GRID, Weights
from maquette.results.figures import Figures
from maquette.results.means import crossing
from maquette.results.select import Item
from maquette.sessions.question import Question, SessionAnswer

MAX_SPREAD = 0.01
"""Relative width of cells up to which one query stands for both ends: a second one costs as much as the first."""
MAX_WEIGHTED_CELLS = 2**14
"""Weights of one query, which the ledger stores as they are."""

Floats = NDArray[np.float64]
End = Literal["value", "lower", "upper"]


class Part(NamedTuple):
    """What is asked about every group: how many records it has, or a weighted sum over them."""

    attribute: str | None = None
    """Only records whose value of it is declared count; None for all."""
    end: End | None = None
    """None where records are counted."""
    from_zero: bool = False
    """Is the weight of the value 0 nothing? Else that of the least value is."""


@dataclass(frozen=True)
class Scale:
    """How values of a numeric attribute become weights in [0, 1]."""

    attribute: Attribute
    from_zero: bool

    @cached_property
    def base(self) -> float:
        return 0.0 if self.from_zero else float(self.attribute.ends()[0][0])

    @cached_property
    def width(self) -> float:
        return (float(self.attribute.ends()[1][-1]) - self.base) or 1.0

    @cached_property
    def spread(self) -> float:
        """k: how far a value of a cell is from its middle at most, in units of what the middle is above the base."""
        low, high = self.attribute.ends()
        inside = high > low
        if not inside.any():
            return 0.0
        return float(((high - low)[inside] / ((low + high)[inside] - 2 * self.base)).max())

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """One query is enough where no cell is wide."""
        return ("value",) if self.spread <= MAX_SPREAD else ("lower", "upper")

    def enclose(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """The ends of a sum of weights by those of its queries: rounding and, where one serves both, its cells."""
        if self.ends != ("value",):
            return lower, upper
        step = 0.5 / GRID
        least, most = (lower - step) * (1 - self.spread), (upper + step) * (1 + self.spread)
        return np.maximum(least, 0.0), np.minimum(most, 1.0)

    def numerators(self, end: End) -> NDArray[np.int64]:
        """One for each cell; nothing for values that are missing or not declared."""
        low, high = self.attribute.ends()
        values = {"lower": low, "value": (low + high) / 2, "upper": high}[end]
        steps = (values - self.base) / self.width * GRID
        # a step of 2^-20 hides the rounding of the division; upwards and downwards it must not
        slack = 0.0 if end == "value" else 1e-6
        rounded = {"value": np.rint(steps), "lower": np.floor(steps - slack), "upper": np.ceil(steps + slack)}
        own = np.clip(rounded[end], 0, GRID).astype(np.int64)
        return np.concatenate([own, np.zeros(self.attribute.size - len(own), dtype=np.int64)])

    def text(self, end: End) -> str:
        """The weight in words."""
        name = self.attribute.name
        shifted = (
            name
            if self.base == 0
            else f"({name} - {self.base:g})"
            if self.base > 0
            else f"({name} + {-self.base:g})"
        )
        where = "" if end == "value" else f" ({end} ends of cells)"
        return f"mean of {shifted} / {self.width:g}{where}, 0 outside,"


def scale_of(domain: Domain, item: Item) -> Scale:
    """That of a sum starts at 0 where no value is negative, so that no group has to be counted."""
    attribute = domain[item.attribute or ""]
    return Scale(attribute, item.figure == "sum" and float(attribute.ends()[0][0]) >= 0)


def parts_of(domain: Domain, item: Item) -> list[Part]:
    """What a figure is made of."""
    if item.figure not in ("sum", "mean"):
        return [Part(item.attribute)]
    scale = scale_of(domain, item)
    weighted = [Part(item.attribute, end, scale.from_zero) for end in scale.ends]
    return weighted if item.figure == "sum" and scale.base == 0 else [Part(item.attribute), *weighted]


def weighted_cells(
    domain: Domain, names: Sequence[str], what: str
) -> tuple[Margin, dict[str, NDArray[np.int64]]]:
    """The attributes in the order of the domain, and their codes in every cell; refuses more cells than are weighed."""
    over = tuple(name for name in domain.names if name in names)
    cells = domain.cells(over)
    if cells > MAX_WEIGHTED_CELLS:
        raise WorkloadError(
            f"{what} in groups of this kind has {cells:,} weights, one for each cell of {', '.join(over)}, and a "
            f"session takes {MAX_WEIGHTED_CELLS:,}; group by fewer attributes"
        )
    codes = np.indices([domain[name].size for name in over]).reshape(len(over), -1)
    return over, dict(zip(over, codes, strict=True))


def weighted_query(domain: Domain, predicate: Predicate, part: Part) -> tuple[Weights, str]:
    """The weights of the records that meet a condition, by the value of an attribute; and in words."""
    assert part.attribute is not None
    assert part.end is not None
    scale = Scale(domain[part.attribute], part.from_zero)
    over, columns = weighted_cells(
        domain, (*predicate.attributes, part.attribute), f"a sum of '{part.attribute}'"
    )
    meets = np.asarray(predicate.columns_of(columns))[0].astype(np.int64)
    weights = meets * scale.numerators(part.end)[columns[part.attribute]]
    return Weights(
        domain, over, weights[None, :].astype(np.int32), GRID
    ), f"{scale.text(part.end)} where {predicate.sql}"


# --- figures out of answers -----------------------------------------------------------------------------------------


class Shares(NamedTuple):
    """One part of all groups: shares of the records between their ends."""

    value: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, answers: Sequence[SessionAnswer]) -> Shares:
        return cls(*(np.array([getattr(a, end) for a in answers]) for end in ("value", "low", "high")))


def figures_of(
    domain: Domain, item: Item, parts: Mapping[Part, Sequence[SessionAnswer]], *, n: float, off: float
) -> Figures:
    """Sums and means from the answers to their parts; the table has n records, within `off`."""
    scale = scale_of(domain, item)
    low, high = (
        Shares.of(parts[Part(item.attribute, end, scale.from_zero)])
        for end in (scale.ends[0], scale.ends[-1])
    )
    nearest = (low.value + high.value) / 2
    least, most = scale.enclose(low.lower, high.upper)
    if item.figure == "sum" and scale.base == 0:
        return _times_records(
            Figures(scale.width * nearest, scale.width * least, scale.width * most), n=n, off=off
        )
    count = Shares.of(parts[Part(item.attribute)])
    if item.figure == "sum":
        fewest, largest = (count.upper, count.lower) if scale.base < 0 else (count.lower, count.upper)
        shares = Figures(
            scale.base * count.value + scale.width * nearest,
            scale.base * fewest + scale.width * least,
            scale.base * largest + scale.width * most,
        )
        return _times_records(shares, n=n, off=off)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = scale.base + scale.width * np.clip(nearest / count.value, 0.0, 1.0)
        lower = scale.base + scale.width * np.minimum(least / count.upper, 1.0)
        upper = scale.base + scale.width * np.minimum(most / count.lower, 1.0)
    nobody = count.lower <= 0  # there may be no record of the group
    return Figures(
        np.where(count.value > 0, value, np.nan),
        np.where(nobody, np.nan, lower),
        np.where(nobody, np.nan, upper),
    )


def _times_records(shares: Figures, *, n: float, off: float) -> Figures:
    fewest, most = max(n - off, 0.0), n + off
    return Figures(
        shares.value * n,
        np.minimum(shares.lower * fewest, shares.lower * most),
        np.maximum(shares.upper * fewest, shares.upper * most),
    )


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
