"""The errors that a session states, against the exact tails of the noise that the gate draws for its terms.

For every way of settling a session: just beyond the stated error the chance of a wrong statement, over all questions
and epochs, is at most what beta leaves for it; and half of the error would be wrong more often than beta allows. The
tails are sums over the laws of the noise (`support/proved_bounds.py`); nothing is shared with `maquette.theory`.
"""

# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.core.laws import Gaussian, Laplace, NoiseRequest
from maquette.core.measurement import Size
from maquette.domain import Attribute, Domain, Kind
from maquette.mechanisms import online
from maquette.mechanisms.online import PublicNumbers, Settings
from maquette.mechanisms.session_plan import few_answers_settings, size_share
from maquette.theory.adaptive import SharedGap
from maquette.theory.quantiles import law_at
from support import proved_bounds as proved
from support.priced import priced

pytestmark = pytest.mark.accuracy

BETA, QUESTIONS, N = 0.05, 200, 50_000
SIZES = {
    "public": lambda unit: Size(N, None, None),
    "private": lambda unit: Size(
        N,
        Laplace(Fraction(1, 20), Fraction(20))
        if unit == "epsilon"
        else Gaussian(Fraction(1, 1000), Fraction(500)),
        None,
    ),
}
PRICE = {Unit.EPSILON: Fraction(95, 100), Unit.RHO: Fraction(2, 100)}
WAYS = {
    "pmw": (online.pmw_settings, 0.05),
    "pmw without alpha": (online.pmw_settings, None),
    "lasting": (online.settings_for_all, None),
    "textbook": (online.textbook_settings, None),
    "median": (online.median_settings, None),
    "direct": (online.direct_settings, None),
    "few": (few_answers_settings, None),
}


def public(unit: str, size: str, alpha: float | None) -> PublicNumbers:
    return PublicNumbers(
        unit=unit, price=PRICE[unit], size=SIZES[size](unit), k=QUESTIONS, beta=BETA, alpha=alpha, universe=64
    )


def law_of(noise: Laplace | Gaussian | NoiseRequest) -> np.ndarray:
    match noise:
        case Laplace(scale=scale):
            return proved.laplace_law(float(scale))
        case NoiseRequest(kind="laplace", price=epsilon):
            return proved.laplace_law(1 / float(epsilon))
        case Gaussian(sigma_squared=variance):
            return proved.gaussian_law(math.sqrt(variance))
        case NoiseRequest(price=rho):
            return proved.gaussian_law(math.sqrt(1 / (2 * float(rho))))


def exceeds(law: np.ndarray, counts: float, draws: int) -> float:
    """The chance that some of so many independent draws is off by more than `counts`."""
    above = float(law[math.floor(counts) + 1 :].sum()) if counts >= 0 else 1.0
    return -math.expm1(draws * math.log1p(-min(above, 1 - 1e-16)))


def one_sided(law: np.ndarray, counts: float) -> float:
    """P(z >= counts) for a symmetric law, counts > 0."""
    return float(law[math.ceil(counts) :].sum()) / 2


def off(asked: PublicNumbers) -> float:
    """t: how far the size may be off, by its law and its tenth of beta."""
    return 0.0 if asked.size.noise is None else proved.largest(law_of(asked.size.noise), 1, 0.1 * BETA)


def slipping(found: Settings, unit: str, distance: float) -> tuple[float, float]:
    """The chance that one test, and at most the chance that any test, calls a guess near that is off by `distance`."""
    plan = priced(unit).epoch(found.terms)
    threshold = proved.laplace_law(float(plan.threshold_scale))
    test = proved.laplace_law(float(plan.test_scale))
    gap = distance - found.terms.threshold
    signed = np.concatenate([threshold[:0:-1] / 2, [threshold[0]], threshold[1:] / 2])
    places = np.arange(-len(threshold) + 1, len(threshold))
    tails = np.concatenate([np.cumsum(test[::-1])[::-1] / 2, [0.0]])  # P(z >= j) for j >= 1
    need = np.ceil(gap - places).astype(int)  # the test's noise must be at most -(gap - r)
    chance = np.where(
        need >= 1, tails[np.clip(need, 0, len(tails) - 1)], 1 - tails[np.clip(1 - need, 0, len(tails) - 1)]
    )
    one = float(signed @ chance)
    by_sum = found.epochs * float(signed @ np.minimum(1.0, QUESTIONS * chance))
    borders = [
        found.epochs * one_sided(threshold, r) + QUESTIONS * one_sided(test, gap - r)
        for r in np.linspace(1, max(gap - 1, 1), 200)
        if 0 < r < gap
    ]
    return one, min([1.0, by_sum, *borders])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("unit", PRICE)
