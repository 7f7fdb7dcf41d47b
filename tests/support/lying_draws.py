"""Draws of small databases for classes of queries that lie about their weights, on public cells and in a look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import maquette.queries as q
from maquette.core.drawing import DrawnDatabase
from maquette.core.forms import QueryForms
from maquette.core.measurement import Receipt
from maquette.samplers import structures as public
from support.gate_world import DOMAIN, databases
from support.lying_queries import Lying

Weights = Callable[[np.ndarray, np.random.Generator], Any]


@dataclass(frozen=True, eq=False)
class LyingOnCells(Lying):
    """Also its weights of public records are others, and may be others each time."""

    weights: Weights = lambda true, rng: true

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rng", np.random.default_rng([self.seed, 5]))
        object.__setattr__(self, "_asked", [])

    def columns_of(self, rows: Any) -> Any:
        return self.weights(self.truth.columns_of(rows), self._rng)  # pyright: ignore

    def on_rows(self, columns: Any, weights: Any = None) -> Any:
        return self.weights(self.truth.on_rows(columns, weights), self._rng)  # pyright: ignore

    def to_forms(self) -> QueryForms:
        """Other ones after the first time, and then always the same: both tables are to be asked alike."""
        again = bool(self._asked)  # pyright: ignore
        self._asked.append(again)  # pyright: ignore
        return self.lie(self.truth.to_forms(), np.random.default_rng([self.seed, again]))


WEIGHTS: dict[str, Weights] = {
    "the true ones": lambda true, rng: true,
    "a hundred times as large": lambda true, rng: true * 100,
    "other ones each time": lambda true, rng: rng.integers(0, 9, true.shape),
    "negative": lambda true, rng: true - 5,
    "2^62": lambda true, rng: true.astype(np.int64) * 2**62,
    "-2^62": lambda true, rng: true.astype(np.int64) * -(2**62),
    "fractions": lambda true, rng: true * 7.5,
    "not a number": lambda true, rng: true * np.nan,
    "words": lambda true, rng: true.astype(str),
    "fewer": lambda true, rng: true[..., :1],
    "masked": lambda true, rng: np.ma.masked_greater(true * 1000, 0),
}
CLASSES: list[q.Queries] = [
    q.marginals(DOMAIN, attributes=[["b", "c"]]),
    q.weights(DOMAIN, np.random.default_rng(3).random((2, 4)), attributes=["d"]),
    q.where(DOMAIN, "a >= 1 AND b = 1"),
    q.halfspaces(DOMAIN, ["a", "d"], [[1, 2], [-1, 1]], [3, 0]),
    q.boxes(DOMAIN, [{"d": (0, last)} for last in range(3)]),
]


def structures(queries: q.Queries, rng: np.random.Generator, m: int) -> list[Callable[[], Any]]:
    """Everything that may be drawn for a class of queries."""
    rows = {name: rng.integers(0, DOMAIN[name].size, (3, m)) for name in queries.attributes}
    return [
        lambda: public.Listed(queries),
        lambda: public.Trellis(queries),
        lambda: public.Candidates(queries, rows),
    ]


def drawn(question: public.Draw, rng: np.random.Generator) -> DrawnDatabase:
    """A database as if it had been drawn."""
    values = databases(question, DOMAIN, rng)
    return DrawnDatabase(question, values, Fraction(1), Fraction(1, 2), Receipt(1, "0" * 64))
