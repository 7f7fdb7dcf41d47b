"""Records that count more or less than one: a public rule from the cell of one attribute to a weight in [0, 1].

Weights are whole numbers over a grid, so that a weighted table is a table of whole numbers and its scores stay exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _check, bounds
from maquette.core.attribute import Attribute
from maquette.core.drawing import ExactCounts
from maquette.core.errors import MechanismError, ParameterError
from maquette.core.forms import Margin
from maquette.core.universe import Universe

GRID = 2**10
"""Weights are multiples of 1/GRID of the largest one."""
MAX_WEIGHTED_CELLS = 2**24
"""Cells of a table over the attributes of a class and the weight together."""


@dataclass(frozen=True, slots=True)
class Weighting:
    """A record in cell c of `attribute` weighs numerators[c] / grid: never less than 0, never more than 1."""

    attribute: str
    numerators: tuple[int, ...]
    grid: int
    bound: float
    """What a weight of 1 stands for in the attribute's own unit."""

    def __post_init__(self) -> None:
        _check.whole(grid=self.grid)
        if not all(_check.is_whole(w) and 0 <= w <= self.grid for w in self.numerators):
            raise ParameterError(f"expected weights from 0 to 1, whole numbers from 0 to {self.grid}")

    def to_dict(self) -> dict[str, Any]:
        """The canonical form that the ledger's digest covers."""
        return {"attribute": self.attribute, "numerators": list(self.numerators), "grid": self.grid}

    def array(self) -> NDArray[np.int64]:
        return np.array(self.numerators, dtype=np.int64)


def check_weight(domain: Universe, weight: Weighting, tables: Iterable[Margin]) -> None:
    """One weight per cell of an attribute, and tables over it and the class that can be held."""
    bounds.check_type(weight, Weighting, "weights of records")
    bounds.check_whole(weight.grid, least=1, most=bounds.FACTORS, what="the grid of weights")
    if weight.attribute not in domain or len(weight.numerators) != domain[weight.attribute].size:
        raise ParameterError("expected one weight per cell of an attribute of the table")
    if not all(type(number) is int and 0 <= number <= weight.grid for number in weight.numerators):
        raise ParameterError("expected weights from 0 to 1, whole numbers over the grid")
    for margin in tables:
        wide = {*margin, weight.attribute}
        if domain.cells(wide) > MAX_WEIGHTED_CELLS:
            wide_names = ", ".join(name for name in domain.names if name in wide)
            raise MechanismError(
                f"a weighted table over {wide_names} has more than {MAX_WEIGHTED_CELLS:,} cells"
            )


def total_weight(engine: ExactCounts, weight: Weighting) -> NDArray[np.int64]:
    """The total weight of the records, in units of the largest weight, rounded up: at most 2^32 times 2^30 before."""
    counts = engine.margins([(weight.attribute,)])[(weight.attribute,)]
    return np.array([-(-int(counts @ weight.array()) // weight.grid)])


def weighting(domain: Universe, name: str) -> Weighting:
    """The weights that an ordered attribute of non-negative numbers declares: its value over its largest value.

    A numeric cell stands for its midpoint; a missing or unknown weight counts nothing. Public: it depends on the
    declaration alone.
    """
    _check.one_of(domain.names, weight=name)
    attribute = domain[name]
    if attribute.size > MAX_WEIGHTED_CELLS:
        raise ParameterError(
            f"the weight '{name}' has {attribute.size:,} cells; declare at most {MAX_WEIGHTED_CELLS:,}"
        )
    values = _values(attribute)
    bound = float(attribute.edge(attribute.cells)) if _binned(attribute) else float(values.max())
    if not (values >= 0).all() or not bound > 0:
        raise ParameterError(
            f"the weight '{name}' must be declared with values that are not negative, and not all 0"
        )
    shares = np.rint(np.minimum(values / bound, 1.0) * GRID).astype(np.int64)
    extra = attribute.size - attribute.cells
    return Weighting(name, (*shares.tolist(), *(0,) * extra), GRID, bound)


def _values(attribute: Attribute) -> NDArray[np.float64]:
    values, _ = attribute.decode(np.arange(attribute.cells))
    try:
        return values.astype(np.float64)
    except ValueError:
        raise ParameterError(
            f"expected numbers to weigh records by, but the values of '{attribute.name}' are texts"
        ) from None


def _binned(attribute: Attribute) -> bool:
    return attribute.bounds is not None or attribute.edges is not None
