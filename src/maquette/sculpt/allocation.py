"""Planning from public inputs and released values: how a price is divided, and how large the errors tend to be.

The price is divided between the stages, between tables, and between more bins and less noise, by the predicted L1 error
of each table. Nothing here is a guarantee; the gate charges whatever comes out of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import table_sensitivity
from maquette.core.budget import Unit
from maquette.domain import Domain, Relation
from maquette.mechanisms import shape
from maquette.mechanisms.base import Task
from maquette.mechanisms.residual import RESIDUAL_FOR_ROWS, allocate, least_variances
from maquette.models.residual import cell_variance
from maquette.queries.base import Queries, TableQueries
from maquette.queries.marginals import Marginals
from maquette.queries.ranges import Prefixes, Ranges
from maquette.queries.rows import Margin
from maquette.theory import existence

_GRID = 2**20
_ROOM = 1 - 1e-9
"""The part of a price that is planned with; the rest covers the gate's rounding."""
# Chosen on the tables of benchmarks/sculpt.py (figures in benchmarks/results/sculpt.jsonl), as are the powers and
# factors of `RiskModel` and `one_way_share`:
_FREE_SHARES, _EQUAL_SHARES = 0.1, 0.8
"""Parts of the tables at full resolution between which the shares pass from free to equal ones."""
DENSE_SIGNAL = 15.0
"""Mean count of a cell, in deviations of its noise, from which on whole marginals are measured."""
_FEW_CODES = 2.0
"""Twice its own part is the least of that signal for a marginal of few codes (table `chess` of benchmarks/wide.py)."""
_FEW_RECORDS, _LEAST_DENSE_SIGNAL = 6.0, 1.3
"""The deviation of a cell of a two-way marginal up to which a signal of so little suffices (tuning half of the families
at epsilon 10, about ten cells forced either way, one or two seeds: chosen by eye). The bins of single tables too: ten
tables measured in bins at 2@10, six seeds, .89 / .97, nine at 3@10 .99 / .995."""
_FEW_PER_CELL, _FEW_SIGNAL, _FEW_SHARE = 20.0, 2.0, 0.25
"""Records for every cell of the one-way tables, and their mean in deviations, below which these tables get no more than
so much of the price, and each as much as the others. Chosen by eye on the three tables of `python -m benchmarks small`;
no stored figure compares it with other values."""
_MIN_SIGNAL, _MANY_PAIRS = 2.0, 15
"""Deviations by which the strongest dependence would stand out of a pair's noise if so many pairs are measured at all
(tuning half of the families up to 2,000 records at epsilon 0.1 and 0.2, two seeds)."""
_SMALL_UNIVERSE = 2**13
"""Up to this many cells rows come from a fitted histogram; beyond, rows fitted by sweeps are closer."""
MAX_WIDTH = 64
"""Attributes of one query up to which the pairs and triples inside are listed; a limit of time."""
_LIBRARIES, _TABLE, _FEW_TABLES = 350.0, 0.02, 500
"""Megabytes of Python with its libraries, and of every table beyond a few; these set by hand."""
_NEARER = 4.0
"""How much nearer than random rows fitted ones come; measured by benchmarks/sizes.py (results/sizes.jsonl)."""
_DEVIATIONS, _SAMPLING = 4.0, 0.5
"""The rough formula for one attribute, or without a delta, which benchmarks/calibrate.py simulated rarely or not."""


@dataclass(frozen=True, slots=True)
class TableNoise:
    """What noise on one table costs, in the unit of the budget."""

    unit: Unit
    shift: int
    """How far one record moves a table."""

    @classmethod
    def of(cls, unit: Unit, relation: Relation) -> TableNoise:
        return cls(unit, table_sensitivity(relation))

    def variance(self, price: float) -> float:
        """sigma^2 = D / (2 rho), or 2 (D / epsilon)^2."""
        return self.unit.variance(price, shift=self.shift)

    def price(self, variance: float) -> float:
        """What noise of a variance costs."""
        return self.unit.price(variance, shift=self.shift)

    def exact(self, price: float) -> Fraction:
        """A variance that costs no more than the price."""
        return Fraction(math.ceil(self.variance(price * _ROOM) * _GRID), _GRID)


