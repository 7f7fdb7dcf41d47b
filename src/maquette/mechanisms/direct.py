"""Independent noise on every answer of the workload: Laplace, L-infinity, Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.binned import table_sensitivity
from maquette.core.budget import Unit
from maquette.core.laws import (
    Cube,
    Gaussian,
    IndependentLaw,
    Laplace,
    NoiseLaw,
    NoiseRequest,
    Norm,
    independent,
)
from maquette.domain import Relation
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import Curator, Forecast, Mechanism, Outcome, Prepared, Progress, Task, Traits
from maquette.mechanisms.postprocess import NoisyAnswers
from maquette.models.answers import Answers
from maquette.models.fits import answer_histogram, project_simplex
from maquette.models.histogram import HistogramModel
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals, points
from maquette.theory import direct, quantiles, ratios
from maquette.theory.quantiles import law_at

TYPICAL_SHARE = 0.2
"""Of the records that a question counts, for the part of a price that their number gets: its error counts so much."""


@dataclass(frozen=True, eq=False)
class PreparedDirect(Prepared):
    """Independent noise for one workload."""

    mechanism: Direct

    def _refuse(self) -> str | None:
        queries = self.task.queries
        if self.mechanism.counting_only and queries.denominator != 1:
            return "integer L-infinity noise needs counting queries, weights 0 or 1"
        return shape.too_many(queries) or postprocess.refusal(self.task)

    @property
    def megabytes(self) -> float:
        return postprocess.megabytes(self.task, cells=max(self.task.queries.count, 1))

    @cached_property
    def _parts(self) -> sizing.Split:
        method = postprocess.method_for(self.task)
        if self._is_one_vector:
            return sizing.split(self.task, self._level, lambda e, t: math.hypot(e, t * TYPICAL_SHARE))
        return sizing.split(self.task, self._level, lambda e, t: postprocess.error_after(e, t, method))

    @cached_property
    def _is_one_vector(self) -> bool:
        """Are the noise of an answer and that of the number of records of one kind, to be judged together?

        Not where tables are projected one by one: their bound does not grow with how far that moves them.
        """
        task, law = self.task, self._law(self.task.price)
        if sizing.size_is_public(task) or postprocess.method_for(task) == "simplex":
            return False
        return law.kind == law_at(task.price, unit=task.unit).kind and independent(law).deviation >= 1

    @property
    def judges_size_with_answers(self) -> bool:
        return not self.is_constant and self.refusal is None and self._is_one_vector

    @property
    def expected_guarantee(self) -> float | None:
        if self.is_constant or self.refusal is not None:
            return self.forecast.guaranteed
        return self._in_advance(2 * TYPICAL_SHARE)

    def _in_advance(self, share: float = 1.0) -> float:
        """The error that is guaranteed, for the lowest size that may be released and the largest share."""
        task, parts, method = self.task, self._parts, postprocess.method_for(self.task)
        level, size_error = self._level(parts.answers), parts.size_error(task)
        if self._is_one_vector:
            size = task.size.noise if task.size is not None else law_at(parts.size, unit=task.unit)
            widest = float(self._gap(independent(self._law(parts.answers)), size)(np.full(1, share))[0])
            moved = 0.0 if method == "none" or shape.distinct(task.queries) == 1 else level + size_error
            return postprocess.in_advance(widest + moved, 0.0, "none", n=math.floor(self.n - size_error))
        return postprocess.in_advance(level, size_error, method, n=self.n)

    def _gap(self, law: IndependentLaw, size: IndependentLaw | None) -> ratios.Gap:
        """How far an answer may lie from its share of the number of records, for all answers together."""
        beta, log_queries = self.task.beta, math.log(self.task.queries.count)
        if isinstance(law, Laplace) and isinstance(size, Laplace):
            return ratios.laplace_gap(
                scale=float(law.scale), size_scale=float(size.scale), beta=beta, log_queries=log_queries
            )
        assert size is not None
        return ratios.gaussian_gap(
            deviation=law.deviation, size_deviation=size.deviation, beta=beta, log_queries=log_queries
        )

    @property
    def size_price(self) -> Fraction:
        return self._parts.size

    def _foresee(self) -> Forecast:
        task, parts, count = self.task, self._parts, self.task.queries.count
        method, law = postprocess.method_for(task), self._law(parts.answers)
        tables = len(shape.margins_of(task.queries) or task.queries.classes)
        typical = quantiles.max_quantile(law, count=count, beta=0.5, denominator=task.queries.denominator)
        of_size = parts.size_error(task, beta=0.5)
        typical = math.hypot(typical, of_size * TYPICAL_SHARE) if self._is_one_vector else typical + of_size
        return Forecast(
            self.mechanism.name,
            self._in_advance(),
            min(typical / self.n, 1.0),
            postprocess.seconds(task, n=self.n, cells=count, tables=tables),
            self.megabytes,
            method != "none" and shape.gives_rows(task.queries),
            None,
            (_describe(law), postprocess.EXPECTED_NOTE),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("measuring the workload", 0.7), ("making the answers consistent", 0.3)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure every query, post-process."""
        task, parts = self.task, self._parts
        progress("measuring the workload", 0.0)
        size = sizing.released_size(curator, task, parts)
        measurement = curator.measure(task.queries, noise=self.mechanism.ask(parts.answers, task.unit))
        progress("making the answers consistent", 0.5)
        count, denominator = task.queries.count, task.queries.denominator
        beta = sizing.beta_for_answers(task.beta, task.relation)
        noisy = NoisyAnswers(
            counts=measurement.counts,
            level=quantiles.max_quantile(measurement.noise, count=count, beta=beta, denominator=denominator),
            size_error=sizing.size_error(size, task.beta),
            size=size,
            law=_describe(measurement.noise),
            deviations=np.broadcast_to(measurement.noise.deviation / size.divisor, (count,))
            if isinstance(measurement.noise, (Laplace, Gaussian))
            else None,
            parameters={"draws": count},
            gap=self._gap(independent(measurement.noise), size.noise) if self._is_one_vector else None,
        )
        done = postprocess.finish(task, noisy)
        progress("making the answers consistent", 1.0)
        return done

    def _law(self, price: Fraction) -> NoiseLaw:
        task = self.task
        return quantiles.law_of(
            self.mechanism.ask(price, task.unit),
            shape.sensitivities(task.queries)[task.relation],
            unit=task.unit,
            denominator=task.queries.denominator,
        )

    def _level(self, price: Fraction) -> float:
        task = self.task
        return quantiles.max_quantile(
            self._law(price),
            count=task.queries.count,
            beta=sizing.beta_for_answers(task.beta, task.relation),
            denominator=task.queries.denominator,
        )


