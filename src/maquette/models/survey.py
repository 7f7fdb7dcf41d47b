"""Bounds for the count of any product of sets, from a few noisy tables and without another look at the data.

A survey holds tables over one and two attributes, or one table over all of them. From the latter every product of sets
has an estimate of its own. From the former: a record that lies in a product of sets lies in each of the sets and in
each product of two of them. So the counts of these bound the count of the product, from above and, by counting the
records outside of them, from below (Bonferroni). Each of these counts has an estimate that is linear in the noise,
with a known variance, and within its width for all sets at once: sets with a longer description get a smaller share of
the chance of failure. Where the two bounds are close, their middle is an answer that costs nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import Cuts
from maquette.core.measurement import NoisyTable
from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.queries.base import Queries
from maquette.queries.condition import Condition, Leaf, Runs, mask, opposite, product, simplify
from maquette.queries.predicates import SetQueries
from maquette.queries.rows import Margin

Floats = NDArray[np.float64]
Set = NDArray[np.bool_]


class Between(NamedTuple):
    """A lower and an upper bound; they hold with those of all other sets at once, except with the survey's failure."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class One:
    """One attribute: an estimate of the count of every atom, a bin of the common refinement of its tables."""

    cuts: Cuts
    """The first cell of each atom."""
    estimate: Floats
    """In records, one per atom."""
    covariance: Floats
    """Of the noise in the estimates, atoms by atoms."""

    def sum(self, atoms: Set) -> tuple[float, float]:
        """Estimate and variance of the count of a set of atoms."""
        return float(self.estimate[atoms].sum()), float(self.covariance[np.ix_(atoms, atoms)].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Two:
    """Two attributes: noisy counts of their bins, each with the same variance."""

    cuts: tuple[Cuts, Cuts]
    values: Floats
    """Bins of the first attribute down, of the second across."""
    variance: float

    def sum(self, first: Set, second: Set) -> tuple[float, float]:
        """Estimate and variance of the count of a product of two sets of bins."""
        part = self.values[np.ix_(first, second)]
        return float(part.sum()), self.variance * part.size


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """All attributes that may be asked about: a noisy count of every cell, each with the same variance."""

    margin: Margin
    values: Floats
    variance: float

    def sum(self, sets: Sequence[Set], *, total: float, total_variance: float) -> tuple[float, float]:
        """Estimate and variance of the count of a product, one set for each attribute; by least squares with the total.

        The cells inside add up to a count with variance k v, all N of them to the total with N v. The part
        c = k v / (N v + w) of what the cells lack of the total, whose own variance is w, belongs to the product.
        """
        inside = self.values[np.ix_(*sets)]
        v, k = self.variance, inside.size
        part = k * v / (self.values.size * v + total_variance)
        estimate = float(inside.sum()) + part * (total - float(self.values.sum()))
        return estimate, k * v * (1 - part)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Noisy tables over one and two attributes, or over all, of a table of about `total` records.

    Accuracy: every bound of every set holds, all at once, except with probability `failure`.
    Holds when: the noise of the tables is independent and sub-Gaussian with the stated variances, as the discrete
        Gaussian's is (Canonne, Kamath and Steinke 2020); `total` likewise, with `total_variance` (0 where public),
        and the true number of records is within `reach` of it.
    """

    domain: Domain
    tables: tuple[NoisyTable, ...]
    total: float
    total_variance: float
    reach: float
    failure: float
    _ones: Mapping[str, One] = field(init=False, repr=False)
    _twos: Mapping[Margin, Two] = field(init=False, repr=False)
    _joint: Joint | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.failure < 1:
            raise ParameterError(f"expected 0 < failure < 1, got {self.failure}")
        singles: dict[str, list[NoisyTable]] = {}
        pairs: dict[Margin, Two] = {}
        joint = self.tables[0] if len(self.tables) == 1 and len(self.tables[0].binned.margin) > 1 else None
        for table in self.tables if joint is None else ():
            match table.binned.margin:
                case (name,):
                    singles.setdefault(name, []).append(table)
                case (_, _):
                    shaped = table.values.reshape(table.binned.shape).astype(np.float64)
                    first, second = table.binned.cuts
                    pairs[table.binned.margin] = Two((first, second), shaped, float(table.variance))
                case margin:
                    raise ParameterError(
                        f"a survey has tables over one or two attributes, or one table, not {len(margin)} attributes"
                    )
        ones = {name: self._estimate(name, tables) for name, tables in singles.items()}
        object.__setattr__(self, "_ones", ones)
        object.__setattr__(self, "_twos", pairs)
        object.__setattr__(self, "_joint", None if joint is None else self._whole(joint))

    def _whole(self, table: NoisyTable) -> Joint:
        """A table of single cells over all attributes."""
        shape = tuple(self.domain[name].size for name in table.binned.margin)
        if table.binned.shape != shape:
            raise ParameterError("a table over all attributes has a count for every cell")
        return Joint(
            table.binned.margin, table.values.reshape(shape).astype(np.float64), float(table.variance)
        )

    def one(self, name: str) -> One:
        """The estimates for one attribute."""
        return self._ones[name]

    def share(self, queries: Queries) -> Between | None:
        """Bounds of one query's answer as a fraction of the records; None where the tables give none."""
        if not isinstance(queries, SetQueries) or queries.count != 1:
            return None
        condition = queries.conditions[0]
        direct = self._product(condition)
        if direct is not None:
            return direct
        complement = self._product(simplify(self.domain, opposite(self.domain, condition)))
        return None if complement is None else Between(1 - complement.high, 1 - complement.low)

    def _product(self, condition: Condition) -> Between | None:
        """Bounds for a product of sets, as a fraction of the records."""
        factors = product(condition)
        covered = self._ones if self._joint is None else self._joint.margin
        if not factors or any(leaf.attribute not in covered for leaf in factors):
            return None
        least, most = self.total - self.reach, self.total + self.reach
        if least <= 0:
            return None
        counts = (
            self._counts(factors, most) if self._joint is None else self._box_of_cells(factors, self._joint)
        )
        return Between(max(counts.low, 0.0) / most, min(max(counts.high, 0.0) / least, 1.0))

    def _counts(self, factors: Sequence[Leaf], most: float) -> Between:
        """Bounds for a product in records, from those of its single sets and pairs; `most` bounds all records."""
        order = sorted(factors, key=lambda leaf: self.domain.names.index(leaf.attribute))
        ones = [self._set(leaf) for leaf in order]
        twos = {
            (i, j): self._pair(order[i], order[j], ones[i], ones[j], most)
            for i, j in itertools.combinations(range(len(order)), 2)
        }
        return Between(_lower(ones, twos, most), _upper(ones, twos, most))

    def _box_of_cells(self, factors: Sequence[Leaf], joint: Joint) -> Between:
        """Bounds for a product from the counts of its cells.

        Its description says of every attribute whether it has a set, one bit each, and names the sets.
        """
        chosen = {leaf.attribute: mask(leaf.runs, self.domain[leaf.attribute].size) for leaf in factors}
        sets = [chosen.get(name, np.ones(self.domain[name].size, dtype=bool)) for name in joint.margin]
        estimate = joint.sum(sets, total=self.total, total_variance=self.total_variance)
        flags = len(joint.margin) * math.log(2)
        low, high = (self._bound(estimate, side, *chosen.values(), spent=flags) for side in (-1, 1))
        return Between(low, high)

    def _set(self, leaf: Leaf) -> Between:
        """Bounds for one set: the lower from the atoms inside of it, the upper from all that meet it."""
        one = self._ones[leaf.attribute]
        size = self.domain[leaf.attribute].size
        inner, outer = round_to_bins(leaf.runs, one.cuts, size)
        return Between(self._bound(one.sum(inner), -1, inner), self._bound(one.sum(outer), 1, outer))

    def _pair(self, first: Leaf, second: Leaf, a: Between, b: Between, most: float) -> Between:
        """Bounds for a product of two sets: by those of the sets, and by a table over both where there is one."""
        low, high = max(0.0, a.low + b.low - most), min(a.high, b.high)
        two = self._twos.get((first.attribute, second.attribute))
        if two is None:
            return Between(low, high)
        sets = [
            round_to_bins(leaf.runs, cuts, self.domain[leaf.attribute].size)
            for leaf, cuts in zip((first, second), two.cuts, strict=True)
        ]
        inner, outer = [one[0] for one in sets], [one[1] for one in sets]
        names = first.attribute, second.attribute
        return Between(
            max(low, self._bound(self._box(two, names, inner), -1, *inner)),
            min(high, self._bound(self._box(two, names, outer), 1, *outer)),
        )

    def _box(self, two: Two, names: tuple[str, str], sets: Sequence[Set]) -> tuple[float, float]:
        """Estimate and variance of the count of A x B, by the way of adding it up that has the least variance.

        With A' and B' the complements: the cells of A x B; A less A x B'; B less A' x B; or A + B - n + A' x B'.
        """
        first, second = sets
        a, b = self._coarse(names[0], two.cuts[0], first), self._coarse(names[1], two.cuts[1], second)
        only_a, only_b, neither = two.sum(first, ~second), two.sum(~first, second), two.sum(~first, ~second)
        choices = [
            two.sum(first, second),
            (a[0] - only_a[0], a[1] + only_a[1]),
            (b[0] - only_b[0], b[1] + only_b[1]),
            (a[0] + b[0] - self.total + neither[0], self._variance_of_union(a[1], b[1]) + neither[1]),
        ]
        return min(choices, key=lambda choice: choice[1])  # by public variances, never by values

    def _variance_of_union(self, first: float, second: float) -> float:
        """A bound on the variance of two attributes' estimates less the total, whose noise is in both."""
        if not self.total_variance:
            return first + second
        return sum(math.sqrt(max(v, 0.0)) for v in (first, second, self.total_variance)) ** 2

    def _coarse(self, name: str, cuts: Cuts, bins: Set) -> tuple[float, float]:
        """Estimate and variance of a set of a pair's bins, by the finer atoms of its one attribute."""
        one = self._ones[name]
        size = self.domain[name].size
        cells = bins[_bin_of_cell(cuts, size)]
        starts = np.array(one.cuts)
        return one.sum(cells[starts])

    def _bound(
        self, estimate: tuple[float, float], side: int, *sets: Set, spent: float | None = None
    ) -> float:
        """The lower (side -1) or upper (side 1) bound from an estimate and its variance; an empty set counts nobody.

        The width is that of sub-Gaussian noise at this set's share of `failure`, which its description decides: the
        sets themselves, and `spent` for what they are sets of, by default one of the tables.
        """
        if not all(s.any() for s in sets):
            return 0.0
        where = math.log(len(self._ones) + len(self._twos)) if spent is None else spent
        log_chance = math.log(2 / self.failure) + where + sum(description_length(s) for s in sets)
        return estimate[0] + side * math.sqrt(2 * log_chance * max(estimate[1], 0.0))

    def _estimate(self, name: str, tables: Sequence[NoisyTable]) -> One:
        """Generalised least squares for the atoms of one attribute, over all its tables and the total.

        `design` has a table's bins down and the atoms across: 1 where the atom lies in the bin. `precision` and
        `moment` are the normal equations, summed over tables with weight 1 / variance; `to_sum` is the covariance of
        every atom with the sum of all, along which the estimates move towards the total in the last step.
        """
        size = self.domain[name].size
        cuts = tuple(sorted({cut for table in tables for cut in table.binned.cuts[0]}))
        atoms = len(cuts)
        precision, moment = np.zeros((atoms, atoms)), np.zeros(atoms)
        for table in tables:
            bins = _bin_of_cell(table.binned.cuts[0], size)[np.array(cuts)]
            design = (bins[None, :] == np.arange(len(table.binned.cuts[0]))[:, None]).astype(np.float64)
            precision += design.T @ design / float(table.variance)
            moment += design.T @ table.values / float(table.variance)
        covariance = np.linalg.inv(precision)
        estimate = covariance @ moment
        to_sum = covariance.sum(axis=1)
        scale = float(to_sum.sum()) + self.total_variance
        estimate = estimate + to_sum * (self.total - float(estimate.sum())) / scale
        return One(cuts, estimate, covariance - np.outer(to_sum, to_sum) / scale)


def round_to_bins(runs: Runs, cuts: Cuts, size: int) -> tuple[Set, Set]:
    """The bins that lie inside a set of cells, and those that meet it."""
    member = mask(runs, size)
    cells_inside = np.add.reduceat(member, cuts, dtype=np.int64)
    lengths = np.diff([*cuts, size])
    return cells_inside == lengths, cells_inside > 0


def description_length(bins: Set) -> float:
    """The length in nats of a prefix-free description of a set of bins: over all sets, sum exp(-length) <= 1.

    The shortest of three: its runs, its members, or the bins outside of it.
    """
    size, count = len(bins), int(bins.sum())
    runs = (int(np.count_nonzero(np.diff(np.concatenate([[False], bins])))) + 1) // 2
    codes = [
        _log_binomial(size + 1, 2 * runs) + runs * math.log(2),
        _log_binomial(size, count) + count * math.log(2),
        _log_binomial(size, size - count) + (size - count + 1) * math.log(2),
    ]
    return math.log(3) + min(codes)


def _log_binomial(size: int, count: int) -> float:
    """ln of the binomial coefficient."""
    return math.lgamma(size + 1) - math.lgamma(count + 1) - math.lgamma(size - count + 1)


def _bin_of_cell(cuts: Cuts, size: int) -> NDArray[Any]:
    """For every cell of an attribute, the number of its bin."""
    return np.searchsorted(np.array(cuts), np.arange(size), side="right") - 1


def _lower(ones: Sequence[Between], twos: Mapping[tuple[int, int], Between], most: float) -> float:
    """Bonferroni: the product lacks at most the records that its sets lack, counted among all records or within one
    of the sets."""
    d = len(ones)
    ends = [0.0, sum(one.low for one in ones) - (d - 1) * most]
    if d == 1:
        return max(0.0, ones[0].low)
    for i, one in enumerate(ones):
        others = [both.low for pair, both in twos.items() if i in pair]
        ends.append(sum(others) - (d - 2) * one.high)
    return max(ends)


def _upper(ones: Sequence[Between], twos: Mapping[tuple[int, int], Between], most: float) -> float:
    """No more than any set or pair; and for three sets, no more than their pairs and the rest of the records allow."""
    ends = [part.high for part in (*ones, *twos.values())]
    for trio in itertools.combinations(range(len(ones)), 3):
        # outside of all three: n - |A| - |B| - |C| + |AB| + |AC| + |BC| - |ABC| >= 0
        pairs = itertools.combinations(trio, 2)
        ends.append(most - sum(ones[i].low for i in trio) + sum(twos[pair].high for pair in pairs))
    return min(ends)
