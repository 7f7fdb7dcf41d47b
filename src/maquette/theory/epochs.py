"""Spending as needed: the cheapest epochs of a sparse vector for a given error; and the noise of fixed strategies.

A session with a given alpha opens an epoch when it needs one and goes on until its budget ends. The error that it
states does not depend on how well the hypothesis learns: a guess that passed the test is within T + A records, where T
is the threshold and A bounds the noise of threshold and test together; a measured value is within W records. All
lengths in this part are in records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from maquette.core import _check
from maquette.errors import ParameterError
from maquette.theory import draws

# The shares below were set by hand; `python -m benchmarks online` measures what sessions spend with them.
THRESHOLD_SHARE = 0.6
"""T as a share of T + A. With a smaller share more guesses are far off; with a larger one every test costs more."""
ANSWER_SHARE = 0.4
"""W as a share of T + A: the hypothesis learns from measured values, so they are more exact than the error asks for."""
TEST_FAILURES, ANSWER_FAILURES = 0.8, 0.2
"""How the chance beta is shared between tests and measured values."""
PURE_CAP = 4
"""Far guesses per epoch of a pure budget. They share one threshold; what the last epoch has left is lost."""

_RATIOS = [2 ** (i / 4) for i in range(-8, 17)]
"""Scales of a test's noise that are tried, in units of the threshold's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """Prices and lengths of equal epochs."""

    unit: str
    threshold: int
    width: float
    """A: no test is off by more."""
    answer_width: float
    """W: no measured value is off by more."""
    cap: int
    first: float
    """Pure epsilon of an epoch's threshold."""
    second: float
    """Pure epsilon of its tests."""
    answers: float
    """What its measured values cost together, in `unit`."""
    epochs: int
    """How many of them the budget pays for."""

    @property
    def cost(self) -> float:
        """Of one epoch, in `unit`."""
        tests = self.first + self.second
        return (tests if self.unit == "epsilon" else tests**2 / 2) + self.answers


def laplace_reach(scale: float, p: float) -> float:
    """What |Z| exceeds with probability at most p, for discrete Laplace noise of this scale on any grid up to 1.

    Accuracy: P(|Z| > t) <= 2 exp(-t / scale) / (1 + exp(-1 / scale)) for real t, exact at whole numbers less one step.
    """
    return max(0.0, scale * math.log(2 / ((1 + math.exp(-1 / scale)) * p)))


def gaussian_reach(sigma: float, p: float) -> float:
    """The same for discrete Gaussian noise: the continuous quantile and one grid step."""
    return sigma * draws.gaussian_two_sided(math.log(p)) + 1


def miss_probability(
    *, threshold_scale: float, test_scale: float, width: float, tests: int, epochs: int
) -> float:
    """A bound on the chance that some test passes a guess that is off by more than T + width.

    Accuracy: the smaller of two union bounds, both for an analyst who may choose, by what came before, in which epoch
        to ask how often. One splits the width at R: the noise of some threshold is at least R, or that of some test
        makes up the rest. The other sums P(r) min(1, tests P(noise <= r - width)) over the noise r of a threshold, for
        every epoch.
    """
    if width <= 0:
        return 1.0
    a, b = math.exp(-1 / threshold_scale), math.exp(-1 / test_scale)
    return min(
        1.0,
        _by_splitting(a, b, threshold_scale, test_scale, width, tests, epochs),
        epochs * _by_summing(a, b, threshold_scale, test_scale, width, tests),
    )


def _by_splitting(
    a: float, b: float, threshold_scale: float, test_scale: float, width: float, tests: int, epochs: int
) -> float:
    """The first bound, with R (`border`) where its two terms fall at the same rate; a, b = exp(-1 / scale)."""
    balance = math.log(epochs * test_scale * (1 + b) / (tests * threshold_scale * (1 + a)))
    border = (width / test_scale + balance) / (1 / threshold_scale + 1 / test_scale)
    if not 0 < border < width:
        return 1.0
    reached = epochs * math.exp(-border / threshold_scale) / (1 + a)
    return reached + tests * math.exp(-(width - border) / test_scale) / (1 + b)


