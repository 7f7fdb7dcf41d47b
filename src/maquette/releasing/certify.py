"""The certificate of a finished release: its largest error, measured privately and bounded from above.

Whether one is bought is decided before the answers are drawn, from public numbers: what it can be expected to state
against what the mechanism guarantees. A release states one of the two, so that its sentence fails no more often than it
says. Where the number of records is private, the released number may decide too: both bounds set the same event of that
number aside, and given the number only one of the other two events is in play.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from maquette.domain import Relation
from maquette.mechanisms import shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Task
from maquette.models.answers import Answers
from maquette.queries.base import Group, Margin, Queries, Sensitivity
from maquette.questions.class_errors import WHOLE
from maquette.questions.classes import CLASSES, ClassTable
from maquette.questions.draws import DrawnDatabase
from maquette.questions.measurement import NoisyCounts, Size
from maquette.questions.noise import law_at
from maquette.releasing.scales import weights_of
from maquette.results.distribution import Distribution, Records, records
from maquette.results.statements import WIDER, Certificate, ClassCertificate, GroupCertificate
from maquette.theory import direct

SHARE = 0.05
"""Of the budget, for a certificate that is bought because it is expected to say more than the guarantee."""
CLASS_SHARE = 0.05
"""Of the budget, for all certificates of classes of questions together (`python -m benchmarks class_certificates`)."""
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
) -> Certificate:
    """Measure the largest error of released answers and say how large it can be.

    Guarantee: `price`, through the gate.
    Accuracy: every query of the workload is within `alpha`, except with probability beta. The tenth part of beta
        is for a released number of records that is off, as in every guarantee in advance, and the rest for noise that
        lowers a largest error; all of it where the number is public (`beta_for_noise`). The tails are exact. `model` is
        what else the release knows of the number of records.
    Holds when: the table is not empty.
    Cost: nothing for a workload of constant queries, whose answers are exact: nothing is measured.
    """
    groups = queries.groups() if by_group else (_all(queries),)
    if shape.distinct(queries) == 0:
        exact = tuple(GroupCertificate(group.name, group.stop - group.start, 0.0, 0.0) for group in groups)
        return Certificate(0.0, beta, 0.0, exact if by_group else ())
    measurement = curator.largest_error(queries, answers, groups=groups, price=price)
    share = beta_for_noise(beta, certificates, public=size.public)
    parts = _bounds(measurement, groups, records(size, model, beta=beta), beta=share)
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
) -> tuple[ClassCertificate, ...]:
    """Measure the largest error of a released distribution over each of some classes of questions, in one payment.

    Guarantee: `price`, through the gate.
    Accuracy: every question of a class is within its bound, except with probability `beta` for each
        class; `together` is what is stated, for all certificates of the release, of which there are so many.
    Holds when: the table is not empty.
    """
    among = records(size, model, beta=beta)
    vector = Sensitivity(Fraction(len(names)), Fraction(len(names)), Fraction(1))
    deviation = law_at(price, vector, unit=curator.unit).deviation
    weights = {
        name: weights_of(distribution, _tables(name, distribution), n=among.value, deviation=deviation)
        for name in names
        if CLASSES[name].parts
    }
    measurement = curator.class_errors(names, distribution.released(names, weights), price=price)
    share = beta_for_noise(beta, certificates, public=size.public)
    groups = [Group(name, 0, 1) for name in names]
    bounds = smallest_bounds(_bounds(measurement, groups, among, beta=share, each=True))
    flat = {bound.name: bound for bound in bounds if bound.name not in weights}
    certificates_of_classes: list[ClassCertificate] = []
    for name, bound in zip(names, bounds, strict=True):
        own = (
            _by_table(bound, _tables(name, distribution), weights[name], among, flat)
            if name in weights
            else ()
        )
        alpha = max(own, default=bound.alpha)
        counts = alpha * among.least if own else bound.counts
        certificates_of_classes.append(
            ClassCertificate(name, alpha, together, counts, distribution.source, bounds=own)
        )
    return tuple(certificates_of_classes)


def _tables(name: str, distribution: Distribution) -> tuple[ClassTable, ...]:
    return CLASSES[name].tables(distribution.domain, distribution.sets)


def _by_table(
    bound: GroupCertificate,
    tables: Sequence[ClassTable],
    weights: Mapping[Margin, int],
    among: Records,
    flat: Mapping[str, GroupCertificate],
) -> tuple[float, ...]:
    """The bound of every table of a relative certificate, or that of its class where it came out smaller: both hold.

    Accuracy: weight / WHOLE of a table's largest error is at most `bound.counts`, whenever the number is.
    """
    alphas: list[float] = []
    for table in tables:
        part = flat.get("two ranges" if table.families else "one attribute")
        own = bound.counts * WHOLE / weights[table.margin] / among.least if among.least > 0 else 1.0
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
    curator: Curator, queries: Queries, sample: DrawnDatabase, *, size: Size, price: Fraction, beta: float
) -> Certificate:
    """The same for a drawn database, by the score of its class: no answer is listed.

    Guarantee: `price`, through the gate.
    Accuracy: as `certify`; where records weigh, fractions are of their total weight, which is released rounded up.
    """
    measurement = curator.score_of(sample, price=price)
    rounding = 0.0 if sample.draw.weight is None else 1.0
    count = records(size, None, beta=beta)
    (bound,) = _bounds(
        measurement,
        (_all(queries),),
        count._replace(least=count.least - rounding),
        beta=beta_for_noise(beta, 1, public=size.public),
    )
    return Certificate(bound.alpha, beta, bound.counts)


def _all(queries: Queries) -> Group:
    return Group(queries.describe(), 0, queries.count)


def _bounds(
    measurement: NoisyCounts, groups: Sequence[Group], among: Records, *, beta: float, each: bool = False
) -> tuple[GroupCertificate, ...]:
    """The bound of every group, from its measured largest error; beta is for all of them, or for `each`."""
    margin = measurement.noise.lower_quantile(beta=beta, count=1 if each else len(groups))
    return tuple(
        GroupCertificate(
            group.name,
            group.stop - group.start,
            direct.certified_alpha(
                largest=float(value), margin=margin, size=among.value, size_error=among.value - among.least
            ),
            max(0.0, float(value) + margin),
        )
        for group, value in zip(groups, measurement.values.tolist(), strict=True)
    )


def expected_alpha(
    forecast: Forecast, task: Task, *, price: Fraction, n: int, size_error: float = 0.0
) -> float | None:
    """What a certificate at this price is expected to state on a table of n records; None where nothing is known.

    The expected largest error, and what the noise of its measurement may hide; `size_error` is how far n may be off.
    """
    if forecast.expected is None or not price:
        return None
    largest = min(forecast.expected, 1.0 if forecast.guaranteed is None else forecast.guaranteed)
    public = task.relation is Relation.REPLACE_ONE and task.weight is None
    share = task.beta if public else task.beta * (1 - sizing.SIZE_BETA)
    margin = law_at(price, unit=task.unit).lower_quantile(beta=share)
    return direct.certified_alpha(largest=largest * n, margin=margin, size=n, size_error=size_error)


def worth_buying(certified: float | None, guaranteed: float | None) -> bool:
    """Is the certificate expected to state less than the guarantee, and anything at all?"""
    if certified is None:
        return guaranteed is None or guaranteed >= 1
    return certified < 1 and (guaranteed is None or certified < guaranteed)
