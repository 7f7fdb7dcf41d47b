"""From a price to the noise that it buys: the one place. Rounding goes to the private side: more noise, never less.

Noise that is asked for by its variance (`plan_tables`, `plan_residuals`) is charged what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from maquette.accounting.budget import Cost
from maquette.accounting.events import (
    ComposedEvent,
    CubeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    Selection,
    SelectionEvent,
    SmoothedEvent,
    SparseEvent,
)
from maquette.accounting.gaussian import SMOOTHING, log_ratio
from maquette.accounting.unit import UNITS, Unit
from maquette.domain import Domain, Persons, Relation
from maquette.errors import MechanismError, ParameterError
from maquette.gate.plans import (
    ChoicePlan,
    EpochPlan,
    NoisePlan,
    Pricing,
    ResidualPlan,
    SelectionPlan,
    ThresholdPlan,
    VariancePlan,
)
from maquette.queries.base import Margin, Sensitivity
from maquette.queries.counting import projected_axes, ripple, shift_squared
from maquette.queries.marginals import Binned, table_sensitivity
from maquette.questions import bounds, sparse
from maquette.questions.findings import threshold_for
from maquette.questions.measurement import EpochTerms
from maquette.questions.noise import Cube, Gaussian, Laplace, NoiseRequest, independent
from maquette.questions.rounding import float_up, grid_up, sqrt_up
from maquette.questions.tables import check_tables
from maquette.samplers.laws import exp_minus

_DECAY_BITS = 64


def on_grid(price: Fraction) -> Fraction:
    """A price rounded down to the ledger's grid, so that its cost rounded up is not above it."""
    bounds.check_price(price)
    units = math.floor(price * UNITS)
    if units < 1:
        raise ParameterError("expected a price of at least 1e-12, the ledger's unit")
    return Fraction(units, UNITS)


def per_person(event: Event, persons: Persons | None) -> Event:
    """What a look costs where a neighbour is one person with several records: the one place where that is scaled.

    Questions are priced for one record; every event that is charged passes through here.

    Guarantee: a person's k records move every answer, score and table by at most k times as much as one record, in L1,
        L2 and L-infinity, since there is a way from one table to the other with k steps of one record each.
    """
    return event if persons is None else event.of_rows(persons.rows)


def noise(
    request: NoiseRequest,
    sensitivity: Sensitivity,
    *,
    unit: Unit,
    ledger_unit: Unit,
    coordinates: int,
    denominator: int = 1,
) -> NoisePlan:
    """Noise of the kind and price that is asked for, on so many numbers: the one place where a price becomes noise.

    Guarantee: the price, in pure epsilon for Laplace and L-infinity noise, in `unit` for Gaussian noise.
    """
    bounds.check_type(request, NoiseRequest, "a request for noise, a kind with its price")
    match request.kind:
        case "laplace":
            return laplace(sensitivity, epsilon=request.price, denominator=denominator)
        case "gaussian":
            return charged(
                sensitivity,
                price=request.price,
                unit=unit,
                ledger_unit=ledger_unit,
                denominator=denominator,
                coordinates=coordinates,
            )
        case "cube":
            if denominator != 1 or sensitivity.linf > 1:
                raise MechanismError(
                    "the integer L-infinity mechanism needs counting queries, weights 0 or 1; "
                    "use laplace or gaussian for fractional weights"
                )
            bounds.check_radius(on_grid(request.price), coordinates)
            return cube(epsilon=request.price)
        case _:  # a kind that no annotation allows
            raise ParameterError("expected noise of the kind laplace, gaussian or cube, with its price")


def laplace(sensitivity: Sensitivity, *, epsilon: Fraction, denominator: int) -> NoisePlan:
    """The scale for pure epsilon: L1 / epsilon, rounded up to a double on the numerators.

    Guarantee: epsilon-DP (Dwork, McSherry, Nissim and Smith 2006; discrete: Ghosh, Roughgarden and Sundararajan 2009).
    """
    bounds.check_sensitivity(sensitivity)
    width = Fraction(float_up(sensitivity.l1 * denominator / on_grid(epsilon)))
    bounds.check_width(width)
    law = Laplace(epsilon, width / denominator)
    return NoisePlan(law, LaplaceEvent(scale=law.scale, l1=sensitivity.l1), denominator)


def gaussian(sensitivity: Sensitivity, *, rho: Fraction, denominator: int) -> NoisePlan:
    """Sigma for rho-zCDP: L2 / sqrt(2 rho), rounded up to a double on the numerators.

    Guarantee: rho-zCDP (Bun and Steinke 2016; discrete: Canonne, Kamath and Steinke 2020).
    """
    law = _gaussian_law(sensitivity, price=rho, unit=Unit.RHO, denominator=denominator)
    event = GaussianEvent(sigma_squared=law.sigma_squared, l2_squared=sensitivity.l2_squared)
    return NoisePlan(law, event, denominator)


