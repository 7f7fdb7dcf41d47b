"""Tables that might be measured next: their resolutions, and what the rows so far say of them."""

import math
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget, Cost
from maquette.core.measurement import Size
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.models.answers import generator
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.measurements import Measurements
from maquette.sculpt.rows import begin
from maquette.sculpt.targets import Layout, count_shapes
from support.seeded import SeededCurator

SIZES = (2, 5, 9, 14, 30, 600)
DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=size) for i, size in enumerate(SIZES)))


def hierarchy():
    rng = generator("one-way counts")
    return Hierarchy.from_counts(DOMAIN, [rng.random(size) for size in SIZES])


def stepwise(levels, attributes, most):
    """The finest levels by the definition: refine the attribute with the fewest bins that can still be refined."""
    found = [len(levels.cuts[a]) - 1 for a in attributes]
    while True:
        able = []
        for i, a in enumerate(attributes):
            finer = [level - (i == j) for j, level in enumerate(found)]
            if found[i] > 0 and levels.cells(attributes, finer) <= most:
                able.append((levels.bins(a, found[i]), i, finer))
        if not able:
            return tuple(found)
        found = min(able)[2]


def test_the_finest_levels_follow_their_definition():
    levels = hierarchy()
    seen = set()
    for key in permutations(range(len(SIZES)), 3):
        for most in (1, 8.0, 30, 77.7, 500, 1e9):
            found = levels.finest_levels(key, most)
            assert found == stepwise(levels, key, most)
            seen.add(found)
            least = math.prod(levels.bins(a, len(levels.cuts[a]) - 1) for a in key)
            assert levels.cells(key, found) <= max(most, least)
    assert len(seen) > 50


def by_hand(levels, rows, shape):
    """The counts of one table, row by row."""
    table = np.zeros([levels.bins(a, level) for a, level in zip(*shape, strict=True)], dtype=int)
    for row in rows:
        bins = [
            np.searchsorted(levels.cuts[a][level], levels.cuts[a][0][row[a]], side="right") - 1
            for a, level in zip(*shape, strict=True)
        ]
        table[tuple(bins)] += 1
    return table.ravel().tolist()


def test_rows_are_counted_in_tables_of_any_resolution():
    levels = hierarchy()
    singles = [np.full(size, 300 / size) for size in SIZES]
    found = Measurements(Size(300, None, None), levels, 300.0, singles, [1.0] * len(SIZES), [])
    sampler = begin(found, m=300, rng=generator("rows"))
    shapes = [
        Shape((0, 5, 3), (0, 4, 1)),
        Shape((1, 2), (0, 1)),
        Shape((5,), (0,)),
        Shape((1, 2), (1, 0)),
        Shape((4, 3, 2), (2, 0, 0)),
        Shape((1, 2), (0, 1)),
    ]
    layout = Layout.of(levels, shapes)
    together = layout.count(sampler.rows)
    counted = count_shapes(levels, shapes, sampler.rows)
    assert len(counted) == len(shapes)
    for i, (shape, counts) in enumerate(zip(shapes, counted, strict=True)):
        assert counts.tolist() == by_hand(levels, sampler.rows, shape)
        assert counts.tolist() == together[layout.place(i)].tolist()


def far(step):
    """Noisy distances of fifteen tables from nothing, and a choice among them, counted `step` tables at a time."""
    budget = Budget(50.0, 1e-6)
    ledger = Ledger.memory(
        budget=budget, relation=Relation.ADD_REMOVE, domain_fingerprint=DOMAIN.fingerprint, name="far"
    )
    whole = Cost(budget.total_units, budget.slack_units)
    ledger.reserve("far", request="0" * 64, tag="release", cost=whole, body={}, envelope=True)
    rng = generator("records")
    table = mq.open({f"x{i}": rng.integers(0, size, 400) for i, size in enumerate(SIZES)}, domain=DOMAIN)
    curator = SeededCurator(table, ledger, key="far", budget=budget, seed=3)
    levels = hierarchy()
    asked = [
        levels.table(pair, levels.finest_levels(pair, 40)) for pair in combinations(range(len(SIZES)), 2)
    ]
    nothing = [np.full(table.cells, -i, dtype=np.int32) for i, table in enumerate(asked)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryEngine, "cells_per_pass", step)
        values, _ = curator.distances(asked, nothing, price=Fraction(1))
        chosen = curator.select_tables(
            asked, nothing, np.zeros(len(asked), dtype=np.int64), count=2, price=Fraction(1)
        )
    cells = np.array([table.cells for table in asked])
    return values, 400 + np.arange(len(asked)) * cells, chosen


def test_distances_do_not_depend_on_how_many_tables_are_counted_at_a_time():
    values, exact, chosen = far(1000)
    assert np.abs(values - exact).max() < 40
    assert np.ptp(exact) > 400
    assert len(chosen) == 2
    for step in (1, 4, 15):
        again = far(step)
        assert values.tolist() == again[0].tolist()
        assert chosen == again[2]
