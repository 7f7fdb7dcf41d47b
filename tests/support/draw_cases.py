"""Tiny instances of every sampler, with everything about them known by brute force from the definitions.

A case lists all small databases of its range with their base weights and the 0/1 (or rational) weights of its
queries on every record, and makes the counter under test for any table. Nothing here is shared with the samplers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np

from maquette.samplers.atoms import Atoms, layout
from maquette.samplers.brackets import Scale
from maquette.samplers.lists import Column, Listed, all_multisets, levels_of, sequence_weights
from maquette.samplers.ordered import Intervals, Nested, Node, Thresholds
from maquette.samplers.slices import Blocks
from maquette.samplers.structures import Family, family
from maquette.samplers.trees import Forest
from maquette.samplers.trellis import Trellis

Table = tuple[int, ...]
"""How many records each element of the universe has."""


@dataclass(frozen=True)
class Case:
    name: str
    universe: int
    m: int
    resolution: int
    queries: tuple[tuple[Fraction | int, ...], ...]
    """A row of weights over the universe per query."""
    smalls: tuple[tuple[int, ...], ...]
    """Sorted rows, elements of the universe, of every database (as a multiset)."""
    weights: tuple[int, ...]
    """Their base weights, in the counter's unit."""
    counter: Callable[[Table], Any]
    rows: Callable[[Any], Sequence[int]] = list
    """The rows of a drawn database."""
    given: Callable[[Sequence[int]], Any] = list
    """A database, given by its sorted rows, in the counter's own form."""
    counts_more: bool = False
    """The counter's masses include more than the databases up to a level (see `Counter.draw`)."""
    grid: int = 1
    """A table's numbers are weights over this."""

    def error(self, table: Table, small: Sequence[int]) -> Fraction:
        """max over q of |q(x) - n f_q(y)|, by the definition."""
        n = sum(table)
        gaps = [
            abs(
                sum(w * x for w, x in zip(q, table, strict=True))
                - Fraction(n, self.m) * sum(q[r] for r in small)
            )
            for q in self.queries
        ]
        return Fraction(max(gaps, default=0)) / self.grid

    @property
    def span(self) -> Fraction:
        """D = max over q of (max q - min q), by the definition."""
        return max(Fraction(max(q) - min(q)) for q in self.queries)

    def level(self, table: Table, small: Sequence[int]) -> int:
        return math.ceil(self.error(table, small) / self.span * self.resolution)

    def levels(self, table: Table) -> list[int]:
        return [self.level(table, small) for small in self.smalls]


def multisets(universe: int, m: int) -> tuple[tuple[int, ...], ...]:
    return tuple(combinations_with_replacement(range(universe), m))


def tables(universe: int, most: int) -> list[Table]:
    """All tables of at most so many records."""
    return [t for t in product(range(most + 1), repeat=universe) if sum(t) <= most]


def sequences_of(small: Sequence[int]) -> int:
    """In how many orders the rows can stand."""
    counts = [list(small).count(r) for r in set(small)]
    return math.factorial(len(small)) // math.prod(math.factorial(c) for c in counts)


def tree_weight(small: Sequence[int], low: int, high: int) -> Fraction:
    """The probability of a database under the tree base, by its definition."""
    rows = len(small)
    if high - low == 1 or rows == 0:
        return Fraction(1)
    cut = (low + high) // 2
    left, right = [r for r in small if r < cut], [r for r in small if r >= cut]
    a, b = len(left), len(right)
    split = Fraction(math.comb(2 * a, a) * math.comb(2 * b, b), 4**rows)
    return split * tree_weight(left, low, cut) * tree_weight(right, cut, high)


def base_weights(base: str, smalls: Sequence[tuple[int, ...]], universe: int, m: int) -> tuple[int, ...]:
    if base == "flat":
        return (1,) * len(smalls)
    if base == "sequence":
        return tuple(sequences_of(s) for s in smalls)
    unit = 4 ** (m * (universe - 1).bit_length())
    weights = [tree_weight(s, 0, universe) * unit for s in smalls]
    assert all(w.denominator == 1 for w in weights)
    return tuple(int(w) for w in weights)


