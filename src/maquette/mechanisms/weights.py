"""MWEM (Hardt, Ligett and McSherry 2012) with replay: choose the worst query, measure it, fit all that was measured.

What is proved. In round t the hypothesis h_t is scored, a query is chosen and measured; W bounds the error of
the measured fraction. Every update is an I-projection to a measured value shrunk by W towards the hypothesis, and
replays are more of the same, so that none raises the relative entropy to the table; the first one of round t lowers
it by 2 (g_t - W)^2, g_t the measured gap. From ln|X| down that can happen only so often: some g_t is at most
W + sqrt(ln|X| / (2T)). And the largest error of h_t is at most g_t + W + what the selection lost. So the round with
the smallest measured gap, which is public, has the theorem's error in advance, and a smaller one afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.core.answers import GRID
from maquette.core.laws import IndependentLaw, NoiseRequest, independent
from maquette.core.measurement import Size
from maquette.mechanisms import rounds, shape, sizing
from maquette.mechanisms.base import Curator, Outcome, Progress, Task
from maquette.mechanisms.rounds import InRounds, Outlook, PreparedRounds
from maquette.models.answers import Answers
from maquette.models.dense import Dense, Target
from maquette.models.fits import HistogramMap
from maquette.models.hypothesis import Released
from maquette.theory import multiplicative as theory
from maquette.theory import quantiles
from maquette.theory.quantiles import law_near

SHARES = tuple(Fraction(share, 10) for share in (4, 5, 6))
"""Parts of the price that selection may get."""
MWEM_TYPICAL = 0.2
"""Largest error over the bound: 0.05 to 0.16 in simulations on random tables of 64 to 1,024 cells; a little more."""
_REPLAYS = 5


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a price is spent, and what is then true."""

    rounds: int
    share: Fraction
    error: float
    selection: float
    """What choosing loses in any round, in counts, rounding included."""
    width: float
    """What no measurement is off by, in counts, the number of records aside."""


@dataclass(frozen=True, slots=True, eq=False)
class _Learnt:
    """Where the rounds ended, and the round that the bound is about."""

    answers: NDArray[np.float64]
    """Of the hypothesis with the smallest measured gap."""
    weights: NDArray[np.float64]
    gap: float
    """Its largest error but for what the selection lost, as a fraction of the released size."""
    released: tuple[Released, ...]