def _by_summing(
    a: float, b: float, threshold_scale: float, test_scale: float, width: float, tests: int
) -> float:
    """The second bound for one epoch, as three geometric sums.

    The threshold's noise r has P(r) = (1 - a)/(1 + a) a^|r|, and all tests together pass a guess that is off by `width`
    with chance at most tests b^(width - r) / (1 + b). That is above 1 within `certain` records of the width, where
    the min is 1 (the last term of the result); `rising` sums 0 <= r < border, `falling` sums r < 0.
    """
    certain = max(math.floor(test_scale * math.log(tests / (1 + b))), 0)
    border = math.floor(width) - certain
    if border <= 0:
        return 1.0
    level = (1 - a) / (1 + a) * tests / (1 + b)
    start = math.exp(-math.floor(width) / test_scale)
    if abs(a / b - 1) < 1e-9:
        rising = level * border * start
    else:
        rising = level * (b**certain * math.exp(-border / threshold_scale) - start) / (a / b - 1)
    falling = level * start * a * b / (1 - a * b)
    return rising + falling + math.exp(-border / threshold_scale) / (1 + a)


def spend_as_needed(
    *, unit: str, budget: float, reach: float, k: int, beta: float, cap: int | None = None
) -> Epochs:
    """Epochs so cheap that every answer is just within `reach` records, except with probability beta.

    Accuracy: simultaneous over k adaptive questions, for as long as the budget pays for epochs.
    Holds when: the noise is that of `core/sparse.py`; the guess is public. How long the budget lasts is not said.
    """
    _check.positive(budget=budget, reach=reach)
    _check.whole(k=k)
    _check.fraction(beta=beta)
    far = cap or (PURE_CAP if unit == "epsilon" else 1)
    epochs = 16
    while True:
        plan = _epochs(unit, reach, k, beta, far, epochs)
        affordable = math.floor(budget / plan.cost)
        if affordable < 1:
            raise ParameterError(
                f"an error of {reach:.0f} records needs {unit}={plan.cost:.3g} for its first {far} measured answers, "
                f"but the budget is {budget:.3g}; accept a larger alpha or give a larger budget"
            )
        if affordable <= epochs or epochs >= k:
            return replace(plan, epochs=min(affordable, epochs))
        epochs = min(2 * epochs, k)


def _epochs(unit: str, reach: float, k: int, beta: float, cap: int, epochs: int) -> Epochs:
    threshold = max(math.floor(THRESHOLD_SHARE * reach), 1)
    width = reach - threshold
    if width < 2:
        raise ParameterError(
            f"an error of {reach:.1f} records is too small to be tested for; accept a larger alpha"
        )
    first, second = _cheapest(width, cap, k, epochs, TEST_FAILURES * beta)
    answers, answer_width = _answers(unit, ANSWER_SHARE * reach, cap, ANSWER_FAILURES * beta / (epochs * cap))
    return Epochs(
        unit=unit,
        threshold=threshold,
        width=width,
        answer_width=answer_width,
        cap=cap,
        first=first,
        second=second,
        answers=answers,
        epochs=epochs,
    )


@lru_cache(maxsize=256)
def _cheapest(width: float, cap: int, k: int, epochs: int, beta: float) -> tuple[float, float]:
    """The cheapest epsilons of an epoch's threshold and tests whose noise stays within `width`, at chance beta."""

    def price_at(ratio: float) -> tuple[float, float]:
        scale = _largest_scale(width, ratio, k, epochs, beta)
        return 1 / scale, 2 * cap / (ratio * scale)

    return min((price_at(ratio) for ratio in _RATIOS), key=sum)


def _largest_scale(width: float, ratio: float, k: int, epochs: int, beta: float) -> float:
    """The largest scale of the threshold's noise, by bisection; that of the tests is `ratio` times as large."""
    low, high = 1e-3, width
    for _ in range(50):
        middle = math.sqrt(low * high)
        chance = miss_probability(
            threshold_scale=middle, test_scale=ratio * middle, width=width, tests=k, epochs=epochs
        )
        low, high = (middle, high) if chance <= beta else (low, middle)
    return low


def _answers(unit: str, width: float, cap: int, p: float) -> tuple[float, float]:
    """The price of `cap` values within `width` each, and the width that their discrete noise really has."""
    if unit == "epsilon":
        scale = width / math.log(2 / p)
        return cap / scale, laplace_reach(scale, p)
    sigma = max(width - 1, 0.1) / draws.gaussian_two_sided(math.log(p))
    return cap / (2 * sigma**2), gaussian_reach(sigma, p)


