"""Pairs that were scored and not measured: which may be left out, and what rows know of them."""

from fractions import Fraction

import numpy as np
import pytest

from maquette.core.binned import count_binned
from maquette.core.budget import Unit
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.models.answers import generator
from maquette.sculpt import stages
from maquette.sculpt.allocation import RiskModel, TableNoise, divide_price
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.measurements import Measurements, TableMeasurement
from maquette.sculpt.rows import begin, extend, sweep
from support.pair_scores import pair_scores

N = 20_000
DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=2) for i in range(3)))
WHOLE = (0, 0)


def columns():
    """The middle column follows both others, which are independent of each other."""
    rng = generator("collider")
    first, last = rng.integers(0, 2, (2, N))
    middle = np.where(rng.random(N) < 0.9, first & last, rng.integers(0, 2, N))
    return {"x0": first, "x1": middle, "x2": last}


def released(*pairs, scores=None, noise=0.0):
    """These pairs measured without noise, the others by their scores."""
    rows = columns()
    one_way = [np.bincount(rows[name], minlength=2).astype(float) for name in DOMAIN.names]
    hierarchy = Hierarchy.from_counts(DOMAIN, one_way)
    found = Measurements(Size(N, None, None), hierarchy, float(N), one_way, [25.0] * 3, [])
    found.scores, found.score_noise = scores or {}, noise
    for pair in pairs:
        measure(found, pair)
    return found


def measure(found, pair):
    shape = Shape(pair, WHOLE)
    table = found.hierarchy.table(*shape)
    noisy = NoisyTable(table, count_binned(DOMAIN, columns(), [table])[0], Fraction(25), Receipt(-1, ""))
    found.tables.append(TableMeasurement(shape, noisy, found.product(shape)))


def distance_of_rows(found):
    """How far the first and last column of fitted rows are from independence, as a fraction."""
    sampler = begin(found, m=4000, rng=generator("rows"))
    sweep(sampler, min_gains=(0.0, 0.02, 0.1), more=5, progress=lambda _: None)
    joint = np.bincount(sampler.rows[:, 0] * 2 + sampler.rows[:, 2], minlength=4).reshape(2, 2) / 4000
    return np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum()


def test_rows_know_that_a_pair_left_out_is_near_independence():
    scores = {(0, 1): 5000.0, (1, 2): 5000.0, (0, 2): 50.0}
    alone = distance_of_rows(released((0, 1), (1, 2)))
    scored = distance_of_rows(released((0, 1), (1, 2), scores=scores, noise=100.0))
    assert alone > 0.05
    assert scored < 0.4 * alone
    # a score that says little changes little
    blind = distance_of_rows(released((0, 1), (1, 2), scores=scores, noise=30_000.0))
    assert blind > 0.7 * alone


def test_only_pairs_without_a_table_count_by_their_scores():
    scores = {(0, 1): 300.0, (0, 2): 40.0}
    found = released((0, 1), scores=scores, noise=30.0)
    ((shape, estimate),) = found.unmeasured_pairs().items()
    assert shape == Shape((0, 2), WHOLE)
    assert estimate.counts == pytest.approx(found.product(shape))
    # four cells whose gaps have this deviation are 50 off in L1, on average; chance comes on top
    deviations = np.sqrt(estimate.variances - estimate.counts)
    assert np.sqrt(2 / np.pi) * deviations.sum() == pytest.approx(50.0)


def test_potentials_stay_with_their_tables_when_a_pair_is_measured_later():
    found = released((1, 2), scores={(0, 1): 40.0, (0, 2): 40.0, (1, 2): 5000.0}, noise=20.0)
    sampler = begin(found, m=500, rng=generator("rows"))
    sampler.integral[:] = np.arange(len(sampler.integral))
    before = {
        shape: sampler.integral[sampler.layout.place(i)] for i, shape in enumerate(sampler.layout.shapes)
    }
    measure(found, (0, 2))
    after = extend(sampler, found, rng=generator("rows"))
    assert after.layout.shapes != sampler.layout.shapes
    for i, shape in enumerate(after.layout.shapes):
        assert np.array_equal(after.integral[after.layout.place(i)], before[shape])


def test_a_table_that_is_required_is_never_left_out():
    model = RiskModel(1e5, TableNoise.of(Unit.RHO, Relation.ADD_REMOVE))
    scores, cells, weights = [20_000.0, 1.0, 1.0, 1.0], [400, 4, 4, 4], [1.0] * 4
    free = divide_price(model, scores, cells, weights, price=1e-6)
    assert (free[1:] == 0).any()
    required = np.array([False, True, False, True])
    prices = divide_price(model, scores, cells, weights, price=1e-6, required=required)
    assert (prices[required] > 0).all()
    assert prices.sum() == pytest.approx(1e-6)


class Listing:
    """A curator that notes which tables are asked for, and answers zeros."""

    def __init__(self):
        self.margins = set()

    def measure_tables(self, binned, *, variances):
        self.margins |= {table.margin for table in binned}
        zeros = [np.zeros(table.cells, dtype=np.int64) for table in binned]
        return [NoisyTable(*three, Receipt(-1, "")) for three in zip(binned, zeros, variances, strict=True)]


@pytest.mark.parametrize(
    ("noise", "bound", "left_out"), [(100.0, 2.5, True), (1000.0, 2.5, False), (1000.0, 9.0, True)]
)
def test_a_pair_that_may_hold_the_worst_cell_is_measured(noise, bound, left_out, monkeypatch):
    """A pair is left out where its score says that no cell can be far off, not where the score is blind."""
    monkeypatch.setattr(stages, "_MAX_HIDDEN", bound)
    pairs = {(0, 1): 1.0, (0, 2): 0.1, (1, 2): 1.0}
    curator, found = Listing(), released()
    scores = pair_scores([9000.0, 0.0, 9000.0], noise=noise)
    table_noise = TableNoise.of(Unit.RHO, Relation.ADD_REMOVE)
    stages.measure_pairs(curator, table_noise, found, pairs, scores, price=1e-4)
    assert (("x0", "x2") not in curator.margins) == left_out


def test_noise_hides_little_where_most_pairs_show_no_dependence():
    """Two thirds of the pairs depend on each other, or a third: what the noise may have hidden from a low score."""
    many, few = (
        pair_scores(values, noise=1000.0).doubt for values in ([9000.0, 0.0, 9000.0], [9000.0, 0.0, 0.0])
    )
    assert 900 < many < 1000
    assert few == 0
    assert pair_scores([250.0] * 3, noise=1000.0).doubt == pytest.approx(500)
