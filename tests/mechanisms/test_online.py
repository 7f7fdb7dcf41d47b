"""What a session runs with, from public numbers: prices inside the budget, errors as derived."""

# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportAttributeAccessIssue=false

from fractions import Fraction

import pytest

from maquette.core.budget import Unit
from maquette.core.laws import Gaussian, Laplace
from maquette.core.measurement import Size
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import MechanismError, ParameterError
from maquette.mechanisms import online
from maquette.mechanisms.online import PublicNumbers, worth_testing
from maquette.theory import quantiles
from support.priced import priced

EXACT = Size(50_000, None, None)
NOISY = {
    "epsilon": Size(50_000, Laplace(Fraction(1, 20), Fraction(20)), None),
    "rho": Size(50_000, Gaussian(Fraction(1, 1000), Fraction(500)), None),
}
PRICE = {Unit.EPSILON: Fraction(95, 100), Unit.RHO: Fraction(2, 100)}


def public(unit=Unit.EPSILON, **changes) -> PublicNumbers:
    facts = {
        "unit": unit,
        "price": PRICE[unit],
        "size": EXACT,
        "k": 1000,
        "beta": 0.05,
        "alpha": 0.05,
        "universe": 2**12,
    }
    return PublicNumbers(**facts | changes)


def whole_price(found, unit: str) -> Fraction:
    return found.epochs * priced(unit).epoch_cost(found.terms)[1]


@pytest.mark.parametrize("unit", [Unit.EPSILON, Unit.RHO])
@pytest.mark.parametrize(
    "settle",
    [online.pmw_settings, online.settings_for_all, online.textbook_settings, online.median_settings],
)
@pytest.mark.parametrize("known", [True, False])
def test_all_epochs_together_stay_inside_the_price(unit, settle, known):
    alpha = 0.05 if settle is online.pmw_settings else None
    found = settle(public(unit, size=EXACT if known else NOISY[unit], alpha=alpha))
    assert found.epochs >= 1
    assert whole_price(found, unit) <= PRICE[unit]
    assert found.answer_error <= found.error <= 1
    if alpha is not None:
        assert found.error <= alpha + 1e-12


@pytest.mark.parametrize("unit", [Unit.EPSILON, Unit.RHO])
def test_an_uncertain_size_makes_everything_dearer(unit):
    sure, unsure = (online.pmw_settings(public(unit, size=s)) for s in (EXACT, NOISY[unit]))
    assert unsure.terms.threshold < sure.terms.threshold
    assert whole_price(unsure, unit) / unsure.epochs > whole_price(sure, unit) / sure.epochs


def test_the_stated_error_of_a_guess_is_the_derived_one():
    asked = public(size=NOISY["epsilon"])
    assert asked.reach > 0
    for truth in (50_000 - asked.reach, 50_000 + asked.reach):  # the worst tables that fit the known size
        for share in (0.0, 0.3, 1.0):
            exact = min(max(50_000 * share + 700, 0), truth)
            error = abs(exact / truth - share)
            off = abs(exact - 50_000 * share)
            assert error <= asked.guess_error(off, share) + 1e-12 <= asked.guess_error(off) + 2e-12
            released = (exact - 400) / 50_000
            stated = asked.apart(400).error(released, 50_000)
            assert abs(exact / truth - min(max(released, 0), 1)) <= stated + 1e-12
            assert stated <= asked.apart(400).largest_error(50_000) + 1e-12
    assert public(size=Size(3, Laplace(Fraction(1, 20), Fraction(20)), None)).guess_error(5) == 1.0


def test_without_alpha_the_budget_pays_for_what_is_expected():
    found = online.pmw_settings(public(alpha=None))
    measured = online.PLANNED_ANSWERS * found.measure.price
    epoch = whole_price(found, Unit.EPSILON) / found.epochs
    assert 0.99 * PRICE["epsilon"] <= measured + epoch <= PRICE["epsilon"]
    # where there is less to know, fewer answers are planned
    few = online.pmw_settings(public(alpha=None, universe=8))
    assert 16 * few.measure.price + whole_price(few, Unit.EPSILON) / few.epochs <= PRICE["epsilon"]
    assert few.error < found.error
    assert online.pmw_settings(public(alpha=None, price=Fraction(2))).error < found.error