@pytest.mark.parametrize("way", ["pmw", "pmw without alpha", "lasting", "textbook", "median"])
def test_a_guess_that_passed_is_within_the_stated_error_and_not_within_half_of_it(way, unit, size):
    settle, alpha = WAYS[way]
    asked = public(unit, size, alpha)
    found, t = settle(asked), off(asked)
    assert found.terms is not None
    assert found.error < 1

    def distance(error: float) -> float:
        """Counts between q(x) and the rounded guess at which the fraction is off by more than `error`."""
        return error * (N - t) - t - 0.5

    _, any_beyond = slipping(found, unit, distance(found.error) + 1)
    assert any_beyond <= BETA
    one_at_half, _ = slipping(found, unit, distance(found.error / 2))
    assert one_at_half > BETA


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("unit", PRICE)
@pytest.mark.parametrize("way", ["pmw", "pmw without alpha", "lasting", "textbook", "median"])
def test_a_value_that_was_paid_for_is_within_the_stated_error(way, unit, size):
    settle, alpha = WAYS[way]
    asked = public(unit, size, alpha)
    found, t = settle(asked), off(asked)
    noise = priced(unit).epoch(found.terms).answer_noise
    values = found.epochs * found.terms.cap
    assert exceeds(law_of(noise), found.answer_error * N - t, values) <= BETA
    half = exceeds(law_of(noise), found.answer_error / 2 * N - t, values)
    assert half > 10 * exceeds(law_of(noise), found.answer_error * N - t, values)
    if values >= 20:  # with few values and a private size the wrong statement may still be a rare one
        assert half > BETA


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("unit", PRICE)
@pytest.mark.parametrize("way", ["pmw", "direct", "few"])
def test_a_measured_answer_is_within_the_stated_error_and_not_within_half_of_it(way, unit, size):
    settle, alpha = WAYS[way]
    asked = public(unit, size, alpha)
    found = settle(asked)
    draws = min(QUESTIONS, math.floor((PRICE[unit] - (found.size_price or 0)) / found.measure.price))
    size_law = None if asked.size.noise is None else law_of(asked.size.noise)
    if found.size_price:
        size_law = law_of(NoiseRequest.at(found.size_price, unit))
    gap, law = found.measure_gap, law_of(found.measure)
    assert missed(law, size_law, gap, draws) <= BETA
    assert missed(law, size_law, replace(gap, count=gap.count / 2, size=gap.size / 2), draws) > BETA


@pytest.mark.parametrize("unit", PRICE)
@pytest.mark.parametrize("questions", [1, 20])
def test_few_questions_are_stated_nearly_as_well_as_their_noise_allows(unit, questions):
    """Also to whoever knows the table, and asks after the number of records was seen."""
    price = {Unit.EPSILON: Fraction(1), Unit.RHO: Fraction(15, 1000)}[unit]
    for_size = price * size_share(unit, price, questions=questions, beta=BETA)
    noise = law_at(for_size, unit=unit)
    asked = replace(
        public(unit, "public", None), k=questions, price=price - for_size, size=Size(N, noise, None)
    )
    found = online.direct_settings(asked)
    law, size_law, gap = law_of(found.measure), law_of(noise), found.measure_gap
    assert missed(law, size_law, gap, questions) <= BETA
    # possible: a fifth of the budget for the number of records, questions known beforehand
    fifth, each = (NoiseRequest.at(part, unit) for part in (price / 5, price * 4 / 5 / questions))
    for share in (0.22, 0.5):
        possible = sum_quantile(law_of(each), law_of(fifth), share, BETA / questions)
        assert gap.at(share) <= 1.5 * possible


def sum_quantile(law: np.ndarray, size_law: np.ndarray, share: float, p: float) -> float:
    """What |z1 - share z2| exceeds with probability p, by the laws, to a record."""
    tails = np.append(np.cumsum(law[::-1])[::-1], 0.0)
    z2 = np.arange(len(size_law))

    def beyond(t: float) -> float:
        """Both signs of z2: P(z1 > t - share z2) and P(z1 > t + share z2), each half of the two-sided tail."""
        below, above = (
            np.where(edge >= 0, tails[np.clip(np.floor(edge) + 1, 0, len(law)).astype(int)], 2.0)
            for edge in (t - share * z2, t + share * z2)
        )
        return float((size_law * (below + above) / 2).sum())

    low, high = 0.0, float(len(law) - 1)
    while high - low > 0.25:
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) <= p else (middle, high)
    return low


def missed(law: np.ndarray, size_law: np.ndarray | None, gap: SharedGap, draws: int) -> float:
    """The chance that some of so many values lies beyond the gap at its share, the worst one for the size's noise.

    Who asks may know the size's noise, by its sign and value, and takes the share at which most draws are missed.
    """
    tails = np.append(np.cumsum(law[::-1])[::-1], 0.0)  # P(|z| >= j)
    if size_law is None:
        return min(1.0, draws * float(tails[math.floor(gap.count) + 1]))
    shares = np.linspace(0.0, 1.0, 201)
    gaps = gap(shares)
    within = np.flatnonzero(size_law > 1e-15)
    chances = np.zeros(len(size_law))
    for z in within:
        # |z1 - p z| > gap(p) on either side of a symmetric law
        sides = [np.floor(gaps + sign * shares * z).astype(int) + 1 for sign in (-1, 1)]
        one = sum(np.where(edge > 0, tails[np.clip(edge, 0, len(law))] / 2, 1.0) for edge in sides)
        chances[z] = min(1.0, draws * float(np.max(one)))
    return float((size_law * chances).sum())


def test_a_session_states_the_errors_that_it_settled_on():
    """End to end: the error of a measured answer follows from its price, the questions and the released size."""
    domain = Domain((Attribute("age", Kind.ORDINAL, codes=20),))
    rng = np.random.default_rng(0)
    table = mq.open({"age": rng.integers(0, 20, 4000).tolist()}, domain=domain)
    session = mq.session(
        table, epsilon=2.0, mechanism="direct", queries=5, relation="replace-one", ledger="memory", beta=BETA
    )
    answer = session.ask("age <= 7")
    counts = proved.largest(proved.laplace_law(1 / answer.cost), 1, BETA / 5)
    assert answer.error * 4000 == pytest.approx(counts, abs=1.01)
    assert answer.error / 2 * 4000 < counts - 1.01
