"""The residual (ANOVA) basis: independent parts of tables that put every margin together again.

For a set A of attributes the residual R_A is the A-margin with the mean over each of its axes removed. The margin
on w is the sum over all A inside w of R_A, repeated along the other axes and divided by their sizes (Xiao, He,
Zhang and Kifer 2023). Attributes of one cell have no residual and are left out throughout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.core.measurement import Residual, Size
from maquette.domain import Domain
from maquette.errors import ReleaseError, WorkloadError
from maquette.models.answers import amount, amounts_of, margin_of, size_of, table_of
from maquette.models.histogram import (
    Box,
    Estimate,
    box_factor,
    ends_by_variance,
    error_of,
    query_weights,
    weights_over,
)
from maquette.queries.base import Queries
from maquette.queries.rows import Margin

Table = NDArray[np.floating[Any]]

_PRECISE = 2**20
"""Up to this many cells in all, residuals are kept in double precision."""


def below(domain: Domain, margins: Iterable[Margin]) -> tuple[Margin, ...]:
    """Every set of attributes inside one of the margins, small ones first, without attributes of one cell."""
    wide = {_varied(domain, margin) for margin in margins}
    parts = {
        part for margin in wide for order in range(len(margin) + 1) for part in combinations(margin, order)
    }
    place = {name: i for i, name in enumerate(domain.names)}
    return tuple(sorted(parts, key=lambda part: (len(part), [place[name] for name in part])))


def centre(table: NDArray[Any], axes: Sequence[int]) -> NDArray[Any]:
    """The table with the mean over each of these axes removed."""
    for axis in axes:
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def reconstruct(domain: Domain, residuals: Mapping[Margin, Table], margin: Margin) -> NDArray[np.float64]:
    """The margin's table out of the residuals of all sets of attributes inside it.

    Cost: one pass over the table per attribute; smaller residuals are first added up in the tables one order below.
    """
    sizes = [domain[name].size for name in margin]
    return _assemble(domain, residuals, _varied(domain, margin)).reshape(sizes)


def cell_variance(domain: Domain, variances: Mapping[Margin, float], margin: Margin) -> float:
    """The variance of the noise of every cell of a margin: the sum over A of s_A prod_A (1 - 1/n) / prod_rest n^2."""
    margin = _varied(domain, margin)
    return math.fsum(variances[part] * _share(domain, margin, part) for part in below(domain, [margin]))


def query_variance(
    domain: Domain, variances: Mapping[Margin, float], margin: Margin, weights: NDArray[Any]
) -> float:
    """The variance of a weighted sum of a margin's cells: over A, s_A times the squared norm of its A-part."""
    margin = _varied(domain, margin)
    table = np.asarray(weights, dtype=np.float64).reshape([domain[name].size for name in margin])
    total = 0.0
    for part in below(domain, [margin]):
        mean = table.mean(axis=tuple(i for i, name in enumerate(margin) if name not in part))
        total += variances[part] * float((centre(mean, range(len(part))) ** 2).sum())
    return total


def box_variance(domain: Domain, variances: Mapping[Margin, float], box: Mapping[str, NDArray[Any]]) -> float:
    """The same for a product of weights per attribute, without a table."""
    names = _varied(domain, box)
    mean = {name: float(np.mean(box[name])) for name in names}
    squares = {name: float(((box[name] - mean[name]) ** 2).sum()) for name in names}
    return math.fsum(
        variances[part] * math.prod(squares[n] if n in part else mean[n] ** 2 for n in names)
        for part in below(domain, [names])
    )


def _varied(domain: Domain, names: Iterable[str]) -> Margin:
    """The attributes of more than one cell among these."""
    return tuple(name for name in names if domain[name].size > 1)


