"""A survey before the first question: tables over one and two attributes from which many answers follow.

Where questions look at a few of many attributes and every measured answer takes its share of rho, most questions
are about small groups: a value that few records have, a narrow range. A noisy table over one or two attributes costs
as much as one or two questions and hems in all of them (`models/survey.py`). So a session whose budget cannot pay
for every question, over a universe too large for its hypothesis to become right, buys a survey first. All of it
follows from public numbers; the bins of the pairs also from the tables that were released before.

Over few cells one table over all attributes answers every product of intervals, however many are asked: sums of N cells
have sqrt(N) / 2 times the noise of one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.core.binned import Binned, Cuts, table_sensitivity
from maquette.core.budget import UNITS
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.models.hypothesis import Hypothesis
from maquette.models.survey import One, Survey
from maquette.models.version_space import VersionSpace, listable_rows, version_space_for
from maquette.queries.rows import Margin
from maquette.theory import online

# `python -m benchmarks online` measures what sessions do with these constants.
ONES_SHARE, TWOS_SHARE = Fraction(1, 8), Fraction(1, 5)
"""Of the price, for tables over one attribute and over two."""
FAILURES = 0.1
"""Of the chance of failure, for all tables together."""
COARSEST = 0.25
"""Noise beyond this part of the wanted error, in standard deviations, hems in too little to be worth its price."""
JOINT_SHARE = Fraction(1, 4)
"""Of the price, that one table over all attributes may take."""
MAX_JOINT_CELLS = 2**14
"""Of such a table; the ledger stores them all."""
BINS = 12
"""Of an ordered attribute in a table over two."""
_SLACK = 0.98
"""So that rounding costs no product the promise."""
_FEW, _LISTED, _LARGE = 16, 64, 1024
"""Cells up to which an ordered attribute needs no second, coarser table; up to which categories stand for themselves
in a table over two; up to which every cell has a count of its own."""


@dataclass(frozen=True, slots=True)
class SurveyPlan:
    """What is bought before the first question, in one or two payments."""

    ones: tuple[Binned, ...]
    one_variance: Fraction
    two_variance: Fraction | None
    """Of every table over two attributes; None where they are not worth their price."""
    price: Fraction
    """The most that all tables take, in rho."""
    failure: float
    """The chance that anything that follows from the tables is wrong."""


def plan_survey(
    domain: Domain, attributes: Margin, *, price: Fraction, reach: float, relation: Relation, failure: float
) -> SurveyPlan | None:
    """Tables for answers within `reach` records on a part of `price`; None where no table would tell enough."""
    varying = [domain[name] for name in attributes if domain[name].size > 1]
    ones = tuple(Binned((a.name,), (cuts,)) for a in varying for cuts in _resolutions(a))
    pairs = math.comb(len(varying), 2)
    if not ones:
        return None
    one = _variance(len(ones), price * ONES_SHARE, relation)
    if math.sqrt(one) > COARSEST * reach:
        return None
    two = _variance(pairs, price * TWOS_SHARE, relation) if pairs else None
    if two is not None and math.sqrt(two) > COARSEST * reach:
        two = None
    spent = price * (ONES_SHARE if two is None else ONES_SHARE + TWOS_SHARE)
    return SurveyPlan(ones, one, two, spent, failure)


def plan_joint(
    domain: Domain,
    attributes: Margin,
    *,
    price: Fraction,
    reach: float,
    total_variance: float,
    relation: Relation,
    failure: float,
) -> SurveyPlan | None:
    """One table over all attributes from which every product of intervals is within `reach` records; None if too dear.

    Accuracy: with noise of variance v on N cells and w on the total, a product's estimate has variance at most
        (N v + w) / 4 (`Joint.sum`: k v - (k v)^2 / (N v + w)), so it is within sqrt(2 L (N v + w) / 4), where L is
        the logarithm of 2 / failure and the description of the product. v is as large as that allows.
    """
    names = [name for name in domain.names if name in attributes and domain[name].size > 1]
    cells = domain.cells(names)
    if len(names) < 2 or cells > MAX_JOINT_CELLS:
        return None
    lengths = [
        math.log(3) + math.log(math.comb(domain[name].size + 1, 2)) + 2 * math.log(2) for name in names
    ]
    length = math.log(2 / failure) + sum(lengths)
    variance = math.floor((2 * (_SLACK * reach) ** 2 / length - total_variance) / cells)
    if variance < 1 or table_sensitivity(relation) > 2 * variance * price * JOINT_SHARE:
        return None
    table = Binned(tuple(names), tuple(tuple(range(domain[name].size)) for name in names))
    spent = Fraction(math.ceil(table_sensitivity(relation) / Fraction(2 * variance) * UNITS), UNITS)
    return SurveyPlan((table,), Fraction(variance), None, spent, failure)


def pair_tables(domain: Domain, survey: Survey, ones: Sequence[Binned]) -> tuple[Binned, ...]:
    """All tables over two of the surveyed attributes, in bins that hold about as many records each."""
    names = list(dict.fromkeys(table.margin[0] for table in ones))
    cuts = {name: _cuts(domain[name], survey.one(name)) for name in names}
    return tuple(Binned((a, b), (cuts[a], cuts[b])) for a, b in itertools.combinations(names, 2))


def _resolutions(attribute: Attribute) -> list[Cuts]:
    """Every cell; and for ranges of many cells, bins of about as many cells as there are bins."""
    size = attribute.size
    fine = 1 if size <= _LARGE else math.ceil(size / _LARGE)
    steps = [fine]
    if _ordered(attribute) and size > _FEW:
        steps.append(fine * round(math.sqrt(size / fine)))
    return [tuple(range(0, size, step)) for step in steps]


def _cuts(attribute: Attribute, one: One) -> Cuts:
    """By what was released about one attribute; a bin of its own for what holds a bin's worth of records."""
    if (attribute.size <= _LISTED and not _ordered(attribute)) or len(one.cuts) <= BINS:
        return one.cuts
    noise = np.sqrt(np.maximum(np.diagonal(one.covariance), 0.0))
    records = np.where(one.estimate > 2 * noise, one.estimate, 0.0)
    records = records + max(float(records.sum()), 1.0) / (
        1000 * len(records)
    )  # so that empty stretches are cut too
    share = records / records.sum()
    reached = np.floor(np.cumsum(share) * BINS - 1e-9)
    heavy = share[:-1] > 1 / BINS
    after = np.flatnonzero((np.diff(reached) > 0) | heavy) + 1
    return (one.cuts[0], *(one.cuts[i] for i in after))


