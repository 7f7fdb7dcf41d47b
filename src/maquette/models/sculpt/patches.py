"""Small cells inside heavy ones, laid out for the compiled sweeps: most of a table of theirs is left open.

A table of all bins at that resolution would cost a row the bins along both attributes; here a visit touches just the
runs of bins that belong to some cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """Some cells of a two-way table, each made of pairs of working codes; the rest of the table is left open."""

    attributes: tuple[int, ...]
    cells: NDArray[np.int64]
    """The cell of every pair of working codes, from 0 on, or -1."""

    @property
    def count(self) -> int:
        return int(self.cells.max()) + 1


OWN, OTHER, LINES, BINS, OWN_STEP, OTHER_STEP = range(6)
"""Columns of a patch as one of its attributes sees it: its number, the other attribute, where its lines of runs are
told, where the bins of the patch begin and their strides."""


@dataclass(frozen=True, slots=True, eq=False)
class Patchwork:
    """All patches in flat arrays, their cells in one run."""

    patches: tuple[Patch, ...]
    offsets: NDArray[np.int64]
    """Where each patch's cells begin; one more at the end."""
    pointers: NDArray[np.int64]
    """By attribute: its run in `members`."""
    members: NDArray[np.int64]
    """What a visit of an attribute needs of every patch that holds it, in columns."""
    firsts: NDArray[np.int64]
    """One member of every patch."""
    bins: NDArray[np.int32]
    """The cell of every bin, patch after patch, or -1."""
    starts: NDArray[np.int64]
    """For every member and code of the other attribute, where its runs begin."""
    runs: NDArray[np.int32]
    """First bin, the bin after the last, and the cell."""

    @classmethod
    def of(cls, attributes: int, patches: Sequence[Patch]) -> Patchwork:
        offsets = np.cumsum([0, *(patch.count for patch in patches)]).astype(np.int64)
        members: list[list[list[int]]] = [[] for _ in range(attributes)]
        owners: list[list[int]] = [[] for _ in range(attributes)]
        bins, runs, starts = [np.zeros(0, np.int64)], [np.zeros((0, 3), np.int64)], [np.zeros(0, np.int64)]
        lines = begin = passed = 0
        for i, patch in enumerate(patches):
            grid = np.where(patch.cells >= 0, patch.cells + offsets[i], -1)
            steps = (grid.shape[1], 1)
            for own, seen in ((0, grid.T), (1, grid)):
                other = 1 - own
                found, firsts = _runs(seen)
                a, b = patch.attributes[own], patch.attributes[other]
                members[a].append([a, b, lines, begin, steps[own], steps[other]])
                owners[a].append(i)
                runs.append(found)
                starts.append(firsts + passed)
                lines += len(firsts)
                passed += len(found)
            bins.append(grid.ravel())
            begin += grid.size
        _, firsts = np.unique([i for run in owners for i in run], return_index=True)
        return cls(
            patches=tuple(patches),
            offsets=offsets,
            pointers=np.cumsum([0, *map(len, members)]).astype(np.int64),
            members=np.array([row for run in members for row in run], dtype=np.int64).reshape(-1, 6),
            firsts=firsts.astype(np.int64),
            bins=np.concatenate(bins).astype(np.int32),
            starts=np.concatenate(starts),
            runs=np.concatenate(runs).astype(np.int32),
        )

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    def place(self, patch: int) -> slice:
        """Where one patch's cells stand."""
        return slice(int(self.offsets[patch]), int(self.offsets[patch + 1]))

    def count(self, rows: NDArray[np.uint16]) -> NDArray[np.int64]:
        """How many rows lie in every cell."""
        counts = np.zeros(self.cells, dtype=np.int64)
        _count(rows, self.members[self.firsts], self.bins, counts)
        return counts


def _runs(grid: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The runs of one cell along every line of a grid, and where those of each line begin; one more at the end."""
    lines, length = grid.shape
    edges = np.ones((lines, length), dtype=bool)
    edges[:, 1:] = grid[:, 1:] != grid[:, :-1]
    line, first = np.nonzero(edges)
    stop = np.append(first[1:], 0)
    stop[stop == 0] = length
    cell = grid[line, first]
    kept = cell >= 0
    begin = np.searchsorted(line[kept], np.arange(lines + 1))
    return np.column_stack([first, stop, cell])[kept], begin


@numba.njit(cache=True, nogil=True)
def _count(rows: Any, members: Any, bins: Any, counts: Any) -> None:
    for c in range(members.shape[0]):
        t = members[c]
        for r in range(rows.shape[0]):
            cell = bins[t[BINS] + t[OWN_STEP] * rows[r, t[OWN]] + t[OTHER_STEP] * rows[r, t[OTHER]]]
            if cell >= 0:
                counts[cell] += 1
