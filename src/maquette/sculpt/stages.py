"""The measurements, one stage after the other; each is planned from what the earlier ones released."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.accounting.budget import UNITS
from maquette.mechanisms.base import Curator, Task
from maquette.models.fits import fit_tree, tree_widths
from maquette.queries.marginals import Binned, Cuts
from maquette.questions.measurement import NoisyTable, Size
from maquette.sculpt.allocation import Exchange, Facts, Interests, Weighted, allot
from maquette.sculpt.denoise import denoise, shrunk
from maquette.sculpt.measurements import Found, mosaic
from maquette.sculpt.targets import Hierarchy, Shape

SIZE_SHARE = 0.005
SCORE_SHARE = 0.03
SCORE_BINS = 8
FINE_SHARE, COARSE_SHARE, ROUNDS_SHARE = 0.7, 0.35, 0.2
"""Shares of the third order: all tables at full resolution, all in bins, a few in rounds."""
PER_ROUND = 4
FIRST_ROUND = Fraction(3, 10)
"""Of what the rounds may spend; what it finds decides about the rest."""
FIRST_LOOK, FIRST_BINS, FEW_BINS = 0.3, 0.5, 48
"""What the first look at a two-way table costs, and its bins, as parts of the whole; so few bins are all taken."""
HEAVY = 8.0
"""Records of a cell that is cut, in deviations of the table's noise."""
BRANCHES = 16
_UNASKED = 0.1
_CLEAR, _ENOUGH = 15.0, 50.0
_CHOICE_SHARE = 0.15
_RESOLUTIONS = (0.1, 0.3, 1.0)
_AT_A_TIME = 2_000


class Purse:
    """A share of the task's price, in floating point for planning and on the ledger's grid for paying."""

    def __init__(self, curator: Curator, task: Task) -> None:
        self._curator = curator
        self._start = curator.left
        self._price = task.price

    @property
    def whole(self) -> float:
        return float(self._price)

    @property
    def left(self) -> Fraction:
        """What is left of the price."""
        return self._price - (self._start - self._curator.left)

    def part(self, share: float) -> Fraction:
        """A share of the whole price, on the grid, never more than is left."""
        asked = Fraction(math.floor(self.whole * share * UNITS), UNITS)
        return min(asked, self.left)


def measure_singles(
    curator: Curator, purse: Purse, exchange: Exchange, size: Size, wanted: Interests, *, share: float
) -> Found:
    """Every one-way table of the domain; the price of each goes with the root of its cells.

    An attribute that ranges or prefixes are asked of is measured in a tree of wider and wider bins, since a sum over
    many cells would carry the noise of each. Attributes that no query looks at get a tenth of their price.
    """
    domain = curator.domain
    stacks = [_stack(a.size, tree=i in wanted.ordered) for i, a in enumerate(domain)]
    roots = np.sqrt([float(a.size) for a in domain])
    roots *= [1.0 if i in wanted.attributes else _UNASKED for i in range(len(domain))]
    prices = float(purse.part(share)) * roots / roots.sum()
    asked = [
        Binned((name,), (cut,)) for name, stack in zip(domain.names, stacks, strict=True) for cut in stack
    ]
    variances = [exchange.exact(p / len(s)) for p, s in zip(prices, stacks, strict=True) for _ in s]
    measured = iter(curator.measure_tables(asked, variances=variances))
    noisy = [[next(measured) for _ in stack] for stack in stacks]
    total = float(size.divisor) if size.public else max(_total([stack[0] for stack in noisy]), 1.0)
    leaves = [_leaves(stack, total) for stack in noisy]
    deviations = [math.sqrt(stack[0].variance) for stack in noisy]
    singles = [denoise(t, deviation=s, total=total) for t, s in zip(leaves, deviations, strict=True)]
    return Found(
        size=size,
        hierarchy=Hierarchy.from_counts(domain, singles),
        total=total,
        singles=singles,
        single_variances=[float(stack[0].variance) for stack in noisy],
        single_tables=[table for stack in noisy for table in stack],
    )


def _stack(size: int, *, tree: bool) -> list[Cuts]:
    """The partitions in which one attribute is measured, the finest first."""
    spans = tree_widths(size, BRANCHES) if tree else [1]
    return [tuple(range(0, size, span)) for span in spans]


