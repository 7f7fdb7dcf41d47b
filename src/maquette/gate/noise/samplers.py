"""Adding noise to exact whole numbers and choosing among exact scores.

`SystemNoise` is the one that production uses. Small requests and very wide laws go to opendp's reviewed
samplers, large requests to our table of the same law (see `table.py` for why and how exactly).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.gate.noise.bits import Bits, SystemBits, below
from maquette.gate.noise.laws import CubeRadius, Geometric, HalfGaussian
from maquette.gate.noise.table import table

Counts = NDArray[np.int64]
Selection = Literal["exponential", "permute-and-flip"]

SMALL = 256
"""Up to this many draws opendp is asked: its fixed cost is lower than that of a table."""
WIDE = 30_000
"""Beyond this sigma a table of the Gaussian would cost more than it saves."""
STEP = 4096
"""A wide geometric law is drawn as a multiple of this and a rest: small tables instead of a long one."""
_WHOLE = "i64"
"""opendp's type of the exact values. Its `int` has 32 bits and its error message would quote a value beyond them."""


class Noise(Protocol):
    """What the curator draws with. Every method takes exact values and returns what may be released."""

    @property
    def watermark(self) -> str | None:
        """None if the noise is real; otherwise what is wrong with it."""
        ...

    @property
    def bits(self) -> Bits:
        """Where the randomness comes from, for draws that are not noise."""
        ...

    def laplace(self, exact: Counts, *, scale: Fraction) -> Counts:
        """Plus discrete Laplace noise: P(z) ~ exp(-|z| / scale)."""
        ...

    def gaussian(self, exact: Counts, *, sigma: float) -> Counts:
        """Plus discrete Gaussian noise: P(z) ~ exp(-z^2 / (2 sigma^2))."""
        ...

    def cube(self, exact: Counts, *, base: Fraction) -> Counts:
        """Plus L-infinity noise: P(z) ~ base^max|z|."""
        ...

    def select(self, scores: Counts, *, scale: float, method: Selection) -> int:
        """The index of a large score: weights exp(score / scale), or permute-and-flip at the same scale."""
        ...


class TableNoise:
    """The three additive laws from a stream of random bits, exactly."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits

    @property
    def bits(self) -> Bits:
        return self._bits

    def laplace(self, exact: Counts, *, scale: Fraction) -> Counts:
        # the difference of two geometric draws has the discrete Laplace law
        return exact + self._geometric(1 / scale, len(exact)) - self._geometric(1 / scale, len(exact))

    def gaussian(self, exact: Counts, *, sigma: float) -> Counts:
        size = table(HalfGaussian(Fraction(sigma) ** 2)).draw(self._bits, len(exact))
        return exact + self._signs(len(exact)) * size

    def cube(self, exact: Counts, *, base: Fraction) -> Counts:
        radius = int(table(CubeRadius(len(exact), base)).draw(self._bits, 1)[0])
        return exact + below(self._bits, 2 * radius + 1, len(exact)) - radius

    def _geometric(self, rate: Fraction, count: int) -> Counts:
        if rate * STEP >= 1:
            return table(Geometric(rate)).draw(self._bits, count)
        rest = table(Geometric(rate, STEP)).draw(self._bits, count)
        return self._geometric(rate * STEP, count) * STEP + rest

    def _signs(self, count: int) -> Counts:
        words = self._bits.words(-(-count // 64))
        return 2 * np.unpackbits(words.view(np.uint8))[:count].astype(np.int64) - 1


class SystemNoise(TableNoise):
    """Exact noise from the operating system's generator and opendp."""

    watermark: str | None = None

    def __init__(self) -> None:
        super().__init__(SystemBits())

    def laplace(self, exact: Counts, *, scale: Fraction) -> Counts:
        if len(exact) > SMALL or Fraction(float(scale)) != scale:
            return super().laplace(exact, scale=scale)
        return _opendp_laplace(exact, float(scale))

    def gaussian(self, exact: Counts, *, sigma: float) -> Counts:
        if len(exact) > SMALL and sigma <= WIDE:
            return super().gaussian(exact, sigma=sigma)
        return _opendp_gaussian(exact, sigma)

    def select(self, scores: Counts, *, scale: float, method: Selection) -> int:
        return _opendp_select(scores, scale, method)


def float_up(value: Fraction) -> float:
    """The smallest double that is not below the value."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def sqrt_up(value: Fraction) -> float:
    """A double whose square is not below the value, and hardly above it."""
    root = math.sqrt(float_up(value))
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def _opendp() -> Any:
    """The parts of opendp that are used; its prelude takes a second, for table libraries that nobody needs here."""
    from opendp import domains, measurements, measures, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    return SimpleNamespace(domains=domains, m=measurements, measures=measures, metrics=metrics)


def _vectors(dp: Any) -> Any:
    return dp.domains.vector_domain(dp.domains.atom_domain(T=_WHOLE))


def _opendp_laplace(exact: Counts, scale: float) -> Counts:
    dp = _opendp()
    space = _vectors(dp), dp.metrics.l1_distance(T=_WHOLE)
    return _released(dp.m.make_laplace(*space, scale=scale), exact)


def _opendp_gaussian(exact: Counts, sigma: float) -> Counts:
    dp = _opendp()
    space = _vectors(dp), dp.metrics.l2_distance(T=float)
    return _released(dp.m.make_gaussian(*space, scale=sigma), exact)


def _opendp_select(scores: Counts, scale: float, method: Selection) -> int:
    return int(_noisy_max(scale, method)(scores.tolist()))


@lru_cache(maxsize=64)
def _noisy_max(scale: float, method: Selection) -> Callable[[list[int]], int]:
    dp = _opendp()
    space = _vectors(dp), dp.metrics.linf_distance(T=_WHOLE)
    # opendp draws Gumbel noise under zCDP (the exponential mechanism) and exponential noise under pure epsilon
    # (permute-and-flip); each is charged as what it is
    measure = (
        dp.measures.zero_concentrated_divergence()
        if method == "exponential"
        else dp.measures.max_divergence()
    )
    return dp.m.make_noisy_max(*space, measure, scale=scale)


def _released(measurement: Callable[[list[int]], list[int]], exact: Counts) -> Counts:
    return np.array(measurement(exact.tolist()), dtype=np.int64)
