"""From a price to the noise that it buys: the one place. Rounding goes to the private side: more noise, never less.

A plan is what a price bought; it carries the event that is charged for it, and draws. Noise that is asked for by its
variance (tables, residuals) is charged what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.core import bounds, events, sparse
from maquette.core.answers import check_tables, relative, without_overlap
from maquette.core.binned import Binned, table_sensitivity
from maquette.core.bodies import levels_for
from maquette.core.budget import UNITS, Cost, Unit
from maquette.core.conversions import SMOOTHING, log_ratio
from maquette.core.errors import ParameterError
from maquette.core.forms import Margin, Sensitivity
from maquette.core.inversion import exp_minus
from maquette.core.laws import (
    Cube,
    Gaussian,
    IndependentLaw,
    Laplace,
    NoiseLaw,
    NoiseRequest,
    Norm,
    float_up,
    grid_up,
    independent,
    sqrt_up,
)
from maquette.core.measurement import EpochTerms
from maquette.core.neighbours import Persons, Relation
from maquette.core.noise import Noise
from maquette.core.residuals import projected_axes, ripple, shift_squared
from maquette.core.universe import Universe

_DECAY_BITS = 64
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """Noise on a vector, its law in counts."""

    law: NoiseLaw
    event: events.Event


@dataclass(frozen=True, slots=True)
class SelectionPlan:
    """A private choice: scores of sensitivity 1 divided by `scale`."""

    scale: float
    event: events.SelectionEvent


@dataclass(frozen=True, slots=True)
class ChoicePlan:
    """Several private choices in a row, each with scores divided by `scale`."""

    event: events.ComposedEvent
    scale: float
    method: events.Selection

    def choose(self, source: Noise, scores: Counts, tables: Sequence[Binned], *, related: bool) -> Counts:
        """Choose one after the other; a chosen table bars those that overlap with it (`without_overlap`).

        Which tables are barred follows from the released choices alone.
        """
        left = list(range(len(tables)))
        choices: list[int] = []
        for _ in self.event.events:
            if not left:
                break
            choices.append(left[source.select(scores[left], scale=self.scale, method=self.method)])
            left = without_overlap(tables, left, choices[-1], related=related)
        return np.array(choices, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """The noise that the terms of an epoch buy (`core/sparse.py`)."""

    threshold_scale: Fraction
    test_scale: Fraction
    answer_noise: IndependentLaw | None
    event: events.Event


@dataclass(frozen=True, slots=True)
class VariancePlan:
    """One payment for several tables, each with noise of its own width."""

    event: events.Event
    widths: tuple[float, ...]
    """What the sampler gets: sigma, or the scale of Laplace noise."""
    variances: tuple[Fraction, ...]
    """Of the law's parameter: sigma squared, or twice the squared scale."""

    def draw(self, source: Noise, counts: Sequence[Counts]) -> list[Counts]:
        """Noise on every table."""
        if isinstance(self.event, events.LaplaceEvent):
            return [source.laplace(c, scale=Fraction(s)) for c, s in zip(counts, self.widths, strict=True)]
        return [source.gaussian(c, sigma=s) for c, s in zip(counts, self.widths, strict=True)]


@dataclass(frozen=True, slots=True)
class ResidualPlan:
    """Noise for the tables of margins, and what is made of each: its sizes and the axes that lose their means."""

    noise: VariancePlan
    sizes: tuple[tuple[int, ...], ...]
    axes: tuple[tuple[int, ...], ...]

    def draw(self, source: Noise, counts: Sequence[Counts]) -> list[Counts]:
        """Noise on every table; what is returned and stored of it is the part without the means that are removed."""
        shaped = zip(self.noise.draw(source, counts), self.sizes, self.axes, strict=True)
        return [relative(noisy.reshape(shape), axes) for noisy, shape, axes in shaped]


@dataclass(frozen=True, slots=True)
class DrawPlan:
    """Weights base(y) * decay**level(y) of a draw."""

    epsilon: Fraction
    decay: Fraction
    event: events.Event