def _leaves(stack: Sequence[NoisyTable], total: float) -> NDArray[np.float64]:
    """One attribute's counts out of all its partitions by least squares."""
    counts = [table.values.astype(np.float64) for table in stack]
    if len(counts) == 1:
        return counts[0]
    variances = [float(table.variance) for table in stack]
    return fit_tree(counts, variances, branches=BRANCHES, total=total, total_variance=0.0)


def _total(noisy: Sequence[NoisyTable]) -> float:
    """The number of records by the totals of all tables, each weighted by its precision."""
    weights = [1 / (table.asked.cells * float(table.variance)) for table in noisy]
    return float(np.average([float(table.values.sum()) for table in noisy], weights=weights))


def measure_scores(
    curator: Curator, purse: Purse, found: Found, pairs: Sequence[tuple[int, ...]]
) -> tuple[NDArray[np.float64], float]:
    """How far each pair is from independence, in counts, less what chance alone would give; and the noise in it."""
    levels = found.hierarchy
    shapes = [Shape(pair, tuple(levels.level_of(a, SCORE_BINS) for a in pair)) for pair in pairs]
    expected = [found.product(shape) for shape in shapes]
    values, law = curator.distances(
        [levels.table(*shape) for shape in shapes],
        [np.rint(table).astype(np.int64) for table in expected],
        price=purse.part(SCORE_SHARE),
    )
    chance = np.array([math.sqrt(2 / math.pi) * np.sqrt(table).sum() for table in expected])
    return np.asarray(values - chance, dtype=np.float64), law.deviation


def measure_pairs(
    curator: Curator,
    exchange: Exchange,
    found: Found,
    pairs: dict[tuple[int, ...], float],
    scores: NDArray[np.float64],
    doubt: float,
    *,
    price: float,
) -> None:
    """Two-way tables at the resolution that their noise can bear, the price by the predicted risk.

    In two looks: the first, in half the bins, tells which cells are heavy; in the second these are cut as finely as
    the noise can bear. Not so for Laplace noise, of which two looks are worth less than one at the price of both.
    """
    facts = Facts(found.total, exchange)
    keys = list(pairs)
    raised = np.maximum(scores, doubt / 2)
    found.scores = dict(zip(keys, raised.tolist(), strict=True))
    cells = [found.hierarchy.cells(pair, (0, 0)) for pair in keys]
    shares = (1.0,) if exchange.unit.is_pure else (FIRST_LOOK, 1 - FIRST_LOOK)
    price -= (len(shares) - 1) / UNITS  # each payment is rounded up to the ledger's grid
    prices = allot(facts, list(raised), cells, list(pairs.values()), price=price)
    kept = [i for i in range(len(keys)) if prices[i] > 0]
    deviations = [math.sqrt(exchange.variance(prices[i])) for i in kept]
    shapes: list[Shape] = []
    for i, deviation in zip(kept, deviations, strict=True):
        most = facts.bins(float(scores[i]), deviation)
        if len(shares) > 1:
            most = max(min(most, FEW_BINS), FIRST_BINS * most)
        shapes.append(Shape(keys[i], found.hierarchy.finest(keys[i], most)))
    expected = [found.product(shape) for shape in shapes]
    for look, share in enumerate(shares):
        if look:
            _cut_heavy(found, shapes, [HEAVY * deviation for deviation in deviations])
        variances = [exchange.exact(prices[i] * share) for i in kept]
        _measure(curator, found, shapes, expected, variances, cut=look > 0)


def _cut_heavy(found: Found, shapes: Sequence[Shape], most: Sequence[float]) -> None:
    """Cut the cells in which a released table has more than so many records."""
    known = {one.shape: one for one in found.known()}
    for shape, limit in zip(shapes, most, strict=True):
        seen = known[shape]
        masses = shrunk(seen.counts, seen.expected, variance=seen.variances)
        singles = [found.singles[a] for a in shape.attributes]
        cut = mosaic(found.hierarchy, shape, masses, singles, most=limit)
        if cut is not None:
            found.mosaics[shape] = cut