def smoothed(
    sensitivity: Sensitivity, *, half_square: Fraction, denominator: int, coordinates: int
) -> NoisePlan:
    """Sigma for a price in mu^2 / 2: the variance L2^2 / mu^2, wider by the smoothing, rounded up to a double.

    Guarantee: sqrt(2 half_square)-GDP within a ratio, for noise on `coordinates` whole numbers, those that one record
        moves and all others (`accounting/gaussian.py`).
    """
    unit = Unit.HALF_MU_SQUARED
    law = _gaussian_law(sensitivity, price=half_square, unit=unit, denominator=denominator)
    return _against_continuous(sensitivity, law, denominator, coordinates)


def charged(
    sensitivity: Sensitivity,
    *,
    price: Fraction,
    unit: Unit,
    ledger_unit: Unit,
    denominator: int,
    coordinates: int,
) -> NoisePlan:
    """Gaussian noise for a price in `unit`, with an event that a ledger counting `ledger_unit` can charge.

    Guarantee: as `gaussian` or `smoothed`. Noise planned in rho for a ledger that counts mu^2 / 2 is drawn as planned
        and costs it at most pi / 2 times as much as rho; where it is too narrow for that, MechanismError.
    """
    if unit.is_gaussian:
        return smoothed(sensitivity, half_square=price, denominator=denominator, coordinates=coordinates)
    if not ledger_unit.is_gaussian:
        return gaussian(sensitivity, rho=price, denominator=denominator)
    law = _gaussian_law(sensitivity, price=price, unit=Unit.RHO, denominator=denominator)
    bounds.check_wide([law.sigma_squared * denominator**2])
    return _against_continuous(sensitivity, law, denominator, coordinates)


def _gaussian_law(sensitivity: Sensitivity, *, price: Fraction, unit: Unit, denominator: int) -> Gaussian:
    """Sigma on the numerators is a double, so that the sampler draws with exactly the variance that is stated."""
    bounds.check_sensitivity(sensitivity)
    width = sqrt_up(sensitivity.l2_squared * denominator**2 / (2 * on_grid(price)) + unit.smoothing)
    bounds.check_width(width)
    return Gaussian(price, Fraction(width) ** 2 / denominator**2)


def _against_continuous(
    sensitivity: Sensitivity, law: Gaussian, denominator: int, coordinates: int
) -> NoisePlan:
    event = SmoothedEvent(
        sigma_squared=law.sigma_squared,
        l2_squared=sensitivity.l2_squared,
        mu_squared=sensitivity.l2_squared / (law.sigma_squared - SMOOTHING / denominator**2),
        ripple=Fraction(0),
        log_ratio=log_ratio(coordinates),
    )
    return NoisePlan(law, event, denominator)


def plan_common_values(
    sensitivity: Sensitivity, *, price: Fraction, delta: Fraction, rows: int, unit: Unit, ledger_unit: Unit
) -> ThresholdPlan:
    """Noise on the counts of the values that occur, and the threshold that a new one passes with chance delta."""
    bounds.check_price(price)
    if unit.is_pure or ledger_unit.is_gaussian or not delta:
        raise MechanismError(
            "values are found by thresholds, which need a delta and a ledger that counts rho; give a delta, and "
            "make the ledger with discover or with accounting 'zcdp'"
        )
    law = _gaussian_law(sensitivity, price=price, unit=Unit.RHO, denominator=1)
    variance = Fraction(law.sigma_squared)
    event = GaussianEvent(sigma_squared=variance, l2_squared=sensitivity.l2_squared, total_variation=delta)
    return ThresholdPlan(law, event, threshold_for(variance, delta, rows=rows))


def cube(*, epsilon: Fraction) -> NoisePlan:
    """A rational decay that is not below exp(-epsilon).

    Guarantee: epsilon-DP for whole-number answers of L-infinity sensitivity 1 (Steinke and Ullman 2016).
    """
    price = on_grid(epsilon)
    return NoisePlan(Cube(epsilon, _decay(price)), CubeEvent(epsilon=price))


def selection(*, price: Fraction, unit: Unit) -> SelectionPlan:
    """Permute-and-flip for a pure price, else the exponential mechanism (eps^2 / 8 of bounded range, in rho).

    Guarantee: epsilon-DP with epsilon = 2 / scale (McSherry and Talwar 2007; McKenna and Sheldon 2020; Cesar and
        Rogers 2021), for scores of sensitivity 1.
    """
    if unit.is_pure:
        scale = float_up(2 / on_grid(price))
        return SelectionPlan(scale, SelectionEvent(epsilon=2 / Fraction(scale), method="permute-and-flip"))
    # eps = sqrt(8 rho), so scale = 2 / eps = sqrt(1 / (2 rho))
    scale = sqrt_up(1 / (2 * unit.rho(on_grid(price))))
    return SelectionPlan(scale, SelectionEvent(epsilon=2 / Fraction(scale), method="exponential"))


