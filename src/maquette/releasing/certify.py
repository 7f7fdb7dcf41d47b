"""The certificate of a finished release: its largest error, measured privately and bounded from above.

Whether one is bought, and for how much, is decided before the answers are drawn: what it can be expected to state
against what the mechanism guarantees. A release states one of the two, so that its sentence fails no more often than it
says. Public numbers decide, and the number of records that was released first. Where that number decided, its noise is
set aside in one event for every sentence that may be stated, and given any number outside of it each of them fails with
the rest of beta alone. A sentence that judges it together with other noise fails more often for some numbers than for
others, so that a choice among such sentences by the number would fail more often than any of them.

The last part chooses the classes of questions that a release certifies where nobody names any: by the same numbers.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from maquette.core import group_means
from maquette.core.any_order import MAX_VALUES, Axis, Statistic, affordable_order, megabytes
from maquette.core.bounds import RECORDS
from maquette.core.class_errors import MAX_CELLS, WHOLE
from maquette.core.combinations import ReleasedRows, axes_of
from maquette.core.drawing import DrawnDatabase
from maquette.core.forms import Sensitivity
from maquette.core.laws import Gaussian, IndependentLaw
from maquette.core.linear_queries import Group
from maquette.core.measurement import NoisyCounts, Size
from maquette.core.typical import Quantile, TypicalError
from maquette.domain import Domain
from maquette.mechanisms import shape, sizing
from maquette.mechanisms.base import ClassForecast, Curator, Prepared
from maquette.models.answers import Answers, generator
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES, SMALL, ClassTable, cells_of, class_sets
from maquette.queries.combinations import COMBINATIONS, able, narrower
from maquette.queries.quality import ANY_MEAN, QUALITY, numbers_of
from maquette.queries.rows import Margin
from maquette.queries.typical import SAMPLE_PART, TableKind
from maquette.queries.typical import TYPICAL as TYPICAL_KINDS
from maquette.results.distribution import Distribution, marginal_places, records, weights_of
from maquette.results.statements import (
    WIDER,
    Certificate,
    ClassCertificate,
    GroupCertificate,
    QualityCertificate,
)
from maquette.samplers.structures import Draw
from maquette.sculpt.model import SculptModel
from maquette.theory import quantiles, ratios
from maquette.theory.quantiles import law_at
from maquette.theory.ratios import Gap

SHARE = 0.05
"""Of the budget, for a certificate that is bought because it is expected to say more than the guarantee."""
LARGER_SHARES = (0.1, 0.15, 0.2)
"""For certificates of few records, whose noise would hide much (`python -m benchmarks small`)."""
HIDES_LITTLE = 1.1
"""A certificate at the usual share that is expected to state so many times the largest error gets no more."""
MAY_COST = 1.25
"""Classes of questions are certified where the workload's certificate is expected to grow by no more than this: a
choice of what readers would give for them, by hand."""
CLASS_SHARE = 0.05
"""Of the budget, for all certificates of classes of questions together (`python -m benchmarks class_certificates`)."""
HALF_A_STEP = 0.5
"""The least deviation of integer Gaussian noise that is compared with continuous noise (`theory.ratios`)."""
WORKLOAD = "workload"
"""The certificate of the workload's own queries, by name beside the classes."""


def certify(
    curator: Curator,
    queries: Queries,
    answers: Answers,
    *,
    size: Size,
    price: Fraction,
    beta: float,
    certificates: int = 1,
    model: object = None,
    by_group: bool = False,
    decided_by_size: bool = False,
) -> Certificate:
    """Measure the largest error of released answers and say how large it can be.

    Guarantee: `price`, through the gate.
    Accuracy: every query of the workload is within `alpha`, except with probability beta (`beta_for_noise`). The
        noise that lowers a largest error and that of the number of records are judged together (`_gap`), and a
        measured error below 0 counts as 0, so that nothing is stated below what the noise implies. `model` is what
        else the release knows of the number of records; `decided_by_size` says that `size` decided that this is
        measured, and its noise is then bounded by itself.
    Holds when: the table is not empty.
    Cost: nothing for a workload of constant queries, whose answers are exact: nothing is measured.
    """
    groups = queries.groups() if by_group else (Group(queries.describe(), 0, queries.count),)
    if shape.distinct(queries) == 0:
        exact = tuple(GroupCertificate(group.name, group.stop - group.start, 0.0, 0.0) for group in groups)
        return Certificate(0.0, beta, 0.0, exact if by_group else ())
    measurement = curator.largest_error(queries, answers, groups=groups, price=price)
    share = beta_for_noise(beta, certificates, public=size.public)
    n, gap = _gap(
        measurement.noise,
        size,
        model,
        beta=beta,
        share=share / len(groups),
        decided_by_size=decided_by_size,
    )
    parts = _bounds(measurement, groups, n, gap)
    worst = max(parts, key=lambda part: part.counts)
    return Certificate(worst.alpha, beta, worst.counts, parts if by_group else ())


