"""A price divided between the number of records and the answers, and what is left of beta for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from maquette.core.budget import UNITS
from maquette.core.measurement import Size
from maquette.domain import Relation
from maquette.mechanisms.base import Curator, Task
from maquette.theory import quantiles
from maquette.theory.quantiles import law_at

SIZE_SHARES = tuple(Fraction(share, 100) for share in (5, 10, 20, 35, 50))
"""The parts of a price that may go to the number of records, where that is private."""
_MOST_LIKE_A_CELL = Fraction(1, 5)
"""Of a price, for a number of records that is to be known as well as a cell."""
SIZE_BETA = 0.1
"""The part of beta that is set aside for the number of records, where that is private."""


def size_error(size: Size, beta: float) -> float:
    """How far the released number of records lies from the true one, out of the share of beta set aside for it."""
    return 0.0 if size.noise is None else quantiles.quantile(size.noise, beta * SIZE_BETA)


def beta_for_answers(beta: float, relation: Relation) -> float:
    """What is left of beta for the answers."""
    return beta if relation is Relation.REPLACE_ONE else beta * (1 - SIZE_BETA)


@dataclass(frozen=True, slots=True)
class Split:
    """A price divided between the number of records and the answers."""

    size: Fraction
    answers: Fraction

    def size_error(self, task: Task, beta: float | None = None) -> float:
        """How far the released size will lie from the true one; 0 where it is public."""
        share = task.beta * SIZE_BETA if beta is None else beta
        if task.size is not None and task.size.noise is not None:
            return quantiles.quantile(task.size.noise, share)
        return quantiles.quantile(law_at(self.size, unit=task.unit), share) if self.size else 0.0


def split(task: Task, level: Callable[[Fraction], float], error: Callable[[float, float], float]) -> Split:
    """Nothing for a size that is known; else the share for which the stated error is smallest. Public inputs only.

    `level` is the noise level at a price, `error` the error in counts out of noise level and size error.
    """
    if has_size(task):
        return Split(Fraction(0), task.price)
    options = [_part(task.price, share) for share in SIZE_SHARES]
    return min(options, key=lambda option: error(level(option.answers), option.size_error(task)))


def split_like_a_cell(task: Task, variance: float) -> Split:
    """Nothing for a size that is known; else noise of the variance that a cell has, for which rho is 1 / (2 variance).

    For answers that are measured and not stated in advance: an error of the size moves every answer by its share alone,
    so that one as well known as a cell is hardly seen. What is stated in advance has to add both errors up.
    """
    if has_size(task):
        return Split(Fraction(0), task.price)
    wanted = Fraction(1 / (2 * variance)) / task.price
    return _part(task.price, min(wanted, _MOST_LIKE_A_CELL))


def split_for_shares(task: Task, *, n: int) -> Split:
    """The share that suits errors in fractions which fall like 1 / (epsilon n), n the records that are surely there.

    Fractions of a hypothesis or of a small database do not depend on the released size; what is proved about them
    does: the released size may lie its error below the true one, and the true one is only known to lie its error below
    that. n is public, or a guess.
    """

    def epsilon(price: Fraction) -> float:
        return float(price) if task.unit.is_pure else math.sqrt(price)

    return split(task, epsilon, lambda strength, size_error: -strength * (n - 2 * size_error))


def released_size(curator: Curator, task: Task, parts: Split) -> Size:
    """The number of records: as it was paid for before, or for its part of the price."""
    return task.size or curator.size(price=parts.size)


def has_size(task: Task) -> bool:
    """Is nothing more paid for the number of records?"""
    return task.size is not None or size_is_public(task)


def size_is_public(task: Task) -> bool:
    """A number of records may be public; what they weigh together never is."""
    return task.relation is Relation.REPLACE_ONE and task.weight is None


def _part(price: Fraction, share: Fraction) -> Split:
    size = Fraction(max(1, math.floor(price * share * UNITS)), UNITS)
    return Split(size, price - size)