@dataclass(frozen=True, slots=True)
class RiskModel:
    """The predicted error of a table by its price."""

    total: float
    """Records, as far as is known."""
    table_noise: TableNoise

    def max_bins(self, score: float, deviation: float) -> float:
        """How many bins a table of this dependence can bear at this noise; both in counts."""
        signal = max(score, 0.01 * self.total) / deviation
        by_records = max(self.total / deviation**2, 0.0025 * (self.total / deviation) ** 1.5)
        if deviation <= _FEW_RECORDS:  # as for whole marginals
            by_records = max(by_records, self.total / (_LEAST_DENSE_SIGNAL * deviation))
        return max(4.0, 4 * signal ** (2 / 3), 2 * signal**0.85, by_records)

    def noise(self, strength: float, mean: float, deviation: float) -> float:
        """The L1 error of a cell by noise, shrunk to a prior that counts are so far from, in means."""
        signal = (strength * mean) ** 2 + mean
        return 0.4 * math.sqrt(signal * deviation**2 / (signal + deviation**2))

    def risk(self, score: float, cells: int, price: float) -> float:
        """The expected L1 error of a table, in counts, if it is measured at this price (0: not at all)."""
        n = self.total
        strength = score / (0.8 * n)
        occupied = min(cells, n)

        def unexplained(bins: float) -> float:
            return 0.8 * math.sqrt((strength * n) ** 2 + n * bins)

        if price == 0:
            return unexplained(occupied)
        deviation = math.sqrt(self.table_noise.variance(price))
        bins = min(cells, self.max_bins(score, deviation))
        noise = bins * self.noise(strength, n / bins, deviation)
        hidden = 0.0 if bins >= cells else score * min(1.0, math.sqrt(8 / bins))
        return unexplained(occupied) - unexplained(min(bins, occupied)) + noise + 0.5 * hidden


