"""The contract with a sampler of small databases: what it is given, and what is made of what it returns.

A sampler is trusted with exact counts, and its law with the price: nothing here can hold it to that law. All else is
held: what it draws has the public shape that was settled before payment, whatever it returned, and its errors are whole
numbers within 64 bits. So neither a refusal nor the length of an answer says anything of the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from maquette.core import bounds
from maquette.core.errors import ParameterError
from maquette.core.events import Receipt
from maquette.core.forms import Margin, QueryForms
from maquette.core.inversion import Bits
from maquette.core.universe import Universe

Integers = NDArray[np.int64]
Codes = NDArray[np.uint64]
Report = Callable[[int], None]
"""Called with what was counted so far: for the holder of the table."""

MAX_ROWS = 2**20
"""Rows of a small database."""
MAX_COLUMNS = 2**16
_LOW = np.uint64(2**32 - 1)


class ExactCounts(Protocol):
    """What a draw asks of a table: exact whole numbers. Where they come from is not the samplers' business."""

    @property
    def domain(self) -> Universe: ...

    def size(self) -> int:
        """The number of records, or their total weight over the grid."""
        ...

    def distinct(self, name: str) -> tuple[NDArray[Any], Integers]:
        """The distinct codes of one attribute, increasing, and how many records have each."""
        ...

    def margins(self, margins: Sequence[Margin]) -> dict[Margin, Integers]:
        """Tables over a few attributes each."""
        ...

    def answer(self, query_forms: QueryForms) -> Integers:
        """Numerators of all answers."""
        ...


class DrawQuestion(Protocol):
    """A draw as it is asked for: public."""

    @property
    def resolution(self) -> int:
        """Levels per count."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The canonical form that the ledger's digest covers."""
        ...

    def describe(self) -> str:
        """One line for the ledger."""
        ...

    def columns(self, values: list[NDArray[Any]], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Codes of the attributes that a drawn database speaks of, one per row."""
        ...


D = TypeVar("D", bound=DrawQuestion)


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns of `rows` codes each, those of column i below limits[i]."""

    rows: int
    limits: tuple[int, ...]

    def __post_init__(self) -> None:
        bounds.check_whole(self.rows, least=1, most=MAX_ROWS, what="the rows of a small database")
        bounds.check_list(self.limits, int, "limits of codes as whole numbers")
        if not 1 <= len(self.limits) <= MAX_COLUMNS or not all(1 <= limit <= 2**64 for limit in self.limits):
            raise ParameterError("expected columns of codes, each below a limit from 1 to 2^64")


class Draws(ABC):
    """A sampler of small databases."""

    @abstractmethod
    def check(self, domain: Universe, question: object) -> Shape:
        """Refuse what cannot be drawn; else the shape of what will be. Public arguments, before payment."""

    @abstractmethod
    def run(
        self, question: Any, counts: ExactCounts, *, decay: Fraction, bits: Bits, report: Report
    ) -> list[Codes]:
        """A database, with a chance proportional to its base measure times decay ** level: exactly."""

    @abstractmethod
    def error(self, question: Any, values: Sequence[NDArray[Any]], counts: ExactCounts) -> int:
        """How far a given database is off, in counts, rounded up: one record moves it by at most 1."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawnDatabase(Generic[D]):
    """A small database from the gate: what its structure makes of `values`, and the law it was drawn from."""

    draw: D
    values: list[NDArray[Any]]
    epsilon: Fraction
    weight: Fraction
    """B: the factor per level."""
    receipt: Receipt

    def columns(self, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Codes of the attributes that the structure speaks of, one per row; the rest is free."""
        return self.draw.columns(self.values, rng)


def check_values(values: object, shape: Shape) -> None:
    """A given database: exactly so many codes in every column, each below its limit."""
    bounds.check_list(values, np.ndarray, "the columns of a small database as arrays")
    columns: list[NDArray[Any]] = list(values)  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
    if len(columns) != len(shape.limits):
        raise ParameterError(f"expected {len(shape.limits)} columns of a small database")
    for column, limit in zip(columns, shape.limits, strict=True):
        if column.dtype.kind not in "iu" or column.shape != (shape.rows,):
            raise ParameterError(
                f"expected {shape.rows} codes per column of a small database, in whole numbers"
            )
        if int(column.min(initial=0)) < 0 or int(column.max(initial=0)) >= limit:
            raise ParameterError(
                f"expected {shape.rows} codes per column of a small database, each below {limit}"
            )


def in_shape(values: Any, shape: Shape) -> list[Codes]:
    """What a sampler returned, in the public shape whatever it is: cut off, filled up with 0, kept below its limit."""
    columns = [np.zeros(shape.rows, dtype=np.uint64) for _ in shape.limits]
    for place, (column, limit) in enumerate(zip(columns, shape.limits, strict=True)):
        codes = _codes(values, place)[: shape.rows]
        column[: len(codes)] = np.minimum(codes, np.uint64(limit - 1))
    return columns


def _codes(values: Any, place: int) -> Codes:
    try:
        return np.asarray(values[place]).astype(np.uint64).ravel()
    except Exception:  # whatever it is: a refusal here would come after the look
        return np.zeros(0, dtype=np.uint64)


def in_counts(error: Any) -> Integers:
    """An error as a sampler returned it: a whole number from 0 to 2^62."""
    return np.array([min(max(int(error), 0), bounds.EXACT)], dtype=np.int64)


def split_words(values: Sequence[Codes]) -> list[Integers]:
    """Codes up to 2^64 as pairs of numbers that every payload can hold."""
    return [half.astype(np.int64) for v in values for half in (v >> np.uint64(32), v & _LOW)]


def join_words(halves: list[Integers]) -> list[NDArray[Any]]:
    """The codes of `split_words`; int64 where they fit."""
    joined = [
        (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        for high, low in zip(halves[::2], halves[1::2], strict=True)
    ]
    return [v.astype(np.int64) if int(v.max(initial=0)) < 2**63 else v for v in joined]
