"""From released tables to rows: the start, the targets of the sweeps, when to stop. Sees released values only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.models.answers import SmallDatabase
from maquette.sculpt.denoise import fitted, freedoms_squared, shrunk
from maquette.sculpt.measurements import Found, Inner, Known
from maquette.sculpt.rows import Edge, Source, first_rows, given, spanning
from maquette.sculpt.sampler import Carving, Targets
from maquette.sculpt.targets import Hierarchy, Layout, Shape, count_shapes

_SINGLE_FREEDOM = 0.5
_NEVER = -25.0
"""The log-potential of cells that the domain forbids."""
_WORST = 5
"""Cells whose mean standardised gap decides whether to go on."""
_CLEAR, _LOOSE = 5.0, 0.02
_GOOD = 3.0
_FALLING = 0.93


def begin(found: Found, *, m: int, rng: np.random.Generator) -> Carving:
    """Rows along the tree of the strongest pairs, ready to be carved to all tables released so far."""
    layout = _layout(found)
    tree = spanning(_edges(found), len(found.singles))
    working = [found.hierarchy.spread(a, 0, single) for a, single in enumerate(found.singles)]
    rows = first_rows(found.hierarchy, list(tree.values()), working, m=m, rng=rng)
    slow = np.zeros(layout.cells)
    for (number, axes), edge in tree.items():
        sizes = layout.sizes[number, : layout.orders[number]]
        others = tuple(set(range(len(sizes))) - set(axes))
        slow[layout.place(number)] += np.broadcast_to(np.expand_dims(edge.ratios, others), sizes).ravel()
    return Carving(layout, targets(found, layout, m), rows, rng=rng, slow=slow)


def extend(carving: Carving, found: Found, *, rng: np.random.Generator) -> Carving:
    """The same rows and potentials with the tables that were released since."""
    layout = _layout(found)
    before, now = carving.layout.patchwork.cells, layout.patchwork.cells
    slow = np.zeros(layout.cells)  # patches may have changed, and begin anew
    slow[now : now + len(carving.slow) - before] = carving.slow[before:]
    return Carving(layout, targets(found, layout, len(carving.rows)), carving.rows, rng=rng, slow=slow)


def sweep(carving: Carving, *, grips: Sequence[float], more: int, tell: Callable[[float], None]) -> int:
    """One sweep per grip, then up to `more` at the last while the worst gaps are large and still falling.

    Returns how many there were.
    """
    most = len(grips) + more
    first = _first_pair(carving.layout)
    before = np.inf
    for done in range(1, most + 1):
        carving.sweep(grip=grips[min(done, len(grips)) - 1])
        tell(done / most)
        if done < len(grips):
            continue
        worst = _worst_gap(carving.targets, carving.counts, first)
        if worst < _GOOD or worst > _FALLING * before:
            return done
        before = worst
    return most


def is_close(carving: Carving, rows: NDArray[np.uint16]) -> bool:
    """Are these rows, too, as close to the measurements as sweeps go on for?"""
    return _worst_gap(carving.targets, carving.layout.count(rows), _first_pair(carving.layout)) < _GOOD


def _first_pair(layout: Layout) -> int:
    """Where the cells of tables of several attributes begin; one-way tables and patches stand before."""
    return int(layout.offsets[np.searchsorted(layout.orders, 2)])


def _worst_gap(targets: Targets, counts: NDArray[np.float64], first: int) -> float:
    """The mean of the largest gaps among cells that stand out of the noise, in deviations."""
    wanted, deviations = targets.counts[first:], targets.deviations[first:]
    clear = wanted > _CLEAR * deviations
    if not clear.any():
        return 0.0
    allowed = np.sqrt(deviations[clear] ** 2 + _LOOSE * wanted[clear] + 1)
    gaps = np.abs((wanted - counts[first:])[clear]) / allowed
    return float(np.sort(gaps)[-_WORST:].mean())


def targets(found: Found, layout: Layout, m: int) -> Targets:
    """Every released table in counts of m rows."""
    scale = m / found.total
    counts, deviations, freedom = np.empty((3, layout.cells))
    base = np.zeros(layout.cells)
    for a, single in enumerate(found.singles):
        place = layout.place(a)
        counts[place] = found.hierarchy.spread(a, 0, single)
        deviations[place] = np.sqrt(found.single_variances[a])
        freedom[place] = _SINGLE_FREEDOM
        base[place] = np.log(np.maximum(counts[place] / counts[place].sum(), 1e-7))
    for i, (_, allowed) in enumerate(found.barred):
        place = layout.place(len(found.singles) + i)
        counts[place], deviations[place], freedom[place] = 0.0, 1.0, 0.0
        base[place] = np.where(allowed, 0.0, _NEVER)
    for i, known in enumerate(found.known()):
        place = layout.place(len(found.singles) + len(found.barred) + i)
        _set(known, place, counts, deviations, freedom)
    for i, inner in enumerate(found.inner()):
        _set(inner, layout.patchwork.place(i), counts, deviations, freedom)
    return Targets(counts * scale, deviations * scale, freedom, base)


def _set(
    measured: Known | Inner,
    place: slice,
    counts: NDArray[np.float64],
    deviations: NDArray[np.float64],
    freedom: NDArray[np.float64],
) -> None:
    variances = measured.variances
    counts[place] = measured.counts
    deviations[place] = np.sqrt(variances)
    freedom[place] = np.sqrt(freedoms_squared(measured.counts, measured.expected, variance=variances))


def _layout(found: Found) -> Layout:
    singles = [Shape((a,), (0,)) for a in range(len(found.singles))]
    barred = [shape for shape, _ in found.barred]
    shapes = [*singles, *barred, *(known.shape for known in found.known())]
    return Layout.of(found.hierarchy, shapes, [inner.patch for inner in found.inner()])


def _edges(found: Found) -> dict[Source, Edge]:
    """Every pair of attributes that a table was measured of: by its own tables, else summed out of three-way ones."""
    first = len(found.singles) + len(found.barred)
    known = list(enumerate(found.known(), first))
    edges = {Source(i): _edge(found, one) for i, one in known if len(one.shape.attributes) == 2}
    own = {edge.shape.attributes for edge in edges.values()}
    for i, one in known:
        if len(one.shape.attributes) < 3:
            continue
        sizes = [found.hierarchy.bins(a, level) for a, level in zip(*one.shape, strict=True)]
        for axes in combinations(range(len(sizes)), 2):
            summed = one.summed(axes, sizes)
            if summed.shape.attributes not in own:
                edges[Source(i, axes)] = _edge(found, summed)
    return edges


def _edge(found: Found, known: Known) -> Edge:
    """A two-way table, shrunk and scaled to the one-way counts."""
    shape = known.shape
    (a, b), (la, lb) = shape
    smooth = shrunk(known.counts, known.expected, variance=known.variances)
    down, across = (
        found.hierarchy.spread(a, la, found.singles[a]),
        found.hierarchy.spread(b, lb, found.singles[b]),
    )
    return Edge(shape, fitted(smooth.reshape(len(down), len(across)), down, across))


def counts_of(carving: Carving, shapes: list[Shape]) -> list[NDArray[np.int64]]:
    """How many rows lie in the cells of further tables, flat."""
    return count_shapes(carving.layout.hierarchy, shapes, carving.rows)


def codes(found: Found, rows: NDArray[np.uint16], *, rng: np.random.Generator) -> SmallDatabase:
    """Rows in the codes of the domain. Where the finest bins hold several codes, by the one-way table."""
    domain = found.hierarchy.domain
    columns: dict[str, NDArray[Any]] = {}
    for a, attribute in enumerate(domain):
        column = rows[:, a].astype(np.int64)
        cut = found.hierarchy.cuts[a][0]
        if len(cut) < attribute.size:
            column = given(column, np.eye(len(cut)), found.hierarchy.labels(a, 0), found.singles[a], rng)
        columns[attribute.name] = column.astype(np.min_scalar_type(max(attribute.size - 1, 1)))
    return SmallDatabase(columns)


# The last touch: rows as even as the average of several sweeps.
#
# A sweep draws every value at random, so the rows carry a sampling error of their own on top of what the
# measurements left open. Averaged over sweeps it fades. So the average of the tables of interest, at full
# resolution, becomes the target of one more sweep, and what is left of the sampling error is little more
# than rounding.

SWEEPS = 3
"""Sweeps more whose rows count in the average."""
_WORK = 1e9
"""Cells that the last sweep may visit."""
_MOST_POOLED = 2_000_000
_STEADY = 0.001
"""What tables of several attributes move in a sweep, in L1; below it there is no sampling error worth polishing."""
_FREE = 10.0
"""Prior deviation of the fine tables: the average is taken as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Polished:
    """Rows, and the rows of all sweeps together, which answer with less sampling error than any of them."""

    rows: NDArray[np.uint16]
    pool: NDArray[np.uint16]


