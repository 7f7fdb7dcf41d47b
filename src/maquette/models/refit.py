"""Refitting a distribution to all released answers: the maximum entropy that noisy answers allow.

The fitted distribution is h(x) proportional to exp(sum of multiplier_j q_j(x)), the one closest to uniform in
relative entropy plus the squared misfits, each weighed by the variance of its answer. Its multipliers solve
q_j(h) = value_j - ridge_j multiplier_j; they are found one at a time, each exactly (iterative proportional fitting,
damped by the ridge), in sweeps over the answers. Post-processing: it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from maquette.models.hypothesis import Released

FEWEST, MOST = 10, 200
"""Sweeps over all answers after each new one; fewer where all fit already."""
_VISITS = 6000
_WORK = 2**26
SLACK = 0.5
"""A misfit of this many standard deviations is left alone."""
RIDGE = 0.1
"""How much of a standard deviation a multiplier of 1 is allowed to miss, for the most precise answers."""
FARTHEST = 30.0
"""No multiplier goes beyond: exp(30) tells any two records apart."""
_LONGEST = 5.0
_FLOOR = 1e-9
_SECANTS = 4


class Field(Protocol):
    """Weights over records that can be tilted in place."""

    def share(self, query: Any) -> float:
        """The query's answer, a fraction."""
        ...

    def tilt(self, query: Any, step: float) -> None:
        """Multiply by exp(step times weight)."""
        ...


@dataclass(slots=True)
class Fitted:
    """One released answer in a fit."""

    query: Any
    counting: bool
    """Are all weights 0 or 1?"""
    value: float
    deviation: float
    multiplier: float = 0.0


def fitted(released: Released, query: Any, *, counting: bool) -> Fitted:
    """A released answer before its first fit."""
    return Fitted(query, counting, min(max(released.value, 0.0), 1.0), released.deviation)


def settle(field: Field, answers: Sequence[Fitted], *, records: int) -> None:
    """Sweep over the answers, newest first, until none is off by more than its slack.

    Cost: one pass per answer and sweep over the records that it counts, one more where it is off; from 10 to 200
        sweeps, by how much work one is.
    """
    sweeps = min(MOST, max(FEWEST, min(_VISITS // len(answers), _WORK // (len(answers) * records))))
    precise = min((a.deviation for a in answers if a.deviation > 0), default=1.0)
    for _ in range(sweeps):
        moved = [_settle_one(field, answer, precise) for answer in reversed(answers)]
        if not any(moved):
            return


def _settle_one(field: Field, answer: Fitted, precise: float) -> bool:
    ridge = RIDGE * answer.deviation**2 / precise
    share = field.share(answer.query)
    miss = answer.value - ridge * answer.multiplier - share
    if abs(miss) <= max(SLACK * answer.deviation, _FLOOR) or not 0 < share < 1:
        return False
    if answer.counting:
        return _tilt(field, answer, solve_step(share, miss, ridge))
    slope = 0.25  # no answer moves faster than this
    for _ in range(_SECANTS):
        step = miss / (slope + ridge)
        if not _tilt(field, answer, step):
            break
        moved = field.share(answer.query) - share
        slope = min(max(moved / step, 0.01), 0.25)
        share += moved
        miss = answer.value - ridge * answer.multiplier - share
    return True


def _tilt(field: Field, answer: Fitted, step: float) -> bool:
    """Move one multiplier, not beyond its end; False if it is there already."""
    aim = min(max(answer.multiplier + step, -FARTHEST), FARTHEST)
    if aim == answer.multiplier:
        return False
    field.tilt(answer.query, aim - answer.multiplier)
    answer.multiplier = aim
    return True


def solve_step(share: float, miss: float, ridge: float) -> float:
    """The step d with share(d) + ridge d = share + miss, where share(d) = p e^d / (1 - p + p e^d).

    The left side rises in d; Newton from 0, kept inside [-5, 5].
    """
    low, high = (0.0, _LONGEST) if miss > 0 else (-_LONGEST, 0.0)
    step = 0.0
    for _ in range(60):
        grown = share * math.exp(step)
        now = grown / (1 - share + grown)
        gap = now - share + ridge * step - miss
        if abs(gap) < 1e-12:
            break
        low, high = (step, high) if gap < 0 else (low, step)
        slope = now * (1 - now) + ridge
        step = step - gap / slope if slope > 0 else math.inf
        if not low < step < high:
            step = (low + high) / 2
        if high - low < 1e-12:
            break
    return step