def on_grid(price: Fraction) -> Fraction:
    """A price rounded down to the ledger's grid, so that its cost rounded up is not above it."""
    bounds.check_price(price)
    units = math.floor(price * UNITS)
    if units < 1:
        raise ParameterError("expected a price of at least 1e-12, the ledger's unit")
    return Fraction(units, UNITS)


def per_person(event: events.Event, persons: Persons | None) -> events.Event:
    """What a look costs where a neighbour is one person with several records: the one place where that is scaled.

    Questions are priced for one record; every event that is charged passes through here.

    Guarantee: a person's k records move every answer, score and table by at most k times as much as one record, in L1,
        L2 and L-infinity, since there is a way from one table to the other with k steps of one record each.
    """
    return event if persons is None else event.of_rows(persons.rows)


def laplace(sensitivity: Sensitivity, *, epsilon: Fraction, denominator: int) -> NoisePlan:
    """The scale for pure epsilon: L1 / epsilon, rounded up to a double on the numerators.

    Guarantee: epsilon-DP (Dwork, McSherry, Nissim and Smith 2006; discrete: Ghosh, Roughgarden and Sundararajan 2009).
    """
    bounds.check_sensitivity(sensitivity)
    width = Fraction(float_up(sensitivity.l1 * denominator / on_grid(epsilon)))
    bounds.check_width(width)
    law = Laplace(epsilon, width / denominator)
    return NoisePlan(law, events.LaplaceEvent(scale=law.scale, l1=sensitivity.l1))


def gaussian(sensitivity: Sensitivity, *, rho: Fraction, denominator: int) -> NoisePlan:
    """Sigma for rho-zCDP: L2 / sqrt(2 rho), rounded up to a double on the numerators.

    Guarantee: rho-zCDP (Bun and Steinke 2016; discrete: Canonne, Kamath and Steinke 2020).
    """
    law = gaussian_law(sensitivity, price=rho, unit=Unit.RHO, denominator=denominator)
    event = events.GaussianEvent(sigma_squared=law.sigma_squared, l2_squared=sensitivity.l2_squared)
    return NoisePlan(law, event)


def smoothed(sensitivity: Sensitivity, law: Gaussian, *, denominator: int, coordinates: int) -> NoisePlan:
    """Gaussian noise on `coordinates` whole numbers, charged as continuous noise that is narrower by the smoothing.

    Guarantee: mu-GDP within a ratio, with mu = L2 / sqrt(variance - smoothing), for the numbers that one record moves
        together with all others (`core/conversions.py`).
    """
    event = events.SmoothedEvent(
        sigma_squared=law.sigma_squared,
        l2_squared=sensitivity.l2_squared,
        mu_squared=sensitivity.l2_squared / (law.sigma_squared - SMOOTHING / denominator**2),
        ripple=Fraction(0),
        log_ratio=log_ratio(coordinates),
    )
    return NoisePlan(law, event)


def gaussian_law(sensitivity: Sensitivity, *, price: Fraction, unit: Unit, denominator: int) -> Gaussian:
    """Sigma on the numerators is a double, so that the sampler draws with exactly the variance that is stated."""
    bounds.check_sensitivity(sensitivity)
    width = sqrt_up(sensitivity.l2_squared * denominator**2 / (2 * on_grid(price)) + unit.smoothing)
    bounds.check_width(width)
    return Gaussian(price, Fraction(width) ** 2 / denominator**2)


def cube(*, epsilon: Fraction) -> NoisePlan:
    """A rational decay that is not below exp(-epsilon).

    Guarantee: epsilon-DP for whole-number answers of L-infinity sensitivity 1 (Steinke and Ullman 2016).
    """
    price = on_grid(epsilon)
    return NoisePlan(Cube(epsilon, _decay(price)), events.CubeEvent(epsilon=price))


