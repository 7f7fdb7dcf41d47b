"""Refitting a distribution to all released answers: the maximum entropy that noisy answers allow. Two ways.

**By variance**, the default: good answers, and nothing is proved. The fitted distribution is h(x) proportional to
exp(sum of multiplier_j q_j(x)), the one closest to uniform in relative entropy plus the squared misfits, each
weighed by the variance of its answer. Its multipliers solve q_j(h) = value_j - ridge_j multiplier_j; they are found
one at a time, each exactly (iterative proportional fitting, damped by the ridge), in sweeps over the answers.

**By width**, where every answer says how far it may be off (`Released.width`): the distribution closest to uniform
among those within W_j of every value. Each multiplier in turn maximises the dual

    D(multipliers) = sum of multiplier_j value_j - W_j |multiplier_j| - ln E_uniform exp(sum of multiplier_j q_j),

so D never falls. D <= KL(x || uniform) <= ln|X| for every distribution x within all widths, whatever the multipliers
(Donsker and Varadhan), and an answer that the distribution before missed by g > W raises D by 2 (g - W)^2 at least
(Hoeffding's lemma, at multiplier 4 (g - W)). So no more than ln|X| / (2 (g - W)^2) answers can be missed by g, after
however many sweeps, as long as the newest answer comes first and no weight falls to 0: that is what a session with
one budget for all questions relies on.

Post-processing both: it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from maquette.models.hypothesis import Released

# `python -m benchmarks online` measures what sessions do with these constants.
MIN_SWEEPS, MAX_SWEEPS = 10, 200
"""Sweeps over all answers after each new one; fewer where all fit already."""
_VISITS, _WORK = 6000, 2**26
"""Of one refit at most, beyond the least sweeps: visits to single answers, and records looked at in all of them."""
SLACK = 0.5
"""A misfit of this many standard deviations is left alone."""
RIDGE = 0.1
"""How much of a standard deviation a multiplier of 1 is allowed to miss, for the most precise answers."""
MAX_MULTIPLIER = 30.0
"""No multiplier goes beyond: exp(30) tells any two records apart."""
_MAX_STEP = 5.0
"""By which a multiplier moves at a visit at most."""
_FLOOR = 1e-9
"""A misfit below this is rounding."""
_SECANTS = 4
"""Steps of the search for a multiplier, at a visit."""
_MIN_CHANGE = 1e-6
"""A multiplier that would change by less stays."""


class Weights(Protocol):
    """Weights over records that can be tilted in place."""

    def share(self, query: Any) -> float:
        """The query's answer, a fraction."""
        ...

    def tilt(self, query: Any, step: float) -> None:
        """Multiply by exp(step times weight)."""
        ...


@dataclass(slots=True)
class FittedAnswer:
    """One released answer in a fit."""

    query: Any
    counting: bool
    """Are all weights 0 or 1?"""
    value: float
    deviation: float
    width: float | None = None
    multiplier: float = 0.0

    @classmethod
    def of(cls, released: Released, query: Any, *, counting: bool) -> FittedAnswer:
        """A released answer before its first fit."""
        value = min(max(released.value, 0.0), 1.0)
        return cls(query, counting, value, released.deviation, released.width)


def fit_answers(weights: Weights, answers: Sequence[FittedAnswer], *, records: int) -> None:
    """Sweep over the answers, newest first, until none is off by more than its slack.

    Cost: one pass per answer and sweep over the records that it counts, one more where it is off; from 10 to 200
        sweeps, by how much work one is.
    """
    sweeps = min(MAX_SWEEPS, max(MIN_SWEEPS, min(_VISITS // len(answers), _WORK // (len(answers) * records))))
    precise = min((a.deviation for a in answers if a.deviation > 0), default=1.0)
    for _ in range(sweeps):
        changes = [_fit_one(weights, answer, precise) for answer in reversed(answers)]
        if not any(changes):
            return


def _fit_one(weights: Weights, answer: FittedAnswer, precise: float) -> bool:
    """One answer by its own multiplier; False where nothing had to change."""
    if answer.width is not None:
        return _ascend(weights, answer, answer.width)
    ridge = RIDGE * answer.deviation**2 / precise
    share = weights.share(answer.query)
    miss = answer.value - ridge * answer.multiplier - share
    if abs(miss) <= max(SLACK * answer.deviation, _FLOOR) or not 0 < share < 1:
        return False
    if answer.counting:
        return _tilt(weights, answer, solve_step(share, miss, ridge))
    slope = 0.25  # no answer moves faster than this
    for _ in range(_SECANTS):
        step = miss / (slope + ridge)
        if not _tilt(weights, answer, step):
            break
        change = weights.share(answer.query) - share
        slope = min(max(change / step, 0.01), 0.25)
        share += change
        miss = answer.value - ridge * answer.multiplier - share
    return True


def _ascend(weights: Weights, answer: FittedAnswer, width: float) -> bool:
    """Raise the dual in one multiplier: as far as it goes for 0/1 weights, by a few safe steps for others."""
    changes = False
    for _ in range(1 if answer.counting else _SECANTS):
        share = weights.share(answer.query)
        if not 0 < share < 1:
            break
        step = _exact_rise(answer, share, width) if answer.counting else _safe_rise(answer, share, width)
        if abs(step) <= _MIN_CHANGE or not _tilt(weights, answer, step):
            break
        changes = True
    return changes


def _exact_rise(answer: FittedAnswer, share: float, width: float) -> float:
    """To the answer's nearer border, v - W from a multiplier above 0, v + W from below; or back to 0 between them."""
    up = logit(answer.value - width) - logit(share)
    down = logit(answer.value + width) - logit(share)
    if answer.multiplier + up > 0:
        return up
    return down if answer.multiplier + down < 0 else -answer.multiplier


def _safe_rise(answer: FittedAnswer, share: float, width: float) -> float:
    """Four times the slope of the dual: no answer moves faster than 1/4, so the slope keeps its sign; not past 0."""
    up, down = answer.value - width - share, answer.value + width - share
    if answer.multiplier > 0 or (answer.multiplier == 0 and up > 0):
        return max(4 * up, -answer.multiplier) if answer.multiplier > 0 else 4 * up
    if answer.multiplier < 0 or down < 0:
        return min(4 * down, -answer.multiplier) if answer.multiplier < 0 else 4 * down
    return 0.0


def logit(share: float) -> float:
    """Finite at both ends: a border at or beyond them is not reached anyway."""
    inside = min(max(share, 1e-300), 1 - 1e-16)
    return math.log(inside) - math.log1p(-inside)


def _tilt(weights: Weights, answer: FittedAnswer, step: float) -> bool:
    """Move one multiplier, not beyond its end; False if it is there already."""
    aim = min(max(answer.multiplier + step, -MAX_MULTIPLIER), MAX_MULTIPLIER)
    if aim == answer.multiplier:
        return False
    weights.tilt(answer.query, aim - answer.multiplier)
    answer.multiplier = aim
    return True


def solve_step(share: float, miss: float, ridge: float) -> float:
    """The step d with share(d) + ridge d = share + miss, where share(d) = p e^d / (1 - p + p e^d).

    The left side rises in d; Newton from 0, kept inside [-5, 5].
    """
    low, high = (0.0, _MAX_STEP) if miss > 0 else (-_MAX_STEP, 0.0)
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
