"""Columns as texts in normal form, whatever their type, and such columns as words of 64 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.core.rows.arrow import ArrowArray, pa, stored
from maquette.core.rows.coding import is_text, spell, widened, words
from maquette.core.rows.persons import hashes


def spelled(column: ArrowArray) -> ArrowArray:
    """A column as texts in normal form; applied to its own result it changes nothing."""
    column = stored(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    return words(column if is_text(column.type) else spell(widened(column)))


def hashed(columns: Sequence[ArrowArray], missing: ArrowArray) -> NDArray[np.uint64]:
    """Records of some columns as words, an array (columns, rows)."""
    return np.stack([hashes(column, missing) for column in columns])
