"""Shares of a noisy number of records, for questions that are chosen after the number and other answers were seen.

`theory/ratios.py` is for questions that are fixed beforehand. Whoever knows the table and sees the noisy number of
records knows its noise z2, and may ask for a share p at which z1 - p z2 is large. So the two draws have to lie in a
region for all p at once: |z1 - p z2| <= gap(p) for every p in [0, 1], which is what a support function says. Given
|z2|, the signs of z1 and z2 agree or differ with equal chances. Where they agree, p = 0 is worst; where they differ,
the p at which gap(p) - p |z2| is smallest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.theory import epochs
from maquette.theory.ratios import one_share_between

Floats = NDArray[np.float64]
Shape = Literal["sum", "root", "max"]
"""How the two parts of a gap are put together. The regions are a box, an ellipse and a diamond."""

_POINTS = 128
"""Of the sum over the size's noise. It is never below the integral."""
_RATIOS = (0.4, 0.75, 1.3, 1.7, 2.2, 4.0)
"""How much wider than for itself alone the size may be taken, in units of what the counts are."""
_HALVINGS = 12
TYPICAL_SHARE = 0.25
"""The share at which the stated error is made smallest."""


@dataclass(frozen=True, slots=True)
class SharedGap:
    """A bound on |z1 - p z2| for shares p, where all counts share the noise z2 of one number of records."""

    count: float
    """At p = 0: of the count alone."""
    size: float
    """Of the number of records alone; 0 where it is public."""
    shape: Shape = "sum"

    def __call__(self, p: Floats) -> Floats:
        first, second = np.full_like(p, self.count), p * self.size
        match self.shape:
            case "sum":
                return first + second
            case "root":
                return np.hypot(first, second)
            case "max":
                return np.maximum(first, second)

    def at(self, p: float) -> float:
        match self.shape:
            case "sum":
                return self.count + p * self.size
            case "root":
                return math.hypot(self.count, p * self.size)
            case "max":
                return max(self.count, p * self.size)

    def error(self, share: float, n: float) -> float:
        """How far the true share may lie from a released one, a noisy count over a noisy n: Fieller's interval."""
        value = min(max(share, 0.0), 1.0)
        low, high = one_share_between(share * n, n, gap=self.at)
        return max(high - value, value - low)

    def largest_error(self, n: float) -> float:
        """The largest error that any answer on n records states."""
        return min(1.0, self.at(1.0) / n)

    def to_json(self) -> list[Any]:
        return [self.count, self.size, self.shape]

    @classmethod
    def from_json(cls, stored: Any) -> SharedGap:
        count, size, shape = stored
        return cls(float(count), float(size), shape)


def least_room(gap: SharedGap, z: Floats) -> Floats:
    """The smallest gap(p) - p z over p in [0, 1]: what the noise of a count may reach where that of the size is z."""
    a, c = gap.count, gap.size
    if gap.shape == "root":
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.where(z < c, a * z / (c * np.sqrt(np.maximum(c**2 - z**2, 1e-300))), 1.0)
        places = [np.minimum(best, 1.0)]
    else:  # linear in p, or bent once
        bend = min(1.0, a / c) if gap.shape == "max" and c > 0 else 0.0
        places = [np.full_like(z, p) for p in (0.0, bend, 1.0)]
    return np.min([gap(p) - p * z for p in places], axis=0)


def failure(
    gap: SharedGap, *, pure: bool, scale: float, size_scale: float, k: int, least: float = 1e-6
) -> float:
    """A bound on the chance that any of k counts is off by more than the gap at its share.

    Accuracy: E min(1, k (P(|z1| > room) + P(|z1| > gap(0))) / 2) over the size's noise, `room` as in `least_room`; an
        upper sum, with bounds on the tails that hold for discrete draws on any grid of steps up to 1. The questions may
        depend on the table, on the size's noise and on all earlier answers. Noise of the size that is rarer than
        `least` counts as a failure.
    Holds when: all draws are independent and symmetric; `scale` and `size_scale` are those of Laplace noise, or
        deviations of Gaussian noise.
    """
    count_tail, size_tail = _tail(scale, pure=pure), _tail(size_scale, pure=pure)
    z = np.linspace(0.0, _reach(size_scale, least, pure=pure), _POINTS + 1)
    beyond = size_tail(z)
    beyond[0] = 1.0
    room = least_room(gap, z)
    missed = np.minimum(1.0, k * (count_tail(room) + count_tail(np.full_like(z, gap.count))) / 2)
    missed = np.where(room < 0, 1.0, missed)
    return float((missed[1:] * (beyond[:-1] - beyond[1:])).sum() + beyond[-1])


@lru_cache(maxsize=512)
def shared_gap(*, pure: bool, scale: float, size_scale: float, k: int, beta: float) -> SharedGap:
    """The gap for k questions that are chosen as one goes, except with probability beta.

    Accuracy: see `failure`; of the shapes and proportions that are tried the one that is smallest at a share of a
        quarter. It is chosen before anything is drawn, so that beta is not divided.
    Holds when: as `failure`. A public number of records has `size_scale` 0: then it is the union bound.
    """
    _check.positive(scale=scale)
    _check.not_negative(size_scale=size_scale)
    _check.whole(k=k)
    _check.fraction(beta=beta)
    alone = _reach(scale, beta / k, pure=pure)
    if not size_scale:
        return SharedGap(alone, 0.0)
    size_alone = _reach(size_scale, beta, pure=pure)
    shapes: tuple[Shape, ...] = ("sum", "max") if pure else ("sum", "root")

    def fails(gap: SharedGap) -> float:
        return failure(gap, pure=pure, scale=scale, size_scale=size_scale, k=k, least=1e-3 * beta)

    def smallest(shape: Shape, ratio: float) -> SharedGap:
        def at(width: float) -> SharedGap:
            return SharedGap(width * alone, width * ratio * size_alone, shape)

        low, high = 0.5, 4.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if fails(at(middle)) <= beta else (middle, high)
        return at(high)

    tried = [smallest(shape, ratio) for shape in shapes for ratio in _RATIOS]
    # bounds on each part alone need no search, and are what is left where it found nothing
    apart = SharedGap(_reach(scale, beta / (2 * k), pure=pure), _reach(size_scale, beta / 2, pure=pure))
    return min((apart, *(gap for gap in tried if fails(gap) <= beta)), key=lambda gap: gap.at(TYPICAL_SHARE))


def _reach(scale: float, p: float, *, pure: bool) -> float:
    return epochs.laplace_reach(scale, p) if pure else epochs.gaussian_reach(scale, p)


def _tail(scale: float, *, pure: bool) -> Callable[[Floats], Floats]:
    """A bound on P(|Z| > t): the inverse of `epochs.laplace_reach` or `epochs.gaussian_reach`."""
    if pure:
        level = 2 / (1 + math.exp(-1 / scale))
        return lambda t: np.minimum(1.0, level * np.exp(-np.maximum(t, 0.0) / scale))
    from scipy.special import erfc

    return lambda t: np.minimum(1.0, erfc(np.maximum(t - 1, 0.0) / (scale * math.sqrt(2))))
