"""Answers that keep to the declared constraints: combinations that no record has are answered with zero.

Post-processing. A private record that breaks a constraint stays counted, so an error that was stated before has to
grow by as much as an answer was moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.models.answers import Answers
from maquette.queries.base import Margin, Queries
from maquette.queries.marginals import Marginals
from maquette.queries.workload import Workload


def possible(domain: Domain, attributes: Margin) -> NDArray[np.bool_] | None:
    """Which cells of the table over some attributes a record may lie in, flat, by each constraint; None for all.

    A constraint that reaches beyond the attributes rules a cell out if nothing beside it would be allowed.
    """
    shape = tuple(domain[name].size for name in attributes)
    ruled = [rule for rule in domain.rules if set(rule.names) & set(attributes)]
    good = [_projected(rule.names, rule.allowed, attributes, shape) for rule in ruled]
    good = [one for one in good if not one.all()]
    if not good:
        return None
    return np.ascontiguousarray(np.broadcast_to(reduce(np.logical_and, good), shape)).ravel()


def cleared(answers: Answers, queries: Queries) -> tuple[Answers, float]:
    """The same answers with zero for every cell of a marginal that no record has, and how far one was moved."""
    numerators, moved = answers.numerators, 0
    for place, barred in _barred(queries):
        held = numerators[place][barred]
        if held.any():
            numerators = numerators if numerators is not answers.numerators else numerators.copy()
            numerators[place][barred] = 0
            moved = max(moved, int(held.max()))
    return replace(answers, numerators=numerators), moved / answers.denominator


def _barred(queries: Queries) -> Iterator[tuple[slice, NDArray[np.bool_]]]:
    """Where each marginal stands that has forbidden cells, and which those are."""
    start = 0
    for part in [p.queries for p in queries.parts] if isinstance(queries, Workload) else [queries]:
        if isinstance(part, Marginals):
            for margin, place in part.slices.items():
                good = possible(part.domain, margin)
                if good is not None:
                    yield slice(start + place.start, start + place.stop), ~good
        start += part.count


def _projected(
    names: Margin, allowed: NDArray[np.bool_], attributes: Margin, shape: tuple[int, ...]
) -> NDArray[np.bool_]:
    """A rule on a margin, one axis per attribute of the margin; axes that it says nothing of have length 1."""
    beyond = tuple(i for i, name in enumerate(names) if name not in attributes)
    kept = [name for name in names if name in attributes]
    order = [kept.index(name) for name in attributes if name in kept]
    spread = [size if name in kept else 1 for name, size in zip(attributes, shape, strict=True)]
    return np.transpose(np.asarray(allowed.any(axis=beyond)), order).reshape(spread)