def column(table: Table, cells: int) -> Column:
    held = [i for i, x in enumerate(table) if x]
    return Column.of(
        np.array(held, dtype=np.uint64),
        np.array([table[i] for i in held], dtype=np.int64),
        cells=cells,
        size=len(table),
    )


def weighed(grid: int) -> str:
    return "" if grid == 1 else f"-weights/{grid}"


def thresholds(base: str, *, universe: int, cells: int, m: int, resolution: int = 1, grid: int = 1) -> Case:
    smalls = multisets(universe, m)
    return Case(
        name=f"thresholds-{base}-{universe}/{cells}-m{m}-r{resolution}{weighed(grid)}",
        grid=grid,
        universe=universe,
        m=m,
        resolution=resolution,
        queries=tuple(tuple(int(i <= j) for i in range(universe)) for j in range(cells)),
        smalls=smalls,
        weights=base_weights(base, smalls, universe, m),
        counter=lambda table: Thresholds(column(table, cells), Scale(m, resolution, grid), base),  # type: ignore[arg-type]
    )


def matrix(queries: tuple[tuple[Fraction | int, ...], ...], denominator: int) -> np.ndarray:
    return np.array([[int(w * denominator) for w in q] for q in queries], dtype=np.int64)


def narrow(queries: tuple[tuple[Fraction | int, ...], ...], denominator: int) -> int:
    """The numerator of D."""
    return int(max(max(q) - min(q) for q in queries) * denominator)


def listed(
    base: str,
    queries: tuple[tuple[Fraction | int, ...], ...],
    *,
    m: int,
    resolution: int = 1,
    denominator: int = 1,
    keep: Sequence[int] | None = None,
    grid: int = 1,
) -> Case:
    """The whole range, or every database whose number is in `keep` as public candidates."""
    universe = len(queries[0])
    smalls = multisets(universe, m)
    kept = smalls if keep is None else tuple(smalls[i] for i in keep)
    rows = all_multisets(universe, m) if keep is None else np.array(kept, dtype=np.int64)
    sizes = np.ones(universe, dtype=np.int64)

    def counter(table: Table) -> Listed:
        levels = levels_of(
            rows,
            matrix(queries, denominator),
            np.array(table, dtype=np.int64),
            unit=narrow(queries, denominator),
            scale=Scale(m, resolution, grid),
        )
        return Listed.of(levels, None if base == "flat" else sequence_weights(rows, sizes))

    return Case(
        name=f"listed-{base}-{universe}-m{m}-r{resolution}{'' if keep is None else '-candidates'}{weighed(grid)}",
        grid=grid,
        universe=universe,
        m=m,
        resolution=resolution,
        queries=queries,
        smalls=kept,
        weights=base_weights(base, kept, universe, m),
        counter=counter,
        rows=lambda number: rows[number].tolist(),
        given=lambda small: kept.index(tuple(small)),
    )


def trellis(
    base: str,
    queries: tuple[tuple[Fraction | int, ...], ...],
    *,
    m: int,
    resolution: int = 1,
    denominator: int = 1,
    grid: int = 1,
) -> Case:
    """The elements of the universe are the atoms, one cell each."""
    universe = len(queries[0])
    smalls = multisets(universe, m)
    single = Atoms(
        ("x",), (universe,), matrix(queries, denominator), denominator, np.arange(universe, dtype=np.int64)
    )
    read = layout(single)
    scale = Scale(m, resolution, grid * single.span)
    return Case(
        name=f"trellis-{base}-{universe}x{len(queries)}-m{m}-r{resolution}{weighed(grid)}",
        universe=universe,
        m=m,
        resolution=resolution,
        queries=queries,
        smalls=smalls,
        weights=base_weights(base, smalls, universe, m),
        counter=lambda table: Trellis(
            single, read, np.array(table, dtype=np.int64), scale, base == "sequence"
        ),
        grid=grid,
    )