def selection(*, price: Fraction, unit: Unit) -> SelectionPlan:
    """Permute-and-flip for a pure price, else the exponential mechanism (eps^2 / 8 of bounded range, in rho).

    Guarantee: epsilon-DP with epsilon = 2 / scale (McSherry and Talwar 2007; McKenna and Sheldon 2020; Cesar and
        Rogers 2021), for scores of sensitivity 1.
    """
    if unit.is_pure:
        scale = float_up(2 / on_grid(price))
        return SelectionPlan(
            scale, events.SelectionEvent(epsilon=2 / Fraction(scale), method="permute-and-flip")
        )
    # eps = sqrt(8 rho), so scale = 2 / eps = sqrt(1 / (2 rho))
    scale = sqrt_up(1 / (2 * unit.rho(on_grid(price))))
    return SelectionPlan(scale, events.SelectionEvent(epsilon=2 / Fraction(scale), method="exponential"))


def _decay(rate: Fraction) -> Fraction:
    """A rational number not below exp(-rate): rounded up, nearer to 1, never farther."""
    return Fraction(exp_minus(rate, _DECAY_BITS)[1], 1 << _DECAY_BITS)


# --- questions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prices:
    """What questions cost: prices are in `unit`, the ledger that is charged counts `ledger_unit`."""

    unit: Unit
    ledger_unit: Unit
    relation: Relation

    def noise(
        self, request: NoiseRequest, sensitivity: Sensitivity, *, coordinates: int, denominator: int = 1
    ) -> NoisePlan:
        """Noise of the kind and price that is asked for, on so many numbers.

        Guarantee: the price, in `unit` for Gaussian noise, in pure epsilon for all others. Gaussian noise planned in
            rho for a ledger that counts mu^2 / 2 is drawn as planned and costs it at most pi / 2 times as much as rho;
            where it is too narrow for that, MechanismError.
        """
        match request.kind:
            case "laplace":
                return laplace(sensitivity, epsilon=request.price, denominator=denominator)
            case "gaussian":
                if not (self.unit.is_gaussian or self.ledger_unit.is_gaussian):
                    return gaussian(sensitivity, rho=request.price, denominator=denominator)
                unit = Unit.HALF_MU_SQUARED if self.unit.is_gaussian else Unit.RHO
                law = gaussian_law(sensitivity, price=request.price, unit=unit, denominator=denominator)
                if not unit.is_gaussian:
                    bounds.check_wide([law.sigma_squared * denominator**2])
                return smoothed(sensitivity, law, denominator=denominator, coordinates=coordinates)
            case "cube":
                bounds.check_cube(sensitivity, denominator, on_grid(request.price), coordinates)
                return cube(epsilon=request.price)
            case "norm":
                price = on_grid(request.price)
                body, resolution, levels = levels_for(request.body, sensitivity.norm, price)
                norm = Norm(request.price, body, resolution, _decay(price / levels))
                return NoisePlan(norm, events.PureEvent(price, norm.describe()))
            case _:  # a kind that no annotation allows
                raise ParameterError(
                    "expected noise of the kind laplace, gaussian, cube or norm, with its price"
                )

    def choice(
        self, price: Fraction, *, monotone: bool = False, method: events.Selection | None = None
    ) -> SelectionPlan:
        """As `selection`; scores that all move the same way are divided by half as much.

        Guarantee: that of `selection`. Only how far two scores move apart counts (Dong, Durfee and Rogers 2020): 2 for
            scores of sensitivity 1, and 1 where all move the same way. Half of a double is a double.
        """
        plan = selection(price=price, unit=self.unit)
        if method is not None:
            bounds.check_type(method, str, "a method of choosing by its name")
            if method not in ("exponential", plan.event.method):
                raise ParameterError("expected method permute-and-flip (without a delta) or exponential")
        event = plan.event if method is None else replace(plan.event, method=method)
        return SelectionPlan(plan.scale / 2 if monotone else plan.scale, event)

    def choices(self, count: int, price: Fraction) -> ChoicePlan:
        """`count` choices of tables in bins at equal prices.

        Guarantee: permute-and-flip (epsilon) or the exponential mechanism (rho) on scores of sensitivity 1 or 2, each.
        """
        bounds.check_whole(count, least=1, most=bounds.MAX_CHOICES, what="how many tables to choose")
        bounds.check_price(price)
        each = selection(price=Fraction(price) / count, unit=self.unit)
        scale = each.scale * table_sensitivity(self.relation)
        return ChoicePlan(events.ComposedEvent((each.event,) * count), scale, each.event.method)

    def draw(self, price: Fraction, *, resolution: int, what: str) -> DrawPlan:
        """A rational decay >= exp(-epsilon / (2 resolution)) with a power of two as denominator.

        Guarantee: epsilon-DP for levels that move by at most `resolution` between neighbours (the exponential
            mechanism, McSherry and Talwar 2007, with any public base measure); as it has epsilon-bounded range, a price
            in rho buys epsilon = sqrt(8 rho) (Cesar and Rogers 2021), and a ledger that counts rho is charged
            epsilon^2 / 8; one that counts mu^2 / 2 is charged pi / 2 times as much.
        """
        epsilon = self.unit.selection_epsilon(on_grid(price))
        is_pure = self.unit.is_pure and self.ledger_unit.is_pure
        event = events.PureEvent(epsilon, what) if is_pure else events.SelectionEvent(epsilon, "exponential")
        return DrawPlan(epsilon, _decay(epsilon / (2 * resolution)), event)

    def epoch(self, terms: EpochTerms) -> EpochPlan:
        """A noisy threshold, tests against it, and the values of guesses far off: see `core/sparse.py`."""
        sparse.check_terms(terms)
        threshold_scale = Fraction(float_up(1 / on_grid(terms.threshold_price)))
        test_scale = Fraction(float_up(2 * terms.cap / on_grid(terms.test_price)))
        tests = events.SparseEvent(threshold_scale=threshold_scale, test_scale=test_scale, cap=terms.cap)
        if terms.answer_price is None:
            return EpochPlan(threshold_scale, test_scale, None, tests)
        cap = Fraction(terms.cap)
        request = NoiseRequest.at(terms.answer_price, self.unit)
        answers = self.noise(request, Sensitivity(cap, cap, Fraction(1)), coordinates=terms.cap)
        event = events.ComposedEvent((tests, answers.event))
        return EpochPlan(threshold_scale, test_scale, independent(answers.law), event)

    def epoch_cost(self, terms: EpochTerms) -> tuple[Cost, Fraction]:
        """What opening an epoch takes from the ledger, and in the curator's own unit: a forecast, touches nothing."""
        event = self.epoch(terms).event
        return event.cost(self.ledger_unit), Fraction(event.cost(self.unit).units, UNITS)

    def tables(
        self, domain: Universe, tables: Sequence[Binned], variances: Sequence[Fraction]
    ) -> VariancePlan:
        """What tables with noise of these variances cost together.

        Guarantee: with D = 1 (add/remove-one) or 2 (replace-one), the sum of D / (2 sigma^2) in rho, or of D / scale in
            epsilon: the tables side by side are one vector, scaled to unit noise. Where mu^2 / 2 is counted the noise
            is wider than asked by the smoothing, and costs as much as asked. Noise planned in rho for a ledger that
            counts mu^2 / 2 is drawn as planned, and costs it more.
        """
        check_tables(domain, tables)
        bounds.check_variances(variances, len(tables), "table")
        shift = table_sensitivity(self.relation)
        if self.unit.is_pure:
            scales = [sqrt_up(Fraction(v) / 2) for v in variances]
            l1 = sum((Fraction(shift) / Fraction(s) for s in scales), Fraction(0))
            event = events.LaplaceEvent(scale=Fraction(1), l1=grid_up(l1))
            return VariancePlan(event, tuple(scales), tuple(2 * Fraction(s) ** 2 for s in scales))
        sigmas, squares = self._sigmas(variances)

        def loss(less: Fraction) -> Fraction:
            return grid_up(sum((shift / (v - less) for v in squares), Fraction(0)))

        charge = self._side_by_side(loss, squares, coordinates=sum(table.cells for table in tables))
        return VariancePlan(charge, sigmas, squares)

    def residuals(
        self, domain: Universe, margins: Sequence[Margin], variances: Sequence[Fraction]
    ) -> ResidualPlan:
        """What residuals of margins with noise of these variances cost together.

        Guarantee: rho-zCDP with rho = sum of shift^2 / (2 variance) (`core/residuals.py`); the noises together are
            one Gaussian in coordinates scaled to variance 1, and that is the event in the ledger. Where mu^2 / 2 is
            counted the noise is wider by the smoothing, and costs as much as asked.
        """
        bounds.check_margins(domain, margins)
        bounds.check_variances(variances, len(margins), "margin")
        return self._projected([tuple(domain[name].size for name in margin) for margin in margins], variances)

    def binned_residuals(
        self, domain: Universe, tables: Sequence[Binned], variances: Sequence[Fraction]
    ) -> ResidualPlan:
        """What residuals of tables in bins with noise of these variances cost together.

        Guarantee: that of `residuals`. A record is in one bin of a table, so the table is the margin of a universe
            with one code for each bin, on which nothing is different.
        """
        check_tables(domain, tables)
        bounds.check_variances(variances, len(tables), "table")
        return self._projected([table.shape for table in tables], variances)

    def _projected(self, shapes: Sequence[tuple[int, ...]], variances: Sequence[Fraction]) -> ResidualPlan:
        sizes = tuple(shapes)
        sigmas, squares = self._sigmas(variances)
        axes = tuple(projected_axes(*part) for part in zip(sizes, squares, strict=True))
        for shape, removed, sigma in zip(sizes, axes, sigmas, strict=True):
            bounds.check_projection(shape, removed, sigma)
        shifts = [shift_squared(s, self.relation, a) for s, a in zip(sizes, axes, strict=True)]
        gap = sum((grid_up(ripple(*part)) for part in zip(sizes, squares, axes, strict=True)), Fraction(0))

        def loss(less: Fraction) -> Fraction:
            return sum((grid_up(m / (v - less)) for m, v in zip(shifts, squares, strict=True)), Fraction(0))

        cells = sum(math.prod(shape) for shape in sizes)
        charge = self._side_by_side(loss, squares, coordinates=cells, gap=gap)
        return ResidualPlan(VariancePlan(charge, sigmas, squares), sizes, axes)

    def _sigmas(self, variances: Sequence[Fraction]) -> tuple[tuple[float, ...], tuple[Fraction, ...]]:
        """Doubles that buy these variances, the smoothing included, and their exact squares."""
        sigmas = tuple(sqrt_up(Fraction(variance) + self.unit.smoothing) for variance in variances)
        return sigmas, tuple(Fraction(sigma) ** 2 for sigma in sigmas)

    def _side_by_side(
        self,
        loss: Callable[[Fraction], Fraction],
        variances: Sequence[Fraction],
        *,
        coordinates: int,
        gap: Fraction = Fraction(0),
    ) -> events.Event:
        """The event of Gaussian noise on several tables, as one vector scaled to variance 1.

        `loss(less)` is the sum of squared shifts over (variance - less), rounded up; `gap` is how far the law of what
        is released is from that of the exact Gaussian.
        """
        smoothing = max(self.unit.smoothing, self.ledger_unit.smoothing)
        if smoothing > self.unit.smoothing:
            bounds.check_wide(variances)
        if not smoothing:
            return events.GaussianEvent(
                sigma_squared=Fraction(1), l2_squared=loss(smoothing), total_variation=gap
            )
        return events.SmoothedEvent(
            sigma_squared=Fraction(1),
            l2_squared=loss(Fraction(0)),
            mu_squared=loss(smoothing),
            ripple=gap,
            log_ratio=gap + log_ratio(coordinates),
        )
