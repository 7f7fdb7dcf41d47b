"""Euclidean projection to non-negative cells of a given total."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def simplex_shift(values: NDArray[Any], *, total: float) -> float:
    """The theta for which max(values - theta, 0) adds up to `total`.

    Cost: a few passes over shrinking arrays (Michelot 1986) instead of a sort; the result is the same.
    """
    active = np.asarray(values, dtype=np.float64).ravel()
    theta = (active.sum() - total) / len(active)
    while True:
        keep = active > theta
        left = int(np.count_nonzero(keep))
        if left == len(active) or left == 0:
            return float(theta)
        active = active[keep]
        theta = (active.sum() - total) / left


def project_simplex(values: NDArray[Any], *, total: float = 1.0) -> NDArray[np.float64]:
    """The closest non-negative cells that add up to `total`, in squared distance."""
    return np.maximum(values - simplex_shift(values, total=total), 0.0)
