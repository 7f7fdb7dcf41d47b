"""Measured tables and what the rows say of them: intervals for queries that lie inside a measured table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.models.histogram import SIZE_SHARE, parse_size, query_weights, size_tail, store_size
from maquette.models.measurement import Gaussian, Laplace, Noise, NoisyTable, Size
from maquette.models.tails import sum_tail
from maquette.queries.base import Queries
from maquette.queries.binned import Binned


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One table in bins: noisy counts, and the share of the released rows in every bin."""

    asked: Binned
    counts: NDArray[np.float64]
    shares: NDArray[np.float64]
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class SculptModel:
    """Answers what is a sum of bins of one measured table.

    Accuracy: the value is the rows' own, moved into the interval of the noisy sum if it lies outside; the stated
        error reaches the far end of that interval. Which table is used depends on its bins and variance, which were
        fixed before its noise was drawn.
    """

    kind: ClassVar[str] = "sculpt"
    domain: Domain
    tables: tuple[Measured, ...]
    size: Size
    pure: bool
    """Laplace noise, else Gaussian."""

    @classmethod
    def of(
        cls,
        domain: Domain,
        measured: Sequence[NoisyTable],
        rows: Sequence[NDArray[np.float64]],
        size: Size,
        *,
        pure: bool,
    ) -> SculptModel:
        """`rows` are the counts of the released rows in the bins of every table."""
        tables = tuple(
            Measured(
                table.asked,
                table.values.astype(np.float64),
                counts / max(counts.sum(), 1.0),
                float(table.variance),
            )
            for table, counts in zip(measured, rows, strict=True)
        )
        return cls(domain, tables, size, pure)

    def estimate(self, asked: Queries, *, beta: float) -> tuple[float, float] | None:
        """One query as a fraction, and its error except with probability beta; None if it is not covered."""
        found = self._best(asked)
        if found is None:
            return None
        table, weights = found
        share = beta * (1 if self.size.public else 1 - SIZE_SHARE)
        sizes, counts = np.unique(np.abs(weights[weights != 0]), return_counts=True)
        groups = [(float(count), float(size)) for size, count in zip(sizes, counts, strict=True)]
        noise = sum_tail(self._law(table.variance), groups, beta=share) if groups else 0.0
        width = (noise + size_tail(self.size, beta)) / self.size.divisor
        middle = float((weights * table.counts).sum()) / self.size.divisor
        value = min(max(float((weights * table.shares).sum()), middle - width), middle + width)
        return value, width + abs(value - middle)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The parts that are stored: JSON and arrays."""
        spec = {
            "kind": self.kind,
            "size": store_size(self.size),
            "pure": self.pure,
            "tables": [table.asked.to_json() for table in self.tables],
            "variances": [table.variance for table in self.tables],
        }
        empty = np.zeros(0)
        return spec, {
            "counts": np.concatenate([empty, *(table.counts for table in self.tables)]),
            "shares": np.concatenate([empty, *(table.shares for table in self.tables)]),
        }

    @classmethod
    def from_arrays(
        cls, domain: Domain, spec: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> SculptModel:
        asked = [Binned(tuple(m), tuple(tuple(cut) for cut in cuts)) for m, cuts in spec["tables"]]
        ends = np.cumsum([table.cells for table in asked])[:-1]
        counts, shares = (np.split(arrays[name], ends) for name in ("counts", "shares"))
        tables = tuple(map(Measured, asked, counts, shares, spec["variances"])) if asked else ()
        return cls(domain, tables, parse_size(spec["size"]), spec["pure"])

    def _law(self, variance: float) -> Noise:
        if self.pure:
            return Laplace(Fraction(0), Fraction(math.sqrt(variance / 2)))
        return Gaussian(Fraction(0), Fraction(variance))

    def _best(self, asked: Queries) -> tuple[Measured, NDArray[np.float64]] | None:
        """The table with the least noise in which the query is a sum of bins, and its weight on each bin."""
        if asked.count != 1:
            return None
        names = asked.attributes
        able = [table for table in self.tables if set(names) <= set(table.asked.margin)]
        weights = query_weights(asked) if able else None
        if weights is None:
            return None
        found = [(t, w) for t in able if (w := _on_bins(t.asked, names, weights)) is not None]
        return min(found, key=lambda pair: pair[0].variance * float((pair[1] ** 2).sum()), default=None)


def _on_bins(table: Binned, names: Sequence[str], weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """A query's weights as weights on the bins of a table, flat; None if it is not constant on them."""
    order = [names.index(name) for name in table.margin if name in names]
    low = high = weights.transpose(order)
    for axis, name in enumerate(name for name in table.margin if name in names):
        cut = table.cuts[table.margin.index(name)]
        low = np.minimum.reduceat(low, cut, axis=axis)
        high = np.maximum.reduceat(high, cut, axis=axis)
    if not np.array_equal(low, high):
        return None
    shape = [bins if name in names else 1 for name, bins in zip(table.margin, table.shape, strict=True)]
    return np.broadcast_to(low.reshape(shape), table.shape).ravel().astype(np.float64)
