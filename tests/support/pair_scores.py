"""Scores of pairs as if the gate had released them."""

from collections.abc import Sequence

import numpy as np

from maquette.sculpt.stages import PairScores


def pair_scores(values: Sequence[float], *, noise: float, slope: float = 0.0) -> PairScores:
    """All pairs with the same slope, seen in 64 and in 256 cells."""
    count = len(values)
    few, many = np.full(count, 64), np.full(count, 256)
    return PairScores(np.array(values), noise, np.full(count, slope), few, many)
