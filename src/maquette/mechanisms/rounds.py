"""What the offline mechanisms of multiplicative weights share: single queries of a workload, prices, refusals."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.core.measurement import Size
from maquette.mechanisms import postprocess, shape, sizing
from maquette.mechanisms.base import (
    Curator,
    Forecast,
    Guarantee,
    Mechanism,
    Outcome,
    Prepared,
    Progress,
    Task,
    Traits,
)
from maquette.models.answers import Answers
from maquette.models.fits import HistogramMap, Piece, histogram_map
from maquette.queries.base import Queries
from maquette.queries.weights import weights

MAX_ROUNDS = 400
_WORK = 4e10
"""Elements that all rounds together may pass over."""
_CANDIDATES = 7e5
"""Candidates per second of a private choice."""


class Outlook(NamedTuple):
    """What a mechanism says of itself before any data is touched."""

    error: float
    """By the bound."""
    typical: float
    """The usual error as a part of the bound."""
    seconds: float
    note: str


@dataclass(frozen=True, eq=False)
class PreparedRounds(Prepared):
    """A mechanism that learns weights on the universe of its queries, round after round, at one task."""

    mechanism: InRounds

    def _refuse(self) -> str | None:
        """Why weights on the universe of the queries cannot be held or learnt, or None."""
        task, name = self.task, self.mechanism.name
        if not shape.gives_rows(task.queries):
            return (
                f"{name} keeps a weight for every cell that the queries look at, here "
                f"{shape.universe(task.queries):,}: the cells are too many, or the class of queries is too large"
            )
        if task.post in ("lp", "l2"):
            return f"the answers of {name} come from one histogram already; use post='auto'"
        return shape.too_many(task.queries)

    @property
    def megabytes(self) -> float:
        queries = self.task.queries
        return postprocess.holding(self.mechanism.tables * shape.universe(queries) + queries.count)

    @cached_property
    def parts(self) -> sizing.Split:
        """A part of the price for the number of records, where that is private."""
        return sizing.split_for_shares(self.task, n=self.n)

    @property
    def size_price(self) -> Fraction:
        return self.parts.size

    def _foresee(self) -> Forecast:
        size_error = self.parts.size_error(self.task)
        # the released size may lie its error below n, and the true one is only known to lie its error below that
        outlook = self._outlook(n=self.n - 2 * size_error, size_error=size_error)
        return Forecast(
            self.mechanism.name,
            min(1.0, outlook.error),
            1.0 if outlook.error >= 1 else outlook.error * outlook.typical,
            outlook.seconds,
            self.megabytes,
            True,
            None,
            (outlook.note, "expected: from simulation, no promise"),
        )

    def _run(self, curator: Curator, rng: np.random.Generator, progress: Progress) -> Outcome:
        """Buy the size where it is private, learn round after round, answer from what was learnt."""
        size = sizing.released_size(curator, self.task, self.parts)
        mapped = histogram_map(self.task.queries)
        assert mapped is not None
        return self._learn_and_answer(curator, mapped, size, progress)

    @abstractmethod
    def _outlook(self, *, n: float, size_error: float) -> Outlook: ...

    @abstractmethod
    def _learn_and_answer(
        self, curator: Curator, mapped: HistogramMap, size: Size, progress: Progress
    ) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class InRounds(Mechanism):
    """A mechanism that learns weights on the universe of its queries, round after round."""

    tables: ClassVar[int] = 1
    """How many numbers per cell of the universe are held."""
    name: str
    fixed: int | None = None
    """So many rounds; None takes those with the smallest bound."""
    traits: Traits = Traits()

    def __post_init__(self) -> None:
        if self.fixed is not None:
            _check.whole(rounds=self.fixed)


def finish(
    task: Task,
    mapped: HistogramMap,
    size: Size,
    *,
    weights: NDArray[np.float64],
    answers: Answers,
    guarantee: Guarantee,
    facts: Mapping[str, Any],
) -> Outcome:
    """Answers, and rows from the learnt weights."""
    database, more = postprocess.make_rows(task, weights * size.divisor, size, answers, mapped.forward)
    return Outcome(
        answers=answers,
        database=database,
        size=size,
        guarantee=guarantee,
        parameters={**facts, **more},
    )


def guarantee_or_none(task: Task, error: float, size: Size, words: str) -> Guarantee:
    """A guarantee, or that there is none."""
    if error >= 1 or size.value < 1:
        return Guarantee(1.0, task.beta, f"vacuous: {words}")
    return Guarantee(error, task.beta, words)


def most(task: Task) -> int:
    """Rounds that the work allows; from public structure."""
    return int(min(MAX_ROUNDS, max(10, _WORK / (40 * pass_of(task)))))


def pass_of(task: Task) -> float:
    """Elements that one round passes over."""
    return shape.fit_pass(task.queries) + 20.0 * task.queries.count


def seconds(task: Task, *, rounds: int) -> float:
    """Passes over the weights, and private choices; counting once."""
    each = pass_of(task) / 3e8 + 2 * task.queries.count / _CANDIDATES + 0.003
    return 0.3 + rounds * each


def place_of(mapped: HistogramMap, index: int) -> tuple[Piece, int]:
    """The piece that holds a query, and the query's place in it."""
    for piece in mapped.pieces:
        if piece.place.start <= index < piece.place.stop:
            return piece, index - piece.place.start
    raise AssertionError("no piece holds the query")


def row_of(mapped: HistogramMap, index: int) -> NDArray[np.float64]:
    """The weights of one query on the histogram, as an array that spreads over the axes it does not look at."""
    piece, place = place_of(mapped, index)
    if piece.matrix is None:
        row = np.zeros(math.prod(piece.shape))
        row[place] = 1.0
    else:
        row = np.asarray(piece.matrix[[place]].todense(), dtype=np.float64).ravel()
    return row.reshape(piece.shape)


def single(queries: Queries, mapped: HistogramMap, index: int) -> Queries:
    """One query of a workload as a class of its own."""
    piece, _ = place_of(mapped, index)
    names = [name for axis, name in enumerate(queries.attributes) if axis not in piece.gone]
    row: Any = row_of(mapped, index).ravel()[None, :]
    return weights(queries.domain, row, attributes=names)
