"""Explicit weights: the one way in for queries that are not of a known kind.

Weights are checked to lie in [0, 1] and put on a grid of 2^-20, so that answers are whole numbers and sensitivities
are those of the weights that are really used.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maquette.core import forms
from maquette.core._arguments import checks, checks_arguments
from maquette.core.forms import Sensitivity, farthest
from maquette.core.parities import MAX_BITS
from maquette.domain import Domain, Relation
from maquette.errors import WorkloadError
from maquette.queries import condition, names
from maquette.queries.base import TableQueries
from maquette.queries.parities import Parities
from maquette.queries.rows import Columns, Margin, check_index, first_columns, label_columns

GRID = 2**20
MAX_FRACTIONAL_QUERIES = 2**20
"""Queries with fractional weights in one class; sums of their squares stay inside 64 bits."""
_BLOCK = 2**22
MAX_PARITY_BITS = 10
"""Of which all parities are listed, with 2^20 weights."""


@dataclass(frozen=True, eq=False, repr=False)
class Weights(TableQueries):
    """Each row of the matrix is a query: its numerators over the cells of the table over some attributes."""

    kind: ClassVar[str] = "weights"
    domain: Domain
    over: Margin
    numerators: NDArray[np.int32]
    grid: int
    """The denominator: 1 for counting queries, else 2^20."""

    def __post_init__(self) -> None:
        cells = self.domain.cells(names.margin(self.domain, self.over))
        if self.numerators.dtype.kind not in "ui":
            raise WorkloadError(f"expected whole numerators, got {self.numerators.dtype}; use weights()")
        if self.numerators.ndim != 2 or not len(self.numerators) or self.numerators.shape[1] != cells:
            raise WorkloadError(
                f"expected weights of shape (queries, {cells}), got {self.numerators.shape}; "
                f"the cells of {', '.join(self.over)} are {cells}"
            )
        if self.grid not in (1, GRID) or self.numerators.min() < 0 or self.numerators.max() > self.grid:
            raise WorkloadError(
                f"expected numerators from 0 to the denominator, 1 or {GRID}, got {self.grid}"
            )
        if self.grid > 1 and self.count > MAX_FRACTIONAL_QUERIES:
            raise WorkloadError(
                f"a class may have {MAX_FRACTIONAL_QUERIES:,} queries of fractional weights, got {self.count:,}"
            )
        if self.over != names.margin(self.domain, self.over):
            raise WorkloadError(f"expected attributes in the order of the domain, got {', '.join(self.over)}")
        own = np.array(self.numerators, dtype=np.int32)
        own.flags.writeable = False
        object.__setattr__(self, "numerators", own)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Weights) and self._identity == other._identity and self.domain == other.domain
        )

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def count(self) -> int:
        return len(self.numerators)

    @property
    def denominator(self) -> int:
        return self.grid

    @property
    def margins(self) -> tuple[Margin, ...]:
        return (self.over,)

    def distinct(self) -> int:
        return condition.count_distinct(self.query_keys())

    def query_keys(self) -> Iterator[condition.Key | None]:
        shape = tuple(self.domain[name].size for name in self.over)
        for row in self.numerators:
            yield condition.array_key(self.domain, self.over, row.reshape(shape).astype(np.int64), self.grid)

    @checks_arguments
    def sensitivity(self, relation: Relation) -> Sensitivity:
        """From the columns: their largest norms, or the farthest two of them (searched; else a bound)."""
        return self._worst[relation][0]

    @property
    def exact_sensitivity(self) -> bool:
        return all(exact for _, exact in self._worst.values())

    def columns_of(self, rows: Columns) -> NDArray[Any]:
        shape = tuple(self.domain[name].size for name in self.over)
        return self.numerators[:, np.ravel_multi_index(tuple(rows[name] for name in self.over), shape)]

    def from_margins(self, tables: Mapping[Margin, NDArray[Any]]) -> NDArray[Any]:
        table = np.asarray(tables[self.over]).ravel()
        dtype = np.float64 if table.dtype.kind == "f" else np.int64
        step = max(1, _BLOCK // len(table))
        blocks = (self.numerators[i : i + step] for i in range(0, self.count, step))
        return np.concatenate([block.astype(dtype) @ table.astype(dtype) for block in blocks])

    def form(self) -> forms.Weights:
        return forms.Weights(self.over, self.numerators, self.grid)

    def text(self, index: int) -> str:
        check_index(index, self.count)
        return f"weights {index} over {', '.join(names.quote(name) for name in self.over)}"

    def spec(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "attributes": list(self.over),
            "denominator": self.grid,
            "numerators": self.numerators.tolist(),
        }

    def describe(self) -> str:
        return f"{self.count:,} weighted sums over {', '.join(self.over)}"

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        return self.over, self.grid, hashlib.sha256(self.numerators.tobytes()).digest()

    @cached_property
    def _worst(self) -> dict[Relation, tuple[Sensitivity, bool]]:
        columns = self.numerators[:, first_columns(label_columns(self.numerators))].astype(np.int64)
        return {
            Relation.ADD_REMOVE: (self._in_counts(*_largest(columns)), True),
            Relation.REPLACE_ONE: self._farthest(columns),
        }

    def _farthest(self, columns: NDArray[np.int64]) -> tuple[Sensitivity, bool]:
        l1, l1_exact = farthest(columns, power=1)
        l2, l2_exact = (l1, l1_exact) if self.grid == 1 else farthest(columns, power=2)
        linf = int((columns.max(axis=1) - columns.min(axis=1)).max())
        return self._in_counts(l1, l2, linf), l1_exact and l2_exact

    def _in_counts(self, l1: int, l2_squared: int, linf: int) -> Sensitivity:
        return Sensitivity(
            Fraction(l1, self.grid), Fraction(l2_squared, self.grid**2), Fraction(linf, self.grid)
        )


@checks("domain", lists=["attributes"])
def weights(domain: Domain, matrix: Any, *, attributes: Iterable[str] | None = None) -> Weights:
    """Queries by their weights: a row per query, a column per cell of the universe (or of some attributes).

    Cells run as in a table over the attributes in the order given, the last fastest. Weights that are not all 0 or
    1 are rounded to the nearest multiple of 2^-20.
    """
    order = tuple(domain.names if attributes is None else attributes)
    over = names.margin(domain, order)
    cells = domain.cells(over)
    try:
        array = np.asarray(matrix)
    except Exception:  # of whatever was given in the place of numbers
        raise WorkloadError("expected weights as a matrix of numbers with rows of equal length") from None
    if array.ndim != 2 or not len(array) or array.shape[1] != cells:
        raise WorkloadError(
            f"expected weights of shape (queries, {cells}), got {array.shape}; "
            f"the cells of {', '.join(over)} are {cells}"
        )
    if array.dtype.kind not in "biuf":
        raise WorkloadError(f"expected numbers in [0, 1] as weights, got {array.dtype}")
    if not ((array >= 0) & (array <= 1)).all():  # false for NaN, too
        raise WorkloadError(
            "expected weights in [0, 1], found some outside or not a number; rescale them first"
        )
    counting = bool(((array == 0) | (array == 1)).all())
    grid = 1 if counting else GRID
    numerators = np.rint(array.astype(np.float64) * grid).astype(np.int32)
    return Weights(domain, over, _in_order(domain, order, over, numerators), grid)


@checks("domain", lists=["attributes"])
def parities(domain: Domain, attributes: Iterable[str]) -> Weights | Parities:
    """All parities of some attributes with two cells: is an odd number of a subset 1? The empty subset is included.

    Of up to 10 attributes as explicit weights, by subsets as binary numbers; of up to 24 without a list, small subsets
    first.
    """
    over = tuple(attributes)
    if len(over) > MAX_PARITY_BITS:
        return Parities(domain, len(over), over)
    if not over or any(names.find(domain, name).size != 2 for name in over):
        raise WorkloadError(
            f"expected 1 to {MAX_BITS} attributes with two cells each for parities, got {', '.join(over)}"
        )
    cells = range(2 ** len(over))
    matrix = [[(subset & cell).bit_count() % 2 for cell in cells] for subset in cells]
    return weights(domain, matrix, attributes=over)


def _largest(columns: NDArray[np.int64]) -> tuple[int, int, int]:
    return int(columns.sum(axis=0).max()), int((columns**2).sum(axis=0).max()), int(columns.max())


def _in_order(
    domain: Domain, order: Margin, over: Margin, numerators: NDArray[np.int32]
) -> NDArray[np.int32]:
    shape = tuple(domain[name].size for name in order)
    axes = [0, *(1 + order.index(name) for name in over)]
    transposed = numerators.reshape(-1, *shape).transpose(axes)
    return np.ascontiguousarray(transposed.reshape(len(numerators), math.prod(shape)))
