"""Released answers: fractions on a fixed grid, so that their error can be scored in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

GRID = 2**30
"""Answers that do not come from rows are rounded to multiples of 1/GRID."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """One fraction in [0, 1] for every query of a workload, in its order: `numerators` / `denominator`."""

    numerators: NDArray[np.signedinteger[Any]]
    """In 64 bits; those of rows to a long class in 32 bits, where they fit."""
    denominator: int

    @classmethod
    def from_fractions(cls, values: NDArray[Any]) -> Answers:
        """Round to the grid; outside [0, 1] is clipped, which can only lower an error."""
        scaled = np.nan_to_num(np.asarray(values, dtype=np.float64))  # a copy; the rest happens in place
        np.clip(scaled, 0.0, 1.0, out=scaled)
        scaled *= GRID
        return cls(np.rint(scaled, out=scaled).astype(np.int64), GRID)

    @property
    def fractions(self) -> NDArray[np.float64]:
        return self.numerators / self.denominator

    def __len__(self) -> int:
        return len(self.numerators)