@dataclass(frozen=True, slots=True)
class Third:
    """How tables of three attributes are measured: all of them at once, or a few chosen in rounds."""

    share: float
    """Of the whole price."""
    everything: bool


def third_order(exchange: Exchange, size: Size, sizes: Sequence[int], *, price: float) -> Third:
    """All triples where their cells stand out of the noise, else rounds of private selection. Public inputs only.

    `sizes` are the cells of all triples of interest.
    """
    count, n = len(sizes), float(size.divisor)
    if not count:
        return Third(0.0, False)
    fine, coarse = (exchange.variance(price * share / count) for share in (FINE_SHARE, COARSE_SHARE))
    if n >= _CLEAR * float(np.median(sizes)) * math.sqrt(fine):
        return Third(FINE_SHARE, True)
    if n >= _ENOUGH * coarse:
        return Third(COARSE_SHARE, True)
    return Third(ROUNDS_SHARE, False)


def measure_triples(
    curator: Curator,
    exchange: Exchange,
    found: Found,
    triples: Sequence[tuple[int, ...]],
    believed: Callable[[list[Shape]], list[NDArray[np.float64]]],
    *,
    price: float,
) -> None:
    """Every triple, in as many bins as its noise can bear."""
    variance = exchange.exact(price / len(triples))
    deviation = math.sqrt(variance)
    most = max(8.0, found.total / deviation**2, 4 * (0.02 * found.total / deviation) ** (2 / 3))
    shapes = [Shape(triple, found.hierarchy.finest(triple, most)) for triple in triples]
    _measure(curator, found, shapes, believed(shapes), [variance] * len(shapes))


def measure_worst(
    curator: Curator,
    exchange: Exchange,
    found: Found,
    candidates: Sequence[tuple[int, ...]],
    believed: Callable[[list[Shape]], list[NDArray[np.float64]]],
    *,
    price: Fraction,
) -> float:
    """One round: choose the tables that the rows get most wrong, at several resolutions, and measure them.

    Returns by how many counts the rows were off in them, summed up, noise taken off.
    """
    for_choice = Fraction(math.floor(price * _CHOICE_SHARE * UNITS), UNITS)
    rest = float(price - for_choice)
    deviation = math.sqrt(exchange.variance(rest / PER_ROUND))
    shapes = list(
        dict.fromkeys(
            Shape(key, found.hierarchy.finest(key, max(2.0 ** len(key), scale * found.total / deviation)))
            for key in candidates
            for scale in _RESOLUTIONS
        )
    )
    references, penalties = _scored(found, shapes, believed, deviation)
    chosen = curator.select_tables(
        [found.hierarchy.table(*shape) for shape in shapes],
        references,
        penalties,
        count=PER_ROUND,
        price=for_choice,
    )
    variance = exchange.exact(rest / len(chosen))
    taken = [shapes[i] for i in chosen]
    _measure(curator, found, taken, believed(taken), [variance] * len(taken))
    latest = zip(found.tables[-len(chosen) :], found.expected[-len(chosen) :], strict=True)
    return sum(_surplus(table, belief) for table, belief in latest)


def _scored(
    found: Found,
    shapes: Sequence[Shape],
    believed: Callable[[list[Shape]], list[NDArray[np.float64]]],
    deviation: float,
) -> tuple[list[NDArray[np.signedinteger[Any]]], NDArray[np.int64]]:
    """What the rows say of every table, in whole counts, and the distance to it that chance and noise would give.

    Some tables at a time, and in short numbers: there may be tens of thousands.
    """
    short = np.int32 if found.total < 2**30 else np.int64
    references: list[NDArray[np.signedinteger[Any]]] = []
    penalties: list[float] = []
    for start in range(0, len(shapes), _AT_A_TIME):
        for table in believed(list(shapes[start : start + _AT_A_TIME])):
            references.append(np.rint(table).astype(short))
            chance = np.sqrt(2 * table).sum() + 0.5 * deviation * len(table)
            penalties.append(math.sqrt(2 / math.pi) * chance)
    return references, np.rint(penalties).astype(np.int64)


