"""What follows from a few noisy tables about any product of sets, without another look.

A survey holds tables over one and two attributes. A record that lies in a product of sets lies in each of the sets
and in each product of two of them, so that the answer to the product is hemmed in by theirs, from above and, by
counting who is left out, from below (Bonferroni). Each of theirs is an estimate that is linear in the noise, with a
known variance, within its width for all sets at once: rarer descriptions of a set get a smaller share of the
chance of failure. Where the two ends are close, the middle is an answer that costs nothing and cannot fail on its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ParameterError
from maquette.queries.base import Margin, Queries
from maquette.queries.condition import Condition, Leaf, Runs, mask, opposite, product, simplify
from maquette.queries.marginals import Cuts
from maquette.queries.predicates import SetQueries
from maquette.questions.measurement import NoisyTable

Floats = NDArray[np.float64]
Set = NDArray[np.bool_]


class Between(NamedTuple):
    """Two ends, in records; both hold together with those of all other sets, except with the survey's failure."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class One:
    """One attribute: an estimate of every atom (a bin of the finest table) and the covariance of its noise."""

    cuts: Cuts
    estimate: Floats
    covariance: Floats

    def sum(self, atoms: Set) -> tuple[float, float]:
        """Estimate and variance of a set of atoms."""
        return float(self.estimate[atoms].sum()), float(self.covariance[np.ix_(atoms, atoms)].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Two:
    """Two attributes: noisy counts of their bins, each with the same variance."""

    cuts: tuple[Cuts, Cuts]
    values: Floats
    variance: float

    def sum(self, first: Set, second: Set) -> tuple[float, float]:
        part = self.values[np.ix_(first, second)]
        return float(part.sum()), self.variance * part.size


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Noisy tables over one and two attributes of a table of about `total` records.

    Accuracy: every end of every set holds, all at once, except with probability `failure`.
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

    def __post_init__(self) -> None:
        if not 0 < self.failure < 1:
            raise ParameterError(f"expected 0 < failure < 1, got {self.failure}")
        singles: dict[str, list[NoisyTable]] = {}
        pairs: dict[Margin, Two] = {}
        for table in self.tables:
            match table.asked.margin:
                case (name,):
                    singles.setdefault(name, []).append(table)
                case (_, _):
                    shaped = table.values.reshape(table.asked.shape).astype(np.float64)
                    first, second = table.asked.cuts
                    pairs[table.asked.margin] = Two((first, second), shaped, float(table.variance))
                case margin:
                    raise ParameterError(f"a survey has tables over one or two attributes, not {len(margin)}")
        ones = {name: self._one(name, held) for name, held in singles.items()}
        object.__setattr__(self, "_ones", ones)
        object.__setattr__(self, "_twos", pairs)

    def one(self, name: str) -> One:
        """What is known about one attribute."""
        return self._ones[name]

    def share(self, queries: Queries) -> Between | None:
        """Ends of one query's answer as a fraction of the records; None where nothing is said about it."""
        if not isinstance(queries, SetQueries) or queries.count != 1:
            return None
        condition = queries.conditions[0]
        direct = self._product(condition)
        if direct is not None:
            return direct
        other = self._product(simplify(self.domain, opposite(self.domain, condition)))
        return None if other is None else Between(1 - other.high, 1 - other.low)

    def _product(self, condition: Condition) -> Between | None:
        factors = product(condition)
        if not factors or any(leaf.attribute not in self._ones for leaf in factors):
            return None
        least, most = self.total - self.reach, self.total + self.reach
        if least <= 0:
            return None
        found = self._records(factors, most)
        return Between(max(found.low, 0.0) / most, min(max(found.high, 0.0) / least, 1.0))

    def _records(self, factors: Sequence[Leaf], most: float) -> Between:
        """Ends for a product, from those of its single sets and pairs."""
        order = sorted(factors, key=lambda leaf: self.domain.names.index(leaf.attribute))
        ones = [self._set(leaf) for leaf in order]
        twos = {
            (i, j): self._pair(order[i], order[j], ones[i], ones[j], most)
            for i, j in itertools.combinations(range(len(order)), 2)
        }
        return Between(_lower(ones, twos, most), _upper(ones, twos, most))

    def _set(self, leaf: Leaf) -> Between:
        one = self._ones[leaf.attribute]
        size = self.domain[leaf.attribute].size
        inner, outer = rounded(leaf.runs, one.cuts, size)
        return Between(self._end(one.sum(inner), -1, inner), self._end(one.sum(outer), 1, outer))

    def _pair(self, first: Leaf, second: Leaf, a: Between, b: Between, most: float) -> Between:
        """By its own table where there is one, and by what the two sets say in any case."""
        low, high = max(0.0, a.low + b.low - most), min(a.high, b.high)
        held = self._twos.get((first.attribute, second.attribute))
        if held is None:
            return Between(low, high)
        sets = [
            rounded(leaf.runs, cuts, self.domain[leaf.attribute].size)
            for leaf, cuts in zip((first, second), held.cuts, strict=True)
        ]
        inner, outer = [one[0] for one in sets], [one[1] for one in sets]
        names = first.attribute, second.attribute
        return Between(
            max(low, self._end(self._box(held, names, inner), -1, *inner)),
            min(high, self._end(self._box(held, names, outer), 1, *outer)),
        )

    def _box(self, held: Two, names: tuple[str, str], sets: Sequence[Set]) -> tuple[float, float]:
        """The estimate of a product with the least variance: its cells, or a set less the cells beside them."""
        first, second = sets
        a = self._coarse(names[0], held.cuts[0], first)
        b = self._coarse(names[1], held.cuts[1], second)
        own = held.sum(first, second)
        beside = held.sum(first, ~second)
        above = held.sum(~first, second)
        corner = held.sum(~first, ~second)
        choices = [
            own,
            (a[0] - beside[0], a[1] + beside[1]),
            (b[0] - above[0], b[1] + above[1]),
            (a[0] + b[0] - self.total + corner[0], self._shared(a[1], b[1]) + corner[1]),
        ]
        return min(choices, key=lambda choice: choice[1])  # by public variances, never by values

    def _shared(self, first: float, second: float) -> float:
        """The variance of two attributes' estimates less the total, whose noise is in both."""
        if not self.total_variance:
            return first + second
        return sum(math.sqrt(max(v, 0.0)) for v in (first, second, self.total_variance)) ** 2

    def _coarse(self, name: str, cuts: Cuts, bins: Set) -> tuple[float, float]:
        """A set of a pair's bins in the finer estimate of its one attribute."""
        one = self._ones[name]
        size = self.domain[name].size
        cells = bins[_labels(cuts, size)]
        starts = np.array(one.cuts)
        return one.sum(cells[starts])

    def _end(self, found: tuple[float, float], side: int, *sets: Set) -> float:
        """One end of an estimate: a set that holds nothing, or everything, is known."""
        if not all(s.any() for s in sets):
            return 0.0
        spent = math.log(len(self._ones) + len(self._twos)) + sum(described(s) for s in sets)
        chance = math.log(2 / self.failure) + spent
        return found[0] + side * math.sqrt(2 * chance * max(found[1], 0.0))

    def _one(self, name: str, held: Sequence[NoisyTable]) -> One:
        """Least squares over all tables of one attribute and the total."""
        size = self.domain[name].size
        cuts = tuple(sorted({cut for table in held for cut in table.asked.cuts[0]}))
        atoms = len(cuts)
        precision, moment = np.zeros((atoms, atoms)), np.zeros(atoms)
        for table in held:
            which = _labels(table.asked.cuts[0], size)[np.array(cuts)]
            spread = (which[None, :] == np.arange(len(table.asked.cuts[0]))[:, None]).astype(np.float64)
            precision += spread.T @ spread / float(table.variance)
            moment += spread.T @ table.values / float(table.variance)
        covariance = np.linalg.inv(precision)
        estimate = covariance @ moment
        whole = covariance.sum(axis=1)
        scale = float(whole.sum()) + self.total_variance
        estimate = estimate + whole * (self.total - float(estimate.sum())) / scale
        return One(cuts, estimate, covariance - np.outer(whole, whole) / scale)


def rounded(runs: Runs, cuts: Cuts, size: int) -> tuple[Set, Set]:
    """The bins that lie inside a set of cells, and those that meet it."""
    member = mask(runs, size)
    held = np.add.reduceat(member, cuts, dtype=np.int64)
    lengths = np.diff([*cuts, size])
    return held == lengths, held > 0


def described(chosen: Set) -> float:
    """ln of the number of sets of bins that a set competes with: a code that no two sets share, so that the
    exponentials of minus these numbers add up to at most 1."""
    size, count = len(chosen), int(chosen.sum())
    runs = (int(np.count_nonzero(np.diff(np.concatenate([[False], chosen])))) + 1) // 2
    codes = [
        _choices(size + 1, 2 * runs) + runs * math.log(2),
        _choices(size, count) + count * math.log(2),
        _choices(size, size - count) + (size - count + 1) * math.log(2),
    ]
    return math.log(3) + min(codes)


def _choices(size: int, count: int) -> float:
    """ln of the binomial coefficient."""
    return math.lgamma(size + 1) - math.lgamma(count + 1) - math.lgamma(size - count + 1)


def _labels(cuts: Cuts, size: int) -> NDArray[Any]:
    return np.searchsorted(np.array(cuts), np.arange(size), side="right") - 1


def _lower(ones: Sequence[Between], twos: Mapping[tuple[int, int], Between], most: float) -> float:
    """Bonferroni: at most the records missing from each set are missing from the product, seen from everybody or
    from one of the sets."""
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
