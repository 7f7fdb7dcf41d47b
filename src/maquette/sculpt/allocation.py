"""How a price is divided: between the stages, between tables, between more bins and less noise. Public inputs only.

Nothing here is a promise; the gate charges whatever comes out of it. The risk is the expected L1 error of a table,
summed over all tables of the workload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.unit import Unit
from maquette.domain import Domain, Relation
from maquette.mechanisms import postprocess as consistent
from maquette.mechanisms import shape
from maquette.mechanisms.base import Outcome, Task
from maquette.mechanisms.residual import RESIDUAL, allocate
from maquette.models.answers import Answers, SmallDatabase
from maquette.models.fits import simplex_shift
from maquette.models.residual import ResidualModel, cell_variance
from maquette.queries.base import Margin, Queries, TableQueries
from maquette.queries.marginals import Marginals, table_sensitivity
from maquette.questions.measurement import NoisyTable, Receipt, Size
from maquette.sculpt.measurements import Found
from maquette.sculpt.targets import Hierarchy, Shape
from maquette.theory import direct

_GRID = 2**20
_HIDDEN, _RESOLVED = 0.1, 0.8
"""Parts of the tables in full resolution between which the shares pass from free to equal ones."""
_ROOM = 1 - 1e-9
"""The part of a price that is planned with; the rest covers the gate's rounding."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What noise on one table costs, in the unit of the budget."""

    unit: Unit
    shift: int
    """How far one record moves a table."""

    @classmethod
    def of(cls, unit: Unit, relation: Relation) -> Exchange:
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
class Facts:
    """What the allocation goes by: all released or public."""

    total: float
    """Records, as far as is known."""
    exchange: Exchange

    def bins(self, score: float, deviation: float) -> float:
        """How many bins a table of this dependence can bear at this noise."""
        signal = max(score, 0.01 * self.total) / deviation
        by_records = max(self.total / deviation**2, 0.0025 * (self.total / deviation) ** 1.5)
        return max(4.0, 4 * signal ** (2 / 3), 2 * signal**0.85, by_records)

    def risk(self, score: float, cells: int, price: float) -> float:
        """The expected L1 error of a table, in counts, if it is measured at this price (0: not at all)."""
        n = self.total
        strength = score / (0.8 * n)
        most = min(cells, n)

        def unexplained(bins: float) -> float:
            return 0.8 * math.sqrt((strength * n) ** 2 + n * bins)

        if price == 0:
            return unexplained(most)
        deviation = math.sqrt(self.exchange.variance(price))
        bins = min(cells, self.bins(score, deviation))
        mean = n / bins
        signal = (strength * mean) ** 2 + mean
        noise = bins * math.sqrt(signal * deviation**2 / (signal + deviation**2))
        hidden = 0.0 if bins >= cells else score * min(1.0, math.sqrt(8 / bins))
        return unexplained(most) - unexplained(min(bins, most)) + 0.4 * noise + 0.5 * hidden


def allot(
    facts: Facts, scores: Sequence[float], cells: Sequence[int], importance: Sequence[float], *, price: float
) -> NDArray[np.float64]:
    """A price for every table that minimises the summed risk at the given total; 0 leaves a table out.

    Separable, so a Lagrange multiplier does it: each table takes its best multiple of the equal share, or none. The
    more tables an equal share resolves in full, the nearer to it is the least multiple: where everything is resolved
    the noise of single cells is all that is left, and the largest is least where all have the same.
    """
    share = price / len(scores)
    deviation = math.sqrt(facts.exchange.variance(share))
    full = np.mean([facts.bins(score, deviation) >= size for score, size in zip(scores, cells, strict=True)])
    least = -float(np.clip((_RESOLVED - full) / (_RESOLVED - _HIDDEN), 0, 1))
    grid = np.concatenate([[0.0], share * 2.0 ** np.arange(least, 4.25, 0.25)])
    risks = np.array(
        [
            [weight * facts.risk(score, size, option) for option in grid]
            for score, size, weight in zip(scores, cells, importance, strict=True)
        ]
    )
    low, high = 0.0, 1e3 * float(risks.max()) / share
    for _ in range(100):
        middle = (low + high) / 2
        taken = grid[np.argmin(risks + middle * grid, axis=1)].sum()
        low, high = (middle, high) if taken > price else (low, middle)
    prices = grid[np.argmin(risks + high * grid, axis=1)]
    if not prices.sum() > 0:
        prices = np.full(len(scores), share)
    return prices * (price / prices.sum())


