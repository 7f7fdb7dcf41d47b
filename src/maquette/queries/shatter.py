"""The largest shattered set of a finite class, by depth-first search over sets of queries held as bits of an int."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Split(NamedTuple):
    """A point with a witness level: which queries are low there and which are high. Those between are neither."""

    point: int
    level: Fraction
    low: int
    high: int


class Shattered(NamedTuple):
    """Splits such that every labelling of their points has a query, and one such query per labelling.

    Bit j of a labelling's number is the label of point j.
    """

    splits: tuple[Split, ...]
    witnesses: tuple[int, ...]
    complete: bool = True
    """Was the search finished, so that no larger set is shattered?"""


def splits_of(numerators: NDArray[Any], denominator: int, gamma: Fraction) -> list[Split]:
    """All splits of a class that are worth trying, queries down and points across; most even first.

    Only levels v + gamma with v a value taken at the point need be tried: lowering a level to such a value keeps the
    low set and can only enlarge the high one. Of levels with the same high set the one with the largest low set is
    enough. Two equal or opposite splits never stand in one shattered set, so one of each is kept; nor do two splits
    of one point, so their points are distinct by themselves.
    """
    split_of: dict[tuple[int, int], Split] = {}
    for point in range(numerators.shape[1]):
        for split in _at_point(point, numerators[:, point], denominator, gamma):
            key = (min(split.low, split.high), max(split.low, split.high))
            split_of.setdefault(key, split)
    return sorted(split_of.values(), key=lambda s: -min(s.low.bit_count(), s.high.bit_count()))


def largest(splits: Sequence[Split], queries: int, *, effort: int | None = None) -> Shattered:
    """A largest shattered set; with `effort`, the largest one among so many sets that were looked at.

    Cost: O(|splits|^(d+1)) set operations in the worst case, usually far fewer: a set that can grow to t points has
    2^(t-j) queries or more for each labelling of any j of them. A split that leaves fewer behind extends no set of
    this branch that would beat the best one found, and is dropped for the whole branch.
    """
    search = _Search(queries, effort)
    search.visit([(1 << queries) - 1], splits, ())
    return Shattered(search.best, labels_of(search.best, queries), search.is_complete)


def labels_of(splits: Sequence[Split], queries: int) -> tuple[int, ...]:
    """For each labelling the first query that has it; empty if some labelling has none."""
    cells = [(1 << queries) - 1]
    for split in splits:
        cells = [cell & split.low for cell in cells] + [cell & split.high for cell in cells]
    if not all(cells):
        return ()
    return tuple((cell & -cell).bit_length() - 1 for cell in cells)


def bits(mask: NDArray[np.bool_]) -> int:
    """The set of queries where the mask is true."""
    return int.from_bytes(np.packbits(np.asarray(mask, dtype=bool), bitorder="little").tobytes(), "little")


class _Search:
    def __init__(self, queries: int, effort: int | None) -> None:
        self.best: tuple[Split, ...] = ()
        self.most = queries.bit_length() - 1  # 2^d labellings need as many queries
        self.left = effort

    @property
    def is_complete(self) -> bool:
        return self.left is None or self.left > 0 or len(self.best) == self.most

    def visit(self, cells: list[int], splits: Sequence[Split], chosen: tuple[Split, ...]) -> None:
        """Look for more than the best among the sets that extend `chosen`, whose labellings are the `cells`."""
        if len(chosen) > len(self.best):
            self.best = chosen
        if self.left is not None:
            if self.left <= 0:
                return
            self.left -= len(cells) * max(1, len(splits))
        candidates = self._promising(cells, splits, len(chosen))
        for i, split in enumerate(candidates):
            if len(self.best) >= min(self.most, len(chosen) + len(candidates) - i):
                return
            self.visit(_divide(cells, split), candidates[i + 1 :], (*chosen, split))

    def _promising(self, cells: list[int], splits: Sequence[Split], chosen: int) -> list[Split]:
        need = 1 << max(0, len(self.best) - chosen)
        if cells[0].bit_count() < 2 * need:  # the smallest cell
            return []
        return [split for split in splits if _leaves(cells, split, need)]


def _divide(cells: list[int], split: Split) -> list[int]:
    """The cells of the larger set, smallest first: those are the first to refuse a split."""
    parts = [cell & side for cell in cells for side in (split.low, split.high)]
    return sorted(parts, key=int.bit_count)


def _leaves(cells: Iterable[int], split: Split, need: int) -> bool:
    """Does each cell have `need` queries on either side?"""
    return all(
        (cell & split.low).bit_count() >= need and (cell & split.high).bit_count() >= need for cell in cells
    )


def _at_point(point: int, values: NDArray[Any], denominator: int, gamma: Fraction) -> list[Split]:
    splits: list[Split] = []
    distinct = sorted({int(v) for v in values.tolist()})
    masks = [bits(values == v) for v in distinct]
    everyone = (1 << len(values)) - 1
    low = 0
    for value, mask in zip(distinct, masks, strict=True):
        low |= mask
        border = math.ceil(value + 2 * gamma * denominator)
        below = sum(m for v, m in zip(distinct, masks, strict=True) if v < border)
        high = everyone & ~below
        if not high:
            break
        if splits and splits[-1].high == high:
            splits.pop()
        splits.append(Split(point, Fraction(value, denominator) + gamma, low, high))
    return splits
