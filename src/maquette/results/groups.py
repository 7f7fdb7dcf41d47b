"""Groups of records: those that meet a condition, by the cells of some attributes. Public, whoever answers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.queries import condition
from maquette.queries.condition import Condition, Every, Leaf, Runs
from maquette.queries.names import attribute as attribute_of
from maquette.queries.predicates import Predicate, where

MAX_GROUPS = 2_000_000
"""Cells of a table that is put into a frame."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The records that meet a condition, by the cells of some attributes."""

    domain: Domain
    by: tuple[str, ...]
    predicate: Predicate | None

    @classmethod
    def over(cls, domain: Domain, by: Sequence[str], text: str | None, *, undeclared: bool = False) -> Groups:
        """Checked: attributes of the domain, a condition that is exact on cells, not too many groups.

        With `undeclared` a condition may name values that are not declared, and no record need meet it.
        """
        names = tuple(attribute_of(domain, name).name for name in by)
        if len(set(names)) < len(names):
            raise WorkloadError("an attribute is named twice among those to group by")
        if domain.cells(names) > MAX_GROUPS:
            raise WorkloadError(
                f"a table over {', '.join(names)} has {domain.cells(names):,} cells, more than the {MAX_GROUPS:,} that "
                "are put into a frame; group by fewer attributes, or export the release"
            )
        predicate = None if text is None else where(domain, text, undeclared=undeclared)
        if predicate is not None:
            if not predicate.exact:
                raise WorkloadError(f"{predicate.cuts[0]}; compare with borders of cells in a table")
            if predicate.condition == condition.NEVER and not undeclared:
                raise WorkloadError(f"no record can meet the condition {text!r}")
        return cls(domain, names, predicate)

    @cached_property
    def condition(self) -> Condition:
        return condition.ALWAYS if self.predicate is None else self.predicate.condition

    @cached_property
    def leaves(self) -> dict[str, Runs] | None:
        """The condition as one set of cells for each attribute; None if it is no conjunction."""
        factors = condition.product(self.condition)
        return None if factors is None else {leaf.attribute: leaf.runs for leaf in factors}

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The groups, one row each, as codes of `by`: all cells that the condition leaves."""
        shape = [self.domain[name].size for name in self.by]
        cells = np.indices(shape).reshape(len(shape), -1).T if shape else np.zeros((1, 0), dtype=np.int64)
        return np.asarray(cells[self.left], dtype=np.int64)

    @cached_property
    def left(self) -> NDArray[np.bool_]:
        """Which cells of the table over `by` can hold a record that meets the condition."""
        left = np.ones([self.domain[name].size for name in self.by], dtype=bool)
        for axis, name in enumerate(self.by):
            if self.leaves is not None and name in self.leaves:
                mask = condition.mask(self.leaves[name], self.domain[name].size)
                left &= mask.reshape([-1 if i == axis else 1 for i in range(len(self.by))])
        return left.ravel()

    def leaves_of(self, group: Sequence[int]) -> list[Leaf]:
        """The cells of one group as sets."""
        return [Leaf(name, ((code, code),)) for name, code in zip(self.by, group, strict=True)]

    def joined(self, leaves: Sequence[Condition]) -> Condition:
        """The condition together with some sets."""
        return condition.simplify(self.domain, Every((self.condition, *leaves)))
