"""Measured tables and what the rows say of them: intervals for queries that lie inside a measured table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import Binned, count_binned
from maquette.core.laws import Gaussian, law_of_variance
from maquette.core.measurement import NoisyTable, Size
from maquette.domain import Domain
from maquette.models.answers import amounts_of, binned_of, size_of, table_of, whole
from maquette.models.histogram import (
    SIZE_SHARE,
    Ends,
    ends_by_bounds,
    ends_by_variance,
    error_of,
    query_weights,
    size_tail,
)
from maquette.queries.base import Queries
from maquette.queries.rows import Columns, Margin
from maquette.theory import quantiles

_SMOOTH = 4.0
"""The variance of an integer Gaussian draw from which on a sum of them cannot be told from one draw."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """One table in bins: noisy counts, and the share of the released rows in every bin."""

    bins: Binned
    counts: NDArray[np.float64]
    shares: NDArray[np.float64]
    variance: float
    groups: tuple[int, ...] | None = None
    """The group of every bin, where a release of an earlier version counted bins together: numbers from 0, each with
    its count and its share."""

    def to_json(self) -> list[Any]:
        """What names the table; groups as runs of bins."""
        named = self.bins.to_json()
        if self.groups is None:
            return named
        return [*named, [[group, len(list(run))] for group, run in groupby(self.groups)]]


@dataclass(frozen=True, slots=True, eq=False)
class SculptModel:
    """Answers what is a sum of bins of one measured table.

    Accuracy: the value is the rows' own, moved into the interval of the noisy sum if it lies outside; the stated
        error reaches the far end of that interval. Inside one stage of measuring, the table that would be used
        follows from bins and variances that were fixed before the stage's noise was drawn; which stage is used may
        follow from later noise, so each has its share of the failure probability. Averages over stages would break
        this: whether a table was measured again as it was had been decided by its first noise.
    """

    kind: ClassVar[str] = "sculpt"
    domain: Domain
    tables: tuple[MeasuredTable, ...]
    size: Size
    pure: bool
    """Laplace noise, else Gaussian."""
    stages: int
    """How often it was decided, by what had been released, what to measure next; from public inputs."""

    @classmethod
    def of(
        cls,
        domain: Domain,
        noisy: Sequence[NoisyTable],
        rows: Columns,
        size: Size,
        *,
        pure: bool,
        stages: int,
    ) -> SculptModel:
        """Every table once, by its best measurement; `rows` are the released ones."""
        best: dict[Binned, NoisyTable] = {}
        for table in noisy:
            if table.binned not in best or table.variance < best[table.binned].variance:
                best[table.binned] = table
        tables: list[MeasuredTable] = []
        for table, counts in zip(best.values(), count_binned(domain, rows, list(best)), strict=True):
            shares = counts / max(counts.sum(), 1)
            values = table.values.astype(np.float64)
            tables.append(MeasuredTable(table.binned, values, shares, float(table.variance)))
        return cls(domain, tuple(tables), size, pure, stages)

    @property
    def margins(self) -> frozenset[Margin]:
        """The sets of attributes that were measured together, beside those of the workload."""
        return frozenset(table.bins.margin for table in self.tables)

    def estimate(self, query: Queries, *, beta: float, among: int = 1) -> tuple[float, float] | None:
        """One query as a fraction, and its error; None if it is not covered.

        Accuracy: except with probability beta, for all of the `among` queries together that may be asked so.
        """
        best = self._best(query)
        if best is None:
            return None
        table, weights = best
        middle = float((weights * table.shares).sum())
        low, high = self._ends(table, weights, beta=beta, among=among)
        value = min(max(middle, low), high)
        return value, error_of(value, (low, high))

    def _ends(self, table: MeasuredTable, weights: NDArray[np.float64], *, beta: float, among: int) -> Ends:
        """The shares that the noise of one table and of the total allow; a table of one attribute is in the total."""
        total, error = self.total(beta=beta)
        count = float((weights * table.counts).sum())
        if not self.pure:
            of_total = self.variance_of_total
            own = len(table.bins.margin) == 1 and self.size.noise is not None
            return ends_by_variance(
                count,
                total,
                of_count=table.variance * float((weights**2).sum()),
                of_total=of_total,
                common=of_total * float(weights.sum()) / len(table.counts) if own else 0.0,
                beta=beta / (self.stages * among),
            )
        share = beta / (self.stages * among) * (1 if self.size.public else 1 - SIZE_SHARE)
        sizes, counts = np.unique(np.abs(weights[weights != 0]), return_counts=True)
        groups = [(float(count), float(size)) for size, count in zip(sizes, counts, strict=True)]
        law = law_of_variance(table.variance, pure=True)
        noise = quantiles.sum_quantile(law, groups, beta=share) if groups else 0.0
        return ends_by_bounds(count, total, noise=noise, size_error=error, lean=0.0)

    def total(self, *, beta: float) -> tuple[float, float]:
        """The number of records and how far it may be off, out of the share of beta set aside for it.

        The sums of the one-way tables know it better than the question about the size does. Under Gaussian noise all
        of them are averaged by their precision, under Laplace noise the best one is taken. Accuracy: the tables of one
        attribute are all measured in the first stage, so that weights and choice follow from variances that were fixed
        before any of their noise was drawn.
        """
        if self.size.noise is None:
            return float(self.size.divisor), 0.0
        one_way = self._one_way
        values = [float(self.size.value), *(float(table.counts.sum()) for table in one_way)]
        variances = [self.size.noise.variance, *(len(table.counts) * table.variance for table in one_way)]
        share = beta * SIZE_SHARE
        if self.pure:
            best = int(np.argmin(variances))
            if best == 0:
                return max(values[0], 1.0), size_tail(self.size, beta)
            table = one_way[best - 1]
            law = law_of_variance(table.variance, pure=True)
            return max(values[best], 1.0), quantiles.sum_quantile(
                law, [(float(len(table.counts)), 1.0)], beta=share
            )
        weights = self.variance_of_total / np.array(variances)
        law = law_of_variance(self.variance_of_total, pure=False)
        return max(float(weights @ np.array(values)), 1.0), quantiles.sum_quantile(
            law, [(1.0, 1.0)], beta=share
        )

    @property
    def total_of_tables(self) -> tuple[float, Gaussian] | None:
        """The number of records by the one-way tables alone, and the law of its noise; None where it is no such law.

        Accuracy: given the released size, which had a say in their variances, the sums of the tables are averaged by
            fixed weights that add up to 1. The sum of a table's integer Gaussian draws has the law of one draw with the
            sum of their variances, up to a factor e^t with t = 10 sum over k < cells of e^(-2 pi^2 s^2 k / (k + 1))
            (Kairouz, Liu and Steinke 2021), below 10^-16 where s^2 is at least 4: the mean of the
            sums is at most a Gaussian variable and one step.
        Holds when: the noise is Gaussian, and no variance below 4.
        """
        tables = self._one_way
        if self.pure or self.size.public or not tables or min(one.variance for one in tables) < _SMOOTH:
            return None
        precisions = np.array([1 / (len(one.counts) * one.variance) for one in tables])
        sums = np.array([float(one.counts.sum()) for one in tables])
        law = Gaussian(Fraction(0), Fraction(1 / float(precisions.sum())))
        return max(float(precisions @ sums / precisions.sum()), 1.0), law

    @property
    def _one_way(self) -> list[MeasuredTable]:
        return [table for table in self.tables if len(table.bins.margin) == 1]

    @property
    def variance_of_total(self) -> float:
        """Of the mean of all measurements of the total by their precision; 0 where it is public."""
        if self.size.noise is None:
            return 0.0
        precisions = (1 / (len(table.counts) * table.variance) for table in self._one_way)
        return 1 / (1 / self.size.noise.variance + sum(precisions))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The parts that are stored: JSON and arrays."""
        spec = {
            "kind": self.kind,
            "size": self.size.to_json(),
            "pure": self.pure,
            "stages": self.stages,
            "tables": [table.to_json() for table in self.tables],
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
        named = [binned_of(domain, one) for one in spec["tables"]]
        sizes = [bins.cells if groups is None else max(groups) + 1 for bins, groups in named]
        ends = [0, *accumulate(sizes)]
        counts, shares = (
            np.split(table_of(arrays, name, [ends[-1]]), ends[1:-1]) for name in ("counts", "shares")
        )
        variances = amounts_of(spec["variances"], len(named), positive=True)
        parts = zip(named, counts, shares, variances, strict=True) if named else ()
        tables = tuple(
            MeasuredTable(bins, count, share, variance, groups)
            for (bins, groups), count, share, variance in parts
        )
        stages = whole(spec.get("stages", 1), least=1)
        return cls(domain, tables, size_of(spec["size"]), spec["pure"] is True, stages)

    def _best(self, query: Queries) -> tuple[MeasuredTable, NDArray[np.float64]] | None:
        """The table with the least noise in which the query is a sum of bins, and its weight on each bin."""
        if query.count != 1:
            return None
        names = query.attributes
        tables = [table for table in self.tables if set(names) <= set(table.bins.margin)]
        weights = query_weights(query) if tables else None
        if weights is None:
            return None
        covering = [(t, w) for t in tables if (w := _on_cells(t, names, weights)) is not None]
        return min(covering, key=lambda pair: pair[0].variance * float((pair[1] ** 2).sum()), default=None)


def _on_cells(
    table: MeasuredTable, names: Sequence[str], weights: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """A query's weights as weights on the counts of a table, flat; None if it is not constant on them."""
    bins = _on_bins(table.bins, names, weights)
    if bins is None or table.groups is None:
        return bins
    groups = np.asarray(table.groups)
    cells = np.empty(len(table.counts))
    cells[groups] = bins
    return cells if np.array_equal(cells[groups], bins) else None


def _on_bins(table: Binned, names: Sequence[str], weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
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
