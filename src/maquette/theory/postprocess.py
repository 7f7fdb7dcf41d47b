"""What post-processing can add to the error, and how much rows can lose against weights."""

from __future__ import annotations

import math

from maquette import _check


def consistent(*, noise: float, drift: float = 0.0) -> float:
    """Error in counts of the cells of a table after its projection to the simplex of the released size.

    Accuracy: if every cell's noise is at most e and the released size is off by at most t, every projected
        cell c' satisfies |c'/n^ - c/n| n^ <= 2e + t.
        Proof. The projection is max(y - theta, 0) with y = c + z and theta such that the cells add up to n^.
        At theta = e + (n - n^)+ they add up to at most sum max(c - (n - n^)+, 0) <= n^, at
        theta = -e - (n^ - n)+/cells to at least n^; the sum falls in theta, so theta lies between, and
        |c' - c| <= e + |theta| because c >= 0. If n >= n^: -(2e + n - n^) <= c' - c <= 2e, and
        c'/n^ - c/n = (c' - c + f (n - n^)) / n^ with 0 <= f = c/n <= 1. If n < n^ the signs are exchanged.
    Holds when: the cells partition the records.
    """
    return 2 * noise + drift


def fitted(*, noise: float, drift: float = 0.0) -> float:
    """Error in counts of answers that stay within e + t of the measured ones, divided by the released size.

    Accuracy: |a' - f n^| <= |a' - a| + |a - q(x)| + |q(x) - f n^| <= (e + t) + e + t. The linear program of Dwork
        et al. 2009 stays within e + t, because n^/n times the true histogram does.
    Holds when: always, where the distance to the measured answers was checked.
    """
    return 2 * noise + 2 * drift


def moved(*, noise: float, shift: float, drift: float = 0.0) -> float:
    """Error in counts of answers that post-processing moved by at most `shift` from the measured ones.

    Accuracy: |a' - q(x)| <= |a' - a| + |a - q(x)| <= shift + noise; dividing by n^ instead of n adds at most
        the drift of n^.
    Holds when: always; `shift` is public, computed after the fact.
    """
    return noise + shift + drift


def sampling(*, log_queries: float, rows: int, beta: float) -> float:
    """Largest change of any fraction when m rows are drawn from the weights, except with probability beta.

    Accuracy: sqrt(ln(2k/beta) / (2m)) (Hoeffding and union).
    """
    _check.whole(rows=rows)
    _check.fraction(beta=beta)
    return math.sqrt((math.log(2 / beta) + log_queries) / (2 * rows))


def projection_rmse(*, n: int, rho: float, queries: float, log_universe: float) -> float:
    """Root-mean-square error, as a fraction, of Gaussian answers projected to what some table could answer.

    Accuracy: min(s, (ln N / rho)^(1/4) / sqrt(2n)), s = sqrt(k/(2 rho))/n, in expectation of the mean square
        (Nikolov, Talwar and Zhang 2013): the second term does not depend on k.
    Holds when: replace-one, n public, continuous noise s in each of k fractions, L2 projection to {Qh}.
    """
    _check.whole(n=n)
    _check.positive(rho=rho, queries=queries)
    plain = math.sqrt(queries / (2 * rho)) / n
    return min(plain, (log_universe / rho) ** 0.25 / math.sqrt(2 * n))