def certify_classes(
    curator: Curator,
    names: Sequence[str],
    distribution: Distribution,
    *,
    size: Size,
    price: Fraction,
    beta: float,
    together: float,
    certificates: int,
    model: object = None,
    decided_by_size: bool = False,
) -> tuple[ClassCertificate, ...]:
    """Measure the largest error of a released distribution over each of some classes of questions, in one payment.

    Guarantee: `price`, through the gate.
    Accuracy: every question of a class is within its bound, except with probability `beta` for each
        class; `together` is what is stated, for all certificates of the release, of which there are so many.
    Holds when: the table is not empty.
    """
    n = records(size, model, beta=beta).value
    vector = Sensitivity(Fraction(len(names)), Fraction(len(names)), Fraction(1))
    deviation = law_at(price, vector, unit=curator.unit).deviation
    weights = {
        name: weights_of(distribution, _tables(name, distribution), n=n, deviation=deviation)
        for name in names
        if CLASSES[name].parts
    }
    measurement = curator.class_errors(
        class_sets(distribution.domain, names, distribution.sets),
        distribution.released(names, weights),
        price=price,
    )
    share = beta_for_noise(beta, certificates, public=size.public)
    groups = [Group(name, 0, 1) for name in names]
    bounded = _gap(measurement.noise, size, model, beta=beta, share=share, decided_by_size=decided_by_size)
    bounds = smallest_bounds(_bounds(measurement, groups, *bounded))
    flat = {bound.name: bound for bound in bounds if bound.name not in weights}
    certificates_of_classes: list[ClassCertificate] = []
    for name, bound in zip(names, bounds, strict=True):
        own = _by_table(bound, _tables(name, distribution), weights[name], flat) if name in weights else ()
        alpha = max(own, default=bound.alpha)
        counts = alpha * n if own else bound.counts
        certificates_of_classes.append(
            ClassCertificate(name, alpha, together, counts, distribution.source, bounds=own)
        )
    return tuple(certificates_of_classes)


MEMORY = 2048.0
"""Megabytes that the search over combinations may take, whatever the machine has: a repetition asks the same."""
LEAST = 0.5
"""Of the deviation of the noise: errors below are stated as if they were that large, which shortens the search."""


def certify_combinations(
    curator: Curator,
    names: Sequence[str],
    distribution: Distribution,
    *,
    size: Size,
    price: Fraction,
    beta: float,
    together: float,
    certificates: int,
    workload: Certificate | None,
    memory: float = MEMORY,
    model: object = None,
    decided_by_size: bool = False,
) -> tuple[ClassCertificate, ...]:
    """Measure the largest error of released rows over families of combinations of values, in one payment.

    How many columns together, and from which error on, follows from released values: the rows, the number of records
    and what was certified for the workload. A family that could not be searched for two columns is left out.

    Guarantee: `price`, through the gate.
    Accuracy: as `certify_classes`.
    Holds when: the table is not empty.
    """
    released = distribution.rows()
    axes = axes_of(distribution.domain, released.names)
    n = records(size, model, beta=beta).value
    vector = Sensitivity(Fraction(len(names)), Fraction(len(names)), Fraction(1))
    least = LEAST * law_at(price, vector, unit=curator.unit).deviation
    half = least if workload is None else max(least, workload.counts / 2)

    @cache
    def affordable(most: int | None, floor: int) -> int:
        return _affordable(axes, released, most, n=n, floor=floor, memory=memory)

    searched: dict[str, Statistic] = {}
    for name in names:
        one = COMBINATIONS[name]
        floor = min(math.ceil(half if one.order is None else least), RECORDS)
        order = affordable(one.order, floor)
        if order >= min(2, one.order or 2, len(axes)):
            searched[name] = Statistic(one.family, order, floor)
    searched = {name: one for name, one in searched.items() if _is_first(one, searched.values())}
    if not searched:
        return ()
    measurement = curator.combination_errors(released, list(searched.values()), price=price)
    share = beta_for_noise(beta, certificates, public=size.public)
    bounded = _gap(measurement.noise, size, model, beta=beta, share=share, decided_by_size=decided_by_size)
    groups = [Group(name, 0, 1) for name in searched]
    bounds = list(zip(searched.values(), _bounds(measurement, groups, *bounded), strict=True))
    statements: list[ClassCertificate] = []
    for one, bound in bounds:
        least_bound = min(
            (wide for other, wide in bounds if one.family <= other.family and one.order <= other.order),
            key=lambda wide: wide.alpha,
        )
        columns = None if one.order >= len(axes) > 1 else one.order
        statements.append(
            ClassCertificate(
                bound.name, least_bound.alpha, together, least_bound.counts, "rows", columns=columns
            )
        )
    return tuple(statements)


