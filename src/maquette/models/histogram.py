"""A noisy histogram as a model: it answers every query over its attributes, and knows how noisy the answer is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core.laws import Gaussian, IndependentLaw, Laplace
from maquette.core.measurement import Size
from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.models.answers import law_of, margin_of, size_of, table_of
from maquette.models.fits import MAX_MATRIX_CELLS, cell_weights
from maquette.queries.base import Queries
from maquette.queries.rows import Margin
from maquette.theory import quantiles

SIZE_SHARE = 0.1
"""The part of beta that is set aside for the released number of records, where that is noisy."""

Box = Mapping[str, Sequence[int]]
"""For each attribute the codes that are counted; attributes left out are not restricted."""

Ends = tuple[float, float]
"""The lowest and the highest share that the noise allows."""

_ROUNDS = 3
"""How often an interval is narrowed by what it says of its own ends."""


class Estimate(NamedTuple):
    """An unbiased count and the standard deviation of its noise."""

    value: float
    deviation: float


@dataclass(frozen=True, slots=True, eq=False)
class HistogramModel:
    """A histogram over some attributes with equal, independent noise in every cell, set to the released size.

    Cells may be negative: they are unbiased. The total is the released number of records.
    """

    kind: ClassVar[str] = "histogram"
    domain: Domain
    attributes: Margin
    cells: NDArray[np.float64]
    noise: IndependentLaw
    size: Size

    @classmethod
    def from_noisy(
        cls, domain: Domain, attributes: Margin, noisy: NDArray[Any], noise: IndependentLaw, size: Size
    ) -> HistogramModel:
        """Spread what the total lacks over all cells: the least-squares way to meet the released size."""
        shape = tuple(domain[name].size for name in attributes)
        table = np.asarray(noisy, dtype=np.float64).reshape(shape)
        return cls(domain, attributes, table + (size.divisor - table.sum()) / table.size, noise, size)

    def covers(self, attributes: Margin) -> bool:
        """Are all of these attributes in the histogram?"""
        return set(attributes) <= set(self.attributes)

    def answer(self, query: Box | NDArray[Any], *, margin: Margin | None = None) -> Estimate:
        """The count of a box, or of a mask over a margin, with the exact standard deviation of its noise."""
        weights, margin = weights_over(self.domain, self.attributes, query, margin)
        table = self.cells.sum(axis=_others(self.attributes, margin))
        inside, squares = self._sums(weights)
        variance = self.noise.variance * (squares - inside**2 / self.cells.size)
        share = inside / self.cells.size
        if self.size.noise is not None:
            variance += share**2 * self.size.noise.variance
        return Estimate(float((weights * table).sum()), math.sqrt(max(variance, 0.0)))

    def estimate(self, query: Queries, *, beta: float, among: int = 1) -> tuple[float, float] | None:
        """One query as a fraction, and its error; None if it is not covered.

        Accuracy: except with probability beta, for all of the `among` queries together that may be asked so.
        """
        weights = query_weights(query) if self.covers(query.attributes) else None
        if weights is None:
            return None
        count, total = self.answer(weights, margin=query.attributes), float(self.size.divisor)
        value = count.value / total
        return value, error_of(value, self._ends(weights, count, beta=beta, among=among))

    def _ends(self, weights: NDArray[np.float64], count: Estimate, *, beta: float, among: int) -> Ends:
        """Between which the share lies: the error of the total is in the count by the query's share of the cells."""
        inside, _ = self._sums(weights)
        share, total = inside / self.cells.size, float(self.size.divisor)
        if isinstance(self.noise, Gaussian) and not isinstance(self.size.noise, Laplace):
            of_total = 0.0 if self.size.noise is None else self.size.noise.variance
            return ends_by_variance(
                count.value,
                total,
                of_count=count.deviation**2,
                of_total=of_total,
                common=share * of_total,
                beta=beta / among,
            )
        groups = [(inside, 1 - share), (self.cells.size - inside, share)]
        noise = beta * (1 if self.size.public else 1 - SIZE_SHARE) / among
        return ends_by_bounds(
            count.value,
            total,
            noise=quantiles.sum_quantile(self.noise, groups, beta=noise),
            size_error=size_tail(self.size, beta),
            lean=share,
        )

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The parts that are stored: JSON and arrays."""
        spec = {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "noise": self.noise.to_dict(),
            "size": self.size.to_json(),
        }
        return spec, {"cells": self.cells}

    @classmethod
    def from_arrays(
        cls, domain: Domain, spec: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> HistogramModel:
        attributes = margin_of(domain, spec["attributes"])
        cells = table_of(arrays, "cells", [domain[name].size for name in attributes])
        return cls(domain, attributes, cells, law_of(spec["noise"]), size_of(spec["size"]))

    def _sums(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        """Sum of the query's weights and of their squares over all cells of the histogram."""
        copies = self.cells.size / weights.size
        return float(weights.sum()) * copies, float((weights**2).sum()) * copies


