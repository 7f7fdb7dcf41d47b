"""From a law of noise to numbers: how large it gets, what it will be at a price, what a price buys."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from maquette.accounting.budget import UNITS
from maquette.accounting.gaussian import rho_of, smoothing_of
from maquette.domain import Relation
from maquette.mechanisms.base import Task
from maquette.queries.base import Sensitivity
from maquette.questions.measurement import Cube, Gaussian, Laplace, Noise, Size
from maquette.theory import direct as size_theory
from maquette.theory import draws as cube
from maquette.theory import draws as gaussian
from maquette.theory import draws as laplace

SIZE_SHARES = tuple(Fraction(share, 100) for share in (5, 10, 20, 35, 50))
"""The parts of a price that may go to the number of records, where that is private."""
SIZE_BETA = 0.1
"""The part of beta that is set aside for the number of records, where that is private."""


def largest(noise: Noise, *, draws: int, beta: float, denominator: int = 1) -> float:
    """The level in counts that none of the independent draws exceeds, except with probability beta.

    Accuracy: exact quantiles of the discrete laws; L-infinity noise is one draw with `draws` coordinates.
    """
    grid = 1 / denominator
    match noise:
        case Laplace(scale=scale) if scale is not None:
            return laplace.laplace_discrete(
                scale=float(scale), log_queries=math.log(draws), beta=beta, grid=grid
            )
        case Gaussian(sigma_squared=variance) if variance is not None:
            sigma = math.sqrt(variance)
            return gaussian.gaussian_discrete(sigma=sigma, log_queries=math.log(draws), beta=beta, grid=grid)
        case Cube(base=base) if base is not None:
            # through 1 - base where the base is close to 1, so that a small epsilon keeps its digits
            epsilon = -math.log1p(-float(1 - base)) if 2 * base > 1 else -math.log(base)
            return grid * cube.cube_integer(epsilon=epsilon, queries=draws, beta=beta)
        case _:
            raise TypeError(f"no law in {noise!r}")


def drift(size: Size, beta: float) -> float:
    """How far the released number of records lies from the true one, out of the share of beta set aside for it."""
    return 0.0 if size.noise is None else size_off(size.noise, beta * SIZE_BETA)


def size_off(noise: Noise, beta: float) -> float:
    """How far a number of records with this noise lies from the true one, except with probability beta."""
    match noise:
        case Laplace(scale=Fraction() as scale):
            return size_theory.size_geometric(scale=float(scale), beta=beta)
        case Gaussian(sigma_squared=Fraction() as variance):
            return size_theory.size_gaussian(sigma=math.sqrt(variance), beta=beta)
        case _:
            raise TypeError(f"no law of a size in {noise!r}")


def rest_of(beta: float, relation: Relation) -> float:
    """What is left of beta for the answers."""
    return beta if relation is Relation.REPLACE_ONE else beta * (1 - SIZE_BETA)


def drawn(noise: Noise, sensitivity: Sensitivity, *, unit: str = "rho", denominator: int = 1) -> Noise:
    """The law that a price in `unit` will buy, as the gate calibrates it up to rounding."""
    match noise:
        case Laplace():
            return Laplace(noise.epsilon, sensitivity.l1 / noise.epsilon)
        case Gaussian():
            smoothing = smoothing_of(unit) / denominator**2
            return Gaussian(noise.rho, sensitivity.l2_squared / (2 * noise.rho) + smoothing)
        case Cube():
            epsilon = min(float(noise.epsilon), 700.0)
            small = epsilon < 0.5
            base = 1 - Fraction(-math.expm1(-epsilon)) if small else Fraction(math.exp(-epsilon))
            return Cube(noise.epsilon, base)


def size_law(price: Fraction, unit: str) -> Noise:
    """The law of a number of records bought at this price."""
    one = Sensitivity(Fraction(1), Fraction(1), Fraction(1))
    return drawn(Laplace(price) if unit == "epsilon" else Gaussian(price), one, unit=unit)


def pure_epsilon(price: Fraction, unit: str) -> Fraction:
    """The pure epsilon that a price buys: itself, or sqrt(2 rho) rounded down to the ledger's grid."""
    if unit == "epsilon":
        return price
    return Fraction(math.isqrt(math.floor(2 * rho_of(price, unit) * UNITS**2)), UNITS)


@dataclass(frozen=True, slots=True)
class Split:
    """A price divided between the number of records and the answers."""

    size: Fraction
    answers: Fraction

    def drift(self, task: Task, beta: float | None = None) -> float:
        """How far the released size will lie from the true one; 0 where it is public."""
        if not self.size:
            return 0.0
        share = task.beta * SIZE_BETA if beta is None else beta
        return size_off(size_law(self.size, task.unit), share)


def split(task: Task, level: Callable[[Fraction], float], stated: Callable[[float, float], float]) -> Split:
    """Nothing for a public size; else the share for which the stated error is smallest. Public inputs only.

    `level` is the noise level at a price, `stated` the error in counts out of noise level and drift.
    """
    if size_is_public(task):
        return Split(Fraction(0), task.price)
    options = [_part(task.price, share) for share in SIZE_SHARES]
    return min(options, key=lambda option: stated(level(option.answers), option.drift(task)))


def split_for_shares(task: Task, *, n: int) -> Split:
    """The share that suits errors in fractions which fall like 1 / (epsilon n), n the records that are surely there.

    Fractions of a hypothesis or of a small database do not depend on the released size; what is proved about them
    does: the released size may lie a drift below the true one, and the true one is only known to lie a drift below
    that. n is public, or a guess.
    """

    def epsilon(price: Fraction) -> float:
        return math.sqrt(price) if task.unit != "epsilon" else float(price)

    return split(task, epsilon, lambda strength, drift: -strength * (n - 2 * drift))


def size_is_public(task: Task) -> bool:
    """A number of records may be public; what they weigh together never is."""
    return task.relation is Relation.REPLACE_ONE and task.weight is None


def _part(price: Fraction, share: Fraction) -> Split:
    size = Fraction(max(1, math.floor(price * share * UNITS)), UNITS)
    return Split(size, price - size)
