"""Tables with heavy cells cut into groups of bins, as releases of earlier versions hold them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from maquette import open as open_table
from maquette.core.binned import Binned, count_binned
from maquette.core.budget import Unit
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.core.tables import count_margins
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ReleaseError
from maquette.models.answers import generator
from maquette.queries import where
from maquette.sculpt import stages
from maquette.sculpt.allocation import RiskModel, TableNoise, divide_price
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.measurements import Measurements
from maquette.sculpt.model import MeasuredTable, SculptModel
from maquette.sculpt.refit import _add_pairs, _hierarchy, _one_way, refit
from support.pair_scores import pair_scores
from support.priced import priced

DOMAIN = Domain(
    (
        Attribute("name", Kind.ORDINAL, codes=30),
        Attribute("place", Kind.ORDINAL, codes=24),
        Attribute("flag", Kind.CATEGORICAL, codes=2),
    )
)
NOWHERE = Receipt(-1, "")
GROUPED = Binned(("name", "flag"), ((0, 10, 20), (0, 1)))
GROUPS = (0, 1, 2, 2, 0, 3)
RUNS = [[0, 1], [1, 1], [2, 2], [0, 1], [3, 1]]


def rows(count=20_000):
    """Two of five have the first name, and those live at even places only: inside bins of places it is hidden."""
    rng = generator("mosaic rows")
    name = np.where(rng.random(count) < 0.4, 0, rng.integers(1, 30, count))
    place = rng.integers(0, 24, count)
    place = np.where(name == 0, place // 2 * 2, place)
    return {
        "name": name.astype(np.uint8),
        "place": place.astype(np.uint8),
        "flag": (rng.random(count) < 0.5).astype(np.uint8),
    }


def found_of(columns):
    n = len(columns["name"])
    singles = [np.bincount(columns[x.name], minlength=x.size).astype(float) for x in DOMAIN]
    return Measurements(
        Size(n, None, None), Hierarchy.from_counts(DOMAIN, singles), float(n), singles, [1.0] * 3, []
    )


def looked_twice(columns):
    """A model as earlier versions made it: a table in coarse bins, and again with its heavy cells cut into codes."""
    hierarchy = found_of(columns).hierarchy
    shape = Shape((0, 1), hierarchy.finest_levels((0, 1), 40))
    coarse, fine = hierarchy.table(*shape), hierarchy.table((0, 1), (0, 0))
    counts = count_binned(DOMAIN, columns, [coarse])[0]
    down, across = (hierarchy.bin_of_row_codes(a, level) for a, level in zip(*shape, strict=True))
    cells = np.add.outer(down * hierarchy.bins(1, shape.levels[1]), across).ravel()
    groups = np.where(counts[cells] > 250, len(counts) + np.arange(len(cells)), cells)
    cut = tuple(np.unique(groups, return_inverse=True)[1].tolist())
    singles = [hierarchy.table((a,), (0,)) for a in range(3)]
    tables = (
        *(measured(columns, one, 1.0) for one in singles),
        measured(columns, coarse, 3000.0),
        measured(columns, fine, 1000.0, cut),
    )
    model = SculptModel(DOMAIN, tables, Size(len(columns["name"]), None, None), pure=False, stages=3)
    return model, np.bincount(cells[np.unique(cut, return_index=True)[1]])


def measured(columns, bins, variance, groups=None):
    counts = count_binned(DOMAIN, columns, [bins])[0]
    counts = counts.astype(float) if groups is None else np.bincount(groups, counts)
    return MeasuredTable(bins, counts, counts / counts.sum(), variance, groups)


def stored(runs):
    """A model of one table as a release of an earlier version holds it."""
    counts = np.array([100.0, 200.0, 300.0, 400.0])
    spec = {
        "kind": "sculpt",
        "size": Size(1000, None, None).to_json(),
        "pure": False,
        "stages": 3,
        "tables": [[["name", "flag"], [[0, 10, 20], [0, 1]], runs]],
        "variances": [9.0],
    }
    return spec, {"counts": counts, "shares": counts / 1000}


def test_groups_are_read_and_stored_as_runs_of_bins():
    spec, arrays = stored(RUNS)
    model = SculptModel.from_arrays(DOMAIN, spec, arrays)
    (table,) = model.tables
    assert (table.bins, table.groups) == (GROUPED, GROUPS)
    assert model.to_arrays()[0] == spec


@pytest.mark.parametrize(
    "runs", [RUNS[:-1], [*RUNS[:-1], [4, 1]], [*RUNS[:-1], [-1, 1]], [[0, 6, 1]], [0], [[0, True]]]
)
def test_every_bin_of_a_stored_table_needs_a_group(runs):
    with pytest.raises(ReleaseError, match=r"groups|whole number"):
        SculptModel.from_arrays(DOMAIN, *stored(runs))


def test_no_question_can_be_asked_about_groups():
    with pytest.raises(TypeError):
        Binned(GROUPED.margin, GROUPED.cuts, GROUPS)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ValueError, match="unpack"):
        Binned.from_json([*GROUPED.to_json(), RUNS])


def test_the_same_bins_may_be_asked_for_twice():
    columns = rows(500)
    engine = open_table(pd.DataFrame(columns), domain=DOMAIN)._engine
    for counts in engine.binned([GROUPED, GROUPED]):
        assert np.array_equal(counts, count_binned(DOMAIN, columns, [GROUPED])[0])


def test_groups_are_added_up_to_the_cells_of_the_table_that_they_refine():
    columns = rows()
    model, parts = looked_twice(columns)
    noisy = [
        NoisyTable(table.bins, table.counts.astype(np.int64), Fraction(table.variance), NOWHERE)
        for table in model.tables
    ]
    found = _one_way(model, noisy[:3], _hierarchy(model))
    _add_pairs(found, noisy[3:][::-1], [table.groups for table in model.tables[3:]][::-1])
    (known,) = found.estimates().values()
    assert parts.max() > 10
    assert known.variances == pytest.approx(1 / (1 / 3000 + 1 / (1000 * parts)))
    assert known.counts == pytest.approx(noisy[3].values)


def test_a_release_with_refined_tables_gives_replicates():
    columns = rows(4000)
    model, _ = looked_twice(columns)
    again = SculptModel.from_arrays(DOMAIN, *model.to_arrays())
    made = [refit(one, m=4000, names=DOMAIN.names, rng=generator("refined")) for one in (model, again)]
    true, got = (
        count_margins(DOMAIN.sizes, one, [("name", "place")])["name", "place"]
        for one in (columns, made[0].columns)
    )
    assert np.abs(true[0].sum() - got[0].sum()) < 200
    assert all(np.array_equal(made[0].columns[name], made[1].columns[name]) for name in DOMAIN.names)


def test_a_query_on_whole_groups_has_an_interval():
    columns = rows(2000)
    table = measured(columns, GROUPED, 9.0, GROUPS)
    noisy = replace(table, counts=table.counts + 3)
    model = SculptModel(DOMAIN, (noisy,), Size(2000, None, None), pure=False, stages=3)
    alike = model.estimate(where(DOMAIN, "name >= 20 and flag = 1"), beta=0.05)
    assert alike is not None
    assert abs(alike[0] - table.shares[3]) <= alike[1] < 0.02
    assert model.estimate(where(DOMAIN, "name >= 20 and flag = 0"), beta=0.05) is None
    spec, arrays = model.to_arrays()
    again = SculptModel.from_arrays(DOMAIN, spec, arrays)
    assert again.estimate(where(DOMAIN, "name >= 20 and flag = 1"), beta=0.05) == alike


def test_several_stages_widen_an_interval_and_only_its_best_measurement_counts():
    columns = rows(2000)
    table = Binned(("flag",), ((0, 1),))
    counts = count_binned(DOMAIN, columns, [table])[0]

    def width(looks, stages):
        noisy = [NoisyTable(table, counts, Fraction(100), NOWHERE)] * looks
        model = SculptModel.of(DOMAIN, noisy, columns, Size(2000, None, None), pure=False, stages=stages)
        found = model.estimate(where(DOMAIN, "flag = 1"), beta=0.05)
        assert found is not None
        return found[1]

    assert width(4, 1) == pytest.approx(width(1, 1))
    assert width(1, 3) == pytest.approx(width(1, 1) * np.sqrt(np.log(120) / np.log(40)))


class Till:
    """A curator that adds up what is asked of it, on the ledger's grid, and answers without noise."""

    def __init__(self, columns):
        self.columns = columns
        self.units = 0

    def measure_tables(self, binned, *, variances):
        plan = priced(Unit.HALF_MU_SQUARED, relation=Relation.ADD_REMOVE).tables(DOMAIN, binned, variances)
        self.units += plan.event.cost(Unit.HALF_MU_SQUARED).units
        counts = [count_binned(DOMAIN, self.columns, [t])[0] for t in binned]
        return [NoisyTable(t, c, v, NOWHERE) for t, c, v in zip(binned, counts, variances, strict=True)]