def weights_over(
    domain: Domain, covered: Margin, query: Box | NDArray[Any], margin: Margin | None
) -> tuple[NDArray[np.float64], Margin]:
    """A box or a mask as weights over a margin."""
    if isinstance(query, Mapping):
        margin = tuple(name for name in domain.names if name in query)
        factors = [box_factor(domain, name, query[name]) for name in margin]
        weights = np.ones(())
        for factor in factors:
            weights = np.multiply.outer(weights, factor)
    elif margin is None:
        raise WorkloadError("a mask needs the margin that it is over")
    else:
        weights = np.asarray(query, dtype=np.float64).reshape([domain[name].size for name in margin])
    if not set(margin) <= set(covered):
        raise WorkloadError(f"expected attributes among {', '.join(covered)}, got {', '.join(margin)}")
    return weights, margin


def box_factor(domain: Domain, name: str, codes: Sequence[int]) -> NDArray[np.float64]:
    """One for the codes that are counted, zero for the others."""
    factor = np.zeros(domain[name].size)
    factor[np.asarray(codes, dtype=np.int64)] = 1.0
    return factor


def query_weights(query: Queries) -> NDArray[np.float64] | None:
    """The weights of one query over its own attributes; None for several, or if those have too many cells."""
    if query.count != 1 or query.domain.cells(query.attributes) > MAX_MATRIX_CELLS:
        return None
    return cell_weights(query)[0].reshape([query.domain[name].size for name in query.attributes])


def size_tail(size: Size, beta: float) -> float:
    """How far the released number of records may be off, out of the share of beta set aside for it."""
    return (
        0.0 if size.noise is None else quantiles.sum_quantile(size.noise, [(1, 1.0)], beta=beta * SIZE_SHARE)
    )


def _others(attributes: Margin, margin: Margin) -> tuple[int, ...]:
    return tuple(i for i, name in enumerate(attributes) if name not in margin)


# The share c / n of a count among the records, where both are only known up to noise.
#
# The share f = c / n is a fixed number, so count - f total is noise around 0 whatever f is: all f for
# which it is not larger than noise can be are the interval (Fieller 1954). Dividing by a total that is
# itself off then needs no chance to fail of its own, and what the noise of the count and of the total
# have in common cancels.


def ends_by_variance(
    count: float, total: float, *, of_count: float, of_total: float, common: float, beta: float
) -> Ends:
    """Ends between which a share lies, by the variances of Gaussian noise and what they have in `common`.

    Accuracy: except with probability beta. count - f total is a sum of independent sub-Gaussian draws of variance
        v = of_count - 2 f common + f^2 of_total, so that it lies within z sqrt(v), z^2 = 2 ln(2 / beta). The f with
        (count - f total)^2 <= z^2 v lie between the roots of a quadratic if total^2 > z^2 of_total; else f may be
        anything.
    """
    z_squared = 2 * math.log(2 / beta)
    square = total**2 - z_squared * of_total
    if total <= 0 or square <= 0:
        return 0.0, 1.0
    middle = (count * total - z_squared * common) / square
    rest = (count**2 - z_squared * of_count) / square
    reach = math.sqrt(max(middle**2 - rest, 0.0))
    return _inside(middle - reach), _inside(middle + reach)


def ends_by_bounds(count: float, total: float, *, noise: float, size_error: float, lean: float) -> Ends:
    """The same for noise that is only known to be small: count - f total is within noise + |lean - f| size_error.

    Accuracy: wherever that is true. `lean` is how much of the error of the total is in the count.
    """
    if total <= 0:
        return 0.0, 1.0
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        reach = noise + max(abs(lean - low), abs(high - lean)) * size_error
        low, high = max(low, (count - reach) / total), min(high, (count + reach) / total)
        if low > high:  # the noise was larger than its bound: the nearest share
            low = high = _inside(count / total)
    return low, high


def error_of(value: float, ends: Ends) -> float:
    """How far a stated share lies from the farther end."""
    return max(value - ends[0], ends[1] - value)


def _inside(share: float) -> float:
    return min(max(share, 0.0), 1.0)
