"""Where randomness comes from. Production knows one source: the operating system's generator."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


class Bits(Protocol):
    """A stream of uniform 64-bit words."""

    def words(self, count: int) -> Words:
        """The next `count` words."""
        ...


class SystemBits:
    """The operating system's cryptographic generator; holds no state, so forks and threads share nothing."""

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def below(bits: Bits, limit: int, count: int) -> NDArray[np.int64]:
    """Uniform whole numbers in 0 .. limit-1, exactly, by rejection. `limit` <= 2**62."""
    unfair = 2**64 % limit
    drawn = np.empty(0, dtype=np.uint64)
    while len(drawn) < count:
        words = bits.words(count - len(drawn) + 8)
        drawn = np.concatenate([drawn, words[words >= unfair]])
    return (drawn[:count] % np.uint64(limit)).astype(np.int64)
