"""Roth's mechanism (2010): SmallDB for real-valued databases and queries.

Databases are non-negative weights x on the cells, neighbours differ by at most 1 in L1 norm, ||x|| is the sum of the
weights. Translation of the paper: its alpha is our epsilon, its (epsilon, delta)-usefulness our (error, beta).

The draw is SmallDB's, P(y) proportional to exp(-epsilon err(x, y) / 2): the score has sensitivity exactly 1, so 1/2
is the right constant. The published 1/4 is private too and doubles the selection term; the published sensitivity
1 + 1/m is not the right quantity. Scaling the answers by ||x|| is not private: use a paid, noisy total.
"""

from __future__ import annotations

from maquette import _check
from maquette.errors import ParameterError
from maquette.theory.existence import LETTERS, Facts
from maquette.theory.multisets import log_multisets
from maquette.theory.smalldb import Records, records_at, rows_for

EXPONENT = 0.5
"""The constant in exp(-c epsilon err); valid and best."""
PUBLISHED_EXPONENT = 0.25


def relative_records(
    facts: Facts, *, eta: float, epsilon: float, beta: float, only: str = LETTERS, exponent: float = EXPONENT
) -> Records:
    """The smallest ||x|| from which on every count is within eta ||x||, except with probability beta.

    Accuracy: relative usefulness (Roth 2010, Theorem 5, corrected): if alpha_m <= eta/2 and
        ||x|| >= (4 / (epsilon eta)) (ln|R_m| + ln(1/beta)), all counts are within eta ||x||. m is the smallest that
        reaches eta/2. `smalldb.records` at alpha = eta splits the error better and never needs more.
    Holds when: the answers are scaled by the true ||x||; scaled by a released total, add its error. Form c does not
        apply. With another exponent c <= 1/2 the requirement is divided by 2c.
    """
    _check.positive(eta=eta, epsilon=epsilon)
    _check.fraction(beta=beta)
    if not 0 < exponent <= EXPONENT:
        raise ParameterError(f"expected 0 < exponent <= {EXPONENT}, got exponent={exponent!r}")
    rows, letter = rows_for(facts, alpha=eta / 2, only=only)
    needed = records_at(
        existence=eta / 2,
        log_range=log_multisets(universe=facts.universe, rows=rows),
        alpha=eta,
        epsilon=epsilon,
        beta=beta,
        span=facts.span,
    )
    return Records(needed * EXPONENT / exponent, rows, letter)


def usefulness(*, eta: float, total: float, drift: float = 0.0) -> float:
    """The error in counts that relative usefulness states: eta ||x||, plus the drift of a released total."""
    _check.positive(eta=eta, total=total)
    return eta * total + drift