def one_way_share(total: float, price: float, cells: int, exchange: Exchange) -> float:
    """The part of the price that goes to the one-way tables: less where the records drown the noise."""
    signal = total / (math.sqrt(2 * exchange.variance(price)) * cells)
    return float(np.clip(0.5 * signal**-0.3, 0.12, 0.5))


# Which low-order tables a workload looks at, and how often. From public structure only.

WIDEST_SET = 64
"""Attributes of one query up to which the pairs and triples inside are of interest."""

Weighted = dict[tuple[int, ...], float]


@dataclass(frozen=True, slots=True)
class Interests:
    """Sets of attributes (by place in the domain) with the weight of the queries that look at them together."""

    attributes: tuple[int, ...]
    ordered: frozenset[int]
    """Attributes that queries other than marginals look at, such as ranges and prefixes."""
    pairs: Weighted
    triples: Weighted


def interests(queries: Queries) -> Interests:
    """Every pair and triple of attributes that some query looks at together."""
    place = {attribute.name: i for i, attribute in enumerate(queries.domain)}
    varied = {attribute.name for attribute in queries.domain if attribute.size > 1}
    pairs: Weighted = {}
    triples: Weighted = {}
    used: set[int] = set()
    for margin, weight in _sets(queries):
        names = sorted(place[name] for name in margin if name in varied)
        used.update(names)
        for order, found in ((2, pairs), (3, triples)):
            if len(names) <= WIDEST_SET:
                for part in combinations(names, order):
                    found[part] = found.get(part, 0.0) + weight
    ordered = frozenset(
        place[name] for part in queries.classes if not isinstance(part, Marginals) for name in part.attributes
    )
    return Interests(tuple(sorted(used)), ordered, dict(sorted(pairs.items())), dict(sorted(triples.items())))


def _sets(queries: Queries) -> list[tuple[Margin, float]]:
    """The sets of attributes that the queries of each part look at, with the part's weight."""
    found: list[tuple[Margin, float]] = []
    for part in queries.parts:
        inner = part.queries
        margins = inner.margins if isinstance(inner, TableQueries) else (inner.attributes,)
        found.extend((margin, part.weight) for margin in margins)
    return found


# Where every cell of the workload stands out of the noise: measure all of it at once in the residual basis.


_TRUSTED, _PLAIN = 2.5, 5.0
"""Deviations that the rows' answers may lie from the measured ones, and from which on a cell is plainly not empty."""
_SMALL_UNIVERSE = 2**13
"""Up to this many cells rows come from a fitted histogram; beyond, carved ones are closer."""
CLEAR = 15.0
"""Mean count of a cell, in deviations of its noise, from which on whole marginals are measured."""


def everything(task: Task, size: Size, *, price: Fraction) -> bool:
    """Does the median marginal stand clear of its noise? From public sizes and the released number of records."""
    return clear_noise(task, n=size.divisor, price=price) is not None


def clear_noise(task: Task, *, n: int, price: Fraction) -> NDArray[np.float64] | None:
    """Cells times the deviation of each, for every marginal measured whole; None where they do not stand clear."""
    asked = shape.margins_of(task.queries)
    if (
        not asked
        or _hopeless(task, asked, n=n, price=price)
        or RESIDUAL.prepare(rest(task, price)).refusal is not None
    ):
        return None
    domain = task.queries.domain
    plan = allocate(domain, asked, relation=task.relation, price=price, per="marginal")
    variances = {(): 0.0} | dict(zip(plan.parts, map(float, plan.variances), strict=True))
    noise = [domain.cells(a.margin) * math.sqrt(cell_variance(domain, variances, a.margin)) for a in asked]
    return np.array(noise) if n >= CLEAR * float(np.median(noise)) else None


def _hopeless(task: Task, asked: list[shape.Asked], *, n: int, price: Fraction) -> bool:
    """Would the cells not even stand clear if each marginal had the whole price? Saves planning for all of them."""
    least = 0.5 * math.sqrt(1 / (2 * float(price)))
    cells = float(np.median([task.queries.domain.cells(a.margin) for a in asked]))
    return n < CLEAR * cells * least


def rest(task: Task, price: Fraction) -> Task:
    """The same task with what is left of its price; no histogram is fitted where rows will be carved."""
    return replace(task, price=price, post=task.post if fits_histogram(task) else "none")


def fits_histogram(task: Task) -> bool:
    """Do the rows come from a histogram over all attributes of the workload?"""
    return shape.universe(task.queries) <= _SMALL_UNIVERSE


