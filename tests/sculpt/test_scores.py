"""How far pairs are from independence, and how many bins that is worth."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.binned import count_binned
from maquette.core.budget import Unit
from maquette.core.laws import Gaussian
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.models.answers import generator
from maquette.sculpt import stages
from maquette.sculpt.allocation import RiskModel, TableNoise
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.measurements import Measurements
from maquette.sculpt.stages import estimate_slopes, finer_bins, hidden_strength, measure_scores
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
        counts = count_binned(DOMAIN, self.columns, tables)
        return [NoisyTable(*three, Receipt(-1, "")) for three in zip(tables, counts, variances, strict=True)]


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


def spiked(codes=CODES):
    """One code of each attribute holds a fifth of the records, the next one a tenth, the others share the rest."""
    counts = np.full(codes, 0.7 * N / (codes - 2))
    counts[4:6] = 0.2 * N, 0.1 * N
    return Hierarchy.from_counts(DOMAIN, [counts, counts]), counts


def test_the_heaviest_code_that_shares_a_bin():
    hierarchy, counts = spiked()
    heaviest = hierarchy.heaviest_codes(0, counts)
    assert heaviest.overall == pytest.approx(0.2)
    assert heaviest.sharing[0] == 0.0
    assert heaviest.sharing[-1] == pytest.approx(0.2)
    assert list(heaviest.sharing) == sorted(heaviest.sharing)
    alone = hierarchy.level_of(0, 16)
    assert heaviest.sharing[alone] == pytest.approx(0.7 / (CODES - 2))


@pytest.mark.parametrize("limit", [0.03, 0.01, 0.004])
def test_levels_are_finer_until_no_heavy_cell_is_inside_of_bins(limit):
    hierarchy, counts = spiked()
    heaviest = [hierarchy.heaviest_codes(a, counts) for a in (0, 1)]
    start = Shape((0, 1), (hierarchy.level_of(0, 2),) * 2)
    levels = hierarchy.resolving_levels(start, heaviest, limit=limit, max_cells=1e9)
    for a, level in enumerate(levels):
        assert heaviest[a].sharing[level] * 0.2 <= limit < heaviest[a].sharing[level + 1] * 0.2


def test_finer_levels_end_at_the_cells_that_are_allowed():
    hierarchy, counts = spiked()
    heaviest = [hierarchy.heaviest_codes(a, counts) for a in (0, 1)]
    start = Shape((0, 1), (hierarchy.level_of(0, 2),) * 2)
    levels = hierarchy.resolving_levels(start, heaviest, limit=0.0, max_cells=50)
    assert 25 < hierarchy.cells((0, 1), levels) <= 50
    assert hierarchy.resolving_levels(start, heaviest, limit=0.0, max_cells=1e9) == (0, 0)


def test_what_bins_hide_follows_from_the_slope():
    model = RiskModel(20_000.0, RHO)

    def hidden(slope, in_bins):
        scores = pair_scores([8_000.0], noise=100.0, slope=slope)
        return hidden_strength(model, scores, 0, in_bins=in_bins, cells=1_024)

    assert hidden(0.0, 64) == 0.0 == hidden(0.3, 1_024)
    assert hidden(0.25, 64) == pytest.approx(0.5 * np.sqrt(4 - 1))
    assert hidden(0.25, 256) == pytest.approx(0.5 * np.sqrt(4 - 2))


@pytest.mark.parametrize(("price", "finer"), [(1e-6, False), (3e-4, True)])
def test_tables_are_finer_where_a_heavy_cell_could_be_off_by_more_than_noise(price, finer, monkeypatch):
    curator, found, scores = scored(ordered=True)
    stages.measure_pairs(curator, RHO, found, {(0, 1): 1.0}, scores, price=price)
    monkeypatch.setattr(stages, "_MAX_FINER", 1.0)
    monkeypatch.setattr(stages, "_FINER_BY_SLOPE", 0.0)
    stages.measure_pairs(curator, RHO, found, {(0, 1): 1.0}, scores, price=price)
    (with_rule,), (without,) = curator.cells
    assert (with_rule > without) == finer


def test_tables_may_be_finer_the_steeper_dependence_grows(monkeypatch):
    """From the slope on at which it allows more than what every table may have."""
    seen = []
    monkeypatch.setattr(
        Hierarchy,
        "resolving_levels",
        lambda hierarchy, shape, heaviest, *, limit, max_cells: (
            seen.append(max_cells / hierarchy.cells(*shape)) or shape.levels
        ),
    )
    curator, found, scores = scored(ordered=True)
    for slope in (0.0, 0.1, 0.4):
        steep = replace(scores, slopes=np.array([slope]))
        stages.measure_pairs(curator, RHO, found, {(0, 1): 1.0}, steep, price=3e-4)
    assert seen == pytest.approx([3.0, 3.0, 8.0])


def test_a_table_is_seen_whole_where_its_noise_is_a_few_records():
    """As whole marginals are: from 1.3 deviations of noise in a cell on, if these are six records at most."""
    model = RiskModel(5_200.0, RHO)
    assert model.max_bins(0.0, 4.0) == pytest.approx(1_000)
    assert model.max_bins(0.0, 6.0) == pytest.approx(5_200 / 7.8)
    assert model.max_bins(0.0, 6.1) < 200