def polish(
    carving: Carving,
    pairs: Iterable[tuple[int, ...]],
    *,
    grip: float,
    rng: np.random.Generator,
    tell: Callable[[float], None],
) -> Polished:
    """Sweep on and average, then once more towards the average; once is enough where the rows hardly move."""
    m, hierarchy = len(carving.rows), carving.layout.hierarchy
    shapes = _shapes(hierarchy, list(pairs), m)
    if not shapes:
        return Polished(carving.rows, carving.rows)
    fine = Layout.of(hierarchy, shapes)
    total = fine.count(carving.rows)
    kept = [carving.rows.copy()]
    for done in range(1, SWEEPS + 1):
        measured = carving.counts.copy()
        carving.sweep(grip=grip)
        counts = fine.count(carving.rows)
        if (done + 1) * m <= _MOST_POOLED:
            kept.append(carving.rows.copy())
        if done == 1:
            moved = _moved(fine, total - counts, m), _moved(carving.layout, measured - carving.counts, m)
            if max(moved) < _STEADY:
                tell(1.0)
                return Polished(carving.rows, np.concatenate(kept))
        total += counts
        tell(done / (SWEEPS + 1))
    last = _towards(carving, fine, total / (SWEEPS + 1), rng)
    last.sweep(grip=grip)
    tell(1.0)
    return Polished(last.rows, np.concatenate(kept))


