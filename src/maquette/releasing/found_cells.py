"""Cells of a numeric column from noisy counts: which numbers to look at more closely, and where the borders go.

All of it is post-processing of what the gate returned. The first look, by the public ladder, says where the numbers
are to a factor of two or so; the last counts them between round borders that are close where the one before saw many;
then neighbours are put together until each cell holds about the same share. Where many numbers are in the first or the
last step of the ladder, as the latitudes of a city or days of the year are, a look between the two divides that step
first: a thousand cells between 20 and 50 degrees would give the city eight. Equal widths between the borders of the
ladder were tried before: on flights and nist_acs the largest error of a release was five times that of a declared
domain, because values that share a cell come back spread over all of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.core.laws import IndependentLaw
from maquette.discovery.findings import MAX_BORDERS, NUMBERS
from maquette.domain import Attribute, Kind
from maquette.theory import quantiles

Counts = NDArray[np.int64]

STRAY = 1e-4
"""The chance that an empty cell of a ladder passes for one with records (1e-2 gave absurd bounds)."""
BINS = 100
"""Cells of a column, about. Set by hand: with 50 the cells alone made twice the largest error on flights."""
FEW = 100
"""Whole numbers that have a cell each."""
CLEAR = 4
"""Standard deviations that noise does not reach alone."""
BEYOND = 3
"""The same for the outermost cells: one too many costs less than one that is missing."""
MAY_BE_LOST, HIDDEN = 0.02, 2
"""The share of the numbers that may lie beyond either bound, and the standard deviations of noise that may hide them.
Set by hand: wide enough that a sharp end is found, with noise of a tenth of a cell's records, to the cell."""
END_SHARE = 0.2
"""The share of the numbers in the first or last step of the ladder from which that step is divided by a look of its
own: there is a sharp end inside, or everything."""
MIN_PARTS, MAX_PARTS = 16, 64
"""Parts of such a step, by the noise: what a cut could lose must show."""
MANY_MISSING = 2
"""Standard deviations from which a column has a cell for missing values: an empty one costs a little accuracy only."""


def occupied(counts: Counts, noise: IndependentLaw) -> tuple[int, int] | None:
    """The first and the last cell with more records than noise makes of none; None where no cell has."""
    cells = np.flatnonzero(counts > quantiles.lower_quantile(noise, beta=STRAY, count=len(counts)))
    return (int(cells[0]), int(cells[-1])) if len(cells) else None


@dataclass(frozen=True, slots=True)
class Look:
    """Noisy counts between borders: below the first one, between each two, from the last one on."""

    borders: Sequence[float]
    counts: Counts
    noise: IndependentLaw
    cells: tuple[int, int]
    """The first and the last of the counts that matter."""

    @classmethod
    def by_ladder(cls, counts: Counts, noise: IndependentLaw) -> Look | None:
        """The public ladder, from its first to its last step with records; None if all that is seen lies beyond it."""
        cells = occupied(counts, noise)
        if cells is None or cells[1] == 0 or cells[0] == len(NUMBERS):
            return None
        look = cls(NUMBERS, counts, noise, (max(cells[0], 1), min(cells[1], len(NUMBERS) - 1)))
        records, deviation = look.inside
        return look if records > CLEAR * deviation else None

    @property
    def steps(self) -> list[tuple[float, float]]:
        first, last = self.cells
        return [(self.borders[i - 1], self.borders[i]) for i in range(first, last + 1)]

    @property
    def records(self) -> NDArray[np.float64]:
        """The noisy number of records in each step, none below nought."""
        return np.maximum(self.counts[self.cells[0] : self.cells[1] + 1].astype(np.float64), 0.0)

    @property
    def inside(self) -> tuple[float, float]:
        """How many records there are in all steps, and the standard deviation of that."""
        first, last = self.cells
        return float(self.counts[first : last + 1].sum()), self.noise.deviation * math.sqrt(last - first + 1)

    def closer(self, counts: Counts, noise: IndependentLaw, borders: Sequence[float]) -> Look:
        """What a look between closer borders leaves of this one."""
        first, last = _outermost(counts[1:-2].astype(np.float64), noise.deviation, self.inside)
        return Look(borders, counts[:-1], noise, (first + 1, last + 1))