# The noise of a sparse-vector strategy: its scales, bounds on its size, and good shares of the budget.
#
# Widths are fractions of n, scales are in counts. See `theory/online.py` for the letters.


_MAX_DOUBLE = 10**300
"""More questions than this are counted by their logarithm."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The public numbers from which a strategy's parameters are chosen."""

    n: float
    k: int
    beta: float
    log_universe: float
    alpha: float | None
    refit: bool
    size_error: float
    grid: float

    def __post_init__(self) -> None:
        _check.positive(n=self.n)
        _check.whole(k=self.k)
        _check.fraction(beta=self.beta)
        if self.alpha is not None:
            _check.positive(alpha=self.alpha)
        for name in ("log_universe", "size_error", "grid"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ParameterError(f"expected {name} >= 0 and finite, got {name}={value!r}")

    def laplace(self, scale: float, p: float) -> float:
        """What one Laplace draw exceeds with probability p, in counts."""
        if self.grid:
            return draws.laplace_discrete(scale=scale, log_queries=0.0, beta=p, grid=self.grid)
        return -scale * math.log(p)

    @property
    def log_tests(self) -> float:
        """ln(3k/beta), also for a k that no double holds."""
        if self.k < _MAX_DOUBLE:
            return math.log(3 * self.k / self.beta)
        return math.log(3) + math.log(self.k) - math.log(self.beta)

    def laplace_of_tests(self, scale: float) -> float:
        """What none of k Laplace draws exceeds but with probability beta / 3, in counts."""
        if self.k < _MAX_DOUBLE:
            return self.laplace(scale, self.beta / (3 * self.k))
        return scale * self.log_tests

    def gaussian(self, sigma: float, p: float) -> float:
        """The same for a Gaussian draw; on a grid one step more."""
        return sigma * draws.gaussian_two_sided(math.log(p)) + self.grid

    def needed(self, c: int, width: float) -> float:
        """The gap at which c updates use up ln|X|."""
        return math.sqrt(self.log_universe / (2 * c)) + (2 * width if self.refit else 0.0)


class NoiseLevels(NamedTuple):
    """The noise for one choice of c and of the shares, with bounds that it stays below."""

    unit: str
    c: int
    shares: tuple[float, float, float]
    scales: tuple[float, float, float]
    epoch_epsilon: float
    width: float
    answer_width: float


def pure_noise(inputs: Inputs, epsilon: float, c: int, shares: tuple[float, float, float]) -> NoiseLevels:
    """One sparse vector with c positives, Laplace noise throughout; shares of epsilon."""
    f1, f2, f3 = shares
    if min(shares) <= 0 or math.fsum(shares) > 1 + 1e-9:
        raise ParameterError(f"expected three shares > 0 that add up to 1, got {shares}")
    scales = 1 / (f1 * epsilon), 2 * c / (f2 * epsilon), c / (f3 * epsilon)
    return NoiseLevels(
        "epsilon",
        c,
        shares,
        scales,
        (f1 + f2) * epsilon,
        (inputs.laplace(scales[0], inputs.beta / 3) + inputs.laplace_of_tests(scales[1])) / inputs.n,
        inputs.laplace(scales[2], inputs.beta / (3 * c)) / inputs.n,
    )


def concentrated_noise(inputs: Inputs, rho: float, c: int, shares: tuple[float, float]) -> NoiseLevels:
    """c epochs of one positive each; the threshold's share of an epoch's epsilon, the paid answers' of rho."""
    fa, fm = shares
    if not (0 < fa < 1 and 0 < fm < 1):
        raise ParameterError(f"expected two shares between 0 and 1, got {shares}")
    epsilon = math.sqrt(2 * rho * (1 - fm) / c)
    scales = 1 / (fa * epsilon), 2 / ((1 - fa) * epsilon), math.sqrt(c / (2 * rho * fm))
    tests = inputs.laplace(scales[0], inputs.beta / (3 * c)) + inputs.laplace_of_tests(scales[1])
    return NoiseLevels(
        "rho",
        c,
        (fa, 1 - fa, fm),
        scales,
        epsilon,
        tests / inputs.n,
        inputs.gaussian(scales[2], inputs.beta / (3 * c)) / inputs.n,
    )


def split_pure(inputs: Inputs, epsilon: float, c: int) -> tuple[float, float, float]:
    """The shares f1, f2, f3 (threshold, tests, paid answers) that minimise the stated error at this c.

    For continuous noise A = a1/f1 + a2/f2 and W = a3/f3. With refit, or for a given alpha, all three count, and the
    shares are in proportion to the square roots; else W only has to stay below G.
    """
    scale = epsilon * inputs.n
    a1 = math.log(3 / inputs.beta) / scale
    a2 = 2 * c * inputs.log_tests / scale
    a3 = c * math.log(3 * c / inputs.beta) / scale
    if inputs.refit or inputs.alpha is not None:
        roots = [math.sqrt(a) for a in (a1, a2, a3)]
        return _normal(roots[0], roots[1], roots[2])
    return _tests_first(a1, a2, a3 / max(inputs.needed(c, 0.0), 1e-300))


def _tests_first(a1: float, a2: float, least: float) -> tuple[float, float, float]:
    """Just enough for the paid answers (a thousandth more, since W must stay below G), the rest to the tests."""
    f3 = min(max(1.001 * least, 0.01), 0.9)
    rest = (1 - f3) / (math.sqrt(a1) + math.sqrt(a2))
    return rest * math.sqrt(a1), rest * math.sqrt(a2), f3


def split_zcdp(inputs: Inputs, rho: float, c: int) -> tuple[float, float]:
    """The same for epochs: A = b / sqrt(1 - fm), W = v / sqrt(fm)."""
    first, second = (
        math.sqrt(math.log(3 * c / inputs.beta)),
        math.sqrt(2 * inputs.log_tests),
    )
    fa = first / (first + second)
    tests = (first + second) ** 2 / (math.sqrt(2 * rho / c) * inputs.n)
    paid = math.sqrt(c / (2 * rho)) * draws.gaussian_two_sided(math.log(inputs.beta / (3 * c))) / inputs.n
    if inputs.refit or inputs.alpha is not None:
        return fa, 1 / (1 + (tests / paid) ** (2 / 3))
    gap = max(inputs.needed(c, 0.0), 1e-300)
    return fa, min(max(1.001 * (paid / gap) ** 2, 0.01), 0.9)


def median_split_pure(inputs: Inputs, epsilon: float, c: int, gap: float) -> tuple[float, float, float]:
    """For the median mechanism: paid answers below alpha_m where that leaves enough for the tests, else balanced."""
    scale = epsilon * inputs.n
    a1 = math.log(3 / inputs.beta) / scale
    a2 = 2 * c * inputs.log_tests / scale
    a3 = c * math.log(3 * c / inputs.beta) / scale
    modest = _tests_first(a1, a2, a3 / gap)
    even = _normal(math.sqrt(2 * a1), math.sqrt(2 * a2), math.sqrt(a3))
    return min((modest, even), key=lambda f: 2 * (a1 / f[0] + a2 / f[1]) + max(gap, a3 / f[2]))


def median_split_zcdp(inputs: Inputs, rho: float, c: int, gap: float) -> tuple[float, float]:
    """The same for epochs."""
    first, second = (
        math.sqrt(math.log(3 * c / inputs.beta)),
        math.sqrt(2 * inputs.log_tests),
    )
    tests = (first + second) ** 2 / (math.sqrt(2 * rho / c) * inputs.n)
    paid = math.sqrt(c / (2 * rho)) * draws.gaussian_two_sided(math.log(inputs.beta / (3 * c))) / inputs.n
    modest = min(max(1.001 * (paid / gap) ** 2, 0.01), 0.9)
    even = 1 / (1 + (2 * tests / paid) ** (2 / 3))
    fm = min((modest, even), key=lambda f: 2 * tests / math.sqrt(1 - f) + max(gap, paid / math.sqrt(f)))
    return first / (first + second), fm


def _normal(*parts: float) -> tuple[float, float, float]:
    total = math.fsum(parts)
    return parts[0] / total, parts[1] / total, parts[2] / total