@dataclass(frozen=True, slots=True)
class Direct(Mechanism):
    """Every query is measured once, with noise for the sensitivity of the whole workload.

    Guarantee: the task's price, through the gate.
    Accuracy: the exact quantile of the largest of the noise draws (`theory/draws.py`), and what post-processing can
        add (`postprocess.finish`).
    Cost: one table per margin of the workload, one draw per query.
    """

    prepared_by = PreparedDirect
    name: str
    ask: Callable[[Fraction, Unit], NoiseRequest]
    """The noise that a price buys, by the unit of the price."""
    traits: Traits = Traits()
    counting_only: bool = False
    """Are queries with weights other than 0 and 1 refused?"""


def _describe(noise: NoiseLaw) -> str:
    match noise:
        case Laplace(scale=scale):
            return f"discrete Laplace noise of scale {float(scale):.4g} counts on every answer"
        case Cube() | Norm():
            return f"integer {noise.name} noise at epsilon {float(noise.epsilon):.4g}"
        case Gaussian():
            return f"discrete Gaussian noise of deviation {noise.deviation:.4g} counts on every answer"


LAPLACE = Direct("laplace", lambda price, unit: NoiseRequest("laplace", unit.pure_epsilon(price)))
CUBE = Direct("linf", lambda price, unit: NoiseRequest("cube", unit.pure_epsilon(price)), counting_only=True)
GAUSSIAN = Direct(
    "gaussian", lambda price, unit: NoiseRequest("gaussian", price), Traits(needs_delta=True, gaussian=True)
)


# One noisy histogram over the attributes that the queries look at; every answer is read from it.