def certify_typical(
    curator: Curator,
    names: Sequence[str],
    distribution: Distribution,
    *,
    key: str,
    size: Size,
    price: Fraction,
    beta: float,
    together: float,
    certificates: int,
    model: object = None,
    decided_by_size: bool = False,
) -> tuple[QualityCertificate, ...]:
    """Measure how far released rows are off typically, in one payment; kinds of which there is too little are left out.

    Questions are drawn from the rows, with randomness of their own for the key: a repeated request asks the same.

    Guarantee: `price`, through the gate.
    Accuracy: as `certify_classes`; a part `SAMPLE_PART` of the chance is for questions that are unlike their kind.
    Holds when: the table is not empty.
    """
    released, domain = distribution.rows(), distribution.domain
    share = beta_for_noise(beta, certificates, public=size.public)
    kinds: dict[str, TypicalError] = {}
    for name in names:
        one = TYPICAL_KINDS[name].statistic(
            domain, released, rng=generator(f"{key} {name}"), chance=SAMPLE_PART * share
        )
        if one is not None:
            kinds[name] = one
    if not kinds:
        return ()
    measurement = curator.typical_errors(released, list(kinds.values()), price=price)
    noise = measurement.noise
    share *= 1 - SAMPLE_PART
    bounded = _gap(noise, size, model, beta=beta, share=share, decided_by_size=decided_by_size)
    bounds = _bounds(measurement, [Group(name, 0, 1) for name in kinds], *bounded)
    return tuple(
        QualityCertificate(bound.name, bound.alpha, together, bound.counts, _over(one))
        for bound, one in zip(bounds, kinds.values(), strict=True)
    )


MEAN_FLOOR = 0.25
"""Of the workload's certificate: errors of group means below are stated as if they were that large."""


def certify_group_means(
    curator: Curator,
    distribution: Distribution,
    *,
    size: Size,
    price: Fraction,
    beta: float,
    together: float,
    certificates: int,
    workload: Certificate | None,
    model: object = None,
    decided_by_size: bool = False,
) -> tuple[QualityCertificate, ...]:
    """Measure the largest error of released rows over the means of all groups; nothing where no search is affordable.

    Guarantee: `price`, through the gate.
    Accuracy: as `certify_classes`: the error of every mean, times the share of the records that have a value in its
        group, over the range of the column, is at most `alpha`.
    Holds when: the table is not empty.
    """
    released, domain = distribution.rows(), distribution.domain
    axes, numbers = axes_of(domain, released.names), numbers_of(domain, released.names)
    n = records(size, model, beta=beta).value
    least = LEAST * law_at(price, unit=curator.unit).deviation
    floor = least if workload is None else max(least, MEAN_FLOOR * workload.counts)
    floor = min(math.ceil(floor), RECORDS)
    order = group_means.affordable_order(axes, released.codes, numbers, records=n, floor=floor)
    if not order or megabytes(len(axes), n + len(released.codes), order) > MEMORY:
        return ()
    statistic = group_means.GroupMeans(numbers, order, floor)
    measurement = curator.group_mean_errors(released, statistic, price=price)
    share = beta_for_noise(beta, certificates, public=size.public)
    bounded = _gap(measurement.noise, size, model, beta=beta, share=share, decided_by_size=decided_by_size)
    (bound,) = _bounds(measurement, [Group(ANY_MEAN, 0, 1)], *bounded)
    return (QualityCertificate(ANY_MEAN, bound.alpha, together, bound.counts, order),)


