"""Noise in the norm of a polytope, drawn exactly: P(z) proportional to decay^ceil(resolution * |z|) on whole vectors.

Because decay^l = (1 - decay) * sum over j >= l of decay^j, a level j with weight decay^j times the number of whole
points of (j / resolution) K, and a uniform one of these points, give that law. Nobody counts those points: a level is
drawn with the number of points of the box around them instead, a uniform point of the box, and the pair is taken if the
point lies in (j / resolution) K. The body lies in its box by definition, so what is taken has exactly the law. All
comparisons are of whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.questions.norms import Body
from maquette.samplers.laws import Bits, Brackets

Counts = NDArray[np.int64]

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
