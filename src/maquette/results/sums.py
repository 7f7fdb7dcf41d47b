"""Means and sums of a column out of its measured sum, each between two ends.

With w the width of the bounds and m their middle, the released number is s = sum of (v - m) / w plus noise. Beside it
stands, where values may be missing, h = half the number of declared values plus noise of the same law; elsewhere the
number of records n. The mean mu, as t = (mu - m) / w from -1/2 to 1/2, is the number for which the sum of v - mu is 0,
so that s - 2 t h, or s - t n, is noise alone. All t for which it is not too large are the interval (Fieller 1954).

Accuracy: each figure alone. Gaussian noise on two numbers is taken for one draw with the sum of their variances: so it
    is up to a step of the grid and a factor below 1 + 10^-16 (by Poisson's sum, where s^2 u^2 / (s^2 + u^2) is at least
    4 for deviations s and u in steps of the coarser grid, and the finer grid is far finer). Laplace noise by Chernoff,
    and beside a noisy n by the part of beta that its own statement leaves. A value is read as the nearest multiple of
    the unit, which moves a mean by half a unit at most; that is added, except for whole numbers by one. What lies
    beyond the bounds counts as the bound, or as undeclared where the attribute says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maquette.core.grid import Grid
from maquette.core.laws import Gaussian, IndependentLaw
from maquette.core.measurement import NoisySums, Receipt
from maquette.domain import Attribute
from maquette.errors import ReleaseError
from maquette.mechanisms.sizing import SIZE_BETA
from maquette.theory import epochs, quantiles

STATEMENT = "from the noise of the column's own sum (for this figure alone)"


@dataclass(frozen=True, slots=True)
class ColumnSum:
    """The measured sum of (v - middle) / width over one column, and half the number of its declared values."""

    name: str
    value: int
    """Over the denominator."""
    halves: int | None
    """Over the denominator too; None where every record has a declared value."""
    denominator: int
    noise: IndependentLaw
    receipt: Receipt

    @classmethod
    def of(cls, paid: NoisySums) -> ColumnSum:
        """What was measured over all records."""
        value, *more = (int(v) for v in paid.values)
        return cls(paid.name, value, next(iter(more), None), paid.denominator, paid.noise, paid.receipt)

    @property
    def sum(self) -> float:
        """The noisy sum of (v - middle) / width."""
        return self.value / self.denominator

    def noise_of(self, *weights: float, beta: float, beside: float = 0.0) -> float:
        """A bound on the noise of a weighted sum of its numbers, and of other Gaussian noise of a variance."""
        if not isinstance(self.noise, Gaussian):
            return quantiles.sum_quantile(self.noise, [(1, abs(weight)) for weight in weights], beta=beta)
        variance = float(self.noise.sigma_squared) * sum(weight**2 for weight in weights) + beside
        largest = max(abs(weight) for weight in weights) / self.denominator
        return largest * epochs.gaussian_reach(math.sqrt(variance) / largest, beta) if largest else 0.0


@dataclass(frozen=True, slots=True)
class Between:
    """A figure with its ends."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Records:
    """The number of records with its ends, and whether it is public."""

    lower: float
    value: float
    upper: float
    is_public: bool
    variance: float | None = None
    """Of its noise, where that is Gaussian."""

    def beside(self, column: ColumnSum) -> float | None:
        """The same where it can be added to that of a sum; None where the ends are needed."""
        if self.is_public:
            return 0.0
        return self.variance if isinstance(column.noise, Gaussian) else None


def mean_of(column: ColumnSum, attribute: Attribute, records: Records, *, beta: float) -> Between:
    """The mean of the declared values."""
    fine = _grid(attribute)
    t = _place_by_count(column, beta) if column.halves is not None else _place(column, records, beta)
    middle, width, step = float(fine.middle), float(fine.width), _rounding(attribute, fine)
    low, high = middle - width / 2, middle + width / 2
    return Between(
        middle + width * t.value,
        max(middle + width * t.lower - step, low),
        min(middle + width * t.upper + step, high),
    )


