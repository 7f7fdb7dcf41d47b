"""Released whole numbers as bytes for the ledger: the smallest integer type that holds them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def pack(arrays: Sequence[NDArray[np.int64]]) -> bytes:
    """Arrays in order, without their shapes' meaning: the request says what they are."""
    buffer = io.BytesIO()
    for array in arrays:
        np.save(buffer, array.astype(_smallest(array)), allow_pickle=False)
    return buffer.getvalue()


def unpack(payload: bytes) -> list[NDArray[np.int64]]:
    """The arrays of `pack`."""
    buffer = io.BytesIO(payload)
    arrays: list[NDArray[np.int64]] = []
    while buffer.tell() < len(payload):
        arrays.append(np.load(buffer, allow_pickle=False).astype(np.int64))
    return arrays


def _smallest(array: NDArray[np.int64]) -> type[np.signedinteger]:
    # not by np.abs, which has no answer for the smallest 64-bit number
    reach = max(int(array.max(initial=0)), -int(array.min(initial=0)))
    return next((t for t in (np.int8, np.int16, np.int32) if reach <= np.iinfo(t).max), np.int64)
