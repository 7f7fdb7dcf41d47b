"""Independent noise on every answer of the workload: Laplace, L-infinity, Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms import postprocess as consistent
from maquette.mechanisms import postprocess as costs
from maquette.mechanisms import shape as trivial
from maquette.mechanisms.base import Curator, Forecast, Outcome, Progress, Task
from maquette.mechanisms.postprocess import Draft
from maquette.models.answers import Answers
from maquette.models.fits import answer_histogram, project_simplex
from maquette.models.histogram import HistogramModel, variance_of
from maquette.queries.marginals import Marginals, points
from maquette.questions.measurement import Cube, Gaussian, Laplace, Noise, sigma
from maquette.theory import direct


@dataclass(frozen=True, slots=True)
class Direct:
    """Every query is measured once, with noise for the sensitivity of the whole workload.

    Guarantee: the task's price, through the gate.
    Accuracy: the exact quantile of the largest of the noise draws (`theory/laplace.py`, `gaussian.py`, `cube.py`),
        and what post-processing can add (`consistent.finish`).
    Cost: one table per margin of the workload, one draw per query.
    """

    name: str
    ask: Callable[[Fraction, str], Noise]
    """The noise that a price buys, by the unit of the price."""
    pure: bool

    def refusal(self, task: Task) -> str | None:
        """Why it cannot run, or None."""
        if task.unit == "epsilon" and not self.pure:
            return "Gaussian noise needs a delta above 0"
        if self.name == "linf" and task.queries.denominator != 1:
            return "integer L-infinity noise needs counting queries, weights 0 or 1"
        return shape.too_many(task.queries) or postprocess.refusal(task)

    def forecast(self, task: Task, *, n: int) -> Forecast:
        """The bound and the typical error before any data is touched."""
        refused = self.refusal(task)
        if refused is not None:
            return Forecast.refused(self.name, refused)
        count = max(task.queries.count, 1)
        way = postprocess.route(task)
        tables = len(shape.margins_of(task.queries) or task.queries.classes)
        time = postprocess.seconds(task, n=n, cells=count, tables=tables)
        rows = way != "none" and shape.gives_rows(task.queries)
        memory = postprocess.megabytes(task, cells=count)
        if trivial.constant(task):
            return Forecast(self.name, 0.0, 0.0, postprocess.START, memory, False)
        parts = self._split(task)
        level, drift = self._level(task, parts.answers), parts.drift(task)
        guaranteed = postprocess.in_advance(level, drift, way, n=n)
        typical = sizing.largest(
            self._law(task, parts.answers), draws=count, beta=0.5, denominator=task.queries.denominator
        )
        typical += parts.drift(task, beta=0.5)
        notes = (self._describe(self._law(task, parts.answers)), postprocess.EXPECTED)
        return Forecast(self.name, guaranteed, min(typical / n, 1.0), time, memory, rows, None, notes)

    def run(self, curator: Curator, task: Task, *, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure every query, post-process."""
        done = trivial.opening(self, curator, task)
        if done is not None:
            return done
        parts = self._split(task)
        progress("measuring the workload", 0.0)
        size = curator.size(price=parts.size)
        measured = curator.measure(task.queries, noise=self.ask(parts.answers, task.unit))
        progress("making the answers consistent", 0.5)
        count, denominator = task.queries.count, task.queries.denominator
        beta = sizing.rest_of(task.beta, task.relation)
        draft = Draft(
            counts=measured.counts,
            level=sizing.largest(measured.noise, draws=count, beta=beta, denominator=denominator),
            drift=sizing.drift(size, task.beta),
            size=size,
            law=self._describe(measured.noise),
            deviations=None
            if isinstance(measured.noise, Cube)
            else np.broadcast_to(sigma(measured.noise) / size.divisor, (count,)),
            parameters={"draws": count},
        )
        done = postprocess.finish(task, draft)
        progress("making the answers consistent", 1.0)
        return done

    def _split(self, task: Task) -> sizing.Split:
        way = postprocess.route(task)
        return sizing.split(
            task, lambda price: self._level(task, price), lambda e, t: postprocess.stated(e, t, way)
        )

    def _law(self, task: Task, price: Fraction) -> Noise:
        return sizing.drawn(
            self.ask(price, task.unit),
            shape.sensitivities(task.queries)[task.relation],
            unit=task.unit,
            denominator=task.queries.denominator,
        )

    def _level(self, task: Task, price: Fraction) -> float:
        return sizing.largest(
            self._law(task, price),
            draws=task.queries.count,
            beta=sizing.rest_of(task.beta, task.relation),
            denominator=task.queries.denominator,
        )

    def _describe(self, noise: Noise) -> str:
        match noise:
            case Laplace(scale=scale) if scale is not None:
                return f"discrete Laplace noise of scale {float(scale):.4g} counts on every answer"
            case Gaussian():
                return f"discrete Gaussian noise of deviation {sigma(noise):.4g} counts on every answer"
            case _:
                return f"integer L-infinity noise at epsilon {float(noise_epsilon(noise)):.4g}"