@dataclass(frozen=True, slots=True, eq=False)
class ResidualModel:
    """Noisy residuals of every set of attributes below a workload of marginals: answers whatever lies inside one.

    Values are unbiased and consistent with each other; counts may be negative.
    """

    kind: ClassVar[str] = "residual"
    domain: Domain
    residuals: Mapping[Margin, Table]
    """The residual of every measured set; the empty set holds the released size."""
    variances: Mapping[Margin, float]
    """The variance parameter of the noise of each, per cell before the projection."""
    size: Size

    @classmethod
    def from_tables(cls, domain: Domain, tables: Sequence[Residual], size: Size) -> ResidualModel:
        """From what the gate returned. The size takes the place of the empty set, with its noise where it has some."""
        large = sum(residual.values.size for residual in tables) > _PRECISE
        kind = np.float32 if large else np.float64
        residuals: dict[Margin, Table] = {(): np.asarray(float(size.value))}
        variances: dict[Margin, float] = {(): 0.0 if size.noise is None else size.noise.variance}
        for residual in tables:
            left = [axis for axis in range(residual.values.ndim) if axis not in residual.axes]
            table = centre(residual.values / residual.denominator, left)
            residuals[residual.margin] = table.astype(kind) if residual.margin else table
            variances[residual.margin] = float(residual.variance)
        return cls(domain, residuals, variances, size)

    def covers(self, attributes: Iterable[str]) -> bool:
        """Is this set of attributes inside a measured margin?"""
        names = set(attributes)
        return tuple(n for n in self.domain.names if n in names and self.domain[n].size > 1) in self.residuals

    def table(self, margin: Margin) -> NDArray[np.float64]:
        """The unbiased table over a covered margin."""
        return reconstruct(self.domain, self.residuals, margin)

    def deviation(self, margin: Margin) -> float:
        """The standard deviation of the noise in every cell of a covered margin, in counts."""
        return math.sqrt(cell_variance(self.domain, self.variances, margin))

    def answer(self, query: Box | NDArray[Any], *, margin: Margin | None = None) -> Estimate:
        """The count of a box, or of a mask over a margin, with the exact standard deviation of its noise."""
        if isinstance(query, Mapping):
            names = tuple(name for name in self.domain.names if name in query)
            self._check(names)
            return self._box({name: box_factor(self.domain, name, query[name]) for name in names})
        weights, margin = weights_over(self.domain, self.domain.names, query, margin)
        self._check(margin)
        value = float((weights * self.table(margin)).sum())
        return Estimate(value, math.sqrt(query_variance(self.domain, self.variances, margin, weights)))

    def estimate(self, query: Queries, *, beta: float, among: int = 1) -> tuple[float, float] | None:
        """One query as a fraction, and its error; None if it is not covered.

        Accuracy: except with probability beta, for all of the `among` queries together that may be asked so.
        """
        weights = query_weights(query) if self.covers(query.attributes) else None
        if weights is None:
            return None
        count, total = self.answer(weights, margin=query.attributes), float(self.size.divisor)
        value, of_total = count.value / total, self.variances[()]
        ends = ends_by_variance(
            count.value,
            total,
            of_count=count.deviation**2,
            of_total=of_total,
            common=float(weights.mean()) * of_total,
            beta=beta / among,
        )
        return value, error_of(value, ends)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The parts that are stored: JSON and arrays."""
        margins = [margin for margin in self.residuals if margin]
        spec = {
            "kind": self.kind,
            "size": self.size.to_json(),
            "total": float(self.residuals[()]),
            "margins": [list(margin) for margin in margins],
            "variances": [self.variances[()], *(self.variances[margin] for margin in margins)],
        }
        return spec, {f"r{i}": self.residuals[margin] for i, margin in enumerate(margins)}

    @classmethod
    def from_arrays(
        cls, domain: Domain, spec: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> ResidualModel:
        margins = [(), *(margin_of(domain, margin) for margin in spec["margins"])]
        _check_closed(domain, margins)
        shapes = [[domain[name].size for name in margin] for margin in margins[1:]]
        tables = [table_of(arrays, f"r{i}", shape) for i, shape in enumerate(shapes)]
        variances = amounts_of(spec["variances"], len(margins))
        return cls(
            domain,
            dict(zip(margins, [np.asarray(amount(spec["total"], signed=True)), *tables], strict=True)),
            dict(zip(margins, variances, strict=True)),
            size_of(spec["size"]),
        )

    def _check(self, margin: Margin) -> None:
        if not self.covers(margin):
            raise WorkloadError(f"no measured margin holds {', '.join(margin)}")

    def _box(self, factors: Mapping[str, NDArray[Any]]) -> Estimate:
        """Each residual is contracted with the box; along the other axes only the box's mean counts."""
        names = _varied(self.domain, factors)
        means = {name: float(factor.mean()) for name, factor in factors.items()}
        value = 0.0
        for part in below(self.domain, [names]):
            table = np.asarray(self.residuals[part], dtype=np.float64)
            for name in part:
                table = np.tensordot(factors[name], table, axes=(0, 0))
            value += float(table) * math.prod(means[name] for name in names if name not in part)
        constant = math.prod(mean for name, mean in means.items() if name not in names)
        deviation = math.sqrt(box_variance(self.domain, self.variances, {n: factors[n] for n in names}))
        return Estimate(value * constant, deviation * constant)


def _check_closed(domain: Domain, margins: Sequence[Margin]) -> None:
    """Refuse sets without all sets inside them: what a stored model needs to put a table together."""
    there = set(margins)
    for margin in margins:
        inside = {tuple(name for name in margin if name != gone) for gone in margin}
        if not inside <= there or any(domain[name].size < 2 for name in margin):
            raise ReleaseError("the model lacks residuals that it needs")
    if len(there) < len(margins):
        raise ReleaseError("the model holds a residual twice")


def _share(domain: Domain, margin: Margin, part: Margin) -> float:
    """The squared norm of one cell's A-part inside a margin."""
    return math.prod(
        1 - 1 / domain[name].size if name in part else 1 / domain[name].size ** 2 for name in margin
    )


def _assemble(domain: Domain, residuals: Mapping[Margin, Table], margin: Margin) -> NDArray[np.float64]:
    """Each smaller set is added once, to one of the tables one order below, before that table is spread."""
    table = np.array(residuals[margin], dtype=np.float64)
    if not margin:
        return table
    open_sets = set(below(domain, [margin])) - {margin}
    for axis, gone in enumerate(margin):
        rest = tuple(name for name in margin if name != gone)
        lower = _collect(domain, residuals, rest, open_sets)
        if lower is not None:
            table += np.expand_dims(lower / domain[gone].size, axis)
    return table


def _collect(
    domain: Domain, residuals: Mapping[Margin, Table], margin: Margin, open_sets: set[Margin]
) -> NDArray[np.float64] | None:
    """The sum, spread over `margin`, of the sets inside it that are still open; they are closed by this."""
    inside = [part for part in open_sets if set(part) <= set(margin)]
    if not inside:
        return None
    open_sets.difference_update(inside)
    sizes = [domain[name].size for name in margin]
    total = np.zeros(sizes)
    for part in inside:
        shape = [size if name in part else 1 for name, size in zip(margin, sizes, strict=True)]
        others = math.prod(size for name, size in zip(margin, sizes, strict=True) if name not in part)
        total += np.asarray(residuals[part], dtype=np.float64).reshape(shape) / others
    return total