def end_borders(ladder: Look, *, is_whole: bool) -> tuple[float, ...] | None:
    """Borders that divide the first and the last step of the ladder if many numbers are in one of them; None if not."""
    steps, records = ladder.steps, ladder.records
    if is_whole and steps[-1][1] - steps[0][0] <= FEW:
        return None
    total = max(float(records.sum()), 1.0)
    shown = MAY_BE_LOST * total / (HIDDEN * ladder.noise.deviation)
    parts = int(min(max(shown**2, MIN_PARTS), MAX_PARTS))
    if max(records[0], records[-1]) < END_SHARE * total:
        return None
    borders = {border for step in steps for border in step}
    for left, right in (steps[0], steps[-1]):
        borders |= set(_divided(left, right, parts, is_whole=is_whole))
    return tuple(sorted(borders))


def close_borders(look: Look, *, is_whole: bool) -> tuple[float, ...]:
    """Borders for the last look, from the counts of the one before.

    Each of its steps is divided by its share of the records, into round widths; whole numbers no further than
    into single ones, and all of them singly where they are few. If single ones are too many for that and have room all
    the same, a step has as many cells as its records stand out from the noise of: a thin tail would be lost in more.
    """
    steps = look.steps
    low, high = steps[0][0], steps[-1][1]
    if is_whole:
        low, high = math.floor(low), math.ceil(high)
        if high - low <= FEW:
            return tuple(float(x) for x in range(int(low), int(high) + 1))
    shares = look.records
    room = MAX_BORDERS - 2 * len(steps)
    parts = np.floor(room * shares / max(float(shares.sum()), 1.0)).astype(int)
    if is_whole and high - low < MAX_BORDERS:
        lengths = np.ceil([right - left for left, right in steps]).astype(int)
        clear = np.floor((shares / (BEYOND * look.noise.deviation)) ** 2)
        parts = np.maximum(parts, np.minimum(lengths, clear).astype(int))
    borders = {float(low), float(high)}
    for (left, right), most in zip(steps, parts.tolist(), strict=True):
        borders |= set(_divided(left, right, most, is_whole=is_whole))
    return tuple(sorted(border for border in borders if low <= border <= high))


def _divided(left: float, right: float, most: int, *, is_whole: bool) -> list[float]:
    """The borders of a step of the ladder, divided into at most so many parts (at least one) of a round width."""
    start, end = (Fraction(repr(border)) for border in (left, right))
    length, width = end - start, end - start
    power = Fraction(10) ** math.floor(math.log10(length))
    while power * 10 * max(most, 1) >= length:
        for round_width in (5 * power, 2 * power, power):
            whole_parts = length / round_width
            if whole_parts.denominator == 1 and whole_parts <= most:
                width = round_width
        power /= 10
    borders = [float(start + i * width) for i in range(int(length / width) + 1)]
    return [b for b in borders if b.is_integer()] if is_whole else borders


def number_attribute(
    name: str,
    borders: Sequence[float],
    counts: Counts,
    noise: IndependentLaw,
    *,
    inside: tuple[float, float],
    is_whole: bool,
) -> Attribute:
    """The declaration that noisy counts support: below the borders, between each two, above them, no number.

    Numbers beyond the first and the last border are counted in the outermost cells, as every release does with numbers
    out of bounds. `inside` is how many there are by the first look, and its standard deviation.
    """
    inner = counts[1:-2].astype(np.float64)
    deviation = noise.deviation
    first, last = _outermost(inner, deviation, inside)
    nullable = bool(counts[-1] > MANY_MISSING * deviation)
    inner, borders = inner[first : last + 1], list(borders[first : last + 2])
    if is_whole and len(inner) <= FEW and borders[-1] - borders[0] == len(inner):
        # half way between whole numbers, so that the last cell, which is closed, holds one number like all others
        bounds = (borders[0] - 0.5, borders[-1] - 0.5)
        return Attribute(name, Kind.NUMERIC, bounds=bounds, bins=len(inner), nullable=nullable, integer=True)
    chosen = [borders[i] for i in _joined(borders, inner, deviation)]
    return Attribute(
        name, Kind.NUMERIC, edges=tuple(map(_plain, chosen)), nullable=nullable, integer=is_whole
    )


def share_inside(borders: Sequence[float], counts: Counts, low: float, high: float) -> float:
    """The share of the numbers between two values, by the noisy counts that their borders came from."""
    starts, ends = np.asarray(borders[:-1]), np.asarray(borders[1:])
    inside = counts[1:-2][(ends > low) & (starts <= high)].sum()
    return float(np.clip(inside / max(int(counts[:-1].sum()), 1), 0.0, 1.0))


