"""Exact statistics of a private table that the gate adds noise to or chooses by. Private: for the gate alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maquette.queries.base import Queries
from maquette.queries.marginals import Binned, pieces
from maquette.questions.answers import Answers, count_errors, signed_errors
from maquette.questions.class_errors import WHOLE, ClassQuestion, gaps, largest_error, weigh
from maquette.questions.classes import ClassTable
from maquette.vault.engine import Engine, in_passes


def errors_of(
    engine: Engine, queries: Queries, answers: Answers, *, signed: bool = False
) -> NDArray[np.int64]:
    """The error of every released answer in whole counts (`questions/answers.py`)."""
    score = signed_errors if signed else count_errors
    return score(engine.answer(queries), queries.denominator, answers, engine.size())


def largest_by_part(
    engine: Engine, queries: Queries, answers: Answers, parts: Sequence[tuple[int, int]]
) -> NDArray[np.int64]:
    """The largest error in each part; a long class is counted piece by piece."""
    largest = np.zeros(len(parts), dtype=np.int64)
    for begin, piece in pieces(queries, most=engine.cells_per_pass):
        end = begin + piece.count
        errors = errors_of(engine, piece, Answers(answers.numerators[begin:end], answers.denominator))
        for i, (start, stop) in enumerate(parts):
            inside = errors[max(start - begin, 0) : max(stop - begin, 0)]
            largest[i] = max(largest[i], inside.max(initial=0))
    return largest


def largest_errors(engine: Engine, question: ClassQuestion) -> NDArray[np.int64]:
    """The largest weighted |count - n share| of every class, rounded up: see `questions/class_errors.py` for why one
    record moves each of them by at most 1."""
    largest = [0] * len(question.names)
    for margins in in_passes(list(question.by_margin), engine.domain.cells, engine.cells_per_pass):
        for margin, counts in engine.margins(margins).items():
            shares = question.shares[margin].astype(np.int64, copy=False).reshape(counts.shape)
            gap = gaps(counts, shares, question.denominator)
            errors: dict[ClassTable, int] = {}  # classes have tables in common
            for place, table, weight in question.by_margin[margin]:
                if table not in errors:
                    errors[table] = largest_error(table, gap, question.denominator)
                largest[place] = max(largest[place], weigh(errors[table], weight, whole=WHOLE))
    return np.array(largest, dtype=np.int64)


def distances(
    engine: Engine, binned: Sequence[Binned], references: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """The L1 distance in counts of every table to its public reference."""
    public = iter(references)
    parts = [
        _distances(engine.binned(batch), [next(public) for _ in batch])
        for batch in in_passes(binned, lambda table: table.bins, engine.cells_per_pass)
    ]
    return np.concatenate(parts)


def _distances(
    counts: Sequence[NDArray[np.int64]], references: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    pairs = zip(counts, references, strict=True)
    return np.array([np.abs(c - r).sum() for c, r in pairs], dtype=np.int64)
