"""The median mechanism as an online strategy: its parameters and the version space that it answers from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from maquette.domain import Domain
from maquette.models.hypothesis import Hypothesis
from maquette.models.version_space import VersionSpace, version_space_for
from maquette.theory import online


@dataclass(frozen=True, slots=True, eq=False)
class MedianStrategy:
    """What a sparse vector runs with, and what it tests: medians of the small databases that are still possible.

    Guarantee: that of the sparse vector; the version space is made from released answers.
    Accuracy: every answer is within `parameters.run.error`, except with probability beta, as long as positives are
        left; they provably suffice where `certain`.
    """

    parameters: online.Median
    hypothesis: Hypothesis
    certain: bool
    """Is the space listed in full, so that every positive halves it, and do c halvings suffice?"""


def median_strategy(
    domain: Domain,
    *,
    unit: str,
    price: float,
    n: float,
    k: int,
    beta: float,
    attributes: Iterable[str] | None = None,
    rows: int | None = None,
    kind: str = "auto",
    size_error: float = 0.0,
    grid: float = 1.0,
) -> MedianStrategy:
    """A strategy for k questions about these attributes (or all) at a price in `unit`; from public numbers only."""
    names = tuple(domain.names if attributes is None else attributes)
    found = online.median(
        unit=unit,
        price=price,
        n=n,
        universe=domain.cells(names),
        k=k,
        beta=beta,
        rows=rows,
        size_error=size_error,
        grid=grid,
    )
    space = version_space_for(domain, rows=found.rows, kind=kind, attributes=names)
    exact = isinstance(space, VersionSpace)
    return MedianStrategy(found, space, exact and found.run.certain and math.isfinite(found.run.error))
