"""Answering questions one at a time: the sparse vector, private multiplicative weights, the median mechanism.

Letters of the specification: c positives, G gap, A width of the test, W width of a paid answer, tau threshold, e
what a noisy number of records adds; all as fractions of n. Scales of the noise are in counts. Every parameter
follows from public numbers: n (public, or a paid estimate), the budget, ln|X|, the number of questions k, beta.

What is proved does not depend on how the hypothesis learns, as long as fewer than c answers were paid for: an
unpaid answer is within tau + A + e of the truth, a paid one within W + e. The update rule only decides whether c
positives are enough, which `certain` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from maquette.core import _check
from maquette.errors import ParameterError
from maquette.theory import existence
from maquette.theory import existence as multisets
from maquette.theory.epochs import (
    Inputs,
    NoiseLevels,
    concentrated_noise,
    laplace_reach,
    median_split_pure,
    median_split_zcdp,
    pure_noise,
    split_pure,
    split_zcdp,
)

_MAX_SEARCH = 10**7
"""No search looks at more positives than this."""
_MAX_ROWS = 10**5
"""Nor at more rows of a small database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pmw:
    """Everything that a sparse-vector strategy runs with, and the error that it may state."""

    unit: str
    """What the budget is counted in: "epsilon" (one sparse vector with c positives) or "rho" (c epochs of one)."""
    n: float
    k: int
    beta: float
    c: int
    """Positives: how many answers may be paid for."""
    f1: float
    """Share of the threshold's noise: of the budget, or of an epoch's epsilon where the unit is rho."""
    f2: float
    """Share of the tests' noise, likewise."""
    f3: float
    """Share of the budget for the paid answers."""
    gap: float
    """G: what a positive test proves about the hypothesis, at least."""
    width: float
    """A: no test is off by more."""
    answer_width: float
    """W: no paid answer is off by more, the number of records aside."""
    threshold: float
    """tau, to be compared with |q(x) - n q(h)| / n."""
    step: float
    """The step of textbook multiplicative weights, 4G."""
    size_error: float
    """e."""
    error: float
    """Every answer is within this, except with probability beta, as long as positives are left."""
    certain: bool
    """Do c positives suffice for k questions, by a theorem (same event as the error)? With `refit`, for the refit by
    width of a hypothesis with a weight per cell (`models/refit.py`)."""
    refit: bool
    threshold_scale: float
    """Laplace scale of the noise on the threshold, in counts."""
    query_scale: float
    """Laplace scale of the noise on every test, in counts."""
    answer_scale: float
    """Laplace scale (pure) or standard deviation (rho) of the noise on a paid answer, in counts."""
    epoch_epsilon: float
    """Pure epsilon of one opened sparse vector, paid answers not included."""

    @property
    def vacuous(self) -> bool:
        """Nothing is stated: every fraction is within 1 anyway."""
        return self.error >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """The same for the median mechanism, with the size of its small databases."""

    run: Pmw
    rows: int
    log_range: float
    """ln of the number of small databases of so many rows."""
    best: float
    """alpha_m: some small database is within this on all questions."""


def svt_accuracy(
    *, first: float, second: float, c: int, k: int, beta: float, sensitivity: float = 1.0
) -> float:
    """A with |threshold noise| + max |test noise| <= A over k tests, except with probability beta.

    Accuracy: (D/e1) ln(2/beta) + (2cD/e2) ln(2k/beta): a negative test proves f < T + A, a positive one f > T - A.
    Holds when: Laplace noise of scale D/e1 on the threshold, 2cD/e2 on each test.
    """
    _check.positive(first=first, second=second, sensitivity=sensitivity)
    _check.whole(c=c, k=k)
    _check.fraction(beta=beta)
    return sensitivity * (math.log(2 / beta) / first + 2 * c * math.log(2 * k / beta) / second)


def sparse_width(*, threshold_scale: float, test_scale: float, epochs: int, k: int, beta: float) -> float:
    """A for the noise that a sparse vector really draws: whole numbers, k tests in at most so many epochs.

    Accuracy: no test is off by more than A records, except with probability beta: above implies a count above T - A,
        not above one below T + A (Dwork and Roth 2014, Theorems 3.24 and 3.26; constants of the discrete law).
        Half of beta for the thresholds, half for the tests, by the union bound.
    Holds when: discrete Laplace noise of these scales; the questions may depend on earlier outcomes.
    """
    _check.positive(threshold_scale=threshold_scale, test_scale=test_scale)
    _check.whole(epochs=epochs, k=k)
    _check.fraction(beta=beta)
    thresholds = laplace_reach(threshold_scale, beta / (2 * epochs))
    return thresholds + laplace_reach(test_scale, beta / (2 * k))