def _moved(layout: Layout, change: NDArray[np.float64], m: int) -> float:
    """The mean L1 distance that tables of several attributes moved, as a fraction of the rows."""
    several = np.count_nonzero(layout.orders > 1)
    return float(np.abs(change[layout.offsets[len(layout.orders) - several] :]).sum()) / max(m * several, 1)


def _towards(
    carving: Carving, fine: Layout, average: NDArray[np.float64], rng: np.random.Generator
) -> Carving:
    """The same carving with the fine tables as further targets."""
    patches = carving.layout.patchwork.patches
    layout = Layout.of(fine.hierarchy, [*carving.layout.shapes, *fine.shapes], patches)
    targets = carving.targets
    return Carving(
        layout,
        Targets(
            np.concatenate([targets.counts, average]),
            np.concatenate([targets.deviations, np.ones(fine.cells)]),
            np.concatenate([targets.freedom, np.full(fine.cells, _FREE)]),
            np.concatenate([targets.base, np.zeros(fine.cells)]),
        ),
        carving.rows,
        rng=rng,
        slow=np.concatenate([carving.slow, np.zeros(fine.cells)]),
    )


def _shapes(hierarchy: Hierarchy, pairs: list[tuple[int, ...]], m: int) -> list[Shape]:
    """The pairs as finely as the work allows: a visit of one row costs the bins along both attributes."""
    most = (_WORK / (2 * m * max(len(pairs), 1))) ** 2
    return [Shape(pair, hierarchy.finest(pair, most)) for pair in pairs]