def divide_price(
    model: RiskModel,
    scores: Sequence[float],
    cells: Sequence[int],
    importance: Sequence[float],
    *,
    price: float,
    required: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """A price for every table that minimises the summed risk at the given total; 0 leaves a table out.

    Tables that are `required` are not left out.

    Separable, so a Lagrange multiplier does it: each table takes its best multiple of the equal share, or none. The
    more tables an equal share resolves in full, the nearer to it is the least multiple: where everything is resolved
    the noise of single cells is all that is left, and the largest is least where all have the same. Of tables that
    would give up a multiple at the same multiplier, the last digits of floating-point numbers decide which do.
    """
    share = price / len(scores)
    deviation = math.sqrt(model.table_noise.variance(share))
    resolved = [model.max_bins(score, deviation) >= size for score, size in zip(scores, cells, strict=True)]
    freedom = (_EQUAL_SHARES - np.mean(resolved)) / (_EQUAL_SHARES - _FREE_SHARES)
    least = -float(np.clip(freedom, 0, 1))
    options = np.concatenate([[0.0], share * 2.0 ** np.arange(least, 4.25, 0.25)])
    risks = np.array(
        [
            [weight * model.risk(score, size, option) for option in options]
            for score, size, weight in zip(scores, cells, importance, strict=True)
        ]
    )
    low, high = 0.0, 1e3 * float(risks.max()) / share
    if required is not None:
        risks[required, 0] = np.inf
    for _ in range(100):
        middle = (low + high) / 2
        spent = options[np.argmin(risks + middle * options, axis=1)].sum()
        low, high = (middle, high) if spent > price else (low, middle)
    prices = options[np.argmin(risks + high * options, axis=1)]
    if not prices.sum() > 0:
        prices = np.full(len(scores), share)
    return prices * (price / prices.sum())


def one_way_share(total: float, price: float, cells: int, table_noise: TableNoise) -> float:
    """The part of the price that goes to the one-way tables: less where the records drown the noise, or are few."""
    most = _FEW_SHARE if are_few(total, price, cells, table_noise) else 0.5
    return float(np.clip(0.5 * _signal(total, price, cells, table_noise) ** -0.4, 0.08, most))


def are_few(total: float, price: float, cells: int, table_noise: TableNoise) -> bool:
    """Are there few records for each of the cells of the one-way tables, and do these drown in noise?"""
    return total < _FEW_PER_CELL * cells and _signal(total, price, cells, table_noise) < _FEW_SIGNAL


def _signal(total: float, price: float, cells: int, table_noise: TableNoise) -> float:
    """Records of a cell of the one-way tables, in deviations at the whole price."""
    return total / (math.sqrt(2 * table_noise.variance(price)) * cells)


# The low-order tables that a workload looks at.

SetWeights = dict[tuple[int, ...], float]
"""Sets of attributes, by their places in the domain, with the weight of the queries that look at them together."""


@dataclass(frozen=True, slots=True)
class AttributeSets:
    """Every attribute, pair and triple of attributes that some query of a workload looks at."""

    attributes: tuple[int, ...]
    ordered: frozenset[int]
    """Attributes that queries other than marginals look at, such as ranges and prefixes."""
    pairs: SetWeights
    triples: SetWeights


def attribute_sets(queries: Queries) -> AttributeSets:
    """From public structure only; attributes of one cell are left out."""
    place = {attribute.name: i for i, attribute in enumerate(queries.domain)}
    varied = {attribute.name for attribute in queries.domain if attribute.size > 1}
    by_order: dict[int, SetWeights] = {2: {}, 3: {}}
    used: set[int] = set()
    for part in queries.parts:
        inner = part.queries
        for margin in inner.margins if isinstance(inner, TableQueries) else (inner.attributes,):
            places = sorted(place[name] for name in margin if name in varied)
            used.update(places)
            if len(places) > MAX_WIDTH:
                continue
            for order, weights in by_order.items():
                for subset in combinations(places, order):
                    weights[subset] = weights.get(subset, 0.0) + part.weight
    ordered = frozenset(
        place[name] for part in queries.classes if not isinstance(part, Marginals) for name in part.attributes
    )
    pairs, triples = (dict(sorted(weights.items())) for weights in by_order.values())
    return AttributeSets(tuple(sorted(used)), ordered, pairs, triples)


# The dense regime: where every cell of the workload stands out of the noise, all of it is measured at once in the
# residual basis.


def dense_noise(task: Task, *, n: int, price: Fraction) -> NDArray[np.float64] | None:
    """Cells times the deviation of each, for every marginal measured whole; None where the median marginal does not
    stand clear of its noise. From public sizes and the released number of records."""
    margins = shape.margins_of(task.queries)
    if (
        not margins
        or RESIDUAL_FOR_ROWS.prepare(residual_task(task, price)).refusal is not None
        or _is_out_of_reach(task, margins, n=n, price=price)
    ):
        return None
    domain = task.queries.domain
    plan = allocate(domain, margins, relation=task.relation, price=price, per="fourth root")
    noise = _marginal_noise(domain, margins, dict(zip(plan.parts, map(float, plan.variances), strict=True)))
    return noise if n >= _dense_signal(domain, margins, noise) * float(np.median(noise)) else None


def _dense_signal(domain: Domain, margins: list[shape.WeightedMargin], noise: NDArray[np.float64]) -> float:
    """The signal from which on whole marginals are measured: less for marginals of few codes, or little noise.

    Of a marginal, prod (1 - 1/K) is neither in the total nor in smaller marginals, 1/4 for two bits. In the residual
    basis noise falls with that, of tables that are measured whole with its root alone. Where the noise of a two-way
    cell is a few records, bins would hide more than they save.
    """
    deviation = float(np.median(noise / [domain.cells(m.margin) for m in margins]))
    if deviation <= _FEW_RECORDS and all(len(m.margin) <= 2 for m in margins):
        return _LEAST_DENSE_SIGNAL
    own = [math.prod(1 - 1 / domain[name].size for name in m.margin) for m in margins]
    return DENSE_SIGNAL * min(1.0, _FEW_CODES * float(np.median(own)))


def _marginal_noise(
    domain: Domain, margins: list[shape.WeightedMargin], variances: dict[Margin, float]
) -> NDArray[np.float64]:
    """Cells times the deviation of each, for every marginal, by the variances of its residuals."""
    variances = {(): 0.0} | variances
    return np.array(
        [domain.cells(m.margin) * math.sqrt(cell_variance(domain, variances, m.margin)) for m in margins]
    )


def _is_out_of_reach(task: Task, margins: list[shape.WeightedMargin], *, n: int, price: Fraction) -> bool:
    """Would the signal not even dominate under lower bounds of the noise? Saves planning in exact numbers."""
    least = 0.5 * math.sqrt(1 / (2 * float(price)))  # if each marginal had the whole price
    domain = task.queries.domain
    noise = least * np.array([float(domain.cells(m.margin)) for m in margins])
    if n < _dense_signal(domain, margins, noise) * float(np.median(noise)):
        return True
    variances = least_variances(domain, margins, relation=task.relation, price=price, per="fourth root")
    noise = _marginal_noise(domain, margins, variances)
    return n < _dense_signal(domain, margins, noise) * float(np.median(noise))


def pairs_can_stand_out(task: Task, sets: AttributeSets, *, n: int, price: Fraction) -> bool:
    """Could a pair stand out of its noise at an equal share of the price? Public sizes and the released number only.

    A cell of two attributes differs from independence by a quarter of the records at most. Where not even that would
    be seen plainly in one of many pairs, one-way tables at the whole price are nearer to the marginals. Of few pairs
    the strongest may have a larger share.
    """
    if len(sets.pairs) < _MANY_PAIRS or not shape.is_marginals(task.queries) or task.unit.is_pure:
        return True
    variance = TableNoise.of(task.unit, task.relation).variance(float(price) / len(sets.pairs))
    return n / 4 >= _MIN_SIGNAL * math.sqrt(variance)


def residual_task(task: Task, price: Fraction) -> Task:
    """The same task for the residual mechanism at this price; no histogram is fitted where rows will be.

    The number of records is asked again, as well as a cell is known.
    """
    return replace(task, price=price, post=task.post if fits_histogram(task) else "none", size=None)


def one_way_task(task: Task, sets: AttributeSets, price: Fraction) -> Task:
    """One-way tables alone for the residual mechanism, in whose basis a table of few codes costs less."""
    domain = task.queries.domain
    queries = Marginals(domain, tuple((domain.names[a],) for a in sets.attributes))
    return replace(task, queries=queries, price=price, post="none", rows=None, size=None)


def fits_histogram(task: Task) -> bool:
    """In the dense regime: do the rows come from a histogram over all attributes of the workload?"""
    return shape.universe(task.queries) <= _SMALL_UNIVERSE


def estimated_megabytes(queries: Queries, *, tables: int, rows: int) -> float:
    """Memory of a release by `sculpt`, with that of Python and its libraries: an estimate for 50 columns and more.

    An answer takes four bytes, and as many while pieces are compared; a row two bytes per attribute. Of wide workloads
    each table takes its numbers, what was predicted of it and what was measured.
    """
    wide = _TABLE * max(0, tables - _FEW_TABLES)
    return _LIBRARIES + 8e-6 * queries.count + 2e-6 * rows * len(queries.domain) + wide


# Typical errors. In the dense regime by the formula of the residual basis, elsewhere a power law in public sizes;
# both fitted to releases of the families (`python -m benchmarks.expected`).


@dataclass(frozen=True, slots=True)
class BinnedRegime:
    """The sizes that the typical error goes by where tables are measured in bins."""

    noise: float
    """The deviation of one cell of a two-way table at an equal share of the price, as a fraction of the records."""
    n: int
    cells: float
    """Cells of a typical marginal of the workload: the median."""
    tables: int
    """Pairs of attributes that queries look at."""
    third_order: bool

    @property
    def terms(self) -> tuple[float, ...]:
        """What the logarithm of an error is linear in."""
        return (
            1.0,
            math.log(self.noise),
            math.log(self.n),
            math.log(self.cells),
            math.log(self.tables),
            float(self.third_order),
            math.log1p(1 / (self.noise * self.cells)),
            math.log1p(self.n / self.cells),
        )


@dataclass(frozen=True, slots=True)
class DenseRegime:
    """Errors by formula where whole marginals are measured: of independent noise."""

    largest: float
    mean_l1: float
    records_per_cell: float
    """Of a typical marginal."""

    @property
    def largest_terms(self) -> tuple[float, ...]:
        return 1.0, math.log(self.largest)

    @property
    def mean_terms(self) -> tuple[float, ...]:
        return 1.0, math.log(self.mean_l1), math.log1p(self.records_per_cell)


@dataclass(frozen=True, slots=True)
class TypicalError:
    """Typical errors of a release, as fractions; no guarantee."""

    largest: float
    mean_l1: float | None
    """Mean over marginals of the L1 distance; None for other queries, where nothing was fitted."""
    within: tuple[float, float] | None
    """Between which multiples of the largest error nine of ten simulated releases lay; None where none were."""
    mean_l1_within: tuple[float, float] | None = None
    """The same for the mean L1 distance."""

    def __str__(self) -> str:
        if self.within is None:
            return "expected by a rough formula"
        low, high = self.within
        text = f"expected by simulation, 90 % of tables within {low:g} to {high:g} times"
        if self.mean_l1 is None or self.mean_l1_within is None:
            return text
        low, high = self.mean_l1_within
        return f"{text}; mean L1 of a marginal about {self.mean_l1:.2g}, {low:g} to {high:g} times"


def typical_error(task: Task, sets: AttributeSets, *, n: int) -> TypicalError:
    """The largest error over the workload and the mean L1 distance of its marginals."""
    regime = regime_of(task, sets, n=n)
    if isinstance(regime, DenseRegime):
        largest = power_law(DENSE_LARGEST, regime.largest_terms)
        # whole marginals are measured where they say more, so no more error is expected than of tables in bins
        in_bins = power_law(MEAN_L1, binned_regime(task, sets, n=n, cells=n / regime.records_per_cell).terms)
        mean = min(power_law(DENSE_MEAN_L1, regime.mean_terms), in_bins)
        return TypicalError(min(1.0, largest), min(2.0, mean), DENSE_LARGEST_WITHIN, DENSE_MEAN_L1_WITHIN)
    # prefixes and ranges add up cells: fitted to 32 releases over one attribute of 16 to 4,096 cells
    sums = [part for part in task.queries.classes if isinstance(part, (Prefixes, Ranges))]
    cells = max((part.domain[name].cells for part in sums for name in part.attributes), default=1)
    factor = max(1.0, math.sqrt(cells) / 9)
    if not sets.pairs or task.unit.is_pure:
        rough = factor * (_DEVIATIONS * regime.noise + _SAMPLING / math.sqrt(n))
        return TypicalError(min(1.0, rough), None, None)
    largest = factor * power_law(LARGEST, regime.terms)
    mean = min(2.0, power_law(MEAN_L1, regime.terms)) if shape.is_marginals(task.queries) else None
    return TypicalError(min(1.0, largest), mean, LARGEST_WITHIN, MEAN_L1_WITHIN)


def power_law(exponents: Sequence[float], terms: Sequence[float]) -> float:
    """The error whose logarithm is linear in the terms."""
    return math.exp(sum(e * t for e, t in zip(exponents, terms, strict=True)))


def regime_of(task: Task, sets: AttributeSets, *, n: int) -> BinnedRegime | DenseRegime:
    """How the task would be measured, with the sizes that its typical error goes by."""
    domain, margins = task.queries.domain, shape.margins_of(task.queries)
    tables = [m.margin for m in margins or ()] or [
        tuple(domain.names[i] for i in pair) for pair in sets.pairs
    ]
    cells = float(np.median([domain.cells(table) for table in tables] or [1.0]))
    dense = dense_noise(task, n=n, price=task.price)
    if dense is not None:
        # rows protect marginals that do not stand clear from more
        l1 = math.sqrt(2 / math.pi) * (dense / n) / (1 + DENSE_SIGNAL * (dense / n))
        return DenseRegime(
            RESIDUAL_FOR_ROWS.prepare(task, n=n).forecast.expected or 1.0, float(np.mean(l1)), n / cells
        )
    return binned_regime(task, sets, n=n, cells=cells)


def binned_regime(task: Task, sets: AttributeSets, *, n: int, cells: float) -> BinnedRegime:
    """As if tables were measured in bins; `cells` are those of a typical marginal."""
    table_noise = TableNoise.of(task.unit, task.relation)
    count = max(len(sets.pairs), len(sets.attributes), 1)
    noise = math.sqrt(table_noise.variance(float(task.price) / count)) / n
    return BinnedRegime(noise, n, cells, count, bool(sets.triples))


def small_rows(task: Task, sets: AttributeSets, *, n: int) -> int:
    """The fewest rows that keep the largest error: ln(2|Q|) / (2 alpha^2), at most as many as there are records.

    Accuracy: so many rows drawn at random would be within alpha, `_NEARER` times the typical error; rows that are
        fitted come that much nearer (`python -m benchmarks sizes`).
    """
    alpha = min(1.0, _NEARER * typical_error(task, sets, n=n).largest)
    log_queries = math.log(max(shape.distinct(task.queries), 1))
    return max(1, min(existence.sampling_rows(alpha=alpha, log_queries=log_queries), n))


# Constants of the typical errors, written by `python -m benchmarks.expected --fit` from the tuning half of
# benchmarks/results/expected.jsonl: cells of the families, two to four seeds each.

SIMULATIONS = 170
OF_WHOLE_MARGINALS = 63
LARGEST = (-0.3356, 0.6566, -0.0889, 0.0036, 0.0547, 0.0334, -0.3162, 0.0995)
LARGEST_WITHIN = (0.41, 2.03)
MEAN_L1 = (1.927, 0.2071, -0.1927, 0.1302, -0.332, 0.1122, -0.4872, 0.0394)
MEAN_L1_WITHIN = (0.39, 2.38)
DENSE_LARGEST = (-0.5564, 0.9704)
DENSE_LARGEST_WITHIN = (0.78, 1.26)
DENSE_MEAN_L1 = (1.3506, 1.0911, -0.0772)
DENSE_MEAN_L1_WITHIN = (0.46, 2.72)