@dataclass(frozen=True, eq=False)
class PreparedMwem(PreparedRounds):
    """MWEM for one workload."""

    def _outlook(self, *, n: float, size_error: float) -> Outlook:
        plan = self._plan(n=n, size_error=size_error)
        note = f"{plan.rounds} rounds, {float(plan.share):.0%} of the price on choosing"
        seconds = rounds.seconds(self.task, rounds=plan.rounds) + _replaying(self.task, plan.rounds)
        return Outlook(plan.error, MWEM_TYPICAL, seconds, note)

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return ("choosing and measuring", 0.6), ("fitting all measurements", 0.4)

    def _learn_and_answer(
        self, curator: Curator, mapped: HistogramMap, size: Size, progress: Progress
    ) -> Outcome:
        """Answers from a fit to all that was measured."""
        size_error = sizing.size_error(size, self.task.beta)
        least = size.value - size_error
        plan = self._plan(n=least, size_error=size_error)
        learnt = self._learn(curator, mapped, plan, size, size_error, progress)
        progress("fitting all measurements", 0.0)
        return self._release(mapped, plan, learnt, size, least)

    def _learn(
        self,
        curator: Curator,
        mapped: HistogramMap,
        plan: _Plan,
        size: Size,
        size_error: float,
        progress: Progress,
    ) -> _Learnt:
        task, price = self.task, self.parts.answers
        choosing = price * plan.share / plan.rounds
        measuring = NoiseRequest.at((price - price * plan.share) / plan.rounds, task.unit)
        now = Dense.uniform(task.queries.domain, task.queries.attributes)
        targets: list[Target] = []
        released: list[Released] = []
        best: tuple[float, NDArray[np.float64], NDArray[np.float64]] | None = None
        for done in range(plan.rounds):
            progress("choosing and measuring", done / plan.rounds)
            weights = now.weights
            answers = Answers.from_fractions(mapped.forward(weights))
            index = curator.select(task.queries, answers, price=choosing)
            query = rounds.single(task.queries, mapped, index)
            if query.distinct() == 0:  # constant: known without measuring, so only the selection is in doubt
                best = (0.0, answers.fractions, weights)
                continue
            measurement = curator.measure(query, noise=measuring)
            value = min(max(float(measurement.counts[0]) / size.divisor, 0.0), 1.0)
            noise = independent(measurement.noise)
            width = (self._width(noise, plan.rounds) + size_error) / size.divisor
            reached = abs(value - float(answers.fractions[index])) + width
            if best is None or reached < best[0]:
                best = (reached, answers.fractions, weights)
            targets.append(Target(query, value, width))
            released.append(Released(query, value, noise.deviation / size.divisor))
            # newest first: its projection is the one that the bound counts on
            now = now.project(targets[::-1], passes=_REPLAYS)
        assert best is not None
        return _Learnt(best[1], best[2], best[0], tuple(released))

    def _release(
        self, mapped: HistogramMap, plan: _Plan, learnt: _Learnt, size: Size, least: float
    ) -> Outcome:
        task = self.task
        start = Dense.uniform(task.queries.domain, task.queries.attributes)
        weights = start.refit(learnt.released).weights
        fit_answers = np.clip(mapped.forward(weights), 0.0, 1.0)
        shift = float(np.abs(fit_answers - learnt.answers).max())
        # fractions of the released size on one side, of a size that the table surely has on the other
        proved = theory.mwem_afterwards(n=max(least, 1.0), gap=learnt.gap + 1 / GRID, lost=plan.selection)
        if proved + shift > plan.error:
            weights, fit_answers, shift = learnt.weights, learnt.answers, 0.0
        kind = "a fit to all measurements" if shift > 0 else "the hypothesis with the smallest measured gap"
        words = f"MWEM with replay, {plan.rounds} rounds; {kind}"
        return rounds.finish(
            task,
            mapped,
            size,
            weights=weights,
            answers=Answers.from_fractions(fit_answers),
            guarantee=rounds.guarantee_or_none(task, min(proved + shift, plan.error), size, words),
            facts={
                "rounds": plan.rounds,
                "share of selection": str(plan.share),
                "smallest measured gap and its width": learnt.gap,
                "moved by the fit": shift,
            },
        )

    def _plan(self, *, n: float, size_error: float) -> _Plan:
        """Rounds and share by the bound at a size that the table surely has. Public or released numbers only."""
        plans = [self._best(share, n=n, size_error=size_error) for share in SHARES]
        return min(plans, key=lambda plan: plan.error)

    def _best(self, share: Fraction, *, n: float, size_error: float) -> _Plan:
        task, fixed = self.task, self.mechanism.fixed
        if n < 1:
            count = fixed or 1
            return _Plan(count, share, 1.0, *self._lost(share, count))

        def error(count: int) -> float:
            selection, width = self._lost(share, count)
            return theory.mwem(
                n=n,
                log_universe=math.log(shape.universe(task.queries)),
                rounds=count,
                lost=selection,
                width=width + size_error + 2 * n / GRID,
            )

        count = fixed or theory.best_rounds(error, most=rounds.most(task)).rounds
        return _Plan(count, share, error(count), *self._lost(share, count))

    def _lost(self, share: Fraction, count: int) -> tuple[float, float]:
        """What selection loses and what no measurement is off by, in counts; in doubles, since it is asked often."""
        task = self.task
        price = float(self.parts.answers) * (1 - 1e-9) / count
        choosing, measuring = price * float(share), price * (1 - float(share))
        bounded = math.sqrt(8 * choosing * float(task.unit.rho(Fraction(1))))
        lost = theory.selection(
            epsilon=choosing if task.unit.is_pure else bounded,
            log_candidates=math.log(task.queries.count),
            rounds=count,
            beta=sizing.beta_for_answers(task.beta, task.relation) / 2,
        )
        return lost + 1, self._width(law_near(measuring, unit=task.unit), count)

    def _width(self, law: IndependentLaw, count: int) -> float:
        """What no measurement is off by; a 0/1 query of a workload with fractional weights is measured in counts."""
        beta = sizing.beta_for_answers(self.task.beta, self.task.relation) / 2
        return quantiles.max_quantile_on_grids(
            law, count=count, beta=beta, denominator=self.task.queries.denominator
        )


@dataclass(frozen=True, slots=True)
class Mwem(InRounds):
    """T rounds of choose, measure, project; released are the answers of a fit to all measurements.

    Guarantee: the task's price, through the gate: T choices of sensitivity 1 and T measured queries.
    Accuracy: sqrt(ln|X|/(2T)) + selection + 2W in advance; afterwards the smallest measured gap + W + selection, plus
        how far the released fit lies from the hypothesis of that round. The fit is released only where that is
        within the bound in advance.
    Cost: T rounds with a few replays of all measured queries; T by the bound, at most 400.
    """

    prepared_by = PreparedMwem
    tables: ClassVar[int] = 3
    name: str = "mwem"


