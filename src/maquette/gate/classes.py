"""The exact largest errors over classes of questions, counted on the private table a few tables at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.queries.base import Margin
from maquette.questions.class_errors import gaps, largest_error
from maquette.questions.released import ClassQuestion
from maquette.vault.engine import Engine, MemoryEngine

_CELLS = 2**23
"""Cells that are counted at a time where the rows are in memory; elsewhere all of them in one pass."""


def largest_errors(engine: Engine, question: ClassQuestion) -> NDArray[np.int64]:
    """The largest |count - n share| of every class, rounded up: see `questions/class_errors.py` for why one record
    moves each of them by at most 1."""
    largest = [0] * len(question.names)
    for margins in _batches(engine.domain, list(question.by_margin), isinstance(engine, MemoryEngine)):
        for margin, counts in engine.margins(margins).items():
            shares = question.shares[margin].astype(np.int64, copy=False).reshape(counts.shape)
            gap = gaps(counts, shares, question.denominator)
            for place, table in question.by_margin[margin]:
                largest[place] = max(largest[place], largest_error(table, gap, question.denominator))
    return np.array(largest, dtype=np.int64)


def _batches(domain: Domain, margins: Sequence[Margin], split: bool) -> Iterator[list[Margin]]:
    batch: list[Margin] = []
    cells = 0
    for margin in margins:
        batch.append(margin)
        cells += domain.cells(margin)
        if split and cells >= _CELLS:
            yield batch
            batch, cells = [], 0
    if batch:
        yield batch
