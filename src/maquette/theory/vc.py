"""VC dimension in bounds: how many behaviours there are, and how many rows then stand for a table.

Chaining gives m <= C d / alpha^2 without the logarithm (Talagrand 1994; Li, Long and Srinivasan 2001), but with no
explicit C: it never enters a certificate.
"""

from __future__ import annotations

import math

from maquette import _check
from maquette.theory import search


def growth(*, vc: int, points: int) -> int:
    """Most behaviours of a class of this VC dimension on s points: G(d, s) = sum over i <= d of C(s, i).

    Accuracy: Sauer 1972, Shelah 1972; at most (e s / d)^d for s >= d >= 1.
    """
    _check.whole(least=0, vc=vc, points=points)
    if vc >= points:
        return 2**points
    term = total = 1
    for i in range(vc):
        term = term * (points - i) // (i + 1)
        total += term
    return total


def log_growth(*, vc: int, points: int) -> float:
    """ln G(d, s), also where 2^s has more digits than fit in memory."""
    _check.whole(least=0, vc=vc, points=points)
    return points * math.log(2) if vc >= points else math.log(growth(vc=vc, points=points))


def support_error(*, rows: int, vc: int, points: int) -> float:
    """Error that m sampled rows can reach: only the behaviours on the support matter (existence, form d).

    Accuracy: sqrt(ln(2 G(d, s)) / (2m)).
    Holds when: counting queries; the table has at most s distinct cells, s = min(n, |X|) if n is public, else |X|.
    """
    _check.whole(rows=rows)
    return math.sqrt((math.log(2) + log_growth(vc=vc, points=points)) / (2 * rows))


def support_rows(*, alpha: float, vc: int, points: int) -> int:
    """Rows that suffice for the error alpha by the support form: ceil(ln(2 G(d, s)) / (2 alpha^2))."""
    _check.positive(alpha=alpha)
    return math.ceil((math.log(2) + log_growth(vc=vc, points=points)) / (2 * alpha**2))


def free_error(*, rows: int, vc: int) -> float:
    """Error that m sampled rows can reach, whatever n and |X| are (existence, form e).

    Accuracy: E sup_q |f_q(sample) - f_q(x)| <= sqrt(2 ln(2 G(d, m)) / m), by symmetrisation and Massart's finite
        class lemma with functions centred at 1/2; some sample is as good as the mean.
    Holds when: counting queries, also infinitely many. It falls in m: ln G(d, m) is concave in m and 0 at m = 0.
    """
    _check.whole(rows=rows)
    return math.sqrt(2 * (math.log(2) + log_growth(vc=vc, points=rows)) / rows)


def free_rows(*, alpha: float, vc: int) -> int:
    """The smallest m with `free_error` <= alpha."""
    _check.positive(alpha=alpha)
    found = search.smallest(lambda rows: free_error(rows=rows, vc=vc) <= alpha)
    assert found is not None  # the error falls to 0
    return found
