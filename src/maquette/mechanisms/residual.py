"""Gaussian noise in the residual basis: the closed-form best allocation for workloads of marginals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np

from maquette.core.budget import SLACK_UNITS
from maquette.core.residuals import projected_axes, ripple, shift_squared
from maquette.domain import Domain, Relation
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Mechanism, Outcome, Prepared, Progress, Task, Traits
from maquette.mechanisms.postprocess import NoisyAnswers
from maquette.mechanisms.shape import WeightedMargin
from maquette.models.residual import ResidualModel, below, cell_variance
from maquette.queries.rows import MAX_ANSWERS, Margin
from maquette.theory import draws

Weighting = Literal["marginal", "fourth root", "cell"]
"""Equal weight for every marginal, for every cell, or between both: a marginal counts by the fourth root of its
cells."""
_POWERS: dict[Weighting, float] = {"marginal": 1.0, "fourth root": 0.75, "cell": 0.0}
"""Of a marginal's cells, by which its variances are divided in the objective."""

MAX_PARTS = 100_000
_GRID = 2**20
"""Variances are whole multiples of 1/_GRID."""
_NEARLY = Fraction(10**6 - 1, 10**6)
_ROOM = Fraction(10**9 - 1, 10**9)
"""The part of a price that is planned with; the rest covers the gate's rounding."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The variance of every residual, and what they cost together."""

    parts: tuple[Margin, ...]
    variances: tuple[Fraction, ...]
    rho: Fraction


def allocate(
    domain: Domain, margins: Sequence[WeightedMargin], *, relation: Relation, price: Fraction, per: Weighting
) -> Allocation:
    """Variances s_A that minimise the weighted sum of variances of all cells, at a total of `price` in rho.

    Accuracy: s_A = sqrt(p_A / v_A) sum_B sqrt(p_B v_B) / (2 rho), p_A the squared shift of one record and v_A the
        weight of s_A in the objective: sum over margins w of c_w prod_A (n_i - 1) / prod_(w-A) n_i, with c_w the
        margin's weight (per cell), that over its cells (per marginal) or over a power of them. The empty set is not
        among the parts.
    Guarantee: sum over A of shift_A / (2 s_A) <= price in exact rationals, with the shifts of the axes that the
        gate will really project out (`core/answers.py`).
    """
    weights = _weights(domain, margins, per)
    parts = tuple(part for part in below(domain, [a.margin for a in margins]) if part)
    shapes = [tuple(domain[name].size for name in part) for part in parts]
    pull = [weights[part] for part in parts]
    target = price * _ROOM

    def shifts_at(variances: Sequence[Fraction]) -> list[Fraction]:
        pairs = zip(shapes, variances, strict=True)
        return [shift_squared(sizes, relation, projected_axes(sizes, s)) for sizes, s in pairs]

    def cost(variances: Sequence[Fraction]) -> Fraction:
        """In rho, each term rounded up to a fixed grid so that the sum stays short."""
        pairs = zip(shifts_at(variances), variances, strict=True)
        return Fraction(sum(math.ceil(shift / (2 * s) * 2**100) for shift, s in pairs), 2**100)

    shifts = [shift_squared(sizes, relation, range(len(sizes))) for sizes in shapes]
    variances = _closed_form(shifts, pull, target)
    for _ in range(4):  # the axes depend on the variances and the best variances on the axes
        if target * _NEARLY <= cost(variances) <= target:
            break
        variances = _closed_form(shifts_at(variances), pull, target)
    variances = _scaled_to(variances, cost, target)
    return Allocation(parts, tuple(variances), cost(variances))


def least_variances(
    domain: Domain, margins: Sequence[WeightedMargin], *, relation: Relation, price: Fraction, per: Weighting
) -> dict[Margin, float]:
    """What `allocate` would come to if every axis could be projected out: a quick lower bound for planning."""
    weights = _weights(domain, margins, per)
    parts = [part for part in below(domain, [a.margin for a in margins]) if part]
    shapes = [tuple(domain[name].size for name in part) for part in parts]
    shifts = [shift_squared(sizes, relation, range(len(sizes))) for sizes in shapes]
    variances = _closed_form(shifts, [weights[part] for part in parts], price)
    return dict(zip(parts, map(float, variances), strict=True))


def _scaled_to(
    variances: list[Fraction], cost: Callable[[Sequence[Fraction]], Fraction], target: Fraction
) -> list[Fraction]:
    """All variances times one factor, the smallest that the price allows: the cost never rises in the factor."""
    price = cost(variances)
    if target * _NEARLY <= price <= target:
        return variances
    low, high = 0.5 * float(price / target), 1.0
    while cost(_scaled(variances, high)) > target:
        low, high = high, 2 * high
    while high > low * (1 + 1e-6):
        middle = (low + high) / 2
        low, high = (low, middle) if cost(_scaled(variances, middle)) <= target else (middle, high)
    return _scaled(variances, high)


