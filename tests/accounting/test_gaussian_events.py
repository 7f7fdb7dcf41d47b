"""What events cost by Gaussian differential privacy: whole numbers, projections, pure events, adaptive choices.

Each step of the argument in `maquette/core/conversions.py` is summed up or integrated numerically, beside a claim
that goes a little further and fails.
"""

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import mpmath
import numpy as np
import pytest

from maquette.accounting import (
    UNITS,
    Cost,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
    SmoothedEvent,
    SparseEvent,
)
from maquette.core.budget import Unit
from maquette.core.conversions import SMOOTHING, half_square_of_rho, log_ratio
from maquette.core.events import from_dict
from maquette.errors import MechanismError, ParameterError
from support.privacy_lattice import ProjectedNoise, changes, projected

NORMAL = NormalDist()


def gdp_delta(mu: float, epsilon: float) -> float:
    """Of N(0, 1) against N(mu, 1); negative epsilons too."""
    return NORMAL.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * NORMAL.cdf(-epsilon / mu - mu / 2)


def discrete(variance: float) -> tuple[np.ndarray, np.ndarray]:
    reach = math.ceil(14 * math.sqrt(variance)) + 2
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-(z**2) / (2 * variance))
    return z, weights / weights.sum()


# --- whole numbers ---


@pytest.mark.parametrize("s", [0.05, 0.5, 1.5])
@pytest.mark.parametrize("t", [0.3, 0.35, 0.4])
def test_integer_noise_is_made_from_narrower_continuous_noise_within_the_ratio(s, t):
    """The law of k, drawn by integration, for t small enough that the ratio can be seen."""
    variance = s + t
    error = 2 * sum(math.exp(-2 * math.pi**2 * t * j**2) for j in range(1, 6))
    y = np.linspace(-12, 12, 48_001)
    density = np.exp(-(y**2) / (2 * s)) / math.sqrt(2 * math.pi * s)
    near = np.arange(-30, 31)
    theta = np.exp(-((near[:, None] - y) ** 2) / (2 * t)).sum(axis=0)
    z, law = discrete(variance)
    worst = 0.0
    for k, chance in zip(z, law, strict=True):
        if abs(k) <= 3:
            made = np.trapezoid(density * np.exp(-((k - y) ** 2) / (2 * t)) / theta, y)
            worst = max(worst, abs(math.log(chance / made)))
    assert worst <= math.log((1 + error) / (1 - error))
    if s < 0.1:
        assert worst > 0.2 * error  # the ratio is no fantasy; where s is larger, much of it cancels


