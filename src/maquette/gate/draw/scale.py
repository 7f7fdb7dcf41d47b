"""From deviations to levels: the score of a draw."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Deviations are in units of 1 / (n m grid); a level is the error times `resolution`, rounded up.

    The error in counts, max over q of |q(x) - (n/m) q(y)|, moves by at most D = max over q of (max q - min q) between
    neighbouring tables, under both relations: a record z more moves it by q_z - f_q(y), a record replaced by
    q_z' - q_z, and f_q(y) lies between the smallest and the largest weight. So the error over D moves by at most 1, and
    the level by at most `resolution`: multiplying by a whole number and rounding up cannot make a gap of at most 1
    wider than that. Where records weigh between 0 and 1, all counts of the table are whole numbers over `grid`, and
    the same holds for tables within L1 distance 1. For weights over a denominator d, `grid` includes d D.
    """

    m: int
    resolution: int
    grid: int = 1

    def level(self, deviation: int) -> int:
        return -(-deviation * self.resolution // (self.m * self.grid))

    def deviation(self, level: int) -> int:
        """The largest deviation of a level."""
        return level * self.m * self.grid // self.resolution
