"""Classes of questions by brute force: every condition of a class as a set of cells, from the words of the class."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from maquette.domain import Attribute, Domain
from maquette.domain import Kind as AttributeKind
from maquette.queries.classes import CLASSES, QuestionClass

TINY = Domain(
    (
        Attribute("a", AttributeKind.ORDINAL, codes=3),
        Attribute("b", AttributeKind.CATEGORICAL, codes=2),
        Attribute("c", AttributeKind.BOOLEAN, codes=2),
    )
)
MIXED = Domain(
    (
        Attribute("a", AttributeKind.ORDINAL, codes=4, nullable=True),
        Attribute("b", AttributeKind.CATEGORICAL, codes=3, overflow=True),
        Attribute("c", AttributeKind.NUMERIC, bounds=(0, 3), bins=3, overflow=True, nullable=True),
        Attribute("d", AttributeKind.BOOLEAN, codes=2),
    )
)


def cell_sets(family: str, attribute: Attribute) -> list[frozenset[int]]:
    """Every set of cells of one attribute that the words of a class allow."""
    cells = range(attribute.cells)
    extras = range(attribute.cells, attribute.size)
    whole = frozenset(cells)
    declared: set[frozenset[int]] = {frozenset()}
    if family == "any" or attribute.size <= 2 or (family == "ranges" and not attribute.ordered):
        return [
            frozenset(s)
            for n in range(attribute.size + 1)
            for s in itertools.combinations(range(attribute.size), n)
        ]
    declared |= {frozenset([i]) for i in cells}
    if attribute.ordered:
        declared |= {frozenset(range(i)) for i in range(attribute.cells + 1)}
        if family == "ranges":
            declared |= {frozenset(range(i, j)) for i in cells for j in range(i, attribute.cells + 1)}
    declared |= {whole - some for some in declared}
    free = [frozenset(s) for n in range(len(extras) + 1) for s in itertools.combinations(extras, n)]
    return [some | more for some in declared for more in free]


FAMILY = {
    "one attribute": "any",
    "one small attribute": "any",
    "two attributes": "comparisons",
    "two attributes with a small one": "comparisons",
    "three attributes": "comparisons",
    "two ranges": "ranges",
    "three ranges": "ranges",
    "anything on two attributes": "any",
    "relative": "ranges",
}
ORDER = {name: 3 if "three" in name else 1 if "one" in name.split()[:1] else 2 for name in FAMILY}
PARTS = {"relative": ("one attribute", "two ranges")}
assert FAMILY.keys() == CLASSES.keys()


def conditions(name: str, domain: Domain) -> Iterator[np.ndarray[Any, Any]]:
    """Every condition of a class as a mask over the whole universe, all attributes looked at together."""
    if name in PARTS:
        for part in PARTS[name]:
            yield from conditions(part, domain)
        return
    for names in itertools.combinations(domain.names, min(ORDER[name], len(domain))):
        axes = [domain.index(one) for one in names]
        shape = tuple(domain.shape[axis] for axis in axes)
        masks = _free(shape) if CLASSES[name].free else _products(FAMILY[name], domain, names)
        for mask in masks:
            spread = np.zeros([domain.shape[i] if i in axes else 1 for i in range(len(domain))], dtype=bool)
            spread[...] = mask.reshape(spread.shape)
            yield np.broadcast_to(spread, domain.shape)


def _free(shape: tuple[int, ...]) -> Iterator[np.ndarray[Any, Any]]:
    cells = int(np.prod(shape))
    for bits in range(2**cells):
        yield np.array([bits >> i & 1 for i in range(cells)], dtype=bool).reshape(shape)


def _products(family: str, domain: Domain, names: tuple[str, ...]) -> Iterator[np.ndarray[Any, Any]]:
    sets = [cell_sets(family, domain[name]) for name in names]
    for chosen in itertools.product(*sets):
        mask = np.ones((), dtype=bool)
        for name, some in zip(names, chosen, strict=True):
            line = np.array([i in some for i in range(domain[name].size)])
            mask = mask[..., None] & line
        yield mask


def largest(question: QuestionClass | str, domain: Domain, counts: Any, shares: Any) -> Any:
    """The largest |count - n share| over all conditions of a class, for counts and shares of the whole universe."""
    name = question if isinstance(question, str) else question.name
    n = counts.sum()
    return max(abs(counts[mask].sum() - n * shares[mask].sum()) for mask in conditions(name, domain))
