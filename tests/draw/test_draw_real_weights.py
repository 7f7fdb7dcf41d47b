"""The score on databases with fractional weights (Roth 2010): neighbours within L1 distance 1, on a grid of halves.

Only the score and its law are covered: no table with weights can be opened yet, so no mechanism draws from one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np

from maquette.gate.draw.listed import all_multisets, levels_of
from maquette.gate.draw.price import pricing
from maquette.gate.draw.scale import Scale
from maquette.gate.noise.laws import exp_minus
from support.draw_cases import REAL, matrix, multisets

GRID, DENOMINATOR, M, RESOLUTION = 2, 4, 2, 2
ROWS = all_multisets(3, M)
TABLES = list(product(range(7), repeat=3))
"""Numerators over GRID."""


def levels(table: tuple[int, ...]) -> list[int]:
    found = levels_of(
        ROWS,
        matrix(REAL, DENOMINATOR),
        np.array(table, dtype=np.int64),
        denominator=DENOMINATOR * GRID,
        scale=Scale(M, RESOLUTION),
    )
    return found.tolist()


def test_levels_are_the_errors_of_the_definition():
    for table in TABLES[::7]:
        x = [Fraction(a, GRID) for a in table]
        for small, level in zip(multisets(3, M), levels(table), strict=True):
            gaps = [
                abs(sum(w * v for w, v in zip(q, x, strict=True)) - sum(x) / M * sum(q[r] for r in small))
                for q in REAL
            ]
            assert level == math.ceil(max(gaps) * RESOLUTION)


def test_neighbours_within_distance_one_are_within_epsilon_and_farther_ones_are_not_bound():
    found = {table: levels(table) for table in TABLES}
    weight = pricing(price=Fraction(1), unit="epsilon", resolution=RESOLUTION, what="test").base
    masses = {table: sum(weight**level for level in ls) for table, ls in found.items()}
    limit = Fraction(1 << 200, exp_minus(Fraction(1), 200)[1])
    steps = [s for s in product(range(-2, 3), repeat=3) if 0 < sum(map(abs, s)) <= GRID]
    pairs, largest = 0, 0
    for x in TABLES:
        for step in steps:
            z = tuple(a + b for a, b in zip(x, step, strict=True))
            if z not in found:
                continue
            pairs += 1
            apart = [a - b for a, b in zip(found[x], found[z], strict=True)]
            largest = max(largest, *map(abs, apart))
            assert weight ** min(apart) * masses[z] <= limit * masses[x]
    assert pairs >= 4000
    assert largest == RESOLUTION
    twice = [abs(a - b) for a, b in zip(found[0, 0, 0], found[0, 4, 0], strict=True)]
    assert max(twice) > RESOLUTION