@pytest.mark.law
@pytest.mark.parametrize("slope", [0.0, 0.1, 0.5])
def test_two_way_tables_never_cost_more_than_their_price(slope):
    columns = rows(2000)
    table_noise = TableNoise.of(Unit.HALF_MU_SQUARED, Relation.ADD_REMOVE)
    pairs = {(0, 1): 1.0, (0, 2): 1.0, (1, 2): 1.0}
    for units in generator("prices").integers(10**6, 10**8, 60).tolist():
        till = Till(columns)
        scores = pair_scores([800.0, 5.0, 5.0], noise=10.0, slope=slope)
        stages.measure_pairs(till, table_noise, found_of(columns), pairs, scores, price=units / 10**12)
        assert 0.999 * units < till.units <= units


def test_where_all_tables_are_resolved_none_has_less_than_an_equal_share():
    facts = RiskModel(1e6, TableNoise.of(Unit.RHO, Relation.ADD_REMOVE))
    scores, cells = [50_000.0, 1000.0, 20_000.0, 3000.0], [4, 12, 40, 20]
    prices = divide_price(facts, scores, cells, [1.0] * 4, price=0.01)
    assert prices.sum() == pytest.approx(0.01)
    assert prices.min() > 0.6 * prices.max()
    hidden = divide_price(
        RiskModel(1e4, facts.table_noise),
        [s / 100 for s in scores],
        [4, 3000, 4000, 5000],
        [1.0] * 4,
        price=1e-4,
    )
    assert hidden.min() < 0.5 * hidden.max()
