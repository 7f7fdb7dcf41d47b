"""Equal columns of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def label_columns(matrix: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each column, the same for equal columns: 0, 1, .. in order of appearance."""
    seen: dict[bytes, int] = {}
    rows = np.ascontiguousarray(matrix.T)
    return np.array([seen.setdefault(row.tobytes(), len(seen)) for row in rows], dtype=np.int64)


def first_columns(labels: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each label appears first."""
    return np.unique(labels, return_index=True)[1]