def _over(one: TypicalError) -> int:
    return len(one.questions) if isinstance(one, Quantile) else len(one.margins)


def _affordable(
    axes: Sequence[Axis], released: ReleasedRows, most: int | None, *, n: float, floor: int, memory: float
) -> int:
    """The number of columns together that are searched: as many as are asked for, where that is affordable."""
    deepest = len(axes) if most is None else min(most, len(axes))
    return affordable_order(axes, released.codes, records=n, floor=floor, memory=memory, most=deepest)


def _is_first(one: Statistic, others: Iterable[Statistic]) -> bool:
    """Is it the first of the same family and number of columns? Where few columns can be searched two may be."""
    return next(two for two in others if (two.family, two.order) == (one.family, one.order)) is one


def _tables(name: str, distribution: Distribution) -> tuple[ClassTable, ...]:
    return CLASSES[name].tables(distribution.domain, distribution.sets)


def _by_table(
    bound: GroupCertificate,
    tables: Sequence[ClassTable],
    weights: Mapping[Margin, int],
    flat: Mapping[str, GroupCertificate],
) -> tuple[float, ...]:
    """The bound of every table of a relative certificate, or that of its class where it came out smaller: both hold.

    Accuracy: weight / WHOLE of a table's largest error is at most `bound.alpha`, whenever the number is.
    """
    alphas: list[float] = []
    for table in tables:
        part = flat.get("two ranges" if table.families else "one attribute")
        own = bound.alpha * WHOLE / weights[table.margin]
        alphas.append(min(1.0, _rounded_up(own), 1.0 if part is None else part.alpha))
    return tuple(alphas)


def _rounded_up(alpha: float) -> float:
    """To four digits, so that a list of many is short where it is stored."""
    if not 0 < alpha < 1:
        return alpha
    digits = 4 - math.ceil(math.log10(alpha))
    return math.ceil(alpha * 10**digits) / 10**digits


def smallest_bounds(bounds: Sequence[GroupCertificate]) -> list[GroupCertificate]:
    """For every class its own bound, or that of a class with more questions where it came out smaller: both hold."""
    by_name = {bound.name: bound for bound in bounds}
    wider = (by_name.get(WIDER.get(bound.name, bound.name), bound) for bound in bounds)
    return [min(bound, other, key=lambda one: one.alpha) for bound, other in zip(bounds, wider, strict=True)]


def beta_for_noise(beta: float, certificates: int, *, public: bool) -> float:
    """The chance that noise lowers one measured error too far, for each of several certificates with `beta` each.

    All of them set the same event of the number of records aside, so that its tenth part is taken off once: together
    they fail with at most certificates * beta.
    """
    return beta if public else beta * (1 - sizing.SIZE_BETA / certificates)


def share_of_beta(beta: float, certificates: int) -> float:
    """The chance to fail of each of several certificates that are stated together, with classes among them.

    One part more is for the interval of a single question by the noise of the tables (`results/answering.py`).
    """
    return beta / (certificates + 1)


def certify_draw(
    curator: Curator,
    queries: Queries,
    sample: DrawnDatabase[Draw],
    *,
    size: Size,
    price: Fraction,
    beta: float,
    decided_by_size: bool = False,
) -> Certificate:
    """The same for a drawn database, by the score of its class: no answer is listed.

    Guarantee: `price`, through the gate.
    Accuracy: as `certify`; where records weigh, fractions are of their total weight, which is released rounded up.
    """
    measurement = curator.score_of(sample, price=price)
    share = beta_for_noise(beta, 1, public=size.public)
    n, gap = _gap(measurement.noise, size, None, beta=beta, share=share, decided_by_size=decided_by_size)
    rounding = 0.0 if sample.draw.weight is None else 1.0
    (bound,) = _bounds(measurement, (Group(queries.describe(), 0, queries.count),), n - rounding, gap)
    return Certificate(bound.alpha, beta, bound.counts)


