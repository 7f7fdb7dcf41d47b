"""Few answers rather than useless ones: what a session without a wanted error runs with on a small table.

The usual plan pays for a hundred measured answers and sixteen guesses far off. Where its errors say little, the budget
is divided among fewer answers, each measured. No more than that many can be paid, so the chance of failure is shared
among them and not among all questions that the session might take.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from maquette.accounting.budget import UNITS
from maquette.mechanisms.online.settings import EXPECTED_MEASURED, Public, Settings
from maquette.models.measurement import Gaussian, Laplace, Noise, Size
from maquette.theory.epochs import gaussian_reach, laplace_reach

USELESS = 0.5
"""An error of which every table says the same: "50 % ± 50 points" answers everything without data."""
FAIR = 0.25
"""Beyond this error the usual plan gives way to fewer answers."""
GOOD = 0.1
"""An error that is not worth fewer answers."""
ENOUGH = 10
"""Answers that are not given up for a good error, only for a fair one."""
LARGEST_FACTOR = 1024


def worst(settings: Settings) -> float:
    """The largest error that an answer may state."""
    if settings.terms is None:
        return settings.measure_error
    tested = max(settings.error, settings.answer_error)
    return tested if settings.measure is None else max(tested, settings.measure_error)


def settle_few(public: Public) -> Settings:
    """As many measured answers as the budget pays for with a good error, or fewer with a fair one.

    Accuracy: every answer within `error`, except with probability beta, simultaneously and whatever is asked.
    """
    tries = range(min(EXPECTED_MEASURED, public.k), 0, -1)
    priced = {answers: _measured(public, answers) for answers in tries}

    def most(error: float, *, at_most: int) -> int:
        return next((m for m in tries if m <= at_most and priced[m].error <= error), 0)

    good = most(GOOD, at_most=public.k)
    if good >= min(ENOUGH, public.k):
        return priced[good]
    few = most(FAIR, at_most=ENOUGH) or most(math.nextafter(USELESS, 0), at_most=ENOUGH) or 1
    return priced[few]


def enlarged(public: Public, factor: int) -> Public:
    """The same question of planning with a budget `factor` times as large, size included."""
    return replace(public, price=public.price * factor, size=_sharper(public.size, factor))


def _measured(public: Public, answers: int) -> Settings:
    price = Fraction(max(math.floor(public.price * UNITS / answers), 1), UNITS)
    noise, width = _fresh(public, price, public.rest / math.floor(public.price / price))
    error = public.measured(width)
    return Settings(
        None, 0, error, error, noise, error, 0.0, "few measured answers, by the size of the table"
    )


def _fresh(public: Public, price: Fraction, p: float) -> tuple[Noise, float]:
    if public.unit == "epsilon":
        return Laplace(price), laplace_reach(1 / float(price), p)
    return Gaussian(price), gaussian_reach(1 / math.sqrt(2 * float(price)), p)


def _sharper(size: Size, factor: int) -> Size:
    match size.noise:
        case Laplace(epsilon=epsilon, scale=Fraction() as scale):
            return replace(size, noise=Laplace(epsilon * factor, scale / factor))
        case Gaussian(rho=rho, sigma_squared=Fraction() as variance):
            return replace(size, noise=Gaussian(rho * factor, variance / factor))
        case _:
            return size