def composed(variance: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Privacy loss of k coordinates that move by 1 each: its values and chances, exactly."""
    z, law = discrete(variance)
    chances = law
    for _ in range(k - 1):
        chances = np.convolve(chances, law)
    sums = np.arange(len(chances)) + k * z[0]
    return (2 * sums + k) / (2 * variance), chances


def exact_delta(variance: float, k: int, epsilon: float) -> float:
    losses, chances = composed(variance, k)
    return float(np.sum(chances * np.clip(1 - np.exp(epsilon - losses), 0.0, None)))


@pytest.mark.parametrize("k", [1, 2, 5, 20])
@pytest.mark.parametrize("variance", [2.5, 3.0, 5.0, 12.0, 40.0])
def test_no_hockey_stick_of_integer_noise_passes_the_stated_curve(variance, k):
    mu = math.sqrt(k / (variance - float(SMOOTHING)))
    for epsilon in np.linspace(-2, 12, 57):
        exact = exact_delta(variance, k, float(epsilon))
        if exact > 1e-12:
            assert exact <= gdp_delta(mu, float(epsilon)) + 1e-13


@pytest.mark.parametrize("variance", [0.5, 1.0, 2.5, 5.0])
def test_planted_the_curve_of_the_drawn_variance_is_passed(variance):
    """V in the place of V - t^2: some hockey stick is larger."""
    mu = math.sqrt(1 / variance)
    over = [
        exact_delta(variance, 1, float(e)) / gdp_delta(mu, float(e))
        for e in np.linspace(0, 8, 801)
        if gdp_delta(mu, float(e)) > 1e-9
    ]
    assert max(over) > 1.001


def test_the_ratio_of_one_number_is_rounded_up():
    mpmath.mp.dps = 60
    error = 2 * mpmath.nsum(
        lambda j: mpmath.exp(-2 * mpmath.pi**2 * mpmath.mpf(9) / 4 * j**2), [1, mpmath.inf]
    )
    stated = mpmath.mpf(log_ratio(1).numerator) / log_ratio(1).denominator
    assert mpmath.mpf("2.1") * error <= stated <= mpmath.mpf("2.2") * error
    assert log_ratio(10**7) == 10**7 * log_ratio(1)
    # what the ratio is a bound of, at the largest number that is allowed
    many = mpmath.mpf(10) ** 16
    whole = (1 + error) ** many - 1
    assert many * error <= mpmath.mpf("0.01")
    assert mpmath.log((1 + whole) / (1 - whole)) <= many * stated
    with pytest.raises(ParameterError, match="at most 1e"):
        log_ratio(10**16 + 1)


# --- projected lattices ---


@pytest.mark.parametrize(("sizes", "axes"), [((2,), (0,)), ((3,), (0,)), ((2, 2), (0,)), ((2, 2), (0, 1))])
def test_a_projected_lattice_is_smooth_at_the_same_width(sizes, axes):
    """The sum of exp(-|l - y|^2 / 2 t^2) over the projected lattice hardly depends on y."""
    t = 0.25
    cells = math.prod(sizes)
    error = 2 * sum(math.exp(-2 * math.pi**2 * t * j**2) for j in range(1, 6))
    bound = (1 + error) ** cells - 1
    scale = math.prod(sizes[a] for a in axes)
    points = {
        tuple(projected(np.array(z).reshape(sizes), axes).ravel().tolist())
        for z in itertools.product(range(-5, 6), repeat=cells)
    }
    lattice = np.array(sorted(points)) / scale
    generator = np.random.default_rng(5)
    sums = []
    for _ in range(300):
        y = projected(generator.uniform(-0.5, 0.5, sizes), axes).ravel() / scale
        sums.append(float(np.exp(-((lattice - y) ** 2).sum(axis=1) / (2 * t)).sum()))
    middle = (max(sums) + min(sums)) / 2
    assert (max(sums) - min(sums)) / 2 <= bound * middle / (1 - bound)
    assert max(sums) > min(sums) * (1 + 1e-9)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(("sizes", "axes"), [((2,), (0,)), ((3,), (0,)), ((2, 2), (0, 1))])
def test_no_hockey_stick_of_projected_noise_passes_the_stated_curve(sizes, axes, replace):
    variance = 3.25
    noise = ProjectedNoise(sizes, axes, variance)
    scale = math.prod(sizes[a] for a in axes)
    for shift in itertools.islice(changes(sizes, axes, replace=replace), 4):
        length = float((shift.astype(float) ** 2).sum()) / scale**2
        if length == 0:
            continue
        mu = math.sqrt(length / (variance - float(SMOOTHING)))
        moved = tuple(map(int, shift.ravel()))
        pairs = [
            (math.exp(g + r), math.exp(sum(noise.law.get(_less(point, moved), (-745.0, 0.0)))))
            for point, (g, r) in noise.law.items()
        ]
        there, here = np.array(pairs).T
        for epsilon in np.linspace(-1, 6, 29):
            exact = float(np.clip(there - math.exp(epsilon) * here, 0.0, None).sum())
            # variance 3.25 leaves a visible ripple, which the account charges by itself
            ripple = 2 * noise.largest_ripple
            stated = math.exp(ripple) * gdp_delta(mu, float(epsilon) - 2 * ripple)
            assert exact <= stated + 1e-8


def _less(point, moved):
    return tuple(p - m for p, m in zip(point, moved, strict=True))


# --- pure events and choices ---


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0])
def test_the_price_of_bounded_range_covers_every_pair_of_points(epsilon):
    stated = math.sqrt(2 * half_square_of_rho(Fraction(str(epsilon)) ** 2 / 8))
    worst = max(
        NORMAL.inv_cdf(logistic(u + epsilon)) - NORMAL.inv_cdf(logistic(u)) for u in np.linspace(-12, 7, 4001)
    )
    assert worst <= stated
    if epsilon <= 0.1:
        assert worst > 0.999 * stated
    # planted: epsilon^2 / 8, the price in rho
    assert worst > math.sqrt(2 * epsilon**2 / 8) or epsilon > 4


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0])
def test_the_price_of_pure_events_covers_randomised_response(epsilon):
    stated = math.sqrt(2 * half_square_of_rho(Fraction(str(epsilon)) ** 2 / 2))
    mu = 2 * NORMAL.inv_cdf(logistic(epsilon))
    assert mu <= stated
    assert mu > 0.999 * stated or epsilon > 0.1
    # and no hockey stick of randomised response is above the curve of its exact mu, in either direction
    p = logistic(epsilon)
    for e in np.linspace(-epsilon, epsilon, 41):
        stick = max(p - math.exp(e) * (1 - p), 0.0) + max((1 - p) - math.exp(e) * p, 0.0)
        assert stick <= gdp_delta(mu, float(e)) + 1e-12


def test_random_mechanisms_of_bounded_range_lie_above_the_stated_trade_off():
    """Exponential mechanisms on random scores: no test tells the neighbours apart better than the Gaussian's."""
    generator = np.random.default_rng(7)
    for _ in range(200):
        size = int(generator.integers(2, 7))
        scores = generator.uniform(0, 6, size)
        moved = scores + generator.uniform(-1, 1, size)
        epsilon = float(generator.uniform(0.2, 2))
        p, q = (np.exp(epsilon * s / 2) / np.exp(epsilon * s / 2).sum() for s in (scores, moved))
        mu = math.sqrt(2 * half_square_of_rho(Fraction(epsilon) ** 2 / 8))
        order = np.argsort(q / p)
        for cut in range(1, size):
            alpha, beta = float(p[order[cut:]].sum()), float(q[order[:cut]].sum())
            assert beta >= NORMAL.cdf(NORMAL.inv_cdf(1 - alpha) - mu) - 1e-12


def test_prices_are_turned_back_exactly():
    for unit, factor in ((Unit.RHO, 1), (Unit.HALF_MU_SQUARED, Fraction(226, 355))):
        assert unit.rho(Fraction(3, 7)) == Fraction(3, 7) * factor
        assert unit.cost_of_rho(unit.rho(Fraction(3, 7))) == Fraction(3, 7)
    assert [unit.smoothing for unit in Unit] == [0, 0, Fraction(9, 4)]


# --- adaptive choices ---


def adaptive_delta(first: float, second, epsilon: float) -> float:
    """Of a Gaussian event and a second one whose mu is chosen by what the first released."""
    y = np.linspace(-9, 9 + first, 40_001)
    density = np.exp(-((y - first) ** 2) / 2) / math.sqrt(2 * math.pi)
    inner = np.array([gdp_delta(second(v), epsilon - (first * v - first**2 / 2)) for v in y])
    return float(np.trapezoid(density * inner, y))


@pytest.mark.law
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5, 3.0])
def test_a_filter_holds_whatever_is_chosen_from_the_past(epsilon):
    whole, first = 1.0, 0.6
    rest = math.sqrt(whole**2 - first**2)
    for second in (
        lambda y: rest if y > 0.3 else rest / 3,
        lambda y: rest / 2 if y > 0.3 else rest,
        lambda y: rest * (0.1 + 0.9 * NORMAL.cdf(y)),
    ):
        assert adaptive_delta(first, second, epsilon) <= gdp_delta(whole, epsilon) + 1e-9