def svt_split(c: int, *, monotone: bool = False) -> tuple[float, float]:
    """Shares of threshold and tests, 1 : (2c)^(2/3), or 1 : c^(2/3) where all answers move the same way.

    Accuracy: it minimises the variance of the noise in a comparison (Lyu, Su and Li 2017).
    """
    _check.whole(c=c)
    second = (c if monotone else 2 * c) ** (2 / 3)
    return 1 / (1 + second), second / (1 + second)


def pmw(
    *,
    unit: str,
    price: float,
    n: float,
    log_universe: float,
    k: int,
    beta: float,
    c: int | None = None,
    split: tuple[float, ...] | None = None,
    alpha: float | None = None,
    refit: bool = False,
    size_error: float = 0.0,
    grid: float = 0.0,
) -> Pmw:
    """Private multiplicative weights for a price in epsilon (Hardt and Rothblum 2010, with a noisy threshold) or rho.

    In epsilon one sparse vector with c positives, Laplace noise throughout, `split` into the shares of threshold, tests
    and paid answers. In rho c epochs of AboveThreshold, paid answers with Gaussian noise, `split` into the
    threshold's share of an epoch's epsilon and the paid answers' share of rho; an epoch costs epoch_epsilon^2 / 2 +
    1 / (2 answer_scale^2), c of them rho.

    Accuracy: all k answers within 2A + G + 2e, except with probability beta (and beta_n, that of `size_error`);
        G = sqrt(ln|X| / (2c)), or 2W more with `refit`. c and the split by search, unless given.
    Holds when: adaptive questions, under replace-one with n public, or under add/remove-one with n a paid estimate
        that is within `size_error` n of the truth. With `alpha` the threshold is set so that every answer is within
        alpha; c is then the largest for which A + e and W + e are at most alpha / 3, and `certain` is mostly false.
    """
    inputs = Inputs(n, k, beta, log_universe, alpha, refit, size_error, grid)
    chosen = _check_price(unit, price)
    return _choose(
        inputs, lambda c: chosen.noise(inputs, price, c, split or chosen.split(inputs, price, c)), c
    )


def median(
    *,
    unit: str,
    price: float,
    n: float,
    universe: int,
    k: int,
    beta: float,
    rows: int | None = None,
    split: tuple[float, ...] | None = None,
    size_error: float = 0.0,
    grid: float = 0.0,
    log_start: float = 0.0,
    most_rows: int = _MAX_ROWS,
    facts: existence.Facts | None = None,
) -> Median:
    """The median mechanism over all small databases of m rows (Roth and Roughgarden 2010), with the noise of `pmw`.

    Without `rows` the best m up to `most_rows` is taken.

    Accuracy: all k answers within 2A + G + 2e, except with probability beta; G is just above max(alpha_m, W), and
        c = floor(log2 |R_m|) positives suffice, because each halves the version space. Where databases start with
        weights of at least exp(-log_start) / |R_m|, c is floor(log2 |R_m| + log_start / ln 2): each halves the weight.
        With the `facts` of a class alpha_m is also at most that of the class, by its dimension, cover or shape, however
        many questions there are (Roth 2010, Theorem 6).
    Holds when: k adaptive linear queries, of the class where there is one; the version space is listed in full (a
        sampled one loses `certain`).
    """
    inputs = Inputs(n, k, beta, 0.0, None, False, size_error, grid)
    chosen = _check_price(unit, price)

    def noise(c: int, gap: float) -> NoiseLevels:
        return chosen.noise(inputs, price, c, split or chosen.median_split(inputs, price, c, gap))

    return _best_rows(inputs, universe, rows, noise, log_start, most_rows, facts)


class _Unit(NamedTuple):
    """The noise that a price in one unit buys, and the shares that minimise the stated error."""

    noise: Callable[[Inputs, float, int, Any], NoiseLevels]
    split: Callable[[Inputs, float, int], tuple[float, ...]]
    median_split: Callable[[Inputs, float, int, float], tuple[float, ...]]


_UNITS = {
    "epsilon": _Unit(pure_noise, split_pure, median_split_pure),
    "rho": _Unit(concentrated_noise, split_zcdp, median_split_zcdp),
}