def _bounds(
    measurement: NoisyCounts, groups: Sequence[Group], n: float, gap: Gap
) -> tuple[GroupCertificate, ...]:
    """The bound of every group, from its measured largest error beside about n records.

    The share of the records that an error is at most, and the records themselves: both on the same event.
    """
    least = np.maximum(measurement.values, 0).astype(np.float64)
    _, alphas = ratios.share_between(least, n, gap=gap)
    hidden = float(gap(np.zeros(1))[0])
    return tuple(
        GroupCertificate(group.name, group.stop - group.start, float(alpha), float(value) + hidden)
        for group, value, alpha in zip(groups, least, alphas, strict=True)
    )


def _gap(
    noise: IndependentLaw, size: Size, model: object, *, beta: float, share: float, decided_by_size: bool
) -> tuple[float, Gap]:
    """The number of records that an error is a share of, and how far noise may have moved both; fails with `share`.

    Gaussian noise of both is judged together, out of `share`, where what is stated was decided before either was drawn:
    without the released size, or by it where tables say the number by themselves. Else each by itself, the number out
    of the tenth part of beta that all certificates, and the guarantee instead of them, set aside for it.
    """
    if size.public:
        return float(size.divisor), ratios.joint_gap(
            error=quantiles.lower_quantile(noise, beta=share), size_error=0.0
        )
    by_tables = model.total_of_tables if isinstance(model, SculptModel) else None
    value, law = by_tables or (float(size.divisor), size.noise)
    is_decided_before = by_tables is not None or not decided_by_size
    if is_decided_before and isinstance(noise, Gaussian) and isinstance(law, Gaussian):
        both = noise.deviation, law.deviation
        if min(both) >= HALF_A_STEP:
            return value, ratios.dependent_gap(deviation=both[0], size_deviation=both[1], beta=share)
    among = records(size, model, beta=beta)
    return among.value, ratios.joint_gap(
        error=quantiles.lower_quantile(noise, beta=share), size_error=among.value - among.least
    )


def expected_alpha(prepared: Prepared, *, price: Fraction, certificates: int = 1) -> float | None:
    """What the workload's certificate at this price is expected to state; None where nothing is known.

    The expected largest error, and what the noise of its measurement may hide beside so many certificates.
    """
    forecast, task, n = prepared.forecast, prepared.task, prepared.n
    if forecast.expected is None or not price:
        return None
    largest = min(forecast.expected, 1.0 if forecast.guaranteed is None else forecast.guaranteed)
    public, noise = sizing.size_is_public(task), law_at(price, unit=task.unit)
    beta = task.beta if certificates == 1 else share_of_beta(task.beta, certificates)
    share = beta_for_noise(beta, certificates, public=public)
    margin = quantiles.lower_quantile(noise, beta=share)
    if isinstance(noise, Gaussian) and not public:
        together = ratios.dependent_gap(deviation=noise.deviation, size_deviation=0.0, beta=share)
        margin = float(together(np.zeros(1))[0])
    return min(1.0, largest + margin / n)


def best_share(at: Callable[[float], Prepared]) -> tuple[float, float | None]:
    """The share of the budget for which a certificate is expected to state least, and what it is expected to state.

    `at` prepares the mechanism with so much set aside. 0 where the guarantee is expected to state less. One that hides
    little keeps the usual share.
    """
    without, usual = at(0.0), at(SHARE)

    def hoped(share: float) -> float | None:
        one = at(share)
        return expected_alpha(one, price=without.task.price - one.task.price)

    share, least = SHARE, hoped(SHARE)
    if least is not None and least > HIDES_LITTLE * (usual.forecast.expected or 0.0):
        options = {one: alpha for one in (SHARE, *LARGER_SHARES) if (alpha := hoped(one)) is not None}
        share, least = min(options.items(), key=lambda option: option[1])
    return (share, least) if worth_buying(least, without.expected_guarantee) else (0.0, None)


def worth_buying(certified: float | None, guaranteed: float | None) -> bool:
    """Is the certificate expected to state less than the guarantee, and anything at all?"""
    if certified is None:
        return guaranteed is None or guaranteed >= 1
    return certified < 1 and (guaranteed is None or certified < guaranteed)