def intervals(base: str, *, universe: int, cells: int, m: int, step: int = 1, grid: int = 1) -> Case:
    smalls = multisets(universe, m)
    runs = [(a, b) for a in range(cells) for b in range(a, cells)]
    return Case(
        name=f"intervals-{base}-{universe}/{cells}-m{m}-s{step}{weighed(grid)}",
        grid=grid,
        universe=universe,
        m=m,
        resolution=1,
        queries=tuple(tuple(int(a <= i <= b) for i in range(universe)) for a, b in runs),
        smalls=smalls,
        weights=base_weights(base, smalls, universe, m),
        counter=lambda table: Intervals(column(table, cells), Scale(m, 1, grid), base, step),  # type: ignore[arg-type]
        counts_more=True,
    )


def nodes(tree: Family, table: Table) -> Node:
    first, last = tree.run
    return Node(tree, sum(table[first : last + 1]), tuple(nodes(part, table) for part in tree.inside))


def nested(
    runs: Sequence[tuple[int, int]], *, universe: int, m: int, resolution: int = 1, grid: int = 1
) -> Case:
    smalls = multisets(universe, m)
    tree = family(runs, universe)
    return Case(
        name=f"nested-{universe}-{len(runs)}-m{m}-r{resolution}{weighed(grid)}",
        grid=grid,
        universe=universe,
        m=m,
        resolution=resolution,
        queries=tuple(tuple(int(a <= i <= b) for i in range(universe)) for a, b in runs),
        smalls=smalls,
        weights=(1,) * len(smalls),
        counter=lambda table: Nested(nodes(tree, table), sum(table), Scale(m, resolution, grid)),
    )


