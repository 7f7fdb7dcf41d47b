"""Spending as needed: the cheapest epochs of a sparse vector for a wanted error.

A session that is given alpha opens an epoch when it needs one and goes on until its budget ends. What it states
about an answer does not depend on how well the hypothesis learns: a guess that passed the test is within T + A
records, where T is the threshold and A what the noise of threshold and tests can hide; a measured value is within W.
All lengths here are in records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from maquette import _check
from maquette.errors import ParameterError
from maquette.theory import gaussian

THRESHOLD_SHARE = 0.6
"""T as a share of T + A. A smaller one tests more strictly, a larger one buys more noise-free tests."""
ANSWER_SHARE = 0.4
"""W as a share of T + A: measured values teach the hypothesis, so they are bought better than they need to be."""
TEST_FAILURES, ANSWER_FAILURES = 0.8, 0.2
"""How the chance beta is shared between tests and measured values."""
PURE_CAP = 4
"""Far guesses per epoch of a pure budget: they share one threshold, and the last epoch's rest is lost."""

_RATIOS = [2 ** (i / 4) for i in range(-8, 17)]


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
    return sigma * gaussian.two_sided(math.log(p)) + 1


def hidden(*, threshold_scale: float, test_scale: float, width: float, tests: int, epochs: int) -> float:
    """The chance that some test calls a guess near that is off by more than T + width.

    Accuracy: the smaller of two union bounds, both for an analyst who may choose, by what came before, in which epoch
        to ask how often. One draws a border R: some threshold's noise reaches it, or some test's noise makes up the
        rest. The other sums P(r) min(1, tests P(noise <= r - width)) over the noise r of a threshold, for every epoch.
    """
    if width <= 0:
        return 1.0
    a, b = math.exp(-1 / threshold_scale), math.exp(-1 / test_scale)
    return min(
        1.0,
        _by_border(a, b, threshold_scale, test_scale, width, tests, epochs),
        epochs * _by_sum(a, b, threshold_scale, test_scale, width, tests),
    )


def _by_border(
    a: float, b: float, threshold_scale: float, test_scale: float, width: float, tests: int, epochs: int
) -> float:
    balance = math.log(epochs * test_scale * (1 + b) / (tests * threshold_scale * (1 + a)))
    border = (width / test_scale + balance) / (1 / threshold_scale + 1 / test_scale)
    if not 0 < border < width:
        return 1.0
    reached = epochs * math.exp(-border / threshold_scale) / (1 + a)
    return reached + tests * math.exp(-(width - border) / test_scale) / (1 + b)


def _by_sum(a: float, b: float, threshold_scale: float, test_scale: float, width: float, tests: int) -> float:
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
    Holds when: the noise is that of `gate/sparse.py`; the guess is public. How long the budget lasts is not said.
    """
    _check.positive(budget=budget, reach=reach)
    _check.whole(k=k)
    _check.fraction(beta=beta)
    far = cap or (PURE_CAP if unit == "epsilon" else 1)
    epochs = 16
    while True:
        found = _epochs(unit, reach, k, beta, far, epochs)
        affordable = math.floor(budget / found.cost)
        if affordable < 1:
            raise ParameterError(
                f"an error of {reach:.0f} records needs {unit}={found.cost:.3g} for its first {far} measured answers, "
                f"more than the {budget:.3g} that there is; accept a larger alpha or give a larger budget"
            )
        if affordable <= epochs or epochs >= k:
            return _with_epochs(found, min(affordable, epochs))
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


def _with_epochs(found: Epochs, epochs: int) -> Epochs:
    return replace(found, epochs=epochs)


def _cheapest(width: float, cap: int, k: int, epochs: int, beta: float) -> tuple[float, float]:
    """The split of an epoch's epsilon between threshold and tests that hides no more than `width`."""

    def priced(ratio: float) -> tuple[float, float]:
        scale = _largest_scale(width, ratio, k, epochs, beta)
        return 1 / scale, 2 * cap / (ratio * scale)

    return min((priced(ratio) for ratio in _RATIOS), key=sum)


def _largest_scale(width: float, ratio: float, k: int, epochs: int, beta: float) -> float:
    """The widest noise on the threshold, that of the tests being `ratio` times as wide."""
    low, high = 1e-3, width
    for _ in range(50):
        middle = math.sqrt(low * high)
        chance = hidden(
            threshold_scale=middle, test_scale=ratio * middle, width=width, tests=k, epochs=epochs
        )
        low, high = (middle, high) if chance <= beta else (low, middle)
    return low


def _answers(unit: str, width: float, cap: int, p: float) -> tuple[float, float]:
    """The price of `cap` values within `width` each, and what they are really within."""
    if unit == "epsilon":
        scale = width / math.log(2 / p)
        return cap / scale, laplace_reach(scale, p)
    sigma = max(width - 1, 0.1) / gaussian.two_sided(math.log(p))
    return cap / (2 * sigma**2), gaussian_reach(sigma, p)
