"""Counts of parities of bits, from one table over them, by one Walsh-Hadamard transform in whole numbers.

The parity of a set of bits counts the records of which an odd number of these bits is 1. With c(z) the records of
cell z, the transform has at S the sum over z of c(z) (-1)^(number of bits of S that are 1 in z): the even records less
the odd ones. So the odd ones are half of what lacks to all records. One pass of additions and subtractions per bit.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core.lattice import places

MAX_BITS = 24
"""Of which all parities are counted: 2^24 numbers (128 MB)."""


def parity_counts(table: NDArray[Any], width: int) -> NDArray[Any]:
    """The records with an odd number of 1 among each set of 0 .. width bits; in the order of `parity_places`."""
    spectrum = transform(table).reshape(-1)
    odd = (spectrum[0] - spectrum) // 2 if spectrum.dtype.kind in "iu" else (spectrum[0] - spectrum) / 2
    return odd[parity_places(table.ndim, width)]


def transform(table: NDArray[Any]) -> NDArray[Any]:
    """The Walsh-Hadamard transform of a table of two cells per attribute."""
    sums = table
    for axis in range(table.ndim):
        zero, one = sums.take([0], axis=axis), sums.take([1], axis=axis)
        sums = np.concatenate([zero + one, zero - one], axis=axis)
    return sums


@lru_cache(maxsize=8)
def parity_places(bits: int, width: int) -> NDArray[np.int64]:
    """The sets as whole numbers, the first bit the highest: small ones first, then as combinations come."""
    listed = np.concatenate([np.zeros(1, dtype=np.int64), places(bits, 1, width)])
    listed.flags.writeable = False
    return listed


@lru_cache(maxsize=64)
def most_odd(bits: int, width: int) -> int:
    """How many of the sets have an odd number of bits in common with a record, at most over all records.

    It is as many as two records can differ in: a parity tells two records apart where it is odd on the bits in which
    they differ.
    """
    return max(odd_sets(bits, width))


@lru_cache(maxsize=64)
def odd_sets(bits: int, width: int) -> tuple[int, ...]:
    """The same for records with 0, 1, 2, .. bits that are 1."""
    return tuple(
        sum(
            math.comb(ones, odd) * math.comb(bits - ones, size - odd)
            for size in range(1, width + 1)
            for odd in range(1, size + 1, 2)
        )
        for ones in range(bits + 1)
    )
