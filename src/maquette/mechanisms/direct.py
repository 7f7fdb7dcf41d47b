"""Independent noise on every answer of the workload: Laplace, L-infinity, Gaussian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from maquette.mechanisms import consistent, costs, laws, shape, trivial
from maquette.mechanisms.base import Curator, Forecast, Outcome, Progress, Task
from maquette.mechanisms.consistent import Draft
from maquette.models.measurement import Cube, Gaussian, Laplace, Noise, sigma


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
        return shape.too_many(task.queries) or consistent.refusal(task)

    def forecast(self, task: Task, *, n: int) -> Forecast:
        """The bound and the typical error before any data is touched."""
        refused = self.refusal(task)
        if refused is not None:
            return Forecast.refused(self.name, refused)
        count = max(task.queries.count, 1)
        way = consistent.route(task)
        tables = len(shape.margins_of(task.queries) or shape.classes_of(task.queries))
        time = costs.seconds(task, n=n, cells=count, tables=tables)
        rows = way != "none" and shape.gives_rows(task.queries)
        memory = costs.megabytes(task, cells=count)
        if trivial.constant(task):
            return Forecast(self.name, 0.0, 0.0, costs.START, memory, False)
        parts = self._split(task)
        level, drift = self._level(task, parts.answers), parts.drift(task)
        guaranteed = consistent.in_advance(level, drift, way, n=n)
        typical = laws.largest(
            self._law(task, parts.answers), draws=count, beta=0.5, denominator=task.queries.denominator
        )
        typical += parts.drift(task, beta=0.5)
        notes = (self._describe(self._law(task, parts.answers)), consistent.EXPECTED)
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
        beta = laws.rest_of(task.beta, task.relation)
        draft = Draft(
            counts=measured.counts,
            level=laws.largest(measured.noise, draws=count, beta=beta, denominator=denominator),
            drift=laws.drift(size, task.beta),
            size=size,
            law=self._describe(measured.noise),
            deviations=None
            if isinstance(measured.noise, Cube)
            else np.broadcast_to(sigma(measured.noise) / size.divisor, (count,)),
            parameters={"draws": count},
        )
        done = consistent.finish(task, draft)
        progress("making the answers consistent", 1.0)
        return done

    def _split(self, task: Task) -> laws.Split:
        way = consistent.route(task)
        return laws.split(
            task, lambda price: self._level(task, price), lambda e, t: consistent.stated(e, t, way)
        )

    def _law(self, task: Task, price: Fraction) -> Noise:
        return laws.drawn(
            self.ask(price, task.unit),
            shape.sensitivities(task.queries)[task.relation],
            unit=task.unit,
            denominator=task.queries.denominator,
        )

    def _level(self, task: Task, price: Fraction) -> float:
        return laws.largest(
            self._law(task, price),
            draws=task.queries.count,
            beta=laws.rest_of(task.beta, task.relation),
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


LAPLACE = Direct("laplace", lambda price, unit: Laplace(laws.pure_epsilon(price, unit)), pure=True)
CUBE = Direct("linf", lambda price, unit: Cube(laws.pure_epsilon(price, unit)), pure=True)
GAUSSIAN = Direct("gaussian", lambda price, unit: Gaussian(price), pure=False)
