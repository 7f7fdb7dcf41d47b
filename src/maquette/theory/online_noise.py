"""The noise of a sparse-vector strategy: its scales, how large it gets, and the shares of the budget that suit.

Widths are fractions of n, scales are in counts. See `theory/online.py` for the letters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from maquette import _check
from maquette.errors import ParameterError
from maquette.theory import gaussian, laplace


@dataclass(frozen=True, slots=True)
class Asked:
    """The public numbers that a choice is made from."""

    n: float
    k: int
    beta: float
    log_universe: float
    alpha: float | None
    refit: bool
    size_error: float
    grid: float

    def __post_init__(self) -> None:
        _check.positive(n=self.n)
        _check.whole(k=self.k)
        _check.fraction(beta=self.beta)
        if self.alpha is not None:
            _check.positive(alpha=self.alpha)
        for name in ("log_universe", "size_error", "grid"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ParameterError(f"expected {name} >= 0 and finite, got {name}={value!r}")

    def laplace(self, scale: float, p: float) -> float:
        """What one Laplace draw exceeds with probability p, in counts."""
        if self.grid:
            return laplace.discrete(scale=scale, log_queries=0.0, beta=p, grid=self.grid)
        return -scale * math.log(p)

    def gaussian(self, sigma: float, p: float) -> float:
        """The same for a Gaussian draw; on a grid one step more."""
        return sigma * gaussian.two_sided(math.log(p)) + self.grid

    def needed(self, c: int, width: float) -> float:
        """The gap at which c updates use up ln|X|."""
        return math.sqrt(self.log_universe / (2 * c)) + (2 * width if self.refit else 0.0)


class Draws(NamedTuple):
    """The noise of one choice of c and of the shares, with the levels that it stays below."""

    unit: str
    c: int
    shares: tuple[float, float, float]
    scales: tuple[float, float, float]
    epoch_epsilon: float
    width: float
    answer_width: float


def pure_noise(asked: Asked, epsilon: float, c: int, shares: tuple[float, float, float]) -> Draws:
    """One sparse vector with c positives, Laplace noise throughout; shares of epsilon."""
    f1, f2, f3 = shares
    if min(shares) <= 0 or math.fsum(shares) > 1 + 1e-9:
        raise ParameterError(f"expected three shares > 0 that add up to 1, got {shares}")
    scales = 1 / (f1 * epsilon), 2 * c / (f2 * epsilon), c / (f3 * epsilon)
    return Draws(
        "epsilon",
        c,
        shares,
        scales,
        (f1 + f2) * epsilon,
        (asked.laplace(scales[0], asked.beta / 3) + asked.laplace(scales[1], asked.beta / (3 * asked.k)))
        / asked.n,
        asked.laplace(scales[2], asked.beta / (3 * c)) / asked.n,
    )


def concentrated_noise(asked: Asked, rho: float, c: int, shares: tuple[float, float]) -> Draws:
    """c epochs of one positive each; the threshold's share of an epoch's epsilon, the paid answers' of rho."""
    fa, fm = shares
    if not (0 < fa < 1 and 0 < fm < 1):
        raise ParameterError(f"expected two shares between 0 and 1, got {shares}")
    epsilon = math.sqrt(2 * rho * (1 - fm) / c)
    scales = 1 / (fa * epsilon), 2 / ((1 - fa) * epsilon), math.sqrt(c / (2 * rho * fm))
    tests = asked.laplace(scales[0], asked.beta / (3 * c)) + asked.laplace(
        scales[1], asked.beta / (3 * asked.k)
    )
    return Draws(
        "rho",
        c,
        (fa, 1 - fa, fm),
        scales,
        epsilon,
        tests / asked.n,
        asked.gaussian(scales[2], asked.beta / (3 * c)) / asked.n,
    )


def split_pure(asked: Asked, epsilon: float, c: int) -> tuple[float, float, float]:
    """The shares that minimise the stated error at this c, for continuous noise.

    A = a1/f1 + a2/f2 and W = a3/f3. With refit (or for a target) all three count; else W only has to stay below G.
    """
    scale = epsilon * asked.n
    a1 = math.log(3 / asked.beta) / scale
    a2 = 2 * c * math.log(3 * asked.k / asked.beta) / scale
    a3 = c * math.log(3 * c / asked.beta) / scale
    if asked.refit or asked.alpha is not None:
        roots = [math.sqrt(a) for a in (a1, a2, a3)]
        return _normal(roots[0], roots[1], roots[2])
    return _tests_first(a1, a2, a3 / max(asked.needed(c, 0.0), 1e-300))


def _tests_first(a1: float, a2: float, least: float) -> tuple[float, float, float]:
    """Just enough for the paid answers (a hair more, since W must stay below), the rest to the tests."""
    f3 = min(max(1.001 * least, 0.01), 0.9)
    rest = (1 - f3) / (math.sqrt(a1) + math.sqrt(a2))
    return rest * math.sqrt(a1), rest * math.sqrt(a2), f3


def split_zcdp(asked: Asked, rho: float, c: int) -> tuple[float, float]:
    """The same for epochs: A = b / sqrt(1 - fm), W = v / sqrt(fm)."""
    first, second = math.sqrt(math.log(3 * c / asked.beta)), math.sqrt(2 * math.log(3 * asked.k / asked.beta))
    fa = first / (first + second)
    tests = (first + second) ** 2 / (math.sqrt(2 * rho / c) * asked.n)
    paid = math.sqrt(c / (2 * rho)) * gaussian.two_sided(math.log(asked.beta / (3 * c))) / asked.n
    if asked.refit or asked.alpha is not None:
        return fa, 1 / (1 + (tests / paid) ** (2 / 3))
    gap = max(asked.needed(c, 0.0), 1e-300)
    return fa, min(max(1.001 * (paid / gap) ** 2, 0.01), 0.9)


def median_split_pure(asked: Asked, epsilon: float, c: int, gap: float) -> tuple[float, float, float]:
    """For the median mechanism: paid answers below alpha_m where that leaves enough for the tests, else balanced."""
    scale = epsilon * asked.n
    a1 = math.log(3 / asked.beta) / scale
    a2 = 2 * c * math.log(3 * asked.k / asked.beta) / scale
    a3 = c * math.log(3 * c / asked.beta) / scale
    modest = _tests_first(a1, a2, a3 / gap)
    even = _normal(math.sqrt(2 * a1), math.sqrt(2 * a2), math.sqrt(a3))
    return min((modest, even), key=lambda f: 2 * (a1 / f[0] + a2 / f[1]) + max(gap, a3 / f[2]))


def median_split_zcdp(asked: Asked, rho: float, c: int, gap: float) -> tuple[float, float]:
    """The same for epochs."""
    first, second = math.sqrt(math.log(3 * c / asked.beta)), math.sqrt(2 * math.log(3 * asked.k / asked.beta))
    tests = (first + second) ** 2 / (math.sqrt(2 * rho / c) * asked.n)
    paid = math.sqrt(c / (2 * rho)) * gaussian.two_sided(math.log(asked.beta / (3 * c))) / asked.n
    modest = min(max(1.001 * (paid / gap) ** 2, 0.01), 0.9)
    even = 1 / (1 + (2 * tests / paid) ** (2 / 3))
    fm = min((modest, even), key=lambda f: 2 * tests / math.sqrt(1 - f) + max(gap, paid / math.sqrt(f)))
    return first / (first + second), fm


def _normal(*parts: float) -> tuple[float, float, float]:
    total = math.fsum(parts)
    return parts[0] / total, parts[1] / total, parts[2] / total