def _ordered(attribute: Attribute) -> bool:
    return attribute.kind in (Kind.ORDINAL, Kind.NUMERIC)


def _variance(tables: int, price: Fraction, relation: Relation) -> Fraction:
    """The variance at which so many tables take this price in rho, rounded up to whole counts."""
    return Fraction(max(1, math.ceil(table_sensitivity(relation) * tables / (2 * price))))


# The median mechanism as an online strategy: its parameters and the version space that it answers from.


@dataclass(frozen=True, slots=True, eq=False)
class MedianStrategy:
    """What a sparse vector runs with, and what it tests: medians of the small databases that are still possible.

    Guarantee: that of the sparse vector; the version space is made from released answers.
    Accuracy: every answer is within `parameters.run.error`, except with probability beta, as long as positives are
        left; they provably suffice where `certain`.
    """

    parameters: online.Median
    hypothesis: Hypothesis
    certain: bool
    """Is the space listed in full, so that every positive halves it, and do c halvings suffice?"""


LISTED_ERROR, LISTED_FACTOR, MOST_LISTED_ERROR = 0.1, 2.0, 0.25
"""A version space that is listed in full may state the first error, or so many times that of a sampled one up to the
last. Set by hand: a sampled one may have the smaller error and run out of positives, a listed one provably does not."""


def median_plan(*, universe: int, **public: Any) -> online.Median:
    """The median mechanism with as many rows as can be listed where its error is good then; else with the best number.

    Listed, every positive halves the space, and the budget lasts for all k questions.
    """
    free = online.median(universe=universe, **public)
    most = listable_rows(universe)
    if free.rows <= most or most == 0:
        return free
    listed = online.median(universe=universe, most_rows=most, **public)
    within = max(LISTED_ERROR, min(LISTED_FACTOR * free.run.error, MOST_LISTED_ERROR))
    return listed if listed.run.certain and listed.run.error <= within else free


def median_strategy(
    domain: Domain,
    *,
    unit: str,
    price: float,
    n: float,
    k: int,
    beta: float,
    attributes: Iterable[str] | None = None,
    rows: int | None = None,
    kind: str = "auto",
    size_error: float = 0.0,
    grid: float = 1.0,
) -> MedianStrategy:
    """A strategy for k questions about these attributes (or all) at a price in `unit`; from public numbers only."""
    names = tuple(domain.names if attributes is None else attributes)
    cells = domain.cells(names)
    public: dict[str, Any] = {"unit": unit, "price": price, "n": n, "k": k, "beta": beta}
    public |= {"universe": cells, "size_error": size_error, "grid": grid}
    if rows is not None or kind == "sampled":
        parameters = online.median(**public, rows=rows)
    elif kind == "exact":
        parameters = online.median(**public, most_rows=max(1, listable_rows(cells)))
    else:
        parameters = median_plan(**public)
    space = version_space_for(domain, rows=parameters.rows, kind=kind, attributes=names)
    exact = isinstance(space, VersionSpace)
    return MedianStrategy(
        parameters, space, exact and parameters.run.certain and math.isfinite(parameters.run.error)
    )