def test_planted_a_filter_that_overspends_sometimes_is_passed():
    rest = 0.8
    over = adaptive_delta(0.6, lambda y: 1.5 * rest if y > 0.3 else rest, 1.5)
    assert over > gdp_delta(1.0, 1.5) + 1e-3


# --- the events ---


def smoothed(**values) -> SmoothedEvent:
    usual = {"sigma_squared": 25, "l2_squared": 2, "mu_squared": Fraction(2, 20), "ripple": 0, "log_ratio": 0}
    return SmoothedEvent(**(usual | values))


def test_every_event_states_its_price():
    half = Fraction(1, 2)
    pure = math.ceil(Fraction(355, 452) * half**2 * UNITS)
    assert LaplaceEvent(scale=2, l1=1).cost(Unit.HALF_MU_SQUARED) == Cost(pure)
    assert PureEvent(half, "x").cost(Unit.HALF_MU_SQUARED) == Cost(pure)
    assert SelectionEvent(half, "permute-and-flip").cost(Unit.HALF_MU_SQUARED) == Cost(pure)
    assert SparseEvent(threshold_scale=4, test_scale=8, cap=1).cost(Unit.HALF_MU_SQUARED) == Cost(pure)
    assert SelectionEvent(half, "exponential").cost(Unit.HALF_MU_SQUARED) == Cost(
        math.ceil(Fraction(355, 452 * 4) * half**2 * UNITS)
    )
    event = smoothed(ripple=Fraction(1, 10**24), log_ratio=Fraction(3, 10**24))
    assert event.cost(Unit.HALF_MU_SQUARED) == Cost(UNITS // 20, 3)
    assert event.cost(Unit.RHO) == Cost(UNITS // 25, 1)
    assert from_dict(event.to_dict()) == event


def test_noise_without_a_proof_is_not_sold():
    with pytest.raises(MechanismError, match="counts rho"):
        GaussianEvent(sigma_squared=25, l2_squared=2).cost(Unit.HALF_MU_SQUARED)
    with pytest.raises(MechanismError, match="no finite pure epsilon"):
        smoothed().cost(Unit.EPSILON)


@pytest.mark.parametrize(
    "wrong",
    [{"mu_squared": Fraction(1, 13)}, {"ripple": 1, "log_ratio": 0}, {"sigma_squared": 0}, {"log_ratio": -1}],
)
def test_an_event_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(ParameterError):
        smoothed(**wrong)


def test_an_event_that_just_reaches_its_bounds_is_taken_and_one_below_is_not():
    third = Fraction(1, 3)
    values = {"sigma_squared": Fraction(3), "l2_squared": Fraction(1), "mu_squared": third}
    SmoothedEvent(**values, ripple=third, log_ratio=third)
    with pytest.raises(ParameterError):
        SmoothedEvent(**values, ripple=third, log_ratio=third - Fraction(1, 10**9))
    with pytest.raises(ParameterError):
        SmoothedEvent(**values | {"mu_squared": third - Fraction(1, 10**9)}, ripple=third, log_ratio=third)
