"""A noisy histogram as a model: it answers every query over its attributes, and knows how noisy the answer is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.models.fits import MOST_CELLS, cell_weights
from maquette.models.stored import known_law_of, margin_of, size_of, table_of
from maquette.queries.base import Margin, Queries
from maquette.questions.measurement import Gaussian, Laplace, Noise, Size, as_json

# How far a weighted sum of noise can go, except with a given probability. For the answers of models.


def sum_tail(noise: Noise, groups: list[tuple[float, float]], *, beta: float) -> float:
    """A bound on |sum of coefficient times draw|; `groups` are (how many draws, their coefficient).

    Accuracy: Chernoff. Discrete Gaussian draws are sub-Gaussian with their variance parameter (Canonne, Kamath and
        Steinke 2020); discrete Laplace draws have the cumulant -ln(1 - (sinh(s/2)/sinh(1/(2 scale)))^2).
    """
    used = np.array([(count, abs(size)) for count, size in groups if count > 0 and size != 0]).reshape(-1, 2)
    if not len(used):
        return 0.0
    failure = math.log(2 / beta)
    match noise:
        case Gaussian(sigma_squared=variance) if variance is not None:
            norm = float((used[:, 0] * used[:, 1] ** 2).sum())
            return math.sqrt(2 * float(variance) * norm * failure)
        case Laplace(scale=scale) if scale is not None:
            return _laplace(float(scale), used, failure)
        case _:
            raise TypeError(f"no tail for sums of {noise!r}")


def variance_of(noise: Noise) -> float:
    """The variance of one draw on the whole numbers (for the Gaussian: its parameter, which is never below)."""
    match noise:
        case Gaussian(sigma_squared=variance) if variance is not None:
            return float(variance)
        case Laplace(scale=scale) if scale is not None:
            return 2 * math.exp(-1 / float(scale)) / math.expm1(-1 / float(scale)) ** 2
        case _:
            raise TypeError(f"no variance for {noise!r}")


def _laplace(scale: float, used: NDArray[np.float64], failure: float) -> float:
    """Any step s gives a valid bound; the grid finds a good one."""
    steps = np.geomspace(1e-8, 1 - 1e-6, 400) / (scale * used[:, 1].max())
    x, y = np.outer(used[:, 1], steps) / 2, 1 / (2 * scale)
    ratio = np.exp(x - y) * np.expm1(-2 * x) / math.expm1(-2 * y)  # sinh(x)/sinh(y), which could overflow
    cumulant = -(used[:, :1] * np.log1p(-(ratio**2))).sum(axis=0)
    return float(((failure + cumulant) / steps).min())


SIZE_SHARE = 0.1
"""The part of beta that is set aside for the released number of records, where that is noisy."""

Box = Mapping[str, Sequence[int]]
"""For each attribute the codes that are counted; attributes left out are not restricted."""


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
    noise: Noise
    size: Size

    @classmethod
    def from_noisy(
        cls, domain: Domain, attributes: Margin, noisy: NDArray[Any], noise: Noise, size: Size
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
        variance = variance_of(self.noise) * (squares - inside**2 / self.cells.size)
        share = inside / self.cells.size
        if self.size.noise is not None:
            variance += share**2 * variance_of(self.size.noise)
        return Estimate(float((weights * table).sum()), math.sqrt(max(variance, 0.0)))

    def estimate(self, asked: Queries, *, beta: float, among: int = 1) -> tuple[float, float] | None:
        """One query as a fraction, and its error; None if it is not covered.

        Accuracy: except with probability beta, for all of the `among` queries together that may be asked so.
        """
        if asked.count != 1 or not self.covers(asked.attributes):
            return None
        weights = query_weights(asked)
        if weights is None:
            return None
        value = self.answer(weights, margin=asked.attributes).value
        inside, _ = self._sums(weights)
        share = inside / self.cells.size
        groups = [(inside, 1 - share), (self.cells.size - inside, share)]
        noise = beta * (1 if self.size.public else 1 - SIZE_SHARE) / among
        error = sum_tail(self.noise, groups, beta=noise)
        return value / self.size.divisor, (error + size_tail(self.size, beta)) / self.size.divisor

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The parts that are stored: JSON and arrays."""
        spec = {
            "kind": self.kind,
            "attributes": list(self.attributes),
            "noise": as_json(self.noise),
            "size": store_size(self.size),
        }
        return spec, {"cells": self.cells}

    @classmethod
    def from_arrays(
        cls, domain: Domain, spec: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> HistogramModel:
        attributes = margin_of(domain, spec["attributes"])
        cells = table_of(arrays, "cells", [domain[name].size for name in attributes])
        return cls(domain, attributes, cells, known_law_of(spec["noise"]), size_of(spec["size"]))

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


def query_weights(asked: Queries) -> NDArray[np.float64] | None:
    """The weights of one query over its own attributes, or None if those have too many cells."""
    if asked.domain.cells(asked.attributes) > MOST_CELLS:
        return None
    return cell_weights(asked)[0].reshape([asked.domain[name].size for name in asked.attributes])


def size_tail(size: Size, beta: float) -> float:
    """How far the released number of records may be off, out of the share of beta set aside for it."""
    return 0.0 if size.noise is None else sum_tail(size.noise, [(1, 1.0)], beta=beta * SIZE_SHARE)


def store_size(size: Size) -> dict[str, Any]:
    """A released size in JSON; where it was paid is in the release file."""
    return {"value": size.value, "noise": None if size.noise is None else as_json(size.noise)}


def _others(attributes: Margin, margin: Margin) -> tuple[int, ...]:
    return tuple(i for i, name in enumerate(attributes) if name not in margin)
