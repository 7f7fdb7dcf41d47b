"""Adding noise to exact whole numbers and choosing among exact scores.

`SystemNoise` is the one that production uses. Small requests and very wide laws go to opendp's reviewed
samplers, large requests to our table of the same law (see below for why and how exactly).

Noise in the norm of a polytope, drawn exactly: P(z) proportional to decay^ceil(resolution * |z|) on whole vectors.

Because decay^l = (1 - decay) * sum over j >= l of decay^j, a level j with weight decay^j times the number of whole
points of (j / resolution) K, and a uniform one of these points, give that law. Nobody counts those points: a level is
drawn with the number of points of the box around them instead, a uniform point of the box, and the pair is taken if the
point lies in (j / resolution) K. The body lies in its box by definition, so what is taken has exactly the law. All
comparisons are of whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.core.bodies import Body
from maquette.core.inversion import (
    Bits,
    Brackets,
    CubeRadius,
    Geometric,
    HalfGaussian,
    Law,
    Radius,
    SystemBits,
    below,
)
from maquette.core.laws import Cube, Gaussian, Laplace, NoiseLaw, Norm, sigma_of

BATCH = 128
"""Pairs of a level and a point that are tried at once."""
_WIDE = 2**62


@dataclass(frozen=True, slots=True)
class BoxLevel:
    """Weight decay^j times the whole points of the box of half widths j * side / resolution."""

    sides: tuple[int, ...]
    resolution: int
    decay: Fraction

    def points(self, level: int) -> int:
        return math.prod(2 * (level * side // self.resolution) + 1 for side in self.sides)

    def brackets(self, precision: int, rest: int) -> Brackets:
        one = 1 << precision
        low: list[int] = []
        high: list[int] = []
        power_low, power_high, total, level = one, one, 0, 0
        while True:
            points = self.points(level)
            low.append(points * power_low)
            high.append(points * power_high)
            total += low[-1]
            level += 1
            power_low = power_low * self.decay.numerator // self.decay.denominator
            power_high = -(-power_high * self.decay.numerator // self.decay.denominator)
            right = self._beyond(level, power_high)
            if right is not None and (right << rest < total or power_low == 0):
                return Brackets(0, low, high, 0, right)

    def _beyond(self, level: int, power: int) -> int | None:
        """A bound of all weights from this level on; None where the levels are still too few for one.

        A box has at most prod(2 j side / resolution + 1) points, which grows by a factor of at most (1 + 1/j)^k from j
        to j + 1, and that by less and less: a geometric series.
        """
        factor = Fraction(level + 1, level) ** len(self.sides) * self.decay
        if factor >= 1:
            return None
        points = math.prod(-(-2 * level * side // self.resolution) + 1 for side in self.sides)
        return math.ceil(points * power / (1 - factor))


def whole_point(bits: Bits, body: Body, levels: Counts, resolution: int) -> Counts | None:
    """The first of the tried pairs whose point lies in the body of its level; None where none does."""
    limits = np.stack([2 * (levels * side // resolution) + 1 for side in body.box], axis=1)
    points = _below(bits, limits) - limits // 2
    exact = int(levels.max()) * _steepest(body) < _WIDE
    rows, offsets, at = (a if exact else a.astype(object) for a in (body.rows, body.limits, levels))
    along = np.abs((points if exact else points.astype(object)) @ rows.T) * resolution
    inside = np.flatnonzero((along <= at[:, None] * offsets).all(axis=1))
    return points[inside[0]] if len(inside) else None


def _steepest(body: Body) -> int:
    """No product that is compared is larger than this times the level."""
    across = np.abs(body.rows.astype(object)) @ np.array(body.box, dtype=object)
    return max(int(across.max()), int(body.limits.max()))


def _below(bits: Bits, limits: Counts) -> Counts:
    """Uniform whole numbers below each limit, exactly, by rejection."""
    most = limits.astype(np.uint64)
    unfair = (np.uint64(2**64 - 1) - most + np.uint64(1)) % most  # 2^64 mod limit
    words = np.array(bits.words(most.size)).reshape(most.shape)
    while (again := words < unfair).any():
        words[again] = bits.words(int(again.sum()))
    return (words % most).astype(np.int64)


# Exact draws from a law, many at a time: inversion with as many random bits as the draw needs.
#
# Why by hand: a release of all three-way marginals needs tens of millions of discrete Gaussian draws, and
# opendp's exact sampler gives some 50,000 a second. Here 64 random bits pick an interval of the cumulative
# distribution whose borders are known up to outward rounding. If the bits lie clear of every border, the draw
# is decided; if not (about one in 10^15), more bits are drawn and the borders are computed more finely until
# it is. The outcome has exactly the law, not an approximation of it: no total variation is to be charged.
# Tested against opendp's sampler and the probabilities themselves; the speeds are in `benchmarks/noise.py`.

PRECISION = 192
REST = 80
CHUNK = 1 << 20


class Table:
    """Borders of a law's cumulative distribution on the scale 2**64."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self._first, low, high = _borders(law, 64, PRECISION, REST)
        top = 2**64 - 1
        self._low = np.array([min(b, top) for b in low], dtype=np.uint64)
        self._high = np.array([min(b, top) for b in high], dtype=np.uint64)

    def draw(self, bits: Bits, count: int) -> NDArray[np.int64]:
        """`count` independent draws."""
        numbers = np.empty(count, dtype=np.int64)
        for start in range(0, count, CHUNK):
            words = bits.words(min(CHUNK, count - start))
            numbers[start : start + len(words)] = self._invert(words, bits)
        return numbers

    def _invert(self, words: NDArray[np.uint64], bits: Bits) -> NDArray[np.int64]:
        index = np.searchsorted(self._high, words, side="right")
        inside = index < len(self._low)
        clear = inside & (words < self._low[np.where(inside, index, 0)])
        numbers = index.astype(np.int64) + self._first
        for place in np.flatnonzero(~clear):
            numbers[place] = self._refine(int(words[place]), bits)
        return numbers

    def _refine(self, word: int, bits: Bits) -> int:
        width = 64
        while True:
            word, width = (word << 64) | int(bits.words(1)[0]), width + 64
            first, low, high = _borders(self._law, width, PRECISION + width, REST + width)
            index = next((i for i, border in enumerate(high) if word < border), len(high))
            if index < len(low) and word < low[index]:
                return first + index