def sum_of(column: ColumnSum, attribute: Attribute, records: Records, *, beta: float) -> Between:
    """The sum of the declared values."""
    fine = _grid(attribute)
    middle, width, step = float(fine.middle), float(fine.width), _rounding(attribute, fine)
    if column.halves is not None:
        count = 2 * column.halves / column.denominator
        off = column.noise_of(width, 2 * middle, beta=beta) + step * max(
            count + column.noise_of(2.0, beta=beta), 0.0
        )
        value = middle * count + width * column.sum
        return Between(value, value - off, value + off)
    value = middle * records.value + width * column.sum
    beside = records.beside(column)
    if beside is not None:
        off = column.noise_of(width, beside=middle**2 * beside, beta=beta) + step * records.upper
        return Between(value, value - off, value + off)
    off = column.noise_of(width, beta=beta * (1 - SIZE_BETA)) + step * records.upper
    ends = sorted(middle * n for n in (records.lower, records.upper))
    return Between(value, ends[0] + width * column.sum - off, ends[1] + width * column.sum + off)


def _place(column: ColumnSum, records: Records, beta: float) -> Between:
    """Where the mean lies between the bounds, from -1/2 to 1/2, by the number of all records."""
    value = _within(column.sum / max(records.value, 1.0))
    beside = records.beside(column)
    if beside is not None:
        return _ends(
            column.sum, records.value, value, lambda t: column.noise_of(1.0, beside=t**2 * beside, beta=beta)
        )
    if records.lower <= 0:
        return Between(value, -0.5, 0.5)
    off = column.noise_of(1.0, beta=beta * (1 - SIZE_BETA))
    lower = min((column.sum - off) / n for n in (records.lower, records.upper))
    upper = max((column.sum + off) / n for n in (records.lower, records.upper))
    return Between(value, _within(lower), _within(upper))


def _place_by_count(column: ColumnSum, beta: float) -> Between:
    """The same by the noisy number of declared values."""
    assert column.halves is not None
    count = 2 * column.halves / column.denominator
    value = _within(column.sum / count) if count > 0 else 0.0
    return _ends(column.sum, count, value, lambda t: column.noise_of(1.0, 2 * t, beta=beta))


def _ends(total: float, count: float, value: float, noise: Callable[[float], float]) -> Between:
    """All t with |total - t count| within the noise at t: by the noise at the farthest t, then at those that are left.

    The noise grows with the size of t, so that no t is left out that its own noise allows.
    """
    lower, upper = -0.5, 0.5
    for _ in range(2):
        off = noise(max(abs(lower), abs(upper)))
        if (
            count <= 0 or abs(total) - off > count / 2
        ):  # fewer than none, or beyond the bounds: nothing is known
            return Between(value, -0.5, 0.5)
        lower, upper = max((total - off) / count, lower), min((total + off) / count, upper)
    return Between(min(max(value, lower), upper), lower, upper)


def _within(t: float) -> float:
    return min(max(t, -0.5), 0.5)


def _grid(attribute: Attribute) -> Grid:
    assert attribute.grid is not None
    return attribute.grid


def _rounding(attribute: Attribute, fine: Grid) -> float:
    """How far a value may lie from its multiple of the unit."""
    return 0.0 if attribute.integer and fine.unit == 1 else float(fine.unit) / 2


def to_json(column: ColumnSum) -> dict[str, Any]:
    """What a release stores of it."""
    return {
        "name": column.name,
        "value": column.value,
        "halves": column.halves,
        "denominator": column.denominator,
        "noise": column.noise.to_dict(),
        "receipt": {"sequence": column.receipt.sequence, "head": column.receipt.head},
    }


def check(columns: Sequence[ColumnSum], grids: Mapping[str, Grid | None]) -> None:
    """Sums that can be those of the declared columns."""
    for column in columns:
        fine = grids.get(column.name)
        if fine is None or column.denominator != 2 * fine.steps:
            raise ReleaseError(f"expected the sum of a column with a unit, got that of {column.name!r:.80}")
        if (column.halves is not None) != fine.has_undeclared:
            raise ReleaseError(f"the sum of '{column.name}' is not one over its declared values")
