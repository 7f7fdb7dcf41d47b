"""What can be said of released rows beside the worst question of a class: typical errors and group means, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maquette.core.attribute import Attribute, Kind
from maquette.core.group_means import MAX_NUMBER
from maquette.core.universe import Universe
from maquette.queries.typical import TYPICAL, QuestionKind, TableKind

ANY_MEAN = "any group mean"
_GRID = 2.0**-16
"""Steps of a released mean (`core/group_means.py`)."""


@dataclass(frozen=True, slots=True)
class MeanKind:
    """The means of all groups that combinations of values make, of all columns with numbers."""

    name: str

    @property
    def says(self) -> str:
        """What is bounded, in words."""
        return "any group mean"


def numbers_of(domain: Universe, names: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """For every column the numbers of its declared cells as the gate sums them; none where it has no mean."""
    return tuple(_numbers(domain[name]) for name in names)


def _numbers(attribute: Attribute) -> tuple[int, ...]:
    if attribute.kind is not Kind.NUMERIC or attribute.cells < 2:
        return ()
    if _is_even(attribute):
        return tuple(range(attribute.cells))
    middles = _middles(attribute)
    scaled = (middles - middles[0]) / (middles[-1] - middles[0]) * MAX_NUMBER
    return tuple(int(number) for number in np.rint(scaled))


def rounding(attribute: Attribute) -> float:
    """How far a mean may be off because numbers and released means are rounded, as a part of the column's range."""
    if _is_even(attribute):
        return _GRID / max(1, attribute.cells - 1)
    return (1 + _GRID) / MAX_NUMBER


def _is_even(attribute: Attribute) -> bool:
    steps = np.diff(_middles(attribute))
    return attribute.cells - 1 <= MAX_NUMBER and bool(np.allclose(steps, steps[0], rtol=1e-9, atol=0.0))


def _middles(attribute: Attribute) -> np.ndarray:
    low, high = attribute.ends()
    return (low + high) / 2


QUALITY: dict[str, QuestionKind | TableKind | MeanKind] = {**TYPICAL, ANY_MEAN: MeanKind(ANY_MEAN)}
"""By the words that users say."""
