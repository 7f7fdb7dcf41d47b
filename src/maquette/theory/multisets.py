"""How many small databases there are, as logarithms: the range that SmallDB chooses from.

With a base measure other than the uniform one, the number is 1 over the least mass of any one database.
"""

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


def log_tree(*, universe: int, rows: int) -> float:
    """ln(1 / least mass of a database of m rows) under the Polya tree base on N cells, by the evenest split.

    The base halves the cells again and again; a block with c rows gives a of them to its left half with probability
    C(2a, a) C(2c-2a, c-a) / 4^c. Exact for N a power of two, else an upper bound: that of the next power.

    Proof. With W_0 = 0 and g = W_h(a) - ln C(2a, a), the worst database has W_{h+1}(c) = c ln 4 + max over a of
    g(a) + g(c-a). ln C(2a, a) is convex, since its steps ln(4 - 2/(a+1)) rise; so g is concave if W_h is, the maximum
    is at the evenest split, and W_{h+1} is concave as a sup-convolution of concave sequences.
    """
    _check.whole(universe=universe)
    _check.whole(least=0, rows=rows)
    return _worst(rows, (universe - 1).bit_length(), {})


def _worst(rows: int, height: int, known: dict[tuple[int, int], float]) -> float:
    """W_height(rows); only two numbers of rows occur at each height."""
    if rows == 0 or height == 0:
        return 0.0
    if rows == 1:
        return height * math.log(2)
    if (rows, height) not in known:
        halves = (rows // 2, rows - rows // 2)
        below = sum(_worst(half, height - 1, known) - _log_central(half) for half in halves)
        known[rows, height] = rows * math.log(4) + below
    return known[rows, height]


def _log_central(a: int) -> float:
    """ln C(2a, a)."""
    if a <= _EXACT:
        return math.log(math.comb(2 * a, a))
    return a * math.log(4) - math.log(math.pi * a) / 2 + _stirling(2.0 * a) - 2 * _stirling(float(a))


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
