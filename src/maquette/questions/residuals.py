"""Residuals of a noisy table, in whole numbers: what is stored of it, and what is handed out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def relative(table: NDArray[np.int64], axes: Sequence[int]) -> NDArray[np.int64]:
    """The table less its first slice along each of `axes`: what the projection keeps of it, and nothing more.

    Both maps forget exactly the tables that are constant along one of the axes, so each is a function of the other;
    this one stays among small whole numbers.
    """
    for axis in axes:
        table = table - table.take([0], axis=axis)
    return table.ravel()


def project(table: NDArray[np.int64], axes: Sequence[int]) -> tuple[NDArray[np.int64], int]:
    """Remove the means over `axes`, in whole numbers: the result is over the product of their sizes."""
    for axis in axes:
        table = table * table.shape[axis] - table.sum(axis=axis, keepdims=True)
    return table, math.prod(table.shape[axis] for axis in axes)
