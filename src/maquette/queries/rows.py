"""Coded rows as the classes take them: one length, codes inside their attribute, weights of one type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.queries.base import Columns


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
