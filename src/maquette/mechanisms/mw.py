"""Offline multiplicative weights with signed selection: learn the table from the signs of its largest errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.gaussian import rho_of
from maquette.mechanisms import laws, rounds, shape
from maquette.mechanisms.base import Curator, Outcome, Progress, Task
from maquette.mechanisms.rounds import Foreseen, InRounds
from maquette.models.answers import GRID, Answers
from maquette.models.linear import HistogramMap
from maquette.models.measurement import Size
from maquette.theory import multiplicative as theory

TYPICAL = 0.3
"""Largest error over the bound: 0.06 to 0.29 in simulations on random tables of 64 to 1,024 cells; the largest."""


@dataclass(frozen=True, slots=True)
class MultiplicativeWeights(InRounds):
    """T rounds: choose the query and the sign of the largest error privately, tilt the weights, average them.

    Guarantee: the task's price, through the gate; every round chooses among 2k signed errors, sensitivity 1. Nothing
        else is measured, but the number of records where it is private.
    Accuracy: sqrt(ln|X|/(2T)) + what T selections lose + one count of rounding (`theory/multiplicative.py`), for the
        average of the weights of all rounds.
    Cost: T passes over the weights and the workload; T by the bound, at most 400.
    """

    name: str = "mw"

    def _foresee(self, task: Task, *, n: float, drift: float) -> Foreseen:
        best = self._best(task, n=n)
        seconds = rounds.seconds(task, rounds=best.rounds)
        return Foreseen(best.error, TYPICAL, seconds, f"{best.rounds} rounds of signed selection")

    def _run(
        self, curator: Curator, task: Task, mapped: HistogramMap, size: Size, progress: Progress
    ) -> Outcome:
        """Answers from the average of the weights of all rounds."""
        best = self._best(task, n=size.value - laws.drift(size, task.beta))
        average = self._learn(curator, task, mapped, best.rounds, progress)
        words = f"multiplicative weights, {best.rounds} rounds of signed selection, average of the rounds"
        return rounds.finish(
            task,
            mapped,
            size,
            weights=average,
            answers=Answers.from_fractions(mapped.forward(average)),
            guarantee=rounds.stated(task, best.error, size, words),
            facts={"rounds": best.rounds, "step": self._step(task, best.rounds)},
        )

    def _learn(
        self, curator: Curator, task: Task, mapped: HistogramMap, count: int, progress: Progress
    ) -> NDArray[np.float64]:
        """The average of the weights of all rounds."""
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
        """The theorem at the price of the answers, a hair less than it so that doubles err on the safe side."""
        price = rounds.split(task).answers
        bound = (
            partial(theory.mw_pure, epsilon=float(price) * (1 - 1e-9))
            if task.unit == "epsilon"
            else partial(theory.mw_zcdp, rho=float(rho_of(price, task.unit)) * (1 - 1e-9))
        )
        return bound(
            n=n,
            log_universe=math.log(shape.universe(task.queries)),
            log_queries=math.log(task.queries.count),
            beta=laws.rest_of(task.beta, task.relation),
            rounds=count,
            rounding=1 + 2 * n / GRID,
        )


MW = MultiplicativeWeights()