RELATIVE = "relative"
SMALL_PAIRS = "two attributes with a small one"
USEFUL = 0.25
"""A bound below this says something: the tables that typical errors are fitted to."""
SAYS_ENOUGH = 0.15
"""A class is certified by itself where the bound is expected to be below this: it takes of the workload's own. Set by
hand; a bound of 25 points, as before, says less than it takes on tables of 1,000 records."""
PAYS = 2 / 3
"""Tables have bounds of their own where that of half of them is expected to be below this part of the bound of all."""
MANY = 40
"""Pairs with an attribute of few cells have a bound of their own where two attributes have at least so many: those
are off by more (`python -m benchmarks class_certificates`; `python -m benchmarks.class_forecasts` for smaller ones)."""

# Constants of the typical errors over classes, fitted to generated tables (`python -m benchmarks.class_forecasts`): the
# logarithm of the largest error is linear in 1, the logarithm of the cells of the largest attribute and that of the
# largest error that is expected over the workload's cells.
TYPICAL = {
    "one attribute": (-1.432, 0.617, 0.893),
    "one small attribute": (-1.349, 0.689, 0.927),
    "two attributes": (-0.516, 0.263, 0.906),
    "two attributes with a small one": (-0.463, 0.214, 0.903),
    "three attributes": (-0.413, 0.38, 0.92),
    "two ranges": (-0.888, 0.509, 0.879),
}
COMBINED = {
    "any combination": (-0.354, 0.0, 0.833),
    "any combination and a range": (-0.045, 0.014, 0.859),
    "any combination and a list": (-0.572, 0.258, 0.789),
    "any combination on one column": (-0.127, 0.0, 1.03),
    "any combination and a range on one column": (-1.109, 0.337, 0.942),
    "any combination and a list on one column": (-1.428, 0.57, 0.901),
    "any combination on 2 columns": (0.164, 0.0, 1.046),
    "any combination and a range on 2 columns": (-0.237, 0.179, 0.999),
    "any combination and a list on 2 columns": (-0.789, 0.424, 0.915),
    "any combination on 3 columns": (-0.153, 0.0, 0.932),
    "any combination and a range on 3 columns": (-0.441, 0.152, 0.893),
    "any combination and a list on 3 columns": (-1.0, 0.401, 0.82),
}
"""The same for combinations, fitted to 37 generated tables (`python -m benchmarks.combination_forecasts`): nine of ten
of these have a largest error between 0.54 and 1.75 times the typical one. Of the tables in the docs, adult, diamonds
and salary have 0.5 to 2.5 times."""
OFTEN = {
    "nine in ten questions": (-0.745, 0.0, 0.862),
    "nine in ten questions on one column": (-0.098, 0.0, 1.06),
    "nine in ten questions on 2 columns": (-0.206, 0.0, 1.033),
    "nine in ten questions on 3 columns": (-1.19, 0.0, 0.783),
    "half of questions": (-1.766, 0.0, 0.901),
    "half of questions on one column": (-1.299, 0.0, 1.009),
    "half of questions on 2 columns": (-1.754, 0.0, 0.906),
    "half of questions on 3 columns": (-2.291, 0.0, 0.792),
    "average column": (0.114, 0.0, 1.083),
    "average pair": (0.708, 0.0, 1.01),
    "average triple": (0.721, 0.0, 0.832),
}
"""The same for what questions and tables are off by typically, fitted to those tables: nine of ten lie between
0.48 and 1.96 times it for questions, 0.23 and 4.87 times for means over tables."""
OF_MEANS = {ANY_MEAN: (-1.25, 0.0, 0.833)}
"""Of group means: some 0.4 times what is typical of combinations, a rule of thumb."""
QUALITY_DEFAULT = (ANY_MEAN, "nine in ten questions", "average pair", "half of questions", "average triple")
"""Bought besides by default, each where it is worth it."""
TYPICAL_GAIN = 0.75
"""A typical error is worth it where it is expected to be at most this part of the largest one over combinations, and
that of group means of the largest one with a range: set by hand."""
FEW_COLUMNS = (1, 2)
"""Combinations of so many columns have bounds of their own where it pays."""
FEW_COST, FEW_GAIN = 1.1, 0.8
"""It pays where the bounds for any number of columns are expected to grow by no more than that, and combinations of
two columns are expected to have so small a part of the bound for all: a choice of what readers would give, by hand."""
DEFAULT = (
    "any combination",
    "any combination and a range",
    "any combination and a list",
    SMALL_PAIRS,
    "two ranges",
)
"""Certified by default, where they are expected to say something: nearly every question is of one of these classes.
Two of them state more of some questions on two attributes."""
BY_TABLES = (
    "one attribute",
    "two attributes",
    SMALL_PAIRS,
    "three attributes",
    "two ranges",
    RELATIVE,
)
"""Instead of those, where some attributes were not measured together, or records stay where they are."""
WITHIN = (0.53, 2.46)
"""Nine of ten generated tables that were not fitted have a largest error between these multiples of the typical one."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Classes of questions that can be bought for a price beside what a mechanism does. Public inputs only."""

    queries: Queries
    prepared: Prepared
    price: Fraction
    is_workload_certified: bool
    lists_records: bool = True
    """Can whole records be had, which combinations of values need?"""

    def useful(self) -> tuple[str, ...]:
        """The classes that are certified by default: those whose bound is expected to say something.

        Only of mechanisms whose answers are the tables of rows in the number of the records.
        """
        if not self.prepared.mechanism.traits.answers_from_rows:
            return ()
        names = default_classes(self.queries, n=self.prepared.n, lists_records=self.lists_records)
        forecasts = {one.name: one.expected or 0.0 for one in self.forecasts(names)}
        useful = [name for name, error in forecasts.items() if error < SAYS_ENOUGH]
        if RELATIVE in useful and forecasts[RELATIVE] > PAYS * max(
            forecasts.get(name, 0.0) for name in CLASSES[RELATIVE].parts
        ):
            useful.remove(RELATIVE)
        return self._with_quality(self._with_few_columns(tuple(useful)))

    def _with_few_columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Further bounds for combinations of few columns, where they are expected to be worth what they cost."""
        if "any combination" not in names or len(self.queries.attributes) <= max(FEW_COLUMNS):
            return names
        few = tuple(
            name
            for name, one in COMBINATIONS.items()
            if one.order in FEW_COLUMNS
            and any(one.family is COMBINATIONS[n].family for n in names if n in COMBINATIONS)
        )
        alone = {one.name: one.expected or 1.0 for one in self.forecasts(names)}
        beside = {one.name: one.expected or 1.0 for one in self.forecasts((*names, *few))}
        grows = max(beside[name] / alone[name] for name in names)
        gains = beside["any combination on 2 columns"] / alone["any combination"]
        return (*names, *few) if grows <= FEW_COST and gains <= FEW_GAIN else names

    def _with_quality(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Further numbers about the rows, one after the other where each is worth it."""
        if "any combination" not in names:
            return names
        alone = {one.name: one.expected or 1.0 for one in self.forecasts(names)}
        bought = names
        for name in QUALITY_DEFAULT:
            more = (*bought, name)
            beside = {one.name: one.expected or 1.0 for one in self.forecasts(more)}
            is_cheap = max(beside[one] / alone[one] for one in names) <= FEW_COST
            most = SAYS_ENOUGH
            if not isinstance(QUALITY[name], TableKind):
                rival = "any combination and a range" if name == ANY_MEAN else "any combination"
                most = TYPICAL_GAIN * beside.get(rival, 0.0)
            if is_cheap and beside[name] <= min(most, SAYS_ENOUGH) and self._has(name):
                bought = more
        return bought

    def _has(self, name: str) -> bool:
        """Has the workload columns with numbers, or tables of so many columns?"""
        kind = QUALITY[name]
        if name == ANY_MEAN:
            return any(numbers_of(self.queries.domain, self.queries.attributes))
        largest = max(map(len, marginal_places(self.queries)), default=0)
        return not isinstance(kind, TableKind) or kind.order <= largest

    def forecasts(self, names: Sequence[str]) -> tuple[ClassForecast, ...]:
        """What certificates of these classes are expected to state, if all of them are bought.

        The typical largest error over the class, and what the noise of its measurement may hide.
        """
        task, n = self.prepared.task, self.prepared.n
        if not names or not self.price:
            return ()
        vector = Sensitivity(Fraction(len(names)), Fraction(len(names)), Fraction(1))
        certificates = len(names) + self.is_workload_certified
        each = share_of_beta(task.beta, certificates)
        beta = beta_for_noise(each, certificates, public=sizing.size_is_public(task))
        margin = quantiles.lower_quantile(law_at(self.price, vector, unit=task.unit), beta=beta)
        return tuple(
            ClassForecast(
                name,
                _says(name),
                None if (error := self._typical(name)) is None else min(1.0, error + margin / n),
            )
            for name in names
        )

    def _typical(self, name: str) -> float | None:
        """The largest error that is typical of a class; None where nothing is known of it."""
        expected = self.prepared.forecast.expected
        if not expected or not self.prepared.mechanism.traits.answers_from_rows:
            return None
        sizes = _sizes(self.queries)
        if (
            name == RELATIVE
        ):  # half of the tables are off by what an attribute of middle size as the largest makes
            part = next(one for one in ("two ranges", "one attribute") if _reaches(self.queries, one))
            return typical_error(part, cells=round(statistics.median(sizes)), expected=expected)
        if name in QUALITY:
            return typical_error(name, cells=1, expected=expected)
        if name in COMBINATIONS:
            cells = max((cells for cells in sizes if cells <= MAX_VALUES), default=1)
            wider = [other for other, one in COMBINATIONS.items() if narrower(COMBINATIONS[name], one)]
            return min(typical_error(other, cells=cells, expected=expected) for other in wider)
        if name not in TYPICAL:
            return None
        cells = [cells for cells in sizes if cells <= CLASSES[name].max_cells]
        return typical_error(name, cells=max(cells, default=1), expected=expected)