def _check_price(unit: str, price: float) -> _Unit:
    """The unit of a price that is positive."""
    _check.one_of(list(_UNITS), unit=unit)
    _check.positive(price=price)
    return _UNITS[unit]


def _with_gap(inputs: Inputs, levels: NoiseLevels, gap: float, needed: float) -> Pmw:
    width, paid, slack = levels.width, levels.answer_width, inputs.size_error
    return Pmw(
        unit=levels.unit,
        n=inputs.n,
        k=inputs.k,
        beta=inputs.beta,
        c=levels.c,
        f1=levels.shares[0],
        f2=levels.shares[1],
        f3=levels.shares[2],
        gap=gap,
        width=width,
        answer_width=paid,
        threshold=width + gap + slack,
        step=4 * gap,
        size_error=slack,
        error=max(2 * width + gap + 2 * slack, paid + slack),
        certain=paid < gap and gap >= needed,
        refit=inputs.refit,
        threshold_scale=levels.scales[0],
        query_scale=levels.scales[1],
        answer_scale=levels.scales[2],
        epoch_epsilon=levels.epoch_epsilon,
    )


def _choose(inputs: Inputs, noise: Callable[[int], NoiseLevels], c: int | None) -> Pmw:
    if c is not None:
        _check.whole(c=c)

    def at(c: int) -> Pmw:
        levels = noise(c)
        needed = inputs.needed(c, levels.answer_width)
        if inputs.alpha is None:
            return _with_gap(inputs, levels, needed, needed)
        return _with_gap(inputs, levels, inputs.alpha - 2 * levels.width - 2 * inputs.size_error, needed)

    if inputs.alpha is None:
        return at(c if c is not None else _least(lambda m: _rank(at(m))))
    run = at(c if c is not None else _most_positives(inputs, noise))
    if run.threshold <= 0 or run.error > inputs.alpha * (1 + 1e-12):
        raise ParameterError(
            f"expected alpha above {max(run.width, run.answer_width) + inputs.size_error:.3g} "
            f"for {run.c} paid answers on about {inputs.n:g} records at this budget, got alpha={inputs.alpha:g}"
        )
    return replace(run, error=inputs.alpha)


def _rank(run: Pmw) -> tuple[bool, float]:
    """The order of choices: those whose c provably suffices first, then by their error."""
    return not run.certain, run.error


def _most_positives(inputs: Inputs, noise: Callable[[int], NoiseLevels]) -> int:
    """The largest c for which the widths leave a third of alpha each; 1 if none does."""
    assert inputs.alpha is not None
    third = inputs.alpha / 3 - inputs.size_error

    def fits(c: int) -> bool:
        levels = noise(c)
        return levels.width <= third and levels.answer_width <= third

    low, high = 1, 2
    if not fits(low):
        return 1
    while high < _MAX_SEARCH and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _least(rank: Callable[[int], tuple[bool, float]], most: int = _MAX_SEARCH) -> int:
    """A whole number of small rank: a geometric grid, then every number (or an even choice) around its best."""
    grid = sorted({min(most, round(1.15**i)) for i in range(116)})
    best = min(grid, key=rank)
    place = grid.index(best)
    low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
    return min(range(low, high + 1, max(1, (high - low) // 300)), key=rank)


def _best_rows(
    inputs: Inputs,
    universe: int,
    rows: int | None,
    noise: Callable[[int, float], NoiseLevels],
    log_start: float,
    most_rows: int,
    facts: existence.Facts | None,
) -> Median:
    _check.whole(universe=universe, most_rows=most_rows)
    if rows is not None:
        _check.whole(rows=rows)
    of_class = () if facts is None else existence.forms(facts)

    def at(m: int) -> Median:
        log_range = multisets.log_multisets(universe=universe, rows=m)
        # a little more, so that the rounding of the logarithm cannot cost a positive
        c = max(1, math.floor((log_range + log_start) / math.log(2) + 1e-9))
        best = existence.sampling(rows=m, log_queries=math.log(inputs.k))
        if universe < existence.MAX_ROUNDED_UNIVERSE:
            best = min(best, existence.rounding(rows=m, universe=universe))
        best = min([best, *(form.alpha(m) for form in of_class)])
        levels = noise(c, best)
        gap = max(best, levels.answer_width) * (1 + 1e-9)
        return Median(run=_with_gap(inputs, levels, gap, best), rows=m, log_range=log_range, best=best)

    chosen = rows if rows is not None else _least(lambda m: _rank(at(m).run), most=min(most_rows, _MAX_ROWS))
    return at(chosen)