def _scaled(variances: Sequence[Fraction], factor: float) -> list[Fraction]:
    return [_up(float(s) * factor) for s in variances]


@dataclass(frozen=True, eq=False)
class PreparedResidual(Prepared):
    """Residuals for one workload of marginals."""

    mechanism: ResidualMechanism

    @cached_property
    def _margins(self) -> list[WeightedMargin]:
        return shape.margins_of(self.task.queries) or []

    def _refuse(self) -> str | None:
        queries, domain = self.task.queries, self.task.queries.domain
        if not shape.is_marginals(queries):
            return "it is for workloads of marginals only"
        if sum(2 ** len(a.margin) for a in self._margins) > MAX_PARTS * 8:
            return "the attributes of the marginals have too many subsets"
        cells = sum(domain.cells(part) for part in below(domain, [a.margin for a in self._margins]))
        if cells > MAX_ANSWERS:
            return (
                f"the tables over all subsets of attributes have {cells:,} cells, more than {MAX_ANSWERS:,}"
            )
        return shape.too_many(queries) or postprocess.refusal(self.task)

    @property
    def megabytes(self) -> float:
        return postprocess.megabytes(self.task, cells=max(self.task.queries.count, 1))

    @cached_property
    def plan(self) -> ResidualPlan:
        """The share of the size by its effect on what is stated: residual noise scales with the root of what is left.

        Where rows are fitted the size is measured as well as a cell of the marginal in the middle.
        """
        task, domain, margins = self.task, self.task.queries.domain, self._margins
        per = self.mechanism.per
        whole = allocate(domain, margins, relation=task.relation, price=task.price, per=per)
        variances = _as_floats(whole, wider=0.0)
        if self.mechanism.for_rows:
            cells = [cell_variance(domain, variances, a.margin) for a in margins]
            parts = sizing.split_like_a_cell(task, float(np.median(cells)))
        else:
            beta = sizing.beta_for_answers(task.beta, task.relation)
            level = _level(domain, margins, variances, beta)
            method = postprocess.method_for(task)
            parts = sizing.split(
                task,
                lambda price: level * math.sqrt(task.price / price),
                lambda e, t: postprocess.error_after(e, t, method),
            )
        if not parts.size:
            return ResidualPlan(parts, whole)
        return ResidualPlan(
            parts, allocate(domain, margins, relation=task.relation, price=parts.answers, per=per)
        )

    @property
    def size_price(self) -> Fraction:
        return self.plan.parts.size

    def _foresee(self) -> Forecast:
        task, plan, margins = self.task, self.plan, self._margins
        method = postprocess.method_for(task)
        level, size_error = plan.level(task, margins), plan.parts.size_error(task)
        typical = plan.level(task, margins, beta=0.5) + plan.parts.size_error(task, beta=0.5)
        tables = len(plan.allocation.parts)
        return Forecast(
            self.mechanism.name,
            postprocess.in_advance(level, size_error, method, n=self.n),
            min(typical / self.n, 1.0),
            postprocess.seconds(task, n=self.n, cells=task.queries.count, tables=tables),
            self.megabytes,
            method != "none" and shape.gives_rows(task.queries),
            None,
            (_LAW, postprocess.EXPECTED_NOTE),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("measuring residuals", 0.8), ("putting the margins together", 0.2)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Measure all residuals in one payment, reconstruct, post-process."""
        progress("measuring residuals", 0.0)
        margins, variances = self.plan.request()
        size = sizing.released_size(curator, self.task, self.plan.parts)
        residuals = curator.measure_residuals(margins, variances=variances)
        progress("putting the margins together", 0.5)
        model = ResidualModel.from_tables(self.task.queries.domain, residuals, size)
        done = postprocess.finish(self.task, self._noisy_answers(model))
        progress("putting the margins together", 1.0)
        return done

    def slack_units(self, *, planned: bool) -> int:
        """One per axis that a projection may remove; planned, what the variances of this task take, and one more."""
        domain = self.task.queries.domain
        if not planned:
            return sum(len(part) for part in below(domain, [a.margin for a in self._margins]))
        gap = Fraction(0)
        for margin, variance in zip(*self.plan.request(), strict=True):
            sizes = tuple(domain[name].size for name in margin)
            gap += ripple(sizes, variance, projected_axes(sizes, variance))
        return math.ceil(gap * SLACK_UNITS) + 1

    def _noisy_answers(self, model: ResidualModel) -> NoisyAnswers:
        task, margins = self.task, self._margins
        domain, size = task.queries.domain, model.size
        counts = np.empty(task.queries.count)
        deviations = np.empty(task.queries.count, dtype=np.float32)
        fits = shape.gives_rows(task.queries)
        weights = np.ones(task.queries.count if fits else 1)
        for margin, place, _ in margins:
            counts[place] = model.table(margin).ravel()
            deviation = model.deviation(margin)
            deviations[place] = deviation / size.divisor
            if fits:
                weights[place] = 1 / max(deviation, 1e-9) ** 2
        level = _level(domain, margins, model.variances, sizing.beta_for_answers(task.beta, task.relation))
        return NoisyAnswers(
            counts=counts,
            level=level,
            size_error=sizing.size_error(size, task.beta),
            size=size,
            law=_LAW,
            weights=weights / weights.max(),
            deviations=deviations,
            parameters={
                "weighting": _WEIGHTINGS[self.mechanism.per],
                "residuals": len(model.residuals),
                "largest_deviation_counts": float(deviations.max()) * size.divisor,
            },
            model=model,
        )


@dataclass(frozen=True, slots=True)
class ResidualMechanism(Mechanism):
    """Measure the residual of every set of attributes below the workload once; put all margins together from them.

    Guarantee: the task's price in rho, through the gate.
    Accuracy: every cell of a margin has the same, exactly known variance; the level that all cells keep is the
        Chernoff and union bound over margins (`theory.draws.gaussian_mixture`), valid for sums of discrete Gaussians.
    Cost: one table per set of attributes below the workload; a few passes over the answers.
    """

    prepared_by = PreparedResidual
    name: str
    per: Weighting = "marginal"
    """Equal weight for every marginal, for every cell, or between both."""
    for_rows: bool = False
    """Are rows fitted to what it measures, whose errors are measured and not stated in advance?"""
    traits: Traits = Traits(needs_delta=True, gaussian=True, projects_noise=True)


_LAW = "discrete Gaussian noise in the residual basis"
_WEIGHTINGS: dict[Weighting, str] = {
    "marginal": "equal per marginal",
    "fourth root": "by the fourth root of a marginal's cells",
    "cell": "equal per cell",
}


@dataclass(frozen=True, slots=True)
class ResidualPlan:
    """What is paid for the size, and the variance of every residual."""

    parts: sizing.Split
    allocation: Allocation

    def request(self) -> tuple[list[Margin], list[Fraction]]:
        """What the gate is asked for beside the size."""
        return list(self.allocation.parts), list(self.allocation.variances)

    def level(self, task: Task, margins: Sequence[WeightedMargin], beta: float | None = None) -> float:
        wider = float(task.unit.smoothing)
        variances = _as_floats(self.allocation, wider=wider)
        if self.parts.size:
            variances[()] = float(1 / (2 * self.parts.size)) + wider
        elif task.size is not None and task.size.noise is not None:
            variances[()] = task.size.noise.variance
        share = sizing.beta_for_answers(task.beta, task.relation) if beta is None else beta
        return _level(task.queries.domain, margins, variances, share)


def _level(
    domain: Domain, margins: Sequence[WeightedMargin], variances: Mapping[Margin, float], beta: float
) -> float:
    return draws.gaussian_mixture(
        variances=[cell_variance(domain, variances, a.margin) for a in margins],
        log_counts=[math.log(domain.cells(a.margin)) for a in margins],
        beta=beta,
    )


def _as_floats(allocation: Allocation, *, wider: float) -> dict[Margin, float]:
    variances = {
        part: float(s) + wider for part, s in zip(allocation.parts, allocation.variances, strict=True)
    }
    return {(): 0.0} | variances


def _weights(domain: Domain, margins: Sequence[WeightedMargin], per: Weighting) -> dict[Margin, float]:
    """v_A for every set below the workload."""
    totals: dict[Margin, float] = {}
    for margin, _, weight in margins:
        sizes = {name: domain[name].size for name in margin if domain[name].size > 1}
        scale = weight / math.prod(sizes.values()) ** _POWERS[per]
        for order in range(len(sizes) + 1):
            for part in combinations(sizes, order):
                share = math.prod(size - 1 if n in part else 1 / size for n, size in sizes.items())
                totals[part] = totals.get(part, 0.0) + scale * share
    return totals


def _closed_form(shifts: Sequence[Fraction], weights: Sequence[float], rho: Fraction) -> list[Fraction]:
    roots = [math.sqrt(p * v) for p, v in zip(map(float, shifts), weights, strict=True)]
    total = math.fsum(roots) / (2 * float(rho))
    return [_up(math.sqrt(float(p) / v) * total * (1 + 1e-9)) for p, v in zip(shifts, weights, strict=True)]


def _up(value: float) -> Fraction:
    return Fraction(max(1, math.ceil(value * _GRID)), _GRID)


RESIDUAL = ResidualMechanism("residual")
RESIDUAL_CELLS = ResidualMechanism("residual-cells", per="cell")
RESIDUAL_FOR_ROWS = ResidualMechanism("residual", per="fourth root", for_rows=True)
"""For `sculpt`. Against the root of the cells, and a size for which the smallest error can be stated (about a
fifth of the price): tuning half of benchmarks/families, four seeds, 14 cells 2@10 0.90 (largest error) and 0.96 (mean
L1) times, 8 cells 2@1 0.89 and 0.96; of that the size alone 0.93 and 0.95, 0.92 and 0.94."""