def _says(name: str) -> str:
    """The questions of a class, in words."""
    if name in COMBINATIONS:
        return COMBINATIONS[name].says
    if name in QUALITY:
        return QUALITY[name].says
    return CLASSES[name].says + (", half of these" if CLASSES[name].parts else "")


def typical_error(name: str, *, cells: int, expected: float) -> float:
    """The largest error over a class where the largest attribute has so many cells, as a fraction of the records.

    `expected` is the largest error over the workload's cells that is typical.
    """
    constant, by_cells, by_expected = (TYPICAL | COMBINED | OFTEN | OF_MEANS)[name]
    return math.exp(constant + by_cells * math.log(cells) + by_expected * math.log(expected))


def default_classes(queries: Queries, *, n: float, lists_records: bool = True) -> tuple[str, ...]:
    """The classes that a workload of marginals answers with its own tables, or with its rows: public structure only."""
    sets = tuple(marginal_places(queries))
    combinations = lists_records and _all_pairs(queries, sets) and can_be_combined(queries, n=n)
    able = [
        name
        for name in (DEFAULT if combinations else BY_TABLES)
        if name in COMBINATIONS or _reaches(queries, name)
    ]
    sizes = sorted(_sizes(queries))
    if max(sizes, default=0) <= SMALL and RELATIVE in able:
        able.remove(RELATIVE)  # tables of such attributes are off by much the same
    if SMALL_PAIRS in able and not (sizes[0] <= CLASSES[SMALL_PAIRS].smallest and sizes[-2] >= MANY):
        able.remove(SMALL_PAIRS)
    return tuple(
        name for name in able if name in COMBINATIONS or can_be_certified(queries.domain, name, sets)
    )


