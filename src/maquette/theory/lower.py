"""What no private mechanism can do: the lower bound from shattered sets, and from it the limit of reconstruction."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from maquette.core import _check
from maquette.domain import Relation
from maquette.errors import ParameterError
from maquette.theory import search


class Window(NamedTuple):
    """A shattered set whose witness levels lie close together: what the lower bound needs."""

    points: int
    """d: an even number of points."""
    gap: float
    """c = 2 gamma - w, for levels inside a window of width w < 2 gamma; 1 for counting queries."""

    @property
    def records(self) -> int:
        """Records of the tables that the lower bound is about: one on each point of a half of the set."""
        return self.points // 2


def from_vc(vc: int) -> Window:
    """Counting queries: all levels are 1/2, so c = 1 and d = 2 floor(VC/2)."""
    _check.whole(least=0, vc=vc)
    return Window(2 * (vc // 2), 1.0)


def from_levels(levels: list[Fraction], gamma: Fraction) -> Window:
    """A gamma-shattered set with these witness levels: c = 2 gamma - (largest - smallest level)."""
    width = max(levels) - min(levels) if levels else Fraction(0)
    if not width < 2 * gamma:
        raise ParameterError(
            f"expected levels inside a window narrower than 2 gamma = {2 * gamma}, got {width}"
        )
    return Window(2 * (len(levels) // 2), float(2 * gamma - width))


def from_fat_shattering(dimension: int, gamma: Fraction) -> Window:
    """From the fat-shattering dimension alone: some window of width gamma holds F / max(1, ceil(1/gamma) - 2) points.

    Accuracy: the levels lie in [gamma, 1 - gamma]; the fullest window has c = 2 gamma - gamma = gamma.
    """
    _check.whole(least=0, dimension=dimension)
    if not 0 < gamma <= Fraction(1, 2):
        raise ParameterError(f"expected 0 < gamma <= 1/2, got gamma={gamma}")
    windows = max(1, math.ceil(1 / Fraction(gamma)) - 2)
    fullest = -(-dimension // windows)
    return Window(2 * (fullest // 2), float(gamma))


def counts(window: Window, *, epsilon: float, beta: float, relation: Relation) -> float:
    """The least error in counts of any epsilon-private mechanism on this class.

    Accuracy: a >= (c d / 4) max(0, (1-beta) - beta e^(h epsilon)) / ((1-beta) (1 + e^(h epsilon))), where h = 1 under
        replace-one and 2 under add/remove-one (Roth 2010, Theorem 2, corrected).
    Holds when: the mechanism keeps all counts within a, except with probability beta, on tables of d/2 records; by
        padding with fixed records also on any larger ones. Zero unless beta < 1/(1 + e^(h epsilon)).
    """
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ParameterError(f"expected epsilon >= 0 and finite, got epsilon={epsilon!r}")
    _check.fraction_or_zero(beta=beta)
    back = math.exp(-hops(relation) * epsilon)  # e^-(h epsilon), so that nothing overflows
    room = max(0.0, (1 - beta) * back - beta)
    return window.gap * window.points / 4 * room / ((1 - beta) * (back + 1))


def fraction(window: Window, *, n: int, epsilon: float, beta: float, relation: Relation) -> float:
    """The same as a fraction of n records. Holds when: n >= d/2."""
    _check.whole(n=n)
    if 2 * n < window.points:
        raise ParameterError(f"expected n >= d/2 = {window.points // 2} records, got n={n}")
    return counts(window, epsilon=epsilon, beta=beta, relation=relation) / n


def recovered(*, epsilon: float, delta: float = 0.0, steps: int = 1, prior: float = 0.5) -> float:
    """The largest expected share of secret bits that anyone can recover from a private release.

    Accuracy: (e^E + D) / (1 + e^E), where E = h epsilon and D = delta (1 + e^epsilon + ... + e^((h-1) epsilon)) for
        tables that are h = `steps` neighbouring steps apart when one secret changes; or prior + (1 - prior) D if
        that is more, which guessing the more common value almost reaches.
        Proof. With a = P(guess 1 | secret 1) and b = P(guess 1 | secret 0), privacy says a <= e^E b + D and
        1 - b <= e^E (1 - a) + D; the corners of this region maximise prior a + (1 - prior) (1 - b).
    Holds when: secrets are independent bits whose more common value has probability `prior`; or, at 1/2, a uniformly
        drawn half of a set, where a swap changes two members and the guess is a half as well.
    """
    _check.whole(steps=steps)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ParameterError(f"expected epsilon >= 0 and finite, got epsilon={epsilon!r}")
    _check.fraction_or_zero(delta=delta)
    if not 0.5 <= prior <= 1:
        raise ParameterError(f"expected 0.5 <= prior <= 1, got prior={prior!r}")
    back = math.exp(-steps * epsilon)
    grown = delta * sum(math.exp((i - steps) * epsilon) for i in range(steps))  # D e^-E
    gap = min(1.0, grown / back) if back > 0 else float(delta > 0)
    return min(1.0, max((1 + grown) / (1 + back), prior + (1 - prior) * gap))


def packing_records(*, log_universe: float, epsilon: float, beta: float, relation: Relation) -> float:
    """The least n at which any epsilon-private mechanism can tell apart |X| tables of n equal records.

    Accuracy: n >= ln((|X| - 1)(1 - beta) / beta) / (h epsilon), h = 1 under replace-one and 2 under add/remove-one. So
        ln|X| is needed already for point functions, whose VC dimension is 1 (Beimel, Kasiviswanathan and Nissim 2010;
        constants of this proof).
        Proof. Let x_i hold n times cell i. Answers to the points of x_i within less than 1/2 are in a set B_i, and
        these are disjoint. The tables are h n steps apart, so on x_1 every other B_i has probability (1 - beta) e^(-h n
        epsilon) at least, and B_1 has 1 - beta: together at most 1.
    Holds when: pure epsilon; every share within less than 1/2 except with probability beta, whichever the table.
    """
    _check.positive(epsilon=epsilon, log_universe=log_universe)
    _check.fraction(beta=beta)
    others = log_universe + math.log1p(-math.exp(-log_universe))
    return max(0.0, (others + math.log1p(-beta) - math.log(beta)) / (hops(relation) * epsilon))


def hops(relation: Relation) -> int:
    """Neighbouring steps from a table to the one with a record replaced: 1, or remove and add."""
    return 1 if relation is Relation.REPLACE_ONE else 2


# VC dimension in bounds: how many behaviours there are, and how many rows then stand for a table.
#
# Chaining gives m <= C d / alpha^2 without the logarithm (Talagrand 1994; Li, Long and Srinivasan 2001),
# but with no explicit C: it never enters a certificate.


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
    rows = search.smallest(lambda rows: free_error(rows=rows, vc=vc) <= alpha)
    assert rows is not None  # the error falls to 0
    return rows


def free_fat_error(*, rows: int, dimension: int, gamma: float | Fraction) -> float:
    """Error that m sampled rows can reach for real weights by the fat-shattering dimension, whatever n and |X| are.

    Accuracy: 2r + sqrt(2 ln(2 N_r) / m) with (r, ln N_r) the `fat_cover` on m points, r = 4 gamma. As in `free_error`,
        E sup_q |f_q(sample) - f_q(x)| is at most twice the mean of sup_q |sum of signs times (q - 1/2)| / m on the
        sample; a query is within r of one of the N_r there, and Massart's lemma bounds those by sqrt(ln(2 N_r) /
        (2m)). It has the form of Bartlett and Long (1995), F ln^2(1/alpha) / alpha^2 rows, with constants that are
        proved.
    Holds when: F is the dimension at gamma, for any number of queries with weights in [0, 1].
    """
    _check.whole(rows=rows)
    radius, log_cover = fat_cover(dimension=dimension, gamma=gamma, points=rows)
    return 2 * radius + math.sqrt(2 * (math.log(2) + log_cover) / rows)


def free_fat_rows(*, alpha: float, dimension: int, gamma: float | Fraction) -> int:
    """Rows, not always the fewest, at which `free_fat_error` is at most alpha. Holds when: 8 gamma < alpha."""
    _check.positive(alpha=alpha)
    if not 8 * float(gamma) < alpha:
        raise ParameterError(f"expected 8 gamma < alpha, got gamma={float(gamma):g} and alpha={alpha:g}")
    rows = search.smallest(lambda m: free_fat_error(rows=m, dimension=dimension, gamma=gamma) <= alpha)
    assert rows is not None  # the cover grows like a power of ln m
    return rows


_MAX_TERMS = 1000
"""Terms of a sum that are added up exactly."""


def fat_cover(*, dimension: int, gamma: float | Fraction, points: int) -> tuple[float, float]:
    """(r, ln N_r): a sup-norm cover of a class of [0, 1]-weights by its fat-shattering dimension, at r = 4 gamma.

    Accuracy: with step = 2 gamma, b = floor(1/step) + 1 levels, y = sum over i <= F of C(s, i) (b-2)^i and R the least
        whole number with 2^R > y, N_r <= (s (b-1)(b-2))^R where R <= s; and always N_r <= ceil(b/2)^s. The idea is
        that of Alon, Ben-David, Cesa-Bianchi and Haussler (1997); the constants are those of this proof.
        1. *Levels.* Replace w by floor(w / step), one of b levels. Weights at least 2 step = r apart have levels at
           least 2 apart. If levels pass a level l by one on both sides, w >= (l+1) step and w < l step: gamma away from
           the witness (l + 1/2) step. So a set of points that is *strongly shattered*, by levels l in 1..b-2, is
           gamma-shattered, and has at most F points. At most y pairs (set, levels) are, the empty one too.
        2. *Lemma.* (s (b-1)(b-2))^R functions on s >= R points, every two 2 levels apart at some point, strongly
           shatter at least 2^R pairs. R = 0: the empty pair. Else put the functions into pairs. Each pair has a point x
           and levels i, j >= i + 2 there, one of s (b-1)(b-2) / 2 choices: one choice is that of a share
           2 / (s (b-1)(b-2)) of the pairs. Their functions with level i at x agree there, so they are 2 apart on the
           other s - 1 points and strongly shatter 2^(R-1) pairs there; so do those with level j. What both shatter is
           also shattered with x and a level between i and j added. Together 2^(R-1) + 2^(R-1) pairs.
        3. So a largest set of functions r apart has fewer than (s (b-1)(b-2))^R members, and it is an r-cover.
           Functions 2 levels apart differ in floor(level / 2): the other bound.
    Holds when: F is the dimension at gamma = r/4; s = |X|, or the cells that a table of n records has.
    """
    _check.whole(dimension=dimension, least=0)
    _check.whole(points=points)
    _check.positive(gamma=float(gamma))
    levels = math.floor(1 / (2 * float(gamma)) + 1e-9) + 1  # one too many does no harm
    every = points * math.log((levels + 1) // 2)
    if levels < 3:
        return 4 * float(gamma), 0.0
    rounds = math.floor(_log2_patterns(dimension, points, levels - 2)) + 1
    separated = rounds * (math.log(points) + math.log((levels - 1) * (levels - 2)))
    return 4 * float(gamma), every if rounds > points else min(separated, every)


def _log2_patterns(dimension: int, points: int, levels: int) -> float:
    """log2 of the sum over i <= d of C(s, i) levels^i, or a little more."""
    if dimension > _MAX_TERMS:  # at most (e s levels / d)^d, or (levels + 1)^s
        by_sum = dimension * (math.log2(math.e * levels) + math.log2(points) - math.log2(dimension))
        return (
            min(by_sum, points * math.log2(levels + 1))
            if dimension < points
            else points * math.log2(levels + 1)
        )
    term = total = 1
    for i in range(min(dimension, points)):
        term = term * (points - i) * levels // (i + 1)
        total += term
    return math.log2(total) + 1e-9