def test_where_no_epoch_can_be_paid_a_session_may_still_measure():
    small = public(price=Fraction(1, 10), alpha=0.02)
    found = online.pmw_settings(small)
    assert found.terms is None
    assert found.error <= 0.02
    with pytest.raises(MechanismError, match="cannot be guaranteed"):
        online.pmw_settings(public(price=Fraction(1, 10), alpha=0.02, measuring=False))
    with pytest.raises(MechanismError, match="cannot be guaranteed"):
        online.pmw_settings(public(price=Fraction(1, 10**6), alpha=0.02))


@pytest.mark.parametrize("unit", [Unit.EPSILON, Unit.RHO])
@pytest.mark.parametrize("k", [1, 20, 10_000, 10**6])
def test_failures_are_shared_among_the_values_that_can_be_paid_for(unit, k):
    """Never fewer than that, or the statement would be wrong; and no more than one too many."""
    asked = public(unit, alpha=0.01, k=k)
    found = online.direct_settings(asked)
    most = min(PRICE[unit] / found.measure.price, k)
    counts = found.error * 50_000
    assert quantiles.reach(found.measure, 0.05 / int(most)) <= counts + 1
    assert quantiles.reach(found.measure, 0.05 / (int(most) + 1)) >= counts - 1e-6
    if k == 10**6:  # against sharing them among all questions
        cheap = online.direct_settings(public(unit, alpha=0.01, k=int(most) + 1))
        assert cheap.measure.price == found.measure.price
    assert found.error <= 0.01


def test_fresh_noise_is_as_wide_as_the_error_allows():
    for unit in (Unit.EPSILON, Unit.RHO):
        found = online.direct_settings(public(unit))
        assert 0.9 * 0.05 < found.error <= 0.05
        spread = online.direct_settings(public(unit, alpha=None))
        assert spread.measure.price * 1000 <= PRICE[unit]


def test_a_size_that_was_not_measured_is_refused():
    with pytest.raises(ParameterError, match="not measured"):
        public(size=Size.unknown()).reach  # noqa: B018
    with pytest.raises(ParameterError, match="alpha is not given"):
        public(alpha=None).guess_counts()


def test_a_test_is_worth_it_once_guesses_hold_often_enough_for_its_price():
    assert not worth_testing([], ratio=8.0)
    assert worth_testing([], ratio=1.5)
    assert worth_testing([False] * 10, ratio=8.0)
    assert not worth_testing([False] * 10, ratio=80.0)
    assert not worth_testing([True, False] * 20, ratio=8.0)
    assert worth_testing([True] * 100 + [False] * 40, ratio=8.0)  # what is long past is forgotten


MANY = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=8) for i in range(9)))


def surveyed(unit=Unit.RHO, **changes):
    facts = {"universe": MANY.size, "k": 20_000, "alpha": 0.02, "domain": MANY, "attributes": MANY.names}
    return online.pmw_settings(public(unit, **facts | changes))


@pytest.mark.parametrize("size", [EXACT, NOISY["rho"]])
def test_a_survey_and_all_that_is_measured_stay_inside_price_and_beta(size):
    found = surveyed(size=size)
    plan = found.survey
    assert found.terms is None
    assert plan.price < PRICE["rho"] * Fraction(34, 100)
    assert found.measure_error <= 0.02 + 1e-12
    rest = public(Unit.RHO, size=size).rest
    assert plan.failure == pytest.approx(0.1 * rest)
    # as dear as a session that measures everything, but for its share of the chance of failure
    direct = online.direct_settings(public(Unit.RHO, k=20_000, alpha=0.02, size=size))
    assert 1 < found.measure.price / direct.measure.price < 1.02


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": Unit.EPSILON},
        {"k": 50},
        {"measuring": False, "alpha": 0.2},
        {"domain": None},
        {"price": Fraction(1, 10**4)},
    ],
    ids=str,
)
def test_no_survey_in_epsilon_for_few_questions_or_on_too_small_a_budget(changes):
    assert surveyed(**changes).survey is None
