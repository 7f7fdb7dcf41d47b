"""Six published forms of the sparse vector technique (numbered as by Lyu, Su and Li 2017), as transcripts.

Two of them are private and are what the gate ships: one threshold for all tests with the noise of the tests scaled by
the cap, and AboveThreshold started anew, with a new threshold, after every far guess. The other four are known to
be broken; the tests must say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from maquette.core import sparse
from maquette.core.budget import Unit
from maquette.core.measurement import EpochTerms
from maquette.core.noise import SystemNoise
from support.priced import priced

EPSILON = Fraction(1)
Scores = tuple[int, ...]


@dataclass(frozen=True)
class Variant:
    """One form: how wide its noises are, whether it stops, renews its threshold or shows what it compared."""

    name: str
    threshold_scale: Fraction
    test_scale: Fraction | None
    cap: int | None
    renews: bool = False
    shows: bool = False
    private: bool = False


def variants(cap: int) -> list[Variant]:
    half = 2 / EPSILON
    whole = priced(Unit.EPSILON).epoch(EpochTerms(0, cap, EPSILON / 2, EPSILON / 2, None))
    single = priced(Unit.EPSILON).epoch(EpochTerms(0, 1, EPSILON / cap / 2, EPSILON / cap / 2, None))
    return [
        Variant("one threshold", whole.threshold_scale, whole.test_scale, cap, private=True),
        Variant("started anew", single.threshold_scale, single.test_scale, cap, renews=True, private=True),
        Variant("shows the value that it compared", half, half, 1, shows=True),
        Variant("noise not scaled by the cap", 4 / EPSILON, 4 / (3 * EPSILON), cap),
        Variant("no noise on the tests", half, None, None),
        Variant("neither cap nor scaling", half, half, None),
    ]


def pairs(cap: int) -> list[tuple[Scores, Scores]]:
    """Scores on two neighbours, threshold 0: the counterexamples of the literature and an all-equal move."""
    return [
        ((0,) * 5 + (1,), (1,) * 5 + (0,)),
        ((0, 1), (1, 0)),
        ((0,) * 2 * cap, (1,) * cap + (-1,) * cap),
        ((0,) * cap, (1,) * cap),
    ]


def transcripts(variant: Variant, scores: Scores, samples: int) -> np.ndarray:
    """Each outcome as one number: digits 0 near, 1 far, 2 not asked any more or, where values are shown, a low one."""
    noise = SystemNoise()

    def draw(scale: Fraction | None) -> np.ndarray:
        zeros = np.zeros(samples, dtype=np.int64)
        return zeros if scale is None else noise.laplace(zeros, scale=scale)

    shift, tops = draw(variant.threshold_scale), np.zeros(samples, dtype=np.int64)
    out = np.zeros(samples, dtype=np.int64)
    for score in scores:
        noisy = score + draw(variant.test_scale)
        going = tops < (variant.cap or len(scores) + 1)
        far = np.asarray(sparse.is_far(noisy, threshold=0, shift=shift, denominator=1))
        out = 4 * out + np.where(going, far, 2)
        if variant.shows:
            out += going & far & (noisy <= 0)
        tops += going & far
        if variant.renews:
            shift = np.where(far, draw(variant.threshold_scale), shift)
    return out


def law(scale: Fraction, reach: int) -> np.ndarray:
    """Probabilities of discrete Laplace noise on -reach..reach."""
    base = np.exp(-1 / float(scale))
    return (1 - base) / (1 + base) * base ** np.abs(np.arange(-reach, reach + 1))


def at_least(scale: Fraction, values: np.ndarray) -> np.ndarray:
    """P(noise >= value) of the discrete Laplace law."""
    base = np.exp(-1 / float(scale))
    up = base ** np.maximum(values, 0) / (1 + base)
    down = 1 - base ** np.maximum(1 - values, 0) / (1 + base)
    return np.where(values > 0, up, down)


def probability(
    scores: Scores, outcome: tuple[int, ...], *, threshold: int, plan: Any, reach: int = 250
) -> float:
    """P(outcome) of one epoch, summed over the secret threshold."""
    shift = np.arange(-reach, reach + 1)
    weight = law(plan.threshold_scale, reach).copy()
    for score, far in zip(scores, outcome, strict=True):
        p = at_least(plan.test_scale, threshold + shift - score)
        weight *= p if far else 1 - p
    return float(weight.sum())