def as_found(domain: Domain, outcome: Outcome, wanted: Interests) -> Found:
    """Residual tables as targets for rows: the one-, two- and three-way tables of the workload.

    Pairs inside a triple say nothing new, but rows begin along them, and hold to them more firmly than to many small
    cells.
    """
    model = outcome.model
    assert isinstance(model, ResidualModel)
    total = float(outcome.size.divisor)
    singles = [_single(model, name, total) for name in domain.names]
    deviations = [_deviation(model, (name,)) for name in domain.names]
    found = Found(
        size=outcome.size,
        hierarchy=Hierarchy.from_counts(domain, singles),
        total=total,
        singles=singles,
        single_variances=[deviation**2 for deviation in deviations],
        single_tables=[],
    )
    for key in [*wanted.pairs, *wanted.triples]:
        _add(found, model, key)
    return found


def with_rows(task: Task, outcome: Outcome, database: SmallDatabase, answering: SmallDatabase) -> Outcome:
    """The rows, and answers: full cells as measured, the others as the rows that answer have them.

    Accuracy: the rows know which cells are empty, the measurement how full the others are. A rows' answer is moved to
        within a few deviations of the measured one; all stay within the noise level plus how far they were moved.
    """
    model = outcome.model
    assert isinstance(model, ResidualModel)
    n = outcome.size.divisor
    fractions = answering.answer(task.queries).fractions
    moved = 0.0
    for margin, place, _ in shape.margins_of(task.queries) or ():
        measured, deviation = model.table(margin).ravel() / n, model.deviation(margin) / n
        width = _TRUSTED * deviation
        np.clip(fractions[place], measured - width, measured + width, out=fractions[place])
        np.copyto(fractions[place], measured, where=measured > _PLAIN * deviation)
        np.clip(fractions[place], 0.0, 1.0, out=fractions[place])
        kept = np.clip(measured, 0.0, 1.0)  # the truth lies there too
        moved = max(moved, float(np.abs(fractions[place] - kept).max()) * n)
    level, drift = (outcome.parameters[key] for key in ("noise_level_counts", "size_drift_counts"))
    words = "discrete Gaussian noise in the residual basis; cells near zero as carved rows have them"
    error = direct.shifted_error(noise=level, shift=moved, drift=drift)
    return replace(
        outcome,
        answers=Answers.from_fractions(fractions),
        database=database,
        guarantee=consistent.guarantee(error, outcome.size, task.beta, words),
        notes=(),
        parameters=outcome.parameters | {"rows": database.m, "post": "rows", "moved_counts": moved},
    )


def _single(model: ResidualModel, name: str, total: float) -> NDArray[np.float64]:
    """A one-way table of the given total, even where no query looks at the attribute."""
    if not model.covers((name,)):
        size = model.domain[name].size
        return np.full(size, total / size)
    table = model.table((name,)).ravel()
    return np.maximum(table - simplex_shift(table, total=total), 0.0)


def _deviation(model: ResidualModel, margin: Margin) -> float:
    return max(model.deviation(margin), 0.5) if model.covers(margin) else 1e6


def _add(found: Found, model: ResidualModel, key: tuple[int, ...]) -> None:
    """One table of the residual basis as a target at full resolution."""
    hierarchy = found.hierarchy
    if any(hierarchy.bins(a, 0) < hierarchy.domain.attributes[a].size for a in key):
        return
    shape = Shape(key, (0,) * len(key))
    asked = hierarchy.table(*shape)
    values = np.rint(model.table(asked.margin)).astype(np.int64).ravel()
    variance = Fraction(_deviation(model, asked.margin) ** 2)
    found.add(shape, NoisyTable(asked, values, variance, _NOWHERE), found.product(shape))


_NOWHERE = Receipt(-1, "")
"""Put together from paid residuals, not itself in the ledger."""


# Constants of the expected errors, written by `python -m benchmarks.calibrate --fit`; see `expect`.

SIMULATIONS = 180
OF_WHOLE_MARGINALS = 59
LARGEST = (0.1456, 0.6122, -0.0493, -0.1355, 0.1503, -0.2733, -0.1401, -0.0457)
LARGEST_WITHIN = (0.57, 1.53)
MEAN_L1 = (0.2712, 0.1564, -0.2204, 0.2474, 0.007, -0.192, -0.4829, -0.0012)
MEAN_L1_WITHIN = (0.62, 1.4)
CLEAR_LARGEST = (-0.4109, 0.9973)
CLEAR_LARGEST_WITHIN = (0.79, 1.33)
CLEAR_MEAN_L1 = (0.8693, 1.1203, 0.0133)
CLEAR_MEAN_L1_WITHIN = (0.7, 1.26)
