"""Sums of a numeric column over groups of records, taken at the resolution of its unit.

With v the value of a record, m the middle and w the width of its grid (public numbers), the sum over a group is that of
(v - m) / w, a number from -1/2 to 1/2: so a record moves it half as much as the sum of (v - low) / w. Beside it stands
half the number of records that it is a sum of, where those are not all records.

Guarantee: one record more or less moves one sum and the halved count of its group by at most 1/2 each. Replacing a
record moves one sum by at most 1 and no count; or, where a value becomes missing, a sum and the count beside it by at
most 1/2 each; or, from group to group, two sums and both counts by at most 1/2 each. The coder holds every value within
the bounds as a whole number of steps, and a code that is not declared adds nothing: this holds whatever is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import bounds
from maquette.core.errors import WorkloadError
from maquette.core.forms import Margin, Sensitivity
from maquette.core.grid import Grid, column_of
from maquette.core.neighbours import Relation
from maquette.core.rows.counting import Coded, Task
from maquette.core.universe import Universe

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SumsTask(Task):
    """The sums of 2 code - steps over the declared values of every group, then how many there are of them."""

    domain: Universe
    name: str
    by: Margin

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.by, column_of(self.name))

    def zeros(self) -> list[NDArray[Any]]:
        cells = self.domain.cells(self.by)
        return [np.zeros(cells, dtype=np.int64), np.zeros(cells, dtype=np.int64)]

    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        steps = grid_of(self.domain, self.name).steps
        codes = batch[column_of(self.name)].astype(np.int64)
        declared = codes <= steps
        terms = np.where(declared, 2 * codes - steps, 0)
        totals, counts = sums
        if not self.by:
            totals += terms.sum()
            counts += np.count_nonzero(declared)
            return
        shape = [self.domain[name].size for name in self.by]
        groups = np.ravel_multi_index([batch[name].astype(np.int64) for name in self.by], shape)
        np.add.at(totals, groups, terms)
        counts += np.bincount(groups[declared], minlength=len(counts))


@dataclass(frozen=True, slots=True)
class SumsQuestion:
    """The sums of one column over the groups of some others, checked before anything is paid."""

    domain: Universe
    name: str
    by: Margin

    @classmethod
    def of(cls, domain: Universe, name: str, by: Margin) -> SumsQuestion:
        bounds.check_list([name], str, "a numeric attribute by its name")
        bounds.check_margins(domain, [by])
        grid_of(domain, name)
        return cls(domain, name, by)

    @property
    def counts_declared(self) -> bool:
        """Is the number of records in the sums asked for too? Not where it is the number of all records."""
        return bool(self.by) or grid_of(self.domain, self.name).has_undeclared

    @property
    def denominator(self) -> int:
        """Of the sums; the halved counts are whole numbers of this denominator too."""
        return 2 * grid_of(self.domain, self.name).steps

    @property
    def numbers(self) -> int:
        """How many numbers are asked for."""
        return self.domain.cells(self.by) * (2 if self.counts_declared else 1)

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far neighbouring tables move the sums and halved counts."""
        half = Fraction(1, 2)
        parts = 2 if self.counts_declared else 1
        if relation is Relation.ADD_REMOVE:
            return Sensitivity(parts * half, parts * half**2, half)
        apart = self.domain.cells(self.by) > 1
        return Sensitivity(Fraction(parts if apart else 1), Fraction(1), Fraction(1))

    def request(self) -> dict[str, Any]:
        return {"ask": "sums", "name": self.name, "by": list(self.by)}

    def task(self) -> SumsTask:
        return SumsTask(self.domain, self.name, self.by)

    def numerators(self, sums: Sequence[Integers]) -> Integers:
        """Exact sums, and where they are asked for the halved counts, all over `denominator`."""
        if not self.counts_declared:
            return sums[0]
        return np.concatenate([sums[0], grid_of(self.domain, self.name).steps * sums[1]])


def grid_of(domain: Universe, name: str) -> Grid:
    """The fine cells of an attribute; refused where it has none."""
    fine = domain[name].grid
    if fine is None:
        raise WorkloadError(
            f"attribute '{name}' has no unit, so that no sum of its values is taken; declare one beside its bounds"
        )
    return fine
