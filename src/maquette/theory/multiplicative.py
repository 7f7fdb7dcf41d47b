"""Multiplicative weights: how fast they learn, and the error of the offline mechanisms built on them.

T rounds; errors are fractions of n. The selection loses (2/epsilon_s)(ln of the candidates + ln 1/beta) counts by
the utility of the exponential mechanism, which permute-and-flip shares: a candidate t counts below the best wins
only if its exponential noise exceeds t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from maquette.core import _check
from maquette.theory import draws


def updates(*, log_universe: float, gap: float) -> int:
    """How many gaps larger than `gap` non-private multiplicative weights can meet, at step 4 gap.

    Accuracy: ln|X| / (2 gap^2): every update lowers the relative entropy by 2 gap^2 at least, from ln|X| at most.
    """
    _check.positive(gap=gap)
    return math.floor(log_universe / (2 * gap**2) + 1e-9)


def entropy_drop(*, step: float, gap: float) -> float:
    """What one update of step l on a gap g takes off the relative entropy, at least: l g - l^2 / 8 (Hoeffding)."""
    _check.positive(step=step)
    return step * abs(gap) - step**2 / 8


def learning(*, log_universe: float, rounds: int) -> float:
    """sqrt(ln|X| / (2T)): the mean gap of T rounds at step sqrt(8 ln|X| / T), at most."""
    _check.whole(rounds=rounds)
    return math.sqrt(log_universe / (2 * rounds))


def step_size(*, log_universe: float, rounds: int) -> float:
    """The fixed step sqrt(8 ln|X| / T) of `learning`."""
    _check.whole(rounds=rounds)
    return math.sqrt(8 * log_universe / rounds)


def selection(*, epsilon: float, log_candidates: float, rounds: int, beta: float) -> float:
    """What T selections at `epsilon` each lose in any round, in counts: (2/epsilon)(ln candidates + ln(T/beta))."""
    _check.positive(epsilon=epsilon)
    _check.fraction(beta=beta)
    return 2 / epsilon * (log_candidates + math.log(rounds / beta))


def mw(*, n: float, log_universe: float, rounds: int, lost: float) -> float:
    """Largest error of the average of T hypotheses, each moved by the sign of an error that was chosen privately.

    Accuracy: sqrt(ln|X|/(2T)) + lost/n.
    Holds when: in every round the chosen signed error is at most `lost` counts below the largest one, all rounding of
        scores and answers included; the step is `step_size`.
    """
    _check.positive(n=n)
    return learning(log_universe=log_universe, rounds=rounds) + lost / n


def mw_pure(
    *,
    n: float,
    epsilon: float,
    log_universe: float,
    log_queries: float,
    beta: float,
    rounds: int,
    rounding: float = 0.0,
) -> float:
    """Largest error of offline multiplicative weights with signed selection, average iterate, pure epsilon.

    Accuracy: sqrt(ln|X|/(2T)) + (2T/(epsilon n)) ln(2kT/beta), except with probability beta, plus `rounding` counts.
    Holds when: either relation; the scores are +-(q(x) - n q(h)) in counts, sensitivity 1, off by `rounding` at most.
    """
    _check.positive(epsilon=epsilon)
    return _mw(n, epsilon / rounds, log_universe, log_queries, beta, rounds, rounding)


def mw_zcdp(
    *,
    n: float,
    rho: float,
    log_universe: float,
    log_queries: float,
    beta: float,
    rounds: int,
    rounding: float = 0.0,
) -> float:
    """The same for rho-zCDP: sqrt(ln|X|/(2T)) + sqrt(T/(2 rho)) ln(2kT/beta) / n."""
    _check.positive(rho=rho)
    return _mw(n, math.sqrt(8 * rho / rounds), log_universe, log_queries, beta, rounds, rounding)


def _mw(
    n: float,
    epsilon: float,
    log_universe: float,
    log_queries: float,
    beta: float,
    rounds: int,
    rounding: float,
) -> float:
    lost = selection(epsilon=epsilon, log_candidates=math.log(2) + log_queries, rounds=rounds, beta=beta)
    return mw(n=n, log_universe=log_universe, rounds=rounds, lost=lost + rounding)


def mwem(*, n: float, log_universe: float, rounds: int, lost: float, width: float) -> float:
    """Largest error of MWEM (Hardt, Ligett and McSherry 2012) before it runs.

    Accuracy: sqrt(ln|X|/(2T)) + (lost + 2 width) / n. It holds for the average iterate of sign steps, and for the
        iterate with the smallest measured gap where each update is an I-projection to the measured value shrunk by
        its width (see `mechanisms/weights.py`).
    Holds when: in every round the chosen error is at most `lost` counts below the largest one, and no measured
        count is off by more than `width`, all rounding included.
    """
    _check.positive(n=n)
    return learning(log_universe=log_universe, rounds=rounds) + (lost + 2 * width) / n


def mwem_afterwards(*, n: float, gap: float, lost: float) -> float:
    """Largest error of the hypothesis of one round of MWEM after it ran: gap + lost/n.

    Holds when: `gap` is the measured gap of the query that was chosen, plus the width of the measurement, as
        fractions; the rest as for `mwem`, at the same probability.
    """
    _check.positive(n=n)
    return gap + lost / n


def mwem_pure(
    *,
    n: float,
    epsilon: float,
    share: float,
    log_universe: float,
    log_queries: float,
    beta: float,
    rounds: int,
) -> float:
    """`mwem` for pure epsilon, `share` of it on selection, with continuous Laplace noise.

    Accuracy: sqrt(ln|X|/(2T)) + (2T/(eps_S n)) ln(2Tk/beta) + 2 (T/(eps_M n)) ln(2T/beta), except with probability
        beta.
    """
    _check.fraction(share=share)
    lost = selection(
        epsilon=share * epsilon / rounds, log_candidates=log_queries, rounds=rounds, beta=beta / 2
    )
    width = rounds / ((1 - share) * epsilon) * math.log(2 * rounds / beta)
    return mwem(n=n, log_universe=log_universe, rounds=rounds, lost=lost, width=width)


def mwem_zcdp(
    *, n: float, rho: float, share: float, log_universe: float, log_queries: float, beta: float, rounds: int
) -> float:
    """The same for rho-zCDP: widths sqrt(T/(2 rho_S)) ln(2Tk/beta) and sqrt(T/(2 rho_M)) Phi^-1(1 - beta/(4T))."""
    _check.fraction(share=share)
    _check.positive(rho=rho)
    epsilon = math.sqrt(8 * share * rho / rounds)
    lost = selection(epsilon=epsilon, log_candidates=log_queries, rounds=rounds, beta=beta / 2)
    sigma = math.sqrt(rounds / (2 * (1 - share) * rho))
    width = sigma * draws.gaussian_two_sided(math.log(beta / (2 * rounds)))
    return mwem(n=n, log_universe=log_universe, rounds=rounds, lost=lost, width=width)


@dataclass(frozen=True, slots=True)
class Best:
    """A number of rounds and the error that it gives."""

    rounds: int
    error: float


def best_rounds(error: Callable[[int], float], *, most: int) -> Best:
    """The rounds with the smallest error among 1, 2, 3, ... in steps of a tenth, up to `most`."""
    _check.whole(most=most)
    grid = sorted({min(most, round(1.1**i)) for i in range(math.ceil(math.log(most) / math.log(1.1)) + 1)})
    error_at, rounds = min((error(t), t) for t in grid)
    return Best(rounds, error_at)
