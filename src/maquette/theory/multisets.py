"""How many small databases there are, as logarithms: the range that SmallDB chooses from."""

from __future__ import annotations

import math

from maquette import _check

_EXACT = 64
"""Binomial coefficients with a lower index up to this are taken as whole numbers."""


def log_multisets(*, universe: int, rows: int) -> float:
    """ln C(N+m-1, m): multisets of m rows over N cells, exact to a few units in the last place.

    The textbook lgamma(N+m) - lgamma(m+1) - lgamma(N) loses all digits at N = 2^64; here the difference of the two
    large terms is taken inside Stirling's series.
    """
    _check.whole(universe=universe)
    _check.whole(least=0, rows=rows)
    top = universe + rows - 1
    chosen = min(rows, universe - 1)  # C(top, m) = C(top, N-1); from here on top >= 2 chosen
    if chosen <= _EXACT:
        return math.log(math.comb(top, chosen))
    return _log_rising(top - chosen + 1, chosen) - math.lgamma(chosen + 1)


def log_sequences(*, universe: int, rows: int) -> float:
    """m ln N: sequences of m rows over N cells. More than multisets, so a worse certificate."""
    _check.whole(universe=universe)
    _check.whole(least=0, rows=rows)
    return rows * math.log(universe)


def _log_rising(start: int, steps: int) -> float:
    """ln(start (start+1) ... (start+steps-1)), for start > steps > 64."""
    if start > 2**900:  # beyond the doubles; the other factors differ by less than 2^-800
        return steps * math.log(start)
    end = float(start + steps)
    growth = (start - 0.5) * math.log1p(steps / start)
    return growth + steps * (math.log(end) - 1) + _stirling(end) - _stirling(float(start))


def _stirling(x: float) -> float:
    """What lgamma(x) has beyond (x - 1/2) ln x - x + ln(2 pi)/2; full double precision from x = 64 on."""
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x