def _borders(law: Law, width: int, precision: int, rest: int) -> tuple[int, list[int], list[int]]:
    """Lower and upper bounds of P(j <= first + i) * 2**width."""
    brackets = law.brackets(precision, rest)
    below_low = list(accumulate(brackets.low))
    below_high = [brackets.left + total for total in accumulate(brackets.high)]
    all_low, all_high = below_low[-1], below_high[-1] + brackets.right
    low = [(a << width) // (a + all_high - h) for a, h in zip(below_low, below_high, strict=True)]
    high = [-(-(h << width) // (h + all_low - a)) for a, h in zip(below_low, below_high, strict=True)]
    if brackets.right == 0:  # a law that ends: the last border is 1, exactly
        low[-1] = high[-1] = 1 << width
    return brackets.first, low, high


@lru_cache(maxsize=256)
def table(law: Law) -> Table:
    """The table of a law, kept for later draws."""
    return Table(law)


Counts = NDArray[np.int64]
Selection = Literal["exponential", "permute-and-flip"]

SMALL = 256
"""Up to this many draws opendp is asked: its fixed cost is lower than that of a table."""
WIDE = 30_000
"""Beyond this sigma a table of the Gaussian would cost more than it saves."""
LONG = 4096
"""Entries of a table of a radius; beyond, it is drawn without one."""
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

    def norm(self, exact: Counts, *, body: Body, resolution: int, decay: Fraction) -> Counts:
        """Plus noise in the norm of a body: P(z) ~ decay^ceil(resolution * |z|)."""
        ...

    def select(self, scores: Counts, *, scale: float, method: Selection) -> int:
        """The index of a large score: weights exp(score / scale), or permute-and-flip at the same scale."""
        ...


def add_noise(values: Counts, law: NoiseLaw, *, denominator: int = 1, source: Noise) -> Counts:
    """Exact numerators over `denominator` plus noise of a law in counts."""
    match law:
        case Laplace(scale=scale):
            return source.laplace(values, scale=scale * denominator)
        case Gaussian(sigma_squared=variance):
            return source.gaussian(values, sigma=sigma_of(variance * denominator**2))
        case Cube(base=base):
            return source.cube(values, base=base)
        case Norm(body=body, resolution=resolution, decay=decay):
            return source.norm(values, body=body, resolution=resolution, decay=decay)


class TableNoise:
    """The four additive laws from a stream of random bits, exactly."""

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
        radius = self._radius(len(exact), base)
        return exact + below(self._bits, 2 * radius + 1, len(exact)) - radius

    def norm(self, exact: Counts, *, body: Body, resolution: int, decay: Fraction) -> Counts:
        levels = table(BoxLevel(body.box, resolution, decay))
        while True:
            point = whole_point(self._bits, body, levels.draw(self._bits, BATCH), resolution)
            if point is not None:
                return exact + point

    def _radius(self, k: int, base: Fraction) -> int:
        """By a table where that is short, else by rejection: the same law."""
        if (60 + math.isqrt(110 * k)) / (1 - base) <= LONG:
            return int(table(CubeRadius(k, base)).draw(self._bits, 1)[0])
        return Radius.of(k, base).draw(self._bits)

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


def _opendp() -> Any:
    """The parts of opendp that are used; its prelude takes a second, for table libraries that nobody needs here."""
    from opendp import domains, measurements, measures, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    spaces: Any = domains
    vectors = spaces.vector_domain(spaces.atom_domain(T=_WHOLE))
    return SimpleNamespace(vectors=vectors, m=measurements, measures=measures, metrics=metrics)


def _opendp_laplace(exact: Counts, scale: float) -> Counts:
    return np.array(_laplace_of(scale)(exact.tolist()), dtype=np.int64)


def _opendp_gaussian(exact: Counts, sigma: float) -> Counts:
    return np.array(_gaussian_of(sigma)(exact.tolist()), dtype=np.int64)


# What opendp makes holds a scale and no state; a session asks for the same one again and again.


@lru_cache(maxsize=64)
def _laplace_of(scale: float) -> Callable[[list[int]], list[int]]:
    dp = _opendp()
    return dp.m.make_laplace(dp.vectors, dp.metrics.l1_distance(T=_WHOLE), scale=scale)


@lru_cache(maxsize=64)
def _gaussian_of(sigma: float) -> Callable[[list[int]], list[int]]:
    dp = _opendp()
    return dp.m.make_gaussian(dp.vectors, dp.metrics.l2_distance(T=float), scale=sigma)


def _opendp_select(scores: Counts, scale: float, method: Selection) -> int:
    return int(_noisy_max(scale, method)(scores.tolist()))


@lru_cache(maxsize=64)
def _noisy_max(scale: float, method: Selection) -> Callable[[list[int]], int]:
    dp = _opendp()
    space = dp.vectors, dp.metrics.linf_distance(T=_WHOLE)
    # opendp draws Gumbel noise under zCDP (the exponential mechanism) and exponential noise under pure epsilon
    # (permute-and-flip); each is charged as what it is
    measure = (
        dp.measures.zero_concentrated_divergence()
        if method == "exponential"
        else dp.measures.max_divergence()
    )
    return dp.m.make_noisy_max(*space, measure, scale=scale)