def can_be_combined(queries: Queries, *, n: float, memory: float = MEMORY) -> bool:
    """Can combinations of the columns of a workload be searched on about n records, two columns at least?

    As many rows as records are reckoned with.
    """
    names = [name for name in queries.domain.names if name in queries.attributes]
    columns = able(queries.domain, names)
    return bool(columns) and megabytes(len(columns), 2 * n, 2) <= memory


def _all_pairs(queries: Queries, sets: Sequence[Margin]) -> bool:
    """Is every pair of attributes in some marginal of the workload? The rows of the others are not to be trusted."""
    pairs = {frozenset(pair) for margin in sets for pair in itertools.combinations(margin, 2)}
    names = len(queries.attributes)
    return names > 1 and len(pairs) == names * (names - 1) // 2


def _reaches(queries: Queries, name: str) -> bool:
    """Have the marginals of a workload as many attributes as the questions of a class?"""
    return CLASSES[name].order <= max(map(len, marginal_places(queries)), default=0)


def _sizes(queries: Queries) -> list[int]:
    return [queries.domain[name].size for name in queries.attributes]


def can_be_certified(domain: Domain, name: str, sets: Sequence[Margin]) -> bool:
    """Has a class tables here, and few enough cells?"""
    tables = CLASSES[name].tables(domain, sets)
    return bool(tables) and cells_of(domain, tables) <= MAX_CELLS
