"""The certificate of a finished release: its largest error, measured privately and bounded from above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from maquette.mechanisms import shape
from maquette.mechanisms.base import Curator
from maquette.models.answers import Answers
from maquette.models.draw import Drawn
from maquette.models.measurement import Gaussian, Laplace, LargestError, Noise, Receipt, Size
from maquette.queries.base import Group, Queries
from maquette.theory import certificate, gaussian, laplace


@dataclass(frozen=True, slots=True)
class Certified:
    """Every answer of the group is within `alpha` (a fraction), `counts` on the scale of records."""

    group: Group
    alpha: float
    counts: float


@dataclass(frozen=True, slots=True)
class Certificates:
    """Bounds that hold together, except with probability `beta`."""

    whole: Certified
    groups: tuple[Certified, ...]
    beta: float
    receipt: Receipt | None
    """None where nothing had to be measured."""


def certify(
    curator: Curator,
    queries: Queries,
    answers: Answers,
    *,
    size: Size,
    price: Fraction,
    beta: float,
    by_group: bool = False,
) -> Certificates:
    """Measure the largest error of released answers and say how large it can be.

    Guarantee: `price`, through the gate.
    Accuracy: every query of the workload is within `whole.alpha`, except with probability beta. Half of beta is for
        noise that lowers a largest error, half for a released size above the true one; all of it for the former
        where the size is public. The tails are exact and one-sided.
    Holds when: the table is not empty.
    Cost: nothing for a workload of constant queries, whose answers are exact: nothing is measured.
    """
    groups = queries.groups() if by_group else (Group(queries.describe(), 0, queries.count),)
    if shape.distinct(queries) == 0:
        exact = tuple(Certified(group, 0.0, 0.0) for group in groups)
        whole = Certified(Group(queries.describe(), 0, queries.count), 0.0, 0.0)
        return Certificates(whole, exact if by_group else (), beta, None)
    measured = curator.largest_error(queries, answers, groups=groups, price=price)
    parts = _certified(measured, groups, size=size, beta=beta)
    worst = max(parts, key=lambda part: part.counts)
    whole = Certified(Group(queries.describe(), 0, queries.count), worst.alpha, worst.counts)
    return Certificates(whole, parts if by_group else (), beta, measured.receipt)


def certify_drawn(
    curator: Curator, queries: Queries, drawn: Drawn, *, size: Size, price: Fraction, beta: float
) -> Certificates:
    """The same for a drawn database, by the score of its class: no answer is listed.

    Guarantee: `price`, through the gate.
    Accuracy: as `certify`; where records weigh, fractions are of their total weight, which is released rounded up.
    """
    measured = curator.judge(drawn, price=price)
    groups = (Group(queries.describe(), 0, queries.count),)
    rounding = 0.0 if drawn.draw.weight is None else 1.0
    parts = _certified(measured, groups, size=size, beta=beta, rounding=rounding)
    return Certificates(parts[0], (), beta, measured.receipt)


def _certified(
    measured: LargestError, groups: Sequence[Group], *, size: Size, beta: float, rounding: float = 0.0
) -> tuple[Certified, ...]:
    share = beta if size.public else beta / 2
    margin = below(measured.noise, share, draws=len(groups))
    drift = rounding + (0.0 if size.noise is None else below(size.noise, share))
    return tuple(
        Certified(
            group,
            certificate.alpha(largest=float(value), margin=margin, size=size.value, drift=drift),
            max(0.0, float(value) + margin),
        )
        for group, value in zip(groups, measured.values.tolist(), strict=True)
    )


def below(noise: Noise, beta: float, *, draws: int = 1) -> float:
    """How far down any of several draws can go, except with probability beta: exact tails, union over the draws."""
    match noise:
        case Laplace(scale=Fraction() as scale):
            return laplace.discrete_one_sided(scale=float(scale), beta=beta / draws)
        case Gaussian(sigma_squared=Fraction() as variance):
            return gaussian.discrete_one_sided(sigma=math.sqrt(variance), beta=beta / draws)
        case _:
            raise TypeError(f"no tail for {noise!r}")