def choice(*, price: Fraction, unit: Unit, monotone: bool, method: Selection | None) -> SelectionPlan:
    """As `selection`; scores that all move the same way are divided by half as much.

    Guarantee: that of `selection`. Only how far two scores move apart counts (Dong, Durfee and Rogers 2020): 2 for
        scores of sensitivity 1, and 1 where all move the same way. Half of a double is a double.
    """
    plan = selection(price=price, unit=unit)
    if method is not None:
        bounds.check_type(method, str, "a method of choosing by its name")
        if method not in ("exponential", plan.event.method):
            raise ParameterError("expected method permute-and-flip (without a delta) or exponential")
    event = plan.event if method is None else replace(plan.event, method=method)
    return SelectionPlan(plan.scale / 2 if monotone else plan.scale, event)


def plan_choices(*, count: int, price: Fraction, relation: Relation, unit: Unit) -> ChoicePlan:
    """`count` choices of tables in bins at equal prices.

    Guarantee: each is permute-and-flip (epsilon) or the exponential mechanism (rho) on a score of sensitivity 1 or 2.
    """
    bounds.check_whole(count, least=1, most=bounds.MAX_CHOICES, what="how many tables to choose")
    bounds.check_price(price)
    each = selection(price=Fraction(price) / count, unit=unit)
    return ChoicePlan(
        ComposedEvent((each.event,) * count), each.scale * table_sensitivity(relation), each.event.method
    )


def plan_epoch(terms: EpochTerms, *, unit: Unit, ledger_unit: Unit = Unit.EPSILON) -> EpochPlan:
    """A noisy threshold, tests against it, and the values of guesses far off: see `questions/sparse.py`."""
    sparse.check_terms(terms)
    threshold_scale = Fraction(float_up(1 / on_grid(terms.threshold_price)))
    test_scale = Fraction(float_up(2 * terms.cap / on_grid(terms.test_price)))
    tests = SparseEvent(threshold_scale=threshold_scale, test_scale=test_scale, cap=terms.cap)
    if terms.answer_price is None:
        return EpochPlan(threshold_scale, test_scale, None, tests)
    cap = Fraction(terms.cap)
    answers = noise(
        NoiseRequest.at(terms.answer_price, unit),
        Sensitivity(cap, cap, Fraction(1)),
        unit=unit,
        ledger_unit=ledger_unit,
        coordinates=terms.cap,
    )
    event = ComposedEvent((tests, answers.event))
    return EpochPlan(threshold_scale, test_scale, independent(answers.law), event)


def epoch_cost(terms: EpochTerms, *, unit: Unit, ledger_unit: Unit) -> tuple[Cost, Fraction]:
    """What opening an epoch takes from the ledger, and in the curator's own unit: for forecasts. Touches nothing."""
    event = plan_epoch(terms, unit=unit, ledger_unit=ledger_unit).event
    return event.cost(ledger_unit), Fraction(event.cost(unit).units, UNITS)


def plan_tables(
    domain: Domain,
    tables: Sequence[Binned],
    variances: Sequence[Fraction],
    *,
    relation: Relation,
    unit: Unit,
    ledger_unit: Unit | None = None,
) -> VariancePlan:
    """What tables with noise of these variances cost together.

    Guarantee: with D = 1 (add/remove-one) or 2 (replace-one), the sum of D / (2 sigma^2) in rho, or of D / scale in
        epsilon: the tables side by side are one vector, scaled to unit noise. Where mu^2 / 2 is counted the noise is
        wider than asked by the smoothing, and costs as much as asked. Noise planned in rho for a ledger that counts
        mu^2 / 2 is drawn as planned, and costs it more.
    """
    check_tables(domain, tables)
    bounds.check_variances(variances, len(tables), "table")
    shift = table_sensitivity(relation)
    if unit.is_pure:
        scales = [sqrt_up(Fraction(v) / 2) for v in variances]
        l1 = sum((Fraction(shift) / Fraction(s) for s in scales), Fraction(0))
        event = LaplaceEvent(scale=Fraction(1), l1=grid_up(l1))
        return VariancePlan(event, tuple(scales), tuple(2 * Fraction(s) ** 2 for s in scales))
    sigmas, squares = _sigmas(variances, unit)

    def loss(less: Fraction) -> Fraction:
        return grid_up(sum((shift / (v - less) for v in squares), Fraction(0)))

    cells = sum(table.cells for table in tables)
    charge = _side_by_side(loss, squares, unit=unit, ledger_unit=ledger_unit or unit, coordinates=cells)
    return VariancePlan(charge, sigmas, squares)