@dataclass(frozen=True, eq=False)
class PreparedHistogram(Prepared):
    """A noisy histogram for one workload."""

    mechanism: Histogram

    def _refuse(self) -> str | None:
        task = self.task
        if not shape.holds_histogram(task.queries):
            return (
                f"the queries look at {shape.universe(task.queries):,} cells, more than a histogram may have "
                f"({shape.LARGEST_HISTOGRAM:,})"
            )
        if task.post == "lp":
            return "a histogram needs no linear program; use post='auto' or 'none'"
        return shape.too_many(task.queries)

    @property
    def megabytes(self) -> float:
        return postprocess.holding(shape.universe(self.task.queries) + self.task.queries.count)

    @cached_property
    def _parts(self) -> sizing.Split:
        method = _way(self.task)
        return sizing.split(
            self.task,
            lambda price: self._level(self._law(price), self._beta),
            lambda e, t: postprocess.error_after(e, t, method),
        )

    @property
    def size_price(self) -> Fraction:
        return self._parts.size

    def _foresee(self) -> Forecast:
        task, parts, n = self.task, self._parts, self.n
        cells, law = shape.universe(task.queries), self._law(parts.answers)
        typical = self._level(law, 0.5) + parts.size_error(task, beta=0.5)
        return Forecast(
            self.mechanism.name,
            postprocess.in_advance(self._level(law, self._beta), parts.size_error(task), _way(task), n=n),
            min(typical / n, 1.0),
            postprocess.measuring(n=n, cells=cells, tables=1, answers=cells + task.queries.count),
            self.megabytes,
            True,
            None,
            (_describe_cells(law), postprocess.EXPECTED_NOTE),
        )

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("measuring the histogram", 0.5), ("answering from the histogram", 0.5)

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure every cell, project, make rows."""
        task, parts = self.task, self._parts
        progress("measuring the histogram", 0.0)
        size = sizing.released_size(curator, task, parts)
        measurement = curator.measure(self._cells, noise=self.mechanism.ask(parts.answers, task.unit))
        progress("answering from the histogram", 0.5)
        model = HistogramModel.from_noisy(
            task.queries.domain,
            task.queries.attributes,
            measurement.values,
            independent(measurement.noise),
            size,
        )
        done = self._release(model)
        progress("answering from the histogram", 1.0)
        return done

    def _release(self, model: HistogramModel) -> Outcome:
        task, size, queries = self.task, model.size, self.task.queries
        level = self._level(model.noise, self._beta)
        size_error = sizing.size_error(size, task.beta)
        unbiased = np.clip(answer_histogram(queries, model.cells), 0.0, size.divisor)
        projected = project_simplex(model.cells, total=float(size.divisor))
        values, shift = unbiased, 0.0
        if task.post != "none":
            smooth = answer_histogram(queries, projected)
            away = float(np.abs(smooth - unbiased).max())
            if away <= level + size_error:
                values, shift = smooth, away
        answers = Answers.from_fractions(values / size.divisor)
        rows, facts = postprocess.make_rows(
            task,
            projected,
            size,
            answers,
            lambda counts: answer_histogram(queries, counts.reshape(model.cells.shape)),
        )
        how = "projected to non-negative cells" if shift else "unbiased, clipped to [0, 1]"
        return Outcome(
            answers=answers,
            database=rows,
            size=size,
            guarantee=postprocess.guarantee(
                direct.shifted_error(noise=level, shift=shift, size_error=size_error),
                size,
                task.beta,
                f"{_describe_cells(model.noise)}; {how}",
            ),
            deviations=_deviations(task, model),
            parameters={
                "cells": model.cells.size,
                "noise_level_counts": level,
                "size_drift_counts": size_error,
                "moved_counts": shift,
            }
            | facts,
            model=model,
        )

    @property
    def _cells(self) -> Marginals:
        return points(self.task.queries.domain, self.task.queries.attributes)

    @property
    def _beta(self) -> float:
        return sizing.beta_for_answers(self.task.beta, self.task.relation)

    def _law(self, price: Fraction) -> IndependentLaw:
        task = self.task
        request = self.mechanism.ask(price, task.unit)
        return independent(quantiles.law_of(request, self._cells.sensitivity(task.relation), unit=task.unit))

    def _level(self, noise: IndependentLaw, beta: float) -> float:
        """The largest noise of any answer, in counts, the size being exact."""
        queries = self.task.queries
        profile = shape.profile(queries)
        return quantiles.histogram_quantile(
            noise,
            universe=shape.universe(queries),
            cells=profile.cells,
            counts=profile.counts,
            distinct=shape.distinct(queries),
            beta=beta,
        )


@dataclass(frozen=True, slots=True)
class Histogram(Mechanism):
    """Measure every cell of the universe of the queries, set the total to the released size, answer from that.

    Guarantee: the task's price, through the gate; one record moves one cell (two under replace-one).
    Accuracy: `theory/direct.py`: Chernoff over the cells that each query counts. Answers of the histogram
        projected to non-negative cells are released if they stay within that level of the unbiased ones.
    Cost: one draw per cell; up to 2^22 cells.
    """

    prepared_by = PreparedHistogram
    name: str
    ask: Callable[[Fraction, Unit], NoiseRequest]
    traits: Traits = Traits()

    def l2_shift(self, queries: Queries, relation: Relation) -> Fraction:
        """One record moves one cell, two where it is replaced."""
        return Fraction(table_sensitivity(relation))


def _describe_cells(noise: IndependentLaw) -> str:
    return (
        f"discrete {noise.name} noise of deviation {noise.deviation:.4g} counts in every cell of the universe"
    )


def _way(task: Task) -> str:
    return "none" if task.post == "none" else "l2"


def _deviations(task: Task, model: HistogramModel) -> NDArray[np.floating[Any]] | None:
    """Of every answer before the projection, as a fraction; not stated for fractional weights."""
    if task.queries.denominator != 1:
        return None
    share = shape.query_cells(task.queries) / model.cells.size
    variance = model.noise.variance * model.cells.size * share * (1 - share)
    if model.size.noise is not None:
        variance = variance + share**2 * model.size.noise.variance
    return np.sqrt(variance) / model.size.divisor


HISTOGRAM_LAPLACE = Histogram(
    "histogram-laplace", lambda price, unit: NoiseRequest("laplace", unit.pure_epsilon(price))
)
HISTOGRAM_GAUSSIAN = Histogram(
    "histogram-gaussian",
    lambda price, unit: NoiseRequest("gaussian", price),
    Traits(needs_delta=True, gaussian=True),
)
