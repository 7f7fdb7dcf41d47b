"""The stages of one run in order, with the rows carved where a stage needs to know them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Relation
from maquette.mechanisms.base import Curator, Progress, Task
from maquette.mechanisms.sculpt import stages
from maquette.mechanisms.sculpt.allot import Exchange, one_way_share
from maquette.mechanisms.sculpt.candidates import Triples, looked_at
from maquette.mechanisms.sculpt.interests import Interests
from maquette.mechanisms.sculpt.stages import Purse
from maquette.models.measurement import Size
from maquette.models.sculpt import fit
from maquette.models.sculpt.carve import Carving
from maquette.models.sculpt.exchange import exchange, goals, precisions
from maquette.models.sculpt.found import Found
from maquette.models.sculpt.layout import WIDEST, Shape
from maquette.models.sculpt.polish import Polished, polish

GRIPS = (0.0, 0.02, 0.1)
"""Of the sweeps that rows need at least; rows that met most of the tables before begin with the second."""
MORE_SWEEPS = 5
MOST_ROWS = 250_000
"""Rows of a small database unless another number is asked for."""
MOST_TRIPLES = 20_000
"""Three-way tables that are compared with the rows to choose a few."""
_COMPARED = 1e10
"""Pairs of a record and a triple that are counted in a round: half a minute."""
MOST_MEASURED = 5_000
"""Three-way tables that are measured all at once; every visit of a row costs as much again for each."""


@dataclass(slots=True)
class Run:
    """One run: what it may spend, what it has found, the rows so far."""

    curator: Curator
    task: Task
    wanted: Interests
    rng: np.random.Generator
    progress: Progress

    def measured(self, size: Size, purse: Purse, exchange: Exchange) -> tuple[Found, Polished]:
        """All stages in order; the rows are carved between them where a stage needs to know them."""
        pairs, domain = self.wanted.pairs, self.curator.domain
        cells = domain.shape
        sizes = [math.prod(cells[a] for a in triple) for triple in self.triples(MOST_MEASURED)]
        third = stages.third_order(exchange, size, sizes, price=purse.whole)
        first = one_way_share(size.divisor, purse.whole, sum(cells), exchange)
        if not pairs:
            first = float(purse.left) / purse.whole
        self.progress("measuring one-way tables", 0.0)
        found = stages.measure_singles(self.curator, purse, exchange, size, self.wanted, share=first)
        found.barred = _barred(found)
        if pairs:
            self.progress("measuring two-way tables", 0.05)
            scores, doubt = stages.measure_scores(self.curator, purse, found, list(pairs))
            price = float(purse.left) - third.share * purse.whole
            stages.measure_pairs(self.curator, exchange, found, pairs, scores, doubt, price=price)
        if not third.share:
            return found, self.carve(found)
        carving = fit.begin(found, m=self.rows(found), rng=self.rng)
        carving = self.carved(carving, GRIPS[:2], 0)
        if third.everything:
            self.progress("measuring three-way tables", 0.4)
            stages.measure_triples(
                self.curator,
                exchange,
                found,
                self.triples(MOST_MEASURED, found.scores),
                partial(_believed, carving, found),
                price=float(purse.left),
            )
        else:
            carving = self.in_rounds(found, carving, purse, exchange)
        grips = GRIPS if third.everything else GRIPS[1:]
        return found, self.finished(fit.extend(carving, found, rng=self.rng), grips)

    def in_rounds(self, found: Found, carving: Carving, purse: Purse, exchange: Exchange) -> Carving:
        """Two rounds, each of which chooses tables by what the rows so far get wrong.

        The second can hardly find more than the first did. Where a second look at the pairs is worth more than
        that, it gets what is left.
        """
        triples = self.triples(_comparable(found.total), found.scores)
        candidates = [*triples, *self.wanted.pairs]
        for last in (False, True):
            self.progress("choosing three-way tables", 0.4 if last else 0.3)
            surplus = stages.measure_worst(
                self.curator,
                exchange,
                found,
                candidates,
                partial(_believed, carving, found),
                price=purse.left if last else purse.left * stages.FIRST_ROUND,
            )
            if last:
                break
            price = float(purse.left)
            if surplus < len(triples) * stages.worth_of_pairs(exchange, found, price=price):
                stages.measure_pairs_again(self.curator, exchange, found, price=price)
                break
            carving = self.carved(fit.extend(carving, found, rng=self.rng), GRIPS[:2], 0)
        return carving

    def carve(self, found: Found, *, as_measured: bool = False) -> Polished:
        """Rows for tables that are all measured already."""
        begun = fit.begin(found, m=self.rows(found), rng=self.rng)
        return self.finished(begun, GRIPS, as_measured=as_measured)

    def finished(self, carving: Carving, grips: tuple[float, ...], *, as_measured: bool = False) -> Polished:
        """Rows carved to everything measured, and polished."""
        polished = polish(
            self.carved(carving, grips, MORE_SWEEPS),
            self.wanted.pairs,
            grip=GRIPS[-1],
            rng=self.rng,
            tell=lambda share: self.progress("polishing rows", share),
        )
        if as_measured or not fit.is_close(carving, polished.rows):
            self.repair(carving, polished, as_measured=as_measured)
        return polished

    def repair(self, carving: Carving, polished: Polished, *, as_measured: bool) -> None:
        """Move tied columns together, where values one by one did not reach the tables."""
        self.progress("repairing rows", 0.0)
        layout, targets, rows = carving.layout, carving.targets, polished.rows
        average = layout.count(polished.pool) * (len(rows) / len(polished.pool))
        wanted = goals(targets, average, as_measured=as_measured)
        exchange(layout, rows, wanted, precisions(targets), rng=self.rng)
        self.progress("repairing rows", 1.0)

    def carved(self, carving: Carving, grips: tuple[float, ...], more: int) -> Carving:
        fit.sweep(carving, grips=grips, more=more, tell=lambda share: self.progress("carving rows", share))
        return carving

    def triples(self, most: int, scores: Mapping[tuple[int, ...], float] | None = None) -> Triples:
        """The triples of interest, as many as can be looked at."""
        return looked_at(self.wanted.triples, self.curator.domain.names, most=most, scores=scores)

    def rows(self, found: Found) -> int:
        """How many rows: as asked, else the noisy number of records up to a limit."""
        return self.task.rows or max(1, min(round(found.total), MOST_ROWS))


def size_of(curator: Curator, purse: Purse) -> Size:
    """The number of records, where it is private for a small share of the price."""
    if curator.relation is Relation.REPLACE_ONE:
        return curator.size(price=Fraction(0))
    return curator.size(price=purse.part(stages.SIZE_SHARE))


def _comparable(total: float) -> int:
    """How many triples are compared in a round, by the released number of records."""
    return min(MOST_TRIPLES, max(MOST_MEASURED, int(_COMPARED / total)))


def _believed(carving: Carving, found: Found, shapes: list[Shape]) -> list[NDArray[np.float64]]:
    """What the rows so far say of further tables, in counts of the table."""
    scale = found.total / max(len(carving.rows), 1)
    return [counts.astype(np.float64) * scale for counts in fit.counts_of(carving, shapes)]


def _barred(found: Found) -> list[tuple[Shape, NDArray[np.bool_]]]:
    """Declared combinations that no record has, as tables over at most three attributes that rows hold in full."""
    hierarchy = found.hierarchy
    barred: list[tuple[Shape, NDArray[np.bool_]]] = []
    for rule in hierarchy.domain.rules:
        places = [hierarchy.domain.index(name) for name in rule.names]
        whole = all(hierarchy.bins(a, 0) == hierarchy.domain.attributes[a].size for a in places)
        if rule.target is None and len(places) <= WIDEST and whole:
            barred.append((Shape(tuple(places), (0,) * len(places)), rule.allowed.ravel()))
    return barred
