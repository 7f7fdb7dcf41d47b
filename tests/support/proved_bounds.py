"""What may be stated about an error, computed a second time: from the specification, term by term.

Nothing here is shared with `maquette.theory`: laws are summed over their probabilities, existence and masses are
listed, bounds are written out as the specification prints them. What was spent is read off the receipts of a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from support.draw_cases import tree_weight

REACH = 2**16
"""No law that is summed here goes beyond."""
SIZE_PART = 0.1
"""Of beta, for the number of records where it is private."""


def laplace_law(scale: float) -> NDArray[np.float64]:
    """P(|z| = j) of the two-sided geometric law."""
    weights = np.exp(-np.arange(REACH) / scale)
    weights[1:] *= 2
    return weights / weights.sum()


def gaussian_law(sigma: float) -> NDArray[np.float64]:
    """P(|z| = j) of the discrete Gaussian law."""
    weights = np.exp(-(np.arange(REACH) ** 2) / (2 * sigma**2))
    weights[1:] *= 2
    return weights / weights.sum()


def cube_law(epsilon: float, k: int) -> NDArray[np.float64]:
    """P(largest coordinate = j) of integer L-infinity noise: the points of every shell times exp(-epsilon j)."""
    j = np.arange(4000, dtype=float)
    outer, inner = (2 * j + 1) ** k, np.where(j > 0, np.abs(2 * j - 1), 0.0) ** k
    weights = (outer - inner) * np.exp(-epsilon * j)
    return weights / weights.sum()


def largest(law: NDArray[np.float64], draws: int, beta: float) -> int:
    """The smallest j that the largest of so many independent draws exceeds with probability at most beta."""
    above = np.append(np.cumsum(law[::-1])[::-1][1:], 0.0)  # P(|z| > j)
    failing = -np.expm1(draws * np.log1p(-np.minimum(above, 1 - 1e-16)))
    return int(np.argmax(failing <= beta))


def size_off(paid: float, unit: str, beta: float) -> int:
    """How far a released number of records lies from the true one."""
    law = laplace_law(1 / paid) if unit == "epsilon" else gaussian_law(math.sqrt(1 / (2 * paid)))
    return largest(law, 1, SIZE_PART * beta)


def chernoff(weights: NDArray[np.float64], scale: float, k: int, beta: float) -> float:
    """min over s of (ln(2k/beta) + sum_i psi(c_i s)) / s, psi the cumulant of a discrete Laplace draw, by its sum."""
    z = np.arange(-int(60 * scale) - 60, int(60 * scale) + 61)
    law = np.exp(-np.abs(z) / scale)
    law /= law.sum()
    found, times = np.unique(weights, return_counts=True)

    def level(share: float) -> float:
        s = share / scale
        psi = sum(t * math.log(float(law @ np.exp(c * s * z))) for c, t in zip(found, times, strict=True))
        return (math.log(2 * k / beta) + psi) / s

    return float(minimize_scalar(level, bounds=(1e-4, 0.97), method="bounded").fun)


def gaussians(variances: Sequence[float], beta: float) -> float:
    """The smallest e with sum over answers of 2 exp(-e^2 / (2 variance)) <= beta."""
    variance = np.asarray(variances)
    low, high = 0.0, 1e7
    for _ in range(100):
        middle = (low + high) / 2
        enough = 2 * np.exp(-(middle**2) / (2 * variance)).sum() <= beta
        low, high = (low, middle) if enough else (middle, high)
    return high


def least_tree_mass(cells: int, rows: int) -> float:
    """ln(1 / least probability of a database under the tree base), by listing all of them."""
    listed = combinations_with_replacement(range(cells), rows)
    return -math.log(min(tree_weight(small, 0, cells) for small in listed))


def small_database(
    *, existence: float, mass: float, span: float, epsilon: float, n: float, beta: float
) -> float:
    """Section 4: alpha_m + (2D / (epsilon n)) (ln|R| + ln(1/beta)), and D counts of rounding (resolution 1)."""
    return existence + 2 * span / (epsilon * n) * (mass + math.log(1 / beta)) + span / n


def weights_pure(*, n: float, epsilon: float, universe: int, k: int, rounds: int, beta: float) -> float:
    """Section 9: sqrt(ln N/(2T)) + (2T/(epsilon n)) ln(2kT/beta), and a count of rounding."""
    return (
        math.sqrt(math.log(universe) / (2 * rounds))
        + 2 * rounds / (epsilon * n) * math.log(2 * k * rounds / beta)
        + 1 / n
    )


def weights_concentrated(*, n: float, rho: float, universe: int, k: int, rounds: int, beta: float) -> float:
    """Section 9: sqrt(ln N/(2T)) + sqrt(T/(2 rho)) ln(2kT/beta) / n, and a count of rounding."""
    return (
        math.sqrt(math.log(universe) / (2 * rounds))
        + math.sqrt(rounds / (2 * rho)) * math.log(2 * k * rounds / beta) / n
        + 1 / n
    )


def tree_nodes(levels: int, branches: int, *, total_is_public: bool) -> int:
    """Measured nodes that add up to any prefix: half the branches per level, at the top only if the total is known."""
    half = (branches + 1) // 2
    return levels * half if total_is_public else (levels - 1) * half + branches - 1