def _replaying(task: Task, count: int) -> float:
    """Seconds: every round visits every earlier query a few times."""
    visit = 2.5e-5 + shape.universe(task.queries) / 1e9
    return _REPLAYS * count**2 / 2 * visit


MWEM = Mwem()


# Offline multiplicative weights with signed selection: learn the table from the signs of its largest errors.

MW_TYPICAL = 0.3
"""Largest error over the bound: 0.06 to 0.29 in simulations on random tables of 64 to 1,024 cells; the largest."""


@dataclass(frozen=True, eq=False)
class PreparedWeights(PreparedRounds):
    """Multiplicative weights for one workload."""

    def _outlook(self, *, n: float, size_error: float) -> Outlook:
        best = self._best(n=n)
        seconds = rounds.seconds(self.task, rounds=best.rounds)
        return Outlook(best.error, MW_TYPICAL, seconds, f"{best.rounds} rounds of signed selection")

    @property
    def stage_parts(self) -> tuple[tuple[str, float], ...]:
        return (("learning from the largest errors", 1.0),)

    def _learn_and_answer(
        self, curator: Curator, mapped: HistogramMap, size: Size, progress: Progress
    ) -> Outcome:
        """Answers from the average of the weights of all rounds."""
        task = self.task
        best = self._best(n=size.value - sizing.size_error(size, task.beta))
        average = self._learn(curator, mapped, best.rounds, progress)
        words = f"multiplicative weights, {best.rounds} rounds of signed selection, average of the rounds"
        return rounds.finish(
            task,
            mapped,
            size,
            weights=average,
            answers=Answers.from_fractions(mapped.forward(average)),
            guarantee=rounds.guarantee_or_none(task, best.error, size, words),
            facts={"rounds": best.rounds, "step": self._step(best.rounds)},
        )

    def _learn(
        self, curator: Curator, mapped: HistogramMap, count: int, progress: Progress
    ) -> NDArray[np.float64]:
        """The average of the weights of all rounds."""
        queries = self.task.queries
        price, step = self.parts.answers / count, self._step(count)
        logs, total = np.zeros(mapped.shape), np.zeros(mapped.shape)
        for done in range(count):
            progress("learning from the largest errors", done / count)
            now = np.exp(logs - logs.max())
            now /= now.sum()
            total += now
            answers = Answers.from_fractions(mapped.forward(now))
            chosen = curator.select(queries, answers, price=price, signed=True)
            below = chosen >= queries.count
            index = chosen - queries.count if below else chosen
            logs += (-step if below else step) * rounds.row_of(mapped, index)
        progress("learning from the largest errors", 1.0)
        return total / count

    @cached_property
    def _log_universe(self) -> float:
        return math.log(shape.universe(self.task.queries))

    def _step(self, count: int) -> float:
        return theory.step_size(log_universe=self._log_universe, rounds=count)

    def _best(self, *, n: float) -> theory.Best:
        """The rounds by the bound at a size that the table surely has; one where nothing can be said."""
        fixed = self.mechanism.fixed
        if n < 1:
            return theory.Best(fixed or 1, 1.0)
        if fixed is not None:
            return theory.Best(fixed, self._bound(fixed, n=n))
        return theory.best_rounds(lambda t: self._bound(t, n=n), most=rounds.most(self.task))

    def _bound(self, count: int, *, n: float) -> float:
        """The theorem at the price of the answers, a hair less than it so that doubles err on the safe side."""
        task, price = self.task, self.parts.answers
        bound = (
            partial(theory.mw_pure, epsilon=float(price) * (1 - 1e-9))
            if task.unit.is_pure
            else partial(theory.mw_zcdp, rho=float(task.unit.rho(price)) * (1 - 1e-9))
        )
        return bound(
            n=n,
            log_universe=self._log_universe,
            log_queries=math.log(task.queries.count),
            beta=sizing.beta_for_answers(task.beta, task.relation),
            rounds=count,
            rounding=1 + 2 * n / GRID,
        )


@dataclass(frozen=True, slots=True)
class MultiplicativeWeights(InRounds):
    """T rounds: choose the query and the sign of the largest error privately, tilt the weights, average them.

    Guarantee: the task's price, through the gate; every round chooses among 2k signed errors, sensitivity 1. Nothing
        else is measured, but the number of records where it is private.
    Accuracy: sqrt(ln|X|/(2T)) + what T selections lose + one count of rounding (`theory/multiplicative.py`), for the
        average of the weights of all rounds.
    Cost: T passes over the weights and the workload; T by the bound, at most 400.
    """

    prepared_by = PreparedWeights
    name: str = "mw"


MW = MultiplicativeWeights()