def _outermost(inner: NDArray[np.float64], deviation: float, inside: tuple[float, float]) -> tuple[int, int]:
    """The outermost cells to keep: those with clear records, and beyond them where noise could hide too many.

    Where every cell is drowned in noise, clear records begin far inside. (Cut there, ages of 2,000 people from 0 to 89
    were "nearly all" between 28 and 46.) What noise could hide follows from the cells that are cut, or from those that
    stay and the number of all records by an earlier look, `inside`: where few cells hold nearly all, the noise of many
    empty ones says nothing.
    """
    last = len(inner) - 1
    ends = _ends(inner, deviation)
    total = max(float(inner.sum()), inside[0])
    if ends is not None:
        stay = inner[ends[0] : ends[1] + 1]
        hidden = (
            inside[0] - float(stay.sum()) + HIDDEN * math.hypot(inside[1], deviation * math.sqrt(len(stay)))
        )
        if hidden <= MAY_BE_LOST * total:
            return ends
    may_be_lost = MAY_BE_LOST * float(inner.sum())
    noise = HIDDEN * deviation * np.sqrt(np.arange(1, len(inner) + 1))
    left, right = (
        int(np.argmax(np.append(np.cumsum(side) + noise > may_be_lost, True)))
        for side in (inner, inner[::-1])
    )
    ends = ends or (last, 0)
    return min(ends[0], left), max(ends[1], last - right)


def _ends(inner: NDArray[np.float64], deviation: float) -> tuple[int, int] | None:
    """The outermost cells to keep: from either end the first at which the sum so far is more than noise makes."""
    reach = BEYOND * deviation * np.sqrt(np.arange(1, len(inner) + 1))
    left = np.flatnonzero(np.cumsum(inner) > reach)
    right = np.flatnonzero(np.cumsum(inner[::-1]) > reach)
    if not len(left) or not len(right):
        return None
    first, last = int(left[0]), len(inner) - 1 - int(right[0])
    return min(first, last), max(first, last)


def _joined(borders: Sequence[float], inner: NDArray[np.float64], deviation: float) -> list[int]:
    """Which borders stay: neighbours are put together to about an even share; a cell that has one alone stays alone.

    Among the borders that give between half a share and one and a half the roundest stays, since it is at round numbers
    that people ask.
    """
    share = max(_even_share(inner), CLEAR * deviation)
    stay, start = [0], 0
    while start < len(inner):
        mass, best, rank = 0.0, len(inner), (-math.inf, 0.0)
        for end in range(start + 1, len(inner) + 1):
            count = float(inner[end - 1])
            alone = count >= share
            if alone and end - 1 > start:
                best = end - 1 if best == len(inner) else best
                break
            mass += count
            clear = mass >= CLEAR * deviation * math.sqrt(end - start)
            if clear and mass >= share / 2 and (_roundness(borders[end]), -abs(mass - share)) > rank:
                best, rank = end, (_roundness(borders[end]), -abs(mass - share))
            if alone or (clear and mass >= 1.5 * share):
                break
        stay += _without_gaps(borders, inner, start, best, deviation)
        start = best
    return stay


def _even_share(inner: NDArray[np.float64]) -> float:
    """Records of a cell if all had the same, but for those that have more by themselves."""
    masses = np.sort(np.maximum(inner, 0.0))[::-1]
    rest, cells = float(masses.sum()), BINS
    for mass in masses.tolist():
        if cells <= 1 or mass < rest / cells:
            break
        rest, cells = rest - mass, cells - 1
    return rest / cells


def _without_gaps(
    borders: Sequence[float], inner: NDArray[np.float64], start: int, end: int, deviation: float
) -> list[int]:
    """The last border of a new cell, after one or two within it where half of its width or more holds nothing."""
    ends = _ends(inner[start:end], deviation)
    if ends is None:
        return [end]
    half = (borders[end] - borders[start]) / 2
    first, last = start + ends[0], start + ends[1] + 1
    inside = [first] if borders[first] - borders[start] >= half else []
    inside += [last] if borders[end] - borders[last] >= half and last > first else []
    return [*inside, end]


def _roundness(border: float) -> float:
    """How round a number is: the largest 1, 2 or 5 times a power of ten that it is a multiple of, as a logarithm."""
    if not border:
        return math.inf
    exact = Fraction(repr(border))
    power = math.floor(math.log10(abs(border)))
    while (exact / Fraction(10) ** power).denominator != 1:
        power -= 1
    digits = int(exact / Fraction(10) ** power)
    return power + math.log10(next(step for step in (5, 2, 1) if digits % step == 0))


def _plain(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
