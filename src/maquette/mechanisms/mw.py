"""Offline multiplicative weights with signed selection: learn the table from the signs of its largest errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.errors import MechanismError
from maquette.mechanisms import consistent, costs, laws, rounds, shape, trivial
from maquette.mechanisms.base import Curator, Forecast, Guarantee, Outcome, Progress, Task
from maquette.models.answers import GRID, Answers, SmallDatabase
from maquette.models.linear import histogram_map
from maquette.models.measurement import Size
from maquette.theory import multiplicative as theory

TYPICAL = 0.3
"""Largest error over the bound: 0.06 to 0.29 in simulations on random tables of 64 to 1,024 cells; the largest."""


@dataclass(frozen=True, slots=True)
class MultiplicativeWeights:
    """T rounds: choose the query and the sign of the largest error privately, tilt the weights, average them.

    Guarantee: the task's price, through the gate; every round chooses among 2k signed errors, sensitivity 1. Nothing
        else is measured, but the number of records where it is private.
    Accuracy: sqrt(ln|X|/(2T)) + what T selections lose + one count of rounding (`theory/multiplicative.py`), for the
        average of the weights of all rounds.
    Cost: T passes over the weights and the workload; T by the bound, at most 400.
    """

    name: str = "mw"
    fixed: int | None = None
    """So many rounds; None takes those with the smallest bound."""

    def __post_init__(self) -> None:
        if self.fixed is not None:
            _check.whole(rounds=self.fixed)

    def refusal(self, task: Task) -> str | None:
        """Why it cannot run, or None."""
        return rounds.refusal(task, name=self.name)

    def forecast(self, task: Task, *, n: int) -> Forecast:
        """The bound and the typical error before any data is touched."""
        refused = self.refusal(task)
        if refused is not None:
            return Forecast(self.name, None, None, 0.0, 0.0, False, refused)
        memory = costs.holding(shape.universe(task.queries) + task.queries.count)
        if trivial.constant(task):
            return Forecast(self.name, 0.0, 0.0, costs.START, memory, False)
        parts = rounds.split(task)
        # the released size may lie a drift below n, and the true one is only known to lie a drift below that
        best = self._best(task, n=n - 2 * parts.drift(task))
        return Forecast(
            self.name,
            min(1.0, best.error),
            1.0 if best.error >= 1 else best.error * TYPICAL,
            rounds.seconds(task, rounds=best.rounds),
            memory,
            shape.rows_cover(task.queries),
            None,
            (f"{best.rounds} rounds of signed selection", "expected: from simulation, no promise"),
        )

    def run(self, curator: Curator, task: Task, *, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, learn for T rounds, answer from the average of the weights."""
        if trivial.constant(task):
            return trivial.constant_outcome(curator, task)
        refused = self.refusal(task)
        if refused is not None:
            raise MechanismError(f"mechanism '{self.name}' cannot do this: {refused}")
        size = curator.size(price=rounds.split(task).size)
        best = self._best(task, n=size.value - laws.drift(size, task.beta))
        average = self._learn(curator, task, best.rounds, progress)
        mapped = histogram_map(task.queries)
        assert mapped is not None
        answers = Answers.from_fractions(mapped.forward(average))
        made: SmallDatabase | None = None
        facts: dict[str, Any] = {"rounds": best.rounds, "step": self._step(task, best.rounds)}
        if shape.rows_cover(task.queries):
            made, more = consistent.make_rows(task, average * size.divisor, size, answers, mapped.forward)
            facts |= more
        return Outcome(
            answers=answers,
            database=made,
            size=size,
            guarantee=self._guarantee(task, best, size),
            parameters=facts,
            notes=() if made is not None else (consistent.PARTIAL_ROWS,),
        )

    def _learn(self, curator: Curator, task: Task, count: int, progress: Progress) -> NDArray[np.float64]:
        """The average of the weights of all rounds."""
        mapped = histogram_map(task.queries)
        assert mapped is not None
        price, step = rounds.split(task).answers / count, self._step(task, count)
        logs, total = np.zeros(mapped.shape), np.zeros(mapped.shape)
        for done in range(count):
            progress("learning from the largest errors", done / count)
            now = np.exp(logs - logs.max())
            now /= now.sum()
            total += now
            answers = Answers.from_fractions(mapped.forward(now))
            chosen = curator.select(task.queries, answers, price=price, signed=True)
            below = chosen >= task.queries.count
            index = chosen - task.queries.count if below else chosen
            logs += (-step if below else step) * rounds.row_of(mapped, index)
        progress("learning from the largest errors", 1.0)
        return total / count

    def _step(self, task: Task, count: int) -> float:
        return theory.step_size(log_universe=math.log(shape.universe(task.queries)), rounds=count)

    def _best(self, task: Task, *, n: float) -> theory.Best:
        """The rounds by the bound at a size that the table surely has; one where nothing can be said."""
        if n < 1:
            return theory.Best(self.fixed or 1, 1.0)
        if self.fixed is not None:
            return theory.Best(self.fixed, self._bound(task, self.fixed, n=n))
        return theory.best_rounds(lambda t: self._bound(task, t, n=n), most=rounds.most(task))

    def _bound(self, task: Task, count: int, *, n: float) -> float:
        epsilon = rounds.epsilon_of(rounds.split(task).answers / count, task.unit)
        lost = theory.selection(
            epsilon=epsilon,
            log_candidates=math.log(2 * task.queries.count),
            rounds=count,
            beta=laws.rest_of(task.beta, task.relation),
        )
        learnt = theory.learning(log_universe=math.log(shape.universe(task.queries)), rounds=count)
        return learnt + (lost + 1) / n + 2 / GRID

    def _guarantee(self, task: Task, best: theory.Best, size: Size) -> Guarantee:
        words = f"multiplicative weights, {best.rounds} rounds of signed selection, average of the rounds"
        if best.error >= 1 or size.value < 1:
            return Guarantee(1.0, task.beta, f"vacuous: {words}")
        return Guarantee(best.error, task.beta, words)


MW = MultiplicativeWeights()
