"""Rows that tables hold firmly are not polished any further."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Attribute, Domain, Kind
from maquette.models.answers import generator
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.finish import AVERAGED_SWEEPS, average_sweeps
from maquette.sculpt.measurements import Measurements, TableMeasurement
from maquette.sculpt.rows import begin, sweep

DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.BOOLEAN, codes=2) for i in range(4)))
PAIRS = list(itertools.combinations(range(4), 2))
ROWS = 20_000


def sampler(deviation):
    """Four bits, every pair of them measured: 70 % of the records have equal bits."""
    singles = [np.full(2, ROWS / 2)] * 4
    hierarchy = Hierarchy.from_counts(DOMAIN, singles)
    found = Measurements(Size(ROWS, None, None), hierarchy, float(ROWS), singles, [deviation**2] * 4, [])
    counts = np.array([0.35, 0.15, 0.15, 0.35]) * ROWS
    for pair in PAIRS:
        shape = Shape(pair, (0, 0))
        table = NoisyTable(
            hierarchy.table(*shape), counts.astype(np.int64), Fraction(deviation**2), Receipt(-1, "")
        )
        found.tables.append(TableMeasurement(shape, table, found.product(shape)))
    made = begin(found, m=ROWS, rng=generator("carve"))
    sweep(made, min_gains=(0.0, 0.02, 0.1), more=3, progress=lambda share: None)
    return made


@pytest.mark.parametrize(("deviation", "sweeps"), [(1, 1), (3000, AVERAGED_SWEEPS)])
def test_only_rows_that_still_move_are_polished(deviation, sweeps):
    rows = sampler(deviation)
    told = []
    made = average_sweeps(rows, PAIRS, min_gain=0.1, rng=generator("last"), progress=told.append)
    assert made.rows.shape == (ROWS, 4)
    assert made.all_sweeps.shape == ((sweeps + 1) * ROWS, 4)
    assert told[-1] == 1.0
    if sweeps == 1:
        assert np.array_equal(made.all_sweeps[ROWS:], made.rows)
        equal = [np.mean(made.rows[:, a] == made.rows[:, b]) for a, b in PAIRS]
        assert equal == pytest.approx([0.7] * len(PAIRS), abs=0.002)
