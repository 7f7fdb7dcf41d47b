"""How far a weighted sum of noise can go, except with a given probability. For the answers of models."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maquette.models.measurement import Gaussian, Laplace, Noise


def sum_tail(noise: Noise, groups: list[tuple[float, float]], *, beta: float) -> float:
    """A bound on |sum of coefficient times draw|; `groups` are (how many draws, their coefficient).

    Accuracy: Chernoff. Discrete Gaussian draws are sub-Gaussian with their variance parameter (Canonne, Kamath and
        Steinke 2020); discrete Laplace draws have the cumulant -ln(1 - (sinh(s/2)/sinh(1/(2 scale)))^2).
    """
    used = np.array([(count, abs(size)) for count, size in groups if count > 0 and size != 0]).reshape(-1, 2)
    if not len(used):
        return 0.0
    failure = math.log(2 / beta)
    match noise:
        case Gaussian(sigma_squared=variance) if variance is not None:
            norm = float((used[:, 0] * used[:, 1] ** 2).sum())
            return math.sqrt(2 * float(variance) * norm * failure)
        case Laplace(scale=scale) if scale is not None:
            return _laplace(float(scale), used, failure)
        case _:
            raise TypeError(f"no tail for sums of {noise!r}")


def variance_of(noise: Noise) -> float:
    """The variance of one draw on the whole numbers (for the Gaussian: its parameter, which is never below)."""
    match noise:
        case Gaussian(sigma_squared=variance) if variance is not None:
            return float(variance)
        case Laplace(scale=scale) if scale is not None:
            return 2 * math.exp(-1 / float(scale)) / math.expm1(-1 / float(scale)) ** 2
        case _:
            raise TypeError(f"no variance for {noise!r}")


def _laplace(scale: float, used: NDArray[np.float64], failure: float) -> float:
    """Any step s gives a valid bound; the grid finds a good one."""
    steps = np.geomspace(1e-8, 1 - 1e-6, 400) / (scale * used[:, 1].max())
    x, y = np.outer(used[:, 1], steps) / 2, 1 / (2 * scale)
    ratio = np.exp(x - y) * np.expm1(-2 * x) / math.expm1(-2 * y)  # sinh(x)/sinh(y), which could overflow
    cumulant = -(used[:, :1] * np.log1p(-(ratio**2))).sum(axis=0)
    return float(((failure + cumulant) / steps).min())
