"""How far pairs are from independence, and how many bins that is worth."""

from fractions import Fraction

import numpy as np
import pytest

from maquette.accounting.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.models.answers import generator
from maquette.queries.marginals import count_binned
from maquette.questions.measurement import NoisyTable, Receipt, Size
from maquette.questions.noise import Gaussian
from maquette.sculpt import stages
from maquette.sculpt.allocation import RiskModel, TableNoise
from maquette.sculpt.bins import Hierarchy
from maquette.sculpt.measurements import Measurements
from maquette.sculpt.stages import estimate_slopes, finer_bins, measure_scores
from support.pair_scores import pair_scores

N, CODES = 20_000, 32
DOMAIN = Domain(tuple(Attribute(name, Kind.CATEGORICAL, codes=CODES) for name in "xy"))
RHO = TableNoise.of(Unit.RHO, Relation.ADD_REMOVE)


def columns(*, ordered):
    """A broad band around the diagonal, its codes in their order or in none."""
    rng = generator("band")
    x = rng.integers(0, CODES, N)
    y = np.clip(x + rng.integers(-8, 9, N), 0, CODES - 1)
    return {"x": x, "y": y if ordered else rng.permutation(CODES)[y]}


class Exact:
    """A curator without noise that notes the number of cells of every table that is measured."""

    def __init__(self, columns):
        self.columns, self.cells = columns, []

    def distances(self, tables, references, *, price):
        counts = count_binned(DOMAIN, self.columns, tables)
        gaps = [np.abs(c - r).sum() for c, r in zip(counts, references, strict=True)]
        return np.array(gaps), Gaussian(price, Fraction(10_000))

    def measure_tables(self, tables, *, variances):
        self.cells.append([table.cells for table in tables])
        counts = count_binned(DOMAIN, self.columns, [table.ungrouped for table in tables])
        folded = [table.folded(c) for table, c in zip(tables, counts, strict=True)]
        return [NoisyTable(*three, Receipt(-1, "")) for three in zip(tables, folded, variances, strict=True)]


def released(columns):
    one_way = [np.bincount(columns[name], minlength=CODES).astype(float) for name in DOMAIN.names]
    hierarchy = Hierarchy.from_counts(DOMAIN, one_way)
    return Measurements(Size(N, None, None), hierarchy, float(N), one_way, [25.0] * 2, [])


def scored(*, ordered):
    table = columns(ordered=ordered)
    found = released(table)
    return Exact(table), found, measure_scores(Exact(table), found, [(0, 1)], price=Fraction(1))


def test_dependence_grows_with_the_bins_where_codes_have_no_order():
    _, _, band = scored(ordered=True)
    _, _, shuffled = scored(ordered=False)
    assert (band.few, band.many) == (64, 256)
    assert shuffled.slopes[0] > 2 * band.slopes[0]
    assert band.values[0] > shuffled.values[0]


@pytest.mark.parametrize("ordered", [True, False])
def test_unordered_codes_are_seen_in_more_bins(ordered):
    curator, found, scores = scored(ordered=ordered)
    stages.measure_pairs(curator, RHO, found, {(0, 1): 1.0}, scores, price=1e-5)
    ((cells,),) = curator.cells
    assert (cells >= 256) == (not ordered)


def test_a_slope_is_shrunk_to_that_of_all_pairs():
    few = np.full(50, 1000.0)
    steps = np.full(50, np.log(4))
    blurred = estimate_slopes(few, few * 4**0.2, steps, noise=300.0)
    clear = estimate_slopes(few, few * 4**0.2, steps, noise=1.0)
    assert 0.1 < blurred[0] < clear[0] == pytest.approx(0.2, abs=0.01)
    many = few * 4**0.2
    many[0] = few[0]
    one, rest = estimate_slopes(few, many, steps, noise=300.0)[:2]
    assert 0 < rest - one < 0.05


def test_pairs_without_finer_bins_or_a_clear_score_have_the_slope_of_the_others():
    few, many = np.array([1000.0, 1000.0, 5.0]), np.array([2000.0, 1000.0, 5000.0])
    slopes = estimate_slopes(few, many, np.array([np.log(4), 0.0, np.log(4)]), noise=10.0)
    assert slopes[1] == slopes[2] < slopes[0]
    none = estimate_slopes(few, many, np.zeros(3), noise=10.0)
    assert none.tolist() == [pytest.approx(0.03)] * 3


def test_bins_by_slope():
    model = RiskModel(20_000.0, RHO)

    def bins(slope):
        scores = pair_scores([10_000.0], noise=100.0, slope=slope)
        return finer_bins(model, scores, 0, deviation=40.0, bins=60.0)

    found = [bins(slope) for slope in (0.0, 0.05, 0.2, 0.5)]
    assert found[0] == 60.0
    assert found == sorted(found)
    assert found[-1] == pytest.approx(256, rel=0.5)
