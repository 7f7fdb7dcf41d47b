"""A mean by the noise of one measured table: Fieller's interval, so that a count and its sum are off together.

Let the records of a group be counted in bins, c of them between l and h in each, with Gaussian noise of variance v on
every count. The mean mu of the group is a fixed number and the sum of x - mu over the group is 0, so that

    sum of c (h - mu)  >=  0  >=  sum of c (l - mu).

With the noisy counts in the place of c either side may be off by z root(v sum of (h - mu)^2), with l for the other: all
mu for which neither side is farther off are the interval (Fieller 1954). The first function of mu is convex and the
second concave, so each end is one root, or the bound of the attribute.

Accuracy: except with probability beta, for this mean alone: each side fails with at most exp(-z^2 / 2) = beta / 2,
    since discrete Gaussian noise is sub-Gaussian. Each of several tables has its share of beta, and so has each stage
    of measuring, as in `sculpt/model.py`.

The second part has the same for released shares of cells, each within an error, and where a quantile lies among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Attribute
from maquette.sculpt.model import MeasuredTable, SculptModel

Floats = NDArray[np.float64]
Ends = tuple[float, float]

_HALVINGS = 60


def ends_by_noise(
    model: SculptModel, group: Mapping[str, int], attribute: Attribute, *, beta: float
) -> Ends | None:
    """Between which ends the mean of a group lies, the group given by one cell of some attributes.

    None where no table was measured in bins that tell the group apart, or its noise is not Gaussian.
    """
    if model.pure:
        return None
    cells = {name: (code, model.domain[name].size) for name, code in group.items()}
    parts = [(table, part) for table in model.tables if (part := _bins(table, cells, attribute)) is not None]
    lowest, highest = attribute.ends()
    low, high = float(lowest[0]), float(highest[-1])
    for table, (counts, least, most) in parts:
        reach = math.sqrt(2 * math.log(2 * model.stages * len(parts) / beta) * table.variance)
        ends = fieller(counts, least, most, reach=reach, within=(float(lowest[0]), float(highest[-1])))
        low, high = max(low, ends[0]), min(high, ends[1])
    return (low, high) if parts and low <= high else None


def fieller(counts: Floats, least: Floats, most: Floats, *, reach: float, within: Ends) -> Ends:
    """The means that noisy counts allow; `reach` is z times the deviation of the noise on a count."""

    def above(mean: float) -> float:
        return float(counts @ (most - mean)) + reach * float(np.linalg.norm(most - mean))

    def below(mean: float) -> float:
        return float(counts @ (least - mean)) - reach * float(np.linalg.norm(least - mean))

    low, high = within
    upper = high if above(high) >= 0 or above(low) < 0 else _root(above, low, high)[1]
    lower = low if below(low) <= 0 or below(high) > 0 else _root(below, low, high)[0]
    return lower, upper


def _root(function: Callable[[float], float], low: float, high: float) -> Ends:
    """A function that is not negative at the lower and negative at the upper end: where it changes its sign."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) >= 0 else (low, middle)
    return low, high


def _bins(
    table: MeasuredTable, group: Mapping[str, tuple[int, int]], attribute: Attribute
) -> tuple[Floats, Floats, Floats] | None:
    """Noisy counts of the group in the bins of an attribute, with the least and the largest value of each bin.

    The group is given by code and number of cells of its attributes. A table with further attributes has more noise.
    """
    bins = table.bins
    if table.groups is not None or {*group, attribute.name} != set(bins.margin):
        return None
    counts = table.counts.reshape(bins.shape)
    for axis, name in enumerate(bins.margin):
        if name != attribute.name:
            place = _place(bins.cuts[axis], *group[name])
            if place is None:
                return None
            counts = np.take(counts, [place], axis=axis)
    cut = np.array(bins.cuts[bins.margin.index(attribute.name)])
    stop = np.append(cut[1:], attribute.size)
    if ((cut < attribute.cells) & (stop > attribute.cells)).any():
        return None  # declared and other values in one bin
    own = cut < attribute.cells
    low, high = attribute.ends()
    return counts.ravel()[own], low[cut[own]], high[stop[own] - 1]


def _place(cut: Sequence[int], code: int, size: int) -> int | None:
    """The bin that holds one cell and nothing else."""
    borders = [*cut, size]
    return cut.index(code) if code in cut and borders[cut.index(code) + 1] == code + 1 else None


@dataclass(frozen=True, slots=True)
class Cells:
    """The declared cells of a numeric attribute as values: the middle of each and how far a value lies from it."""

    values: Floats
    reach: Floats

    @classmethod
    def of(cls, attribute: Attribute) -> Cells:
        low, high = attribute.ends()
        return cls((low + high) / 2, (high - low) / 2)

    @property
    def width(self) -> float:
        """How far the values go up from the first cell to the last."""
        return float(self.values[-1] - self.values[0])

    @property
    def reach_variation(self) -> float:
        """How much the reach changes from cell to cell, added up."""
        return float(np.abs(np.diff(self.reach)).sum())


def mean_by_tails(values: Floats, errors: Floats, cells: Cells) -> tuple[Floats, Floats]:
    """Between which ends a mean lies, since no share of records above a value is negative or more than all of them.

    A mean is the lowest value and, for every step to the next, the share of the records above it. Each of those shares
    is within the error, and so is what they are a share of. A long tail of few records then counts for what it is
    known to hold, not for the error all along it.
    """
    inside = values.sum(axis=1)
    above = np.cumsum(values[:, :0:-1], axis=1)[
        :, ::-1
    ]  # in all cells from the second on, from the third on ...
    error = errors[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        fewest = np.maximum(above - error, 0.0) / np.minimum(inside + errors, 1.0)[:, None]
        most = np.minimum((above + error) / (inside - errors)[:, None], 1.0)
    low, high = cells.values - cells.reach, cells.values + cells.reach
    lower = low[0] + np.minimum(fewest, 1.0) @ np.diff(low)
    upper = high[0] + most @ np.diff(high)
    has_some = inside > errors
    return np.where(has_some, lower, np.nan), np.where(has_some, upper, np.nan)


def crossing(gap: Floats, borders: Floats) -> float:
    """Where a rising broken line through (border, gap) meets 0; where it leaves 0, if it starts there."""
    if gap[0] >= 0:
        return float(borders[int(np.searchsorted(gap, gap[0], side="right")) - 1])
    t = int(np.searchsorted(gap, 0.0, side="left"))
    t = min(max(t, 1), len(borders) - 1)
    left, right = gap[t - 1], gap[t]
    part = 0.5 if right <= left else min(max(-left / (right - left), 0.0), 1.0)
    return float(borders[t - 1] + part * (borders[t] - borders[t - 1]))
