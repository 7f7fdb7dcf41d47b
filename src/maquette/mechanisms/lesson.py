"""Multiplicative weights without privacy: how a hypothesis learns a table that everybody may see. For teaching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette import _check
from maquette.domain import Domain
from maquette.errors import MechanismError
from maquette.models.dense import Dense
from maquette.models.hypothesis import MOST_CELLS
from maquette.queries.base import Queries
from maquette.theory.multiplicative import updates


@dataclass(frozen=True, slots=True)
class Lesson:
    """What was learnt, and how often the hypothesis had to be corrected."""

    hypothesis: Dense
    corrected: tuple[int, ...]
    """Places of the questions that were answered wrongly and taught something."""
    most: int
    """No sequence of questions, however chosen, can make more corrections than this."""


def learn(
    domain: Domain, columns: Mapping[str, NDArray[Any]], questions: Iterable[Queries], *, gap: float
) -> Lesson:
    """Ask a public table's questions one after the other; where the hypothesis is off by more than `gap`, correct it.

    The step is 4 gap (`Dense.step`). Not private: it compares with exact answers. `mq.session` is the private form.

    Accuracy: at most ln|X| / (2 gap^2) corrections, whatever is asked; all other answers are within `gap`.
    Cost: one pass over the weights per question, two where it corrects.
    """
    _check.positive(gap=gap)
    size = len(next(iter(columns.values())))
    _check.whole(n=size)
    if domain.size > MOST_CELLS:
        raise MechanismError(f"expected a universe of at most {MOST_CELLS:,} cells, got {domain.size:,}")
    now = Dense.uniform(domain, domain.names)
    corrected: list[int] = []
    for place, question in enumerate(questions):
        truth = float(np.asarray(question.on_rows(columns))[0]) / question.denominator / size
        if abs(truth - float(now.answer(question)[0])) > gap:
            now = now.step(question, truth, step=4 * gap)
            corrected.append(place)
    return Lesson(now, tuple(corrected), updates(log_universe=domain.log_size, gap=gap))