def blocks(m: int) -> Case:
    """Two attributes of two cells: thresholds under the tree on one, a histogram on the other."""
    parts = multisets(2, m)
    smalls = tuple(product(parts, parts))
    weights = base_weights("tree", parts, 2, m)

    def counter(table: Table) -> Blocks:
        first, second = (table[0] + table[1], table[2] + table[3]), (table[0] + table[2], table[1] + table[3])
        histogram = family([(0, 0), (1, 1)], 2)
        return Blocks(
            [
                Thresholds(column(first, 2), Scale(m, 1), "tree"),
                Nested(nodes(histogram, second), sum(table), Scale(m, 1)),
            ]
        )

    return Case(
        name=f"blocks-m{m}",
        universe=4,
        m=m,
        resolution=1,
        queries=((1, 1, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1)),
        # rows are joined in some order: the queries see one attribute at a time
        smalls=tuple(tuple(2 * a + b for a, b in zip(x, y, strict=True)) for x, y in smalls),
        weights=tuple(w for w in weights for _ in parts),
        counter=counter,
        rows=lambda small: [2 * a + b for a, b in zip(sorted(small[0]), sorted(small[1]), strict=True)],
        given=lambda small: [[r // 2 for r in small], [r % 2 for r in small]],
    )


def forest(edges: Sequence[tuple[int, int]], singles: Sequence[int], *, attributes: int, m: int) -> Case:
    """Records are numbers whose bits are the attributes, the first the highest."""
    universe = 2**attributes
    smalls = multisets(universe, m)

    def bit(element: int, attribute: int) -> int:
        return element >> (attributes - 1 - attribute) & 1

    queries = [tuple(bit(i, a) for i in range(universe)) for a in singles]
    for a, b in edges:
        for s, t in product((0, 1), repeat=2):
            queries.append(tuple(int(bit(i, a) == s and bit(i, b) == t) for i in range(universe)))

    def counter(table: Table) -> Forest:
        return Forest(
            attributes=attributes,
            edges=edges,
            singles=frozenset(singles),
            ones=[sum(x for i, x in enumerate(table) if bit(i, a)) for a in range(attributes)],
            both={(a, b): sum(x for i, x in enumerate(table) if bit(i, a) and bit(i, b)) for a, b in edges},
            n=sum(table),
            scale=Scale(m, 1),
        )

    def rows(bits: list[list[int]]) -> list[int]:
        return [sum((r in bits[a]) << (attributes - 1 - a) for a in range(attributes)) for r in range(m)]

    return Case(
        name=f"forest-{len(edges)}-{len(singles)}-m{m}",
        universe=universe,
        m=m,
        resolution=1,
        queries=tuple(queries),
        smalls=smalls,
        weights=tuple(sequences_of(s) for s in smalls),
        counter=counter,
        rows=rows,
        given=lambda small: [[r for r in range(m) if bit(small[r], a)] for a in range(attributes)],
    )


NARROW = ((Fraction(1, 4), Fraction(1, 2), Fraction(1, 2)), (Fraction(3, 4), Fraction(1, 2), Fraction(1, 2)))
"""No record moves these queries by more than a quarter."""
UNEVEN = ((Fraction(1, 6), Fraction(1, 2), Fraction(1, 3)), (Fraction(5, 6), Fraction(5, 6), Fraction(2, 3)))
ODD = ((1, 0, 1, 0), (0, 1, 1, 0), (1, 1, 0, 0))
WINDOWS = ((1, 1, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 1, 1, 0), (0, 0, 0, 1, 1))
REAL = ((Fraction(1, 4), 1, Fraction(1, 2)), (0, Fraction(3, 4), 1))

WEIGHED: tuple[Case, ...] = (
    thresholds("tree", universe=3, cells=3, m=3, grid=2),
    thresholds("flat", universe=4, cells=3, m=2, resolution=2, grid=2),
    intervals("flat", universe=4, cells=4, m=2, grid=2),
    nested([(0, 2), (0, 1), (3, 3)], universe=4, m=2, grid=2),
    listed("flat", REAL, m=2, resolution=2, denominator=4, grid=2),
    listed("sequence", ODD, m=2, grid=3),
    listed("flat", UNEVEN, m=2, denominator=6, grid=2),
    trellis("flat", REAL, m=2, denominator=4, grid=2),
)
"""Tables whose records weigh (Roth 2010)."""

CASES: tuple[Case, ...] = (
    thresholds("flat", universe=4, cells=4, m=3),
    thresholds("flat", universe=5, cells=4, m=2, resolution=2),
    thresholds("sequence", universe=4, cells=4, m=3, resolution=3),
    thresholds("sequence", universe=4, cells=3, m=4),
    thresholds("tree", universe=4, cells=4, m=3),
    thresholds("tree", universe=5, cells=5, m=4, resolution=2),
    thresholds("tree", universe=5, cells=3, m=3),
    listed("flat", ODD, m=3),
    listed("sequence", ODD, m=3, resolution=3),
    listed("flat", REAL, m=3, resolution=2, denominator=4),
    listed("flat", ODD, m=4, keep=range(0, 35, 4)),
    listed("flat", NARROW, m=3, resolution=2, denominator=4),
    listed("sequence", UNEVEN, m=3, denominator=6),
    intervals("flat", universe=4, cells=4, m=3),
    intervals("tree", universe=5, cells=4, m=2, step=2),
    nested([(i, i) for i in range(4)], universe=4, m=3, resolution=2),
    nested([(0, 4), (0, 1), (2, 3), (3, 3)], universe=5, m=3),
    blocks(m=3),
    forest([(0, 1)], [0], attributes=2, m=3),
    forest([(0, 1), (0, 2)], [], attributes=3, m=2),
    trellis("flat", ODD, m=3),
    trellis("sequence", WINDOWS, m=3, resolution=2),
    trellis("flat", REAL, m=3, resolution=2, denominator=4),
    trellis("flat", NARROW, m=3, denominator=4),
    *WEIGHED,
)


def law(case: Case, table: Table, base: Fraction) -> dict[Hashable, int]:
    """The stated law of the draw, as whole numbers: weight * base**level."""
    levels = case.levels(table)
    top = max(levels)
    return {
        small: weight * base.numerator**level * base.denominator ** (top - level)
        for small, weight, level in zip(case.smalls, case.weights, levels, strict=True)
    }