def plan_residuals(
    domain: Domain,
    margins: Sequence[Margin],
    variances: Sequence[Fraction],
    *,
    relation: Relation,
    unit: Unit,
    ledger_unit: Unit,
) -> ResidualPlan:
    """What residuals of margins with noise of these variances cost together.

    Guarantee: rho-zCDP with rho = sum of shift^2 / (2 variance) (`queries/counting.py`); the noises together are one
        Gaussian in coordinates scaled to variance 1, and that is the event in the ledger. Where mu^2 / 2 is counted
        the noise is wider by the smoothing, and costs as much as asked.
    """
    bounds.check_margins(domain, margins)
    bounds.check_variances(variances, len(margins), "margin")
    sizes = tuple(tuple(domain[name].size for name in margin) for margin in margins)
    sigmas, squares = _sigmas(variances, unit)
    axes = tuple(projected_axes(*part) for part in zip(sizes, squares, strict=True))
    for shape, removed, sigma in zip(sizes, axes, sigmas, strict=True):
        bounds.check_projection(shape, removed, sigma)
    shifts = [shift_squared(s, relation, a) for s, a in zip(sizes, axes, strict=True)]
    gap = sum((grid_up(ripple(*part)) for part in zip(sizes, squares, axes, strict=True)), Fraction(0))

    def loss(less: Fraction) -> Fraction:
        return sum((grid_up(m / (v - less)) for m, v in zip(shifts, squares, strict=True)), Fraction(0))

    cells = sum(math.prod(shape) for shape in sizes)
    charge = _side_by_side(loss, squares, unit=unit, ledger_unit=ledger_unit, coordinates=cells, gap=gap)
    return ResidualPlan(VariancePlan(charge, sigmas, squares), sizes, axes)


def _sigmas(variances: Sequence[Fraction], unit: Unit) -> tuple[tuple[float, ...], tuple[Fraction, ...]]:
    """Doubles that buy these variances in `unit`, the smoothing included, and their exact squares."""
    sigmas = tuple(sqrt_up(Fraction(variance) + unit.smoothing) for variance in variances)
    return sigmas, tuple(Fraction(sigma) ** 2 for sigma in sigmas)


def _side_by_side(
    loss: Callable[[Fraction], Fraction],
    variances: Sequence[Fraction],
    *,
    unit: Unit,
    ledger_unit: Unit,
    coordinates: int,
    gap: Fraction = Fraction(0),
) -> Event:
    """The event of Gaussian noise on several tables, as one vector scaled to variance 1.

    `loss(less)` is the sum of squared shifts over (variance - less), rounded up; `gap` is how far the law of what is
    released is from that of the exact Gaussian.
    """
    smoothing = max(unit.smoothing, ledger_unit.smoothing)
    if smoothing > unit.smoothing:
        bounds.check_wide(variances)
    if not smoothing:
        return GaussianEvent(sigma_squared=Fraction(1), l2_squared=loss(smoothing), total_variation=gap)
    return SmoothedEvent(
        sigma_squared=Fraction(1),
        l2_squared=loss(Fraction(0)),
        mu_squared=loss(smoothing),
        ripple=gap,
        log_ratio=gap + log_ratio(coordinates),
    )


def pricing(
    *, price: Fraction, unit: Unit, resolution: int, what: str, ledger_unit: Unit = Unit.EPSILON
) -> Pricing:
    """A rational decay >= exp(-epsilon / (2 resolution)) with a power of two as denominator.

    Guarantee: epsilon-DP for levels that move by at most `resolution` between neighbours (the exponential mechanism,
        McSherry and Talwar 2007, with any public base measure); as it has epsilon-bounded range, a price in rho buys
        epsilon = sqrt(8 rho) (Cesar and Rogers 2021), and a ledger that counts rho is charged epsilon^2 / 8; one that
        counts mu^2 / 2 is charged pi / 2 times as much.
    """
    epsilon = unit.selection_epsilon(on_grid(price))
    is_pure = unit.is_pure and ledger_unit.is_pure
    event = PureEvent(epsilon, what) if is_pure else SelectionEvent(epsilon, "exponential")
    return Pricing(epsilon, _decay(epsilon / (2 * resolution)), event)


def _decay(rate: Fraction) -> Fraction:
    """A rational number not below exp(-rate): rounded up, nearer to 1, never farther."""
    return Fraction(exp_minus(rate, _DECAY_BITS)[1], 1 << _DECAY_BITS)