def _surplus(table: NoisyTable, expected: NDArray[np.float64]) -> float:
    """The L1 distance to what was believed, less what noise and chance give."""
    chance = np.sqrt(2 / math.pi * (float(table.variance) + 2 * expected)).sum()
    return float(np.abs(table.values - expected).sum() - chance)


def worth_of_pairs(exchange: Exchange, found: Found, *, price: float) -> float:
    """By how many counts a table of the workload would be closer, on average, if the pairs shared a further price."""
    facts = Facts(found.total, exchange)
    spent, gained = _prices(exchange, found), 0.0
    more = 1 + price / sum(spent.values())
    for shape, paid in spent.items():
        score = found.scores[shape.attributes]
        cells = found.hierarchy.cells(shape.attributes, (0, 0))
        gained += facts.risk(score, cells, paid) - facts.risk(score, cells, paid * more)
    return gained / len(spent)


def measure_pairs_again(curator: Curator, exchange: Exchange, found: Found, *, price: float) -> None:
    """All two-way tables once more, in the proportions of the time before."""
    spent = _prices(exchange, found)
    scale = price / sum(spent.values())
    shapes = list(spent)
    variances = [exchange.exact(paid * scale) for paid in spent.values()]
    _measure(curator, found, shapes, [found.product(shape) for shape in shapes], variances, cut=True)


def _prices(exchange: Exchange, found: Found) -> dict[Shape, float]:
    """What was paid for every two-way table."""
    paid: dict[Shape, float] = {}
    for shape, table in zip(found.shapes, found.tables, strict=True):
        if len(shape.attributes) == 2:
            paid[shape] = paid.get(shape, 0.0) + exchange.price(float(table.variance))
    return paid


def _measure(
    curator: Curator,
    found: Found,
    shapes: Sequence[Shape],
    expected: Sequence[NDArray[np.float64]],
    variances: Sequence[Fraction],
    *,
    cut: bool = False,
) -> None:
    """Measure tables; with `cut` those that have been cut are."""
    asked = [found.cut(shape) if cut else found.hierarchy.table(*shape) for shape in shapes]
    measured = curator.measure_tables(asked, variances=variances)
    for shape, table, belief in zip(shapes, measured, expected, strict=True):
        found.add(shape, table, belief)


# Which triples of attributes are looked at where there are more than can be. From public and released values.

Triples = list[tuple[int, ...]]


def looked_at(
    wanted: Weighted,
    names: Sequence[str],
    *,
    most: int,
    scores: Mapping[tuple[int, ...], float] | None = None,
) -> Triples:
    """At most so many triples: the most often asked, and of those asked equally often no favourites of position.

    Half of the places go to triples whose pairs were found to depend most on each other (`scores`). The other half is
    spread over all attributes by a fixed mixing of their names, since three attributes can depend on each other where
    no two of them do. Neither depends on the order in which attributes are declared.
    """
    if len(wanted) <= most:
        return list(wanted)
    triples = list(wanted)
    weights = np.array(list(wanted.values()))
    weights = np.round(weights / weights.max(), 9)
    border = np.partition(weights, len(triples) - most)[len(triples) - most]
    above, level = np.flatnonzero(weights > border), np.flatnonzero(weights == border)
    room = most - len(above)
    mixed = mix(names, [triples[i] for i in level])
    strong = level[:0]
    if scores is not None:
        strength = [_strength(scores, triples[i]) for i in level]
        strong = level[np.lexsort((mixed, -np.array(strength)))[: room // 2]]
    spread = level[np.argsort(mixed)]
    spread = spread[~np.isin(spread, strong)][: room - len(strong)]
    return [triples[i] for i in np.sort(np.concatenate([above, strong, spread]))]


def mix(names: Sequence[str], sets: Sequence[tuple[int, ...]]) -> NDArray[np.uint64]:
    """A fixed number for every set of attributes that looks random, whatever their order; no key, no secret."""
    digests = [hashlib.sha256(name.encode()).digest()[:8] for name in names]
    numbers = np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64)
    state = numbers[np.array(sets, dtype=np.int64)].sum(axis=1, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def _strength(scores: Mapping[tuple[int, ...], float], triple: tuple[int, ...]) -> float:
    a, b, c = triple
    return scores[a, b] + scores[a, c] + scores[b, c]