def noise_epsilon(noise: Noise) -> Fraction:
    """The pure price in a request for noise."""
    assert not isinstance(noise, Gaussian)
    return noise.epsilon


LAPLACE = Direct("laplace", lambda price, unit: Laplace(sizing.pure_epsilon(price, unit)), pure=True)
CUBE = Direct("linf", lambda price, unit: Cube(sizing.pure_epsilon(price, unit)), pure=True)
GAUSSIAN = Direct("gaussian", lambda price, unit: Gaussian(price), pure=False)


# One noisy histogram over the attributes that the queries look at; every answer is read from it.


@dataclass(frozen=True, slots=True)
class Histogram:
    """Measure every cell of the universe of the queries, set the total to the released size, answer from that.

    Guarantee: the task's price, through the gate; one record moves one cell (two under replace-one).
    Accuracy: `theory/histogram.py`: Chernoff over the cells that each query counts. Answers of the histogram
        projected to non-negative cells are released if they stay within that level of the unbiased ones.
    Cost: one draw per cell; up to 2^22 cells.
    """

    name: str
    ask: Callable[[Fraction, str], Noise]
    pure: bool

    def refusal(self, task: Task) -> str | None:
        """Why it cannot run, or None."""
        if task.unit == "epsilon" and not self.pure:
            return "Gaussian noise needs a delta above 0"
        if not shape.holds_histogram(task.queries):
            return (
                f"the queries look at {shape.universe(task.queries):,} cells, more than a histogram may have "
                f"({shape.LARGEST_HISTOGRAM:,})"
            )
        if task.post == "lp":
            return "a histogram needs no linear program; use post='auto' or 'none'"
        return shape.too_many(task.queries)

    def forecast(self, task: Task, *, n: int) -> Forecast:
        """The bound and the typical error before any data is touched."""
        refused = self.refusal(task)
        if refused is not None:
            return Forecast.refused(self.name, refused)
        cells = shape.universe(task.queries)
        count = task.queries.count
        time = costs.measuring(n=n, cells=cells, tables=1, answers=cells + count)
        memory = costs.holding(cells + count)
        if trivial.constant(task):
            return Forecast(self.name, 0.0, 0.0, costs.START, memory, False)
        parts = self._split(task)
        level, drift = self._planned(task, parts.answers, self._beta(task)), parts.drift(task)
        typical = self._planned(task, parts.answers, 0.5) + parts.drift(task, beta=0.5)
        notes = (self._describe(self._law(task, parts.answers)), consistent.EXPECTED)
        guaranteed = consistent.in_advance(level, drift, _way(task), n=n)
        return Forecast(
            self.name,
            guaranteed,
            min(typical / n, 1.0),
            time,
            memory,
            True,
            None,
            notes,
        )

    def run(self, curator: Curator, task: Task, *, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, measure every cell, project, make rows."""
        done = trivial.opening(self, curator, task)
        if done is not None:
            return done
        parts = self._split(task)
        progress("measuring the histogram", 0.0)
        size = curator.size(price=parts.size)
        measured = curator.measure(self._cells(task), noise=self.ask(parts.answers, task.unit))
        progress("answering from the histogram", 0.5)
        model = HistogramModel.from_noisy(
            task.queries.domain, task.queries.attributes, measured.values, measured.noise, size
        )
        done = self._release(task, model)
        progress("answering from the histogram", 1.0)
        return done

    def _release(self, task: Task, model: HistogramModel) -> Outcome:
        size, queries = model.size, task.queries
        level = self._level(task, model.noise, self._beta(task))
        drift = sizing.drift(size, task.beta)
        unbiased = np.clip(answer_histogram(queries, model.cells), 0.0, size.divisor)
        projected = project_simplex(model.cells, total=float(size.divisor))
        values, moved = unbiased, 0.0
        if task.post != "none":
            smooth = answer_histogram(queries, projected)
            away = float(np.abs(smooth - unbiased).max())
            if away <= level + drift:
                values, moved = smooth, away
        answers = Answers.from_fractions(values / size.divisor)
        rows, facts = consistent.make_rows(
            task,
            projected,
            size,
            answers,
            lambda counts: answer_histogram(queries, counts.reshape(model.cells.shape)),
        )
        how = "projected to non-negative cells" if moved else "unbiased, clipped to [0, 1]"
        return Outcome(
            answers=answers,
            database=rows,
            size=size,
            guarantee=consistent.guarantee(
                direct.shifted_error(noise=level, shift=moved, drift=drift),
                size,
                task.beta,
                f"{self._describe(model.noise)}; {how}",
            ),
            deviations=_deviations(task, model),
            parameters={
                "cells": model.cells.size,
                "noise_level_counts": level,
                "size_drift_counts": drift,
                "moved_counts": moved,
            }
            | facts,
            model=model,
        )

    def _split(self, task: Task) -> sizing.Split:
        return sizing.split(
            task,
            lambda price: self._planned(task, price, self._beta(task)),
            lambda e, t: consistent.stated(e, t, _way(task)),
        )

    def _cells(self, task: Task) -> Marginals:
        return points(task.queries.domain, task.queries.attributes)

    def _beta(self, task: Task) -> float:
        return sizing.rest_of(task.beta, task.relation)

    def _law(self, task: Task, price: Fraction) -> Noise:
        return sizing.drawn(
            self.ask(price, task.unit), self._cells(task).sensitivity(task.relation), unit=task.unit
        )

    def _planned(self, task: Task, price: Fraction, beta: float) -> float:
        return self._level(task, self._law(task, price), beta)

    def _level(self, task: Task, noise: Noise, beta: float) -> float:
        """The largest noise of any answer, in counts, the size being exact."""
        found = shape.profile(task.queries)
        cells = shape.universe(task.queries)
        match noise:
            case Laplace(scale=scale) if scale is not None:
                return direct.histogram_discrete_laplace(
                    scale=float(scale),
                    universe=cells,
                    cells=found.cells,
                    log_queries=math.log(max(shape.distinct(task.queries), 1)),
                    beta=beta,
                )
            case _:
                return direct.histogram_gaussian_max(
                    sigma=sigma(noise), universe=cells, cells=found.cells, counts=found.counts, beta=beta
                )

    def _describe(self, noise: Noise) -> str:
        kind = "Laplace" if isinstance(noise, Laplace) else "Gaussian"
        return f"discrete {kind} noise of deviation {sigma(noise):.4g} counts in every cell of the universe"


def _way(task: Task) -> str:
    return "none" if task.post == "none" else "l2"


def _deviations(task: Task, model: HistogramModel) -> NDArray[np.floating[Any]] | None:
    """Of every answer before the projection, as a fraction; not stated for fractional weights."""
    if task.queries.denominator != 1:
        return None
    share = shape.query_cells(task.queries) / model.cells.size
    variance = variance_of(model.noise) * model.cells.size * share * (1 - share)
    if model.size.noise is not None:
        variance = variance + share**2 * variance_of(model.size.noise)
    return np.sqrt(variance) / model.size.divisor


HISTOGRAM_LAPLACE = Histogram(
    "histogram-laplace", lambda price, unit: Laplace(sizing.pure_epsilon(price, unit)), pure=True
)
HISTOGRAM_GAUSSIAN = Histogram("histogram-gaussian", lambda price, unit: Gaussian(price), pure=False)
