"""Nested families of cells of one attribute: of any two sets, one holds the other or they are apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from maquette.errors import WorkloadError

Run = tuple[int, int]
"""The first and the last cell of a set."""


@dataclass(frozen=True, slots=True)
class Family:
    """A set with the largest sets inside it."""

    asked: bool
    """False for the whole attribute where no query asks for it."""
    loose: tuple[tuple[int, int], ...]
    """Runs of cells that no set inside holds: the first cell and how many."""
    inside: tuple[Family, ...]
    run: Run

    @property
    def cells(self) -> int:
        return self.run[1] - self.run[0] + 1

    @property
    def sets(self) -> int:
        """How many sets are asked for."""
        return self.asked + sum(part.sets for part in self.inside)

    @property
    def widest(self) -> int:
        """The most parts that one set is split into."""
        return max([len(self.inside), *(part.widest for part in self.inside)])


def family(runs: Iterable[Run], size: int) -> Family:
    """The tree of a nested family of runs over an attribute of `size` cells."""
    wanted = sorted(set(runs), key=lambda run: (run[0], -run[1]))
    whole = (0, size - 1)
    asked = bool(wanted) and wanted[0] == whole
    return _tree(whole, wanted[asked:], asked=asked)


def is_nested(runs: Iterable[Run]) -> bool:
    """Do no two sets cross?"""
    open_ends: list[int] = []
    for first, last in sorted(set(runs), key=lambda run: (run[0], -run[1])):
        while open_ends and open_ends[-1] < first:
            open_ends.pop()
        if open_ends and open_ends[-1] < last:
            return False
        open_ends.append(last)
    return True


def _tree(run: Run, inner: list[Run], *, asked: bool) -> Family:
    """`inner` holds the sets strictly inside, by first cell, the larger first."""
    parts: list[Family] = []
    loose: list[tuple[int, int]] = []
    place, i = run[0], 0
    while i < len(inner):
        first, last = inner[i]
        if first < place or last > run[1]:
            raise WorkloadError(f"the sets of cells {inner[i]} and another cross: the family is not nested")
        stop = i + 1
        while stop < len(inner) and inner[stop][0] <= last:
            stop += 1
        if first > place:
            loose.append((place, first - place))
        parts.append(_tree(inner[i], inner[i + 1 : stop], asked=True))
        place, i = last + 1, stop
    if place <= run[1]:
        loose.append((place, run[1] - place + 1))
    return Family(asked, tuple(loose), tuple(parts), run)
