"""Coded rows as the classes of queries take them: one length, codes inside their attribute, weights of one type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check
from maquette.domain import Domain
from maquette.errors import WorkloadError

# How much may be held at once, and where a query may stand.

MAX_ANSWERS = 2**28
"""Answers that may be computed at once (2 GB); larger classes know their size and sensitivity only."""

MAX_SUM = 2**62
"""Sums of whole numbers stay below this, so that 64 bits hold them."""


def check_size(count: int) -> None:
    """Few enough queries to answer all of them?"""
    if count > MAX_ANSWERS:
        raise WorkloadError(
            f"{count:,} queries are too many to answer at once (at most {MAX_ANSWERS:,}); ask a smaller class"
        )


def check_whole(value: object, *, least: int, most: int, what: str) -> None:
    """A whole number within its range?"""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise WorkloadError(f"expected {what} from {least} to {most}, got {_check.shown(value)}")


def check_index(index: int, count: int) -> None:
    """Is there a query of this number?"""
    if not isinstance(index, Integral) or not 0 <= index < count:
        raise WorkloadError(
            f"expected the number of a query from 0 to {count - 1}, got {_check.shown(index)}"
        )


Margin = tuple[str, ...]
"""Names of attributes, in domain order: the table over them."""
Columns = Mapping[str, NDArray[Any]]
"""Coded columns of equal length, by attribute name."""


class Norms(NamedTuple):
    """Sums over all queries, for records or pairs of records: numerators of L1 and of L2 squared.

    They are over `denominator` and over its square.
    """

    l1: NDArray[np.int64]
    l2_squared: NDArray[np.int64]


def sum_margin(domain: Domain, histogram: NDArray[Any], margin: Margin) -> NDArray[Any]:
    """The table over some attributes, from a histogram over all of them; of int64 or float64."""
    gone = tuple(i for i, name in enumerate(domain.names) if name not in margin)
    table = np.asarray(histogram).reshape(domain.shape)
    return table.sum(axis=gone, dtype=np.float64 if table.dtype.kind == "f" else np.int64)


# Equal columns of a matrix.


def label_columns(matrix: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each column, the same for equal columns: 0, 1, .. in order of appearance."""
    label_of: dict[bytes, int] = {}
    rows = np.ascontiguousarray(matrix.T)
    return np.array([label_of.setdefault(row.tobytes(), len(label_of)) for row in rows], dtype=np.int64)


def first_columns(labels: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each label appears first."""
    return np.unique(labels, return_index=True)[1]


# Coded rows as the classes take them: one length, codes inside their attribute, weights of one type.


def length(columns: Columns, weights: NDArray[Any] | None = None) -> int:
    """How many rows there are."""
    lengths = {len(codes) for codes in columns.values()}
    if weights is not None:
        lengths.add(len(weights))
    if len(lengths) != 1:
        raise WorkloadError("expected coded columns of one length, and weights of the same")
    return lengths.pop()


def column(domain: Domain, columns: Columns, name: str) -> NDArray[Any]:
    """The codes of one attribute."""
    if name not in columns:
        raise WorkloadError(f"the rows have no column for attribute '{name}'")
    codes = np.asarray(columns[name])
    if codes.dtype.kind not in "ui":
        raise WorkloadError(f"the column of '{name}' must hold whole numbers, got {codes.dtype}")
    if len(codes) and (int(codes.max()) >= domain[name].size or int(codes.min()) < 0):
        raise WorkloadError(
            f"the column of '{name}' holds codes outside the attribute's cells; code it with this domain"
        )
    return codes


def whole_or_float(weights: NDArray[Any] | None) -> NDArray[Any] | None:
    """Weights as int64 or float64, or None."""
    if weights is None:
        return None
    weights = np.asarray(weights)
    if weights.dtype.kind in "uib":
        return weights.astype(np.int64)
    if weights.dtype.kind == "f":
        return weights.astype(np.float64)
    raise WorkloadError(f"weights must be numbers, got {weights.dtype}")


def answer_type(weights: NDArray[Any] | None) -> type[np.int64] | type[np.float64]:
    """Answers are whole unless the weights are not."""
    return np.float64 if weights is not None and weights.dtype.kind == "f" else np.int64


def distinct_cells(domain: Domain, margins: Iterable[Margin]) -> int:
    """Cells of these margins after merging duplicates and complements and dropping constants."""
    sizes = {a.name: a.size for a in domain}
    reduced = {tuple(name for name in margin if sizes[name] > 1) for margin in margins}
    return sum(
        1 if cells == [2] else math.prod(cells)
        for cells in ([sizes[n] for n in margin] for margin in reduced)
        if cells
    )
