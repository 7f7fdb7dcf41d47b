"""A share p = a / n out of a noisy count a and a noisy number of records n: what both draws together leave open.

An error of n moves p by p times its part of n, not by the whole of it: Fieller's interval (1954) asks for every p
whether the count and p times the number of records lie closer than their noise explains. What is drawn does not matter
to the interval, only how far count - p size may lie from 0, the *gap*.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maquette.core import _check
from maquette.theory import draws

Gap = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""For shares p a bound on |noise of the count - p times the noise of the size|: convex in p and never falling."""

_HALVINGS = 60
_GRID = 128
_ARC = math.pi / 6
"""Of the directions in which count and size are judged together where the share may follow the noise of the size."""
_BEYOND = 0.02
"""The part of beta for directions beyond."""


def share_between(
    counts: ArrayLike, size: float, *, gap: Gap
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the largest share that each noisy count leaves possible, beside a noisy number of records.

    Accuracy: the hull of {p in [0, 1] : |count - p size| <= gap(p)} (Fieller 1954): it holds p except with the chance
        that |count - p size| exceeds gap(p) at the true p. A count below 0 is read as 0 and one above the size as the
        size: that only adds shares, and the hull is never empty. Exact for continuous Gaussian noise (`gaussian_gap`).
    Holds when: 0 <= p <= 1 and gap is convex and never falls, so that each end is a single root. All shares together
        fail with the sum of their chances. Nothing is known where size <= 0: 0 and 1.
    """
    given = np.atleast_1d(np.asarray(counts, dtype=np.float64))
    if not size > 0:
        return np.zeros_like(given), np.ones_like(given)
    inside = np.clip(given, 0.0, size)
    lower, _ = _end(lambda p: inside - p * size > gap(p), inside)
    _, upper = _end(lambda p: p * size - inside <= gap(p), inside)
    is_open = size - inside <= gap(
        np.ones_like(inside)
    )  # noise as large as the size may leave a gap inside the hull
    return lower, np.where(is_open, 1.0, upper)


def _end(
    holds: Callable[[NDArray[np.float64]], NDArray[np.bool_]], like: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where a condition on shares that holds from 0 up to some p ends, between two numbers."""
    low, high = np.zeros_like(like), np.ones_like(like)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_below = holds(middle)
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return low, high


def one_share_between(count: float, size: float, *, gap: Callable[[float], float]) -> tuple[float, float]:
    """`share_between` for one count, in plain numbers: a session asks it for every answer."""
    if not size > 0:
        return 0.0, 1.0
    inside = min(max(count, 0.0), size)
    lower, _ = _one_end(lambda p: inside - p * size > gap(p))
    _, upper = _one_end(lambda p: p * size - inside <= gap(p))
    return lower, 1.0 if size - inside <= gap(1.0) else upper


def _one_end(holds: Callable[[float], bool]) -> tuple[float, float]:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def gaussian_gap(
    *, deviation: float, size_deviation: float, beta: float, log_queries: float = 0.0, step: float = 1.0
) -> Gap:
    """For independent Gaussian draws: z sqrt(s1^2 + p^2 s2^2), and (1 + p) steps where they are on a grid.

    Accuracy: exact where the draws are continuous (`step` 0), for each of k shares with beta / k. A discrete Gaussian
        draw z on a grid is at most a continuous one and a step in distribution: P(z >= j) <= P(N >= j - 1) for whole
        j >= 1 (Canonne, Kamath and Steinke 2020), and P(z >= j) >= P(N >= j), a sum above the integral of a falling
        density; so a sum of two is at most the sum of the continuous ones and of the steps.
    Holds when: on a grid no deviation that is not 0 is below half a step. A size without noise has deviation 0.
    """
    _check.fraction(beta=beta)
    z = draws.gaussian_two_sided(math.log(beta) - log_queries)
    steps, size_steps = (step if one > 0 else 0.0 for one in (deviation, size_deviation))
    return lambda p: z * np.hypot(deviation, p * size_deviation) + steps + p * size_steps


def laplace_gap(
    *, scale: float, size_scale: float, beta: float, log_queries: float = 0.0, step: float = 1.0
) -> Gap:
    """For independent Laplace draws: the quantile of their weighted sum, and (1 + p) steps where they are on a grid.

    Accuracy: P(|X + Y| > t) = (u^2 e^(-t/u) - v^2 e^(-t/v)) / (u^2 - v^2) for scales u and v, (1 + t/(2u)) e^(-t/u)
        where they are equal; for each of k shares with beta / k. The quantile is convex in p, being a norm of the
        coefficients (a symmetric log-concave law; Meyer and Reisner 1991), so that chords between a few p are never
        below it. On a grid of step 1 with a = e^(-1/scale) a draw has P(z >= j) = a^j / (1 + a), between a^j / 2 and
        a^(j-1) / 2: at most a continuous one and a step.
    Holds when: scale > 0. A size without noise has scale 0.
    """
    _check.positive(scale=scale)
    _check.fraction(beta=beta)
    places = np.linspace(0.0, 1.0, _GRID + 1)
    log_p = math.log(beta) - log_queries
    chords = np.array([_laplace_sum(scale, p * size_scale, log_p) for p in places])
    size_steps = step if size_scale > 0 else 0.0
    return lambda p: np.interp(p, places, chords) + step + p * size_steps


def _laplace_sum(scale: float, other: float, log_p: float) -> float:
    """The t that |X + Y| exceeds with probability p, rounded up; a tiny scale counts as none, close ones as equal."""
    wide, narrow = max(scale, other), min(scale, other)
    if narrow > wide * (1 - 1e-5):
        narrow = wide

    def log_tail(t: float) -> float:
        if narrow == wide:
            return math.log1p(t / (2 * wide)) - t / wide
        ratio = (narrow / wide) ** 2
        behind = ratio * math.exp(-t * (1 / narrow - 1 / wide)) if narrow > wide * 1e-12 else 0.0
        return -t / wide + math.log1p(-behind) - math.log1p(-ratio)

    low, high = 0.0, -2 * wide * log_p  # e^(-t/2u) is above the tail of two equal scales
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if log_tail(middle) <= log_p else (middle, high)
    return high * (1 + 1e-12)


def dependent_gap(*, deviation: float, size_deviation: float, beta: float, step: float = 1.0) -> Gap:
    """One side, for a share that may follow the noise of the size: -(z1 - p z2) stays below it for all p at once.

    The largest error of released answers is such a share: the answers were made with the noisy size.

    Accuracy: c sqrt(s1^2 + p^2 s2^2) for p up to A = tan(arc) s1 / s2, and its value there and (p - A) e beyond, with
        steps as in `gaussian_gap`. In deviations both draws are a standard normal vector, and some direction of an arc
        of this angle shows more than c of it with chance P(N > c) + arc e^(-c^2/2) / (2 pi) (the formula of Hotelling
        1939 for tubes around an arc); c makes that 98 % of beta. z2 is above e with the rest of beta. The deviation of
        the count may itself have been chosen by the noisy size: c does not depend on it.
    Holds when: as for `gaussian_gap`; the noise of the count is drawn after everything else.
    """
    _check.fraction(beta=beta)
    own = beta * (1 - _BEYOND)

    def excess(c: float) -> float:
        return math.erfc(c / math.sqrt(2)) / 2 + _ARC * math.exp(-(c**2) / 2) / (2 * math.pi)

    c = draws.rising_root(lambda c: own - excess(c), 0.0, 40.0)
    end = math.tan(_ARC) * deviation / size_deviation if size_deviation > 0 else math.inf
    reach = size_deviation * draws.gaussian_two_sided(math.log(2 * beta * _BEYOND))
    steps, size_steps = (step if one > 0 else 0.0 for one in (deviation, size_deviation))

    def gap(p: NDArray[np.float64]) -> NDArray[np.float64]:
        near = c * np.hypot(deviation, np.minimum(p, end) * size_deviation)
        beyond = np.maximum(p - end, 0.0) * max(reach, c * size_deviation)
        return near + beyond + steps + p * size_steps

    return gap


def joint_gap(*, error: float, size_error: float) -> Gap:
    """For any noise: e1 + p e2, where the count is within e1 and the size within e2.

    Accuracy: |z1 - p z2| <= |z1| + p |z2|, except with the chances of both bounds together; that of the counts may be
        for many at once, and that of the size counts once for all of them.
    """
    _check.not_negative(error=error, size_error=size_error)
    return lambda p: error + p * size_error
