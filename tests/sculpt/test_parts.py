"""Bins, denoising, the start, the sweeps and the intervals of `sculpt`, each against what it must do."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.binned import Binned, count_binned, labels
from maquette.core.budget import Unit
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.core.tables import count_margins
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ParameterError, WorkloadError
from maquette.models.answers import generator
from maquette.queries import marginals, prefixes, union, where
from maquette.sculpt.allocation import RiskModel, TableNoise, attribute_sets, divide_price
from maquette.sculpt.bins import MAX_ROW_CODES, Hierarchy, Shape, nested_cuts, smooth_one_way
from maquette.sculpt.measurements import Measurements, TableMeasurement
from maquette.sculpt.model import SculptModel
from maquette.sculpt.rows import begin, decode, sweep
from maquette.sculpt.targets import Layout
from support.priced import priced
from support.query_cases import full

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=20),
        Attribute("b", Kind.CATEGORICAL, codes=5),
        Attribute("c", Kind.CATEGORICAL, codes=3),
    )
)
NOWHERE = Receipt(-1, "")


def made_rows(count, seed=0):
    """b follows a, c is parity-like of both."""
    rng = generator(f"rows {seed}")
    a = np.minimum(rng.geometric(0.15, count) - 1, 19)
    b = np.where(rng.random(count) < 0.8, a % 5, rng.integers(0, 5, count))
    c = np.where(rng.random(count) < 0.9, (a + b) % 3, rng.integers(0, 3, count))
    return {"a": a.astype(np.uint8), "b": b.astype(np.uint8), "c": c.astype(np.uint8)}


def found_from(rows, shapes_of, variance=1.0):
    """Exact tables as if they had been released with little noise."""
    n = len(rows["a"])
    singles = [np.bincount(rows[x.name], minlength=x.size).astype(float) for x in DOMAIN]
    hierarchy = Hierarchy.from_counts(DOMAIN, singles)
    found = Measurements(Size(n, None, None), hierarchy, float(n), singles, [variance] * 3, [])
    for shape in shapes_of(hierarchy):
        asked = hierarchy.table(*shape)
        counts = count_binned(DOMAIN, rows, [asked])[0]
        found.tables.append(
            TableMeasurement(
                shape, NoisyTable(asked, counts, Fraction(variance), NOWHERE), found.product(shape)
            )
        )
    return found


def test_bins_are_nested_and_heavy_values_stand_alone():
    counts = np.ones(100)
    counts[37] = 1000.0
    levels = nested_cuts(counts)
    assert levels[0] == tuple(range(100))
    for fine, coarse in itertools.pairwise(levels):
        assert set(coarse) < set(fine)
    assert {37, 38} <= set(levels[-3])


def test_a_code_that_hides_among_many_light_ones_gets_its_own_bin_early():
    counts = np.ones(4_000)
    counts[-1] = 35.0  # less than half of a bin of 1/64 of the records
    levels = {len(cut): cut for cut in nested_cuts(counts)}
    assert 3_999 in levels[64]
    assert 3_999 not in levels[16]


def test_large_attributes_are_carved_at_the_finest_bins():
    levels = nested_cuts(np.ones(5000))
    assert len(levels[0]) == MAX_ROW_CODES
    assert levels[-1] == (0, 2500)


def test_labels_agree_with_cuts():
    assert labels(6, (0, 2, 5)).tolist() == [0, 0, 1, 1, 1, 2]


def test_binned_counts_are_sums_of_cells():
    rows = made_rows(500)
    table = Binned(("a", "c"), ((0, 3, 11), (0, 2)))
    whole = count_margins(DOMAIN.sizes, rows, [("a", "c")])["a", "c"]
    summed = np.add.reduceat(np.add.reduceat(whole, (0, 3, 11), axis=0), (0, 2), axis=1)
    assert np.array_equal(count_binned(DOMAIN, rows, [table])[0], summed.ravel())
    assert np.array_equal(count_binned(DOMAIN, rows, [full(DOMAIN, ("a", "c"))])[0], whole.ravel())


@pytest.mark.parametrize(
    "table",
    [
        Binned(("a",), ((1, 2),)),
        Binned(("a",), ((0, 2, 2),)),
        Binned(("a",), ((0, 20),)),
        Binned(("a", "a"), ((0,), (0,))),
        Binned(("a",), ((),)),
        Binned(("a", "b"), ((0,),)),
    ],
)
def test_what_is_no_partition_is_refused(table):
    with pytest.raises(WorkloadError):
        priced(Unit.RHO, relation=Relation.ADD_REMOVE).tables(DOMAIN, [table], [Fraction(1)])


def test_tables_need_positive_variances():
    with pytest.raises(ParameterError, match="variances"):
        priced(Unit.RHO).tables(DOMAIN, [full(DOMAIN, ("a",))], [Fraction(0)])


@pytest.mark.parametrize(("relation", "rho"), [(Relation.ADD_REMOVE, 0.625), (Relation.REPLACE_ONE, 1.25)])
def test_tables_cost_what_their_noise_says(relation, rho):
    both = [full(DOMAIN, ("a",)), full(DOMAIN, ("b", "c"))]
    plan = priced(Unit.RHO, relation=relation).tables(DOMAIN, both, [Fraction(1), Fraction(4)])
    assert plan.event.cost(Unit.RHO).units == pytest.approx(rho * 1e12, rel=1e-9)


@pytest.mark.accuracy
def test_denoising_comes_closer_than_projection():
    truth = np.repeat([400.0, 10.0, 90.0, 0.0], 25)
    rng = generator("noise")
    gaps = {"smooth": [], "plain": []}
    for _ in range(20):
        noisy = truth + rng.normal(0, 30, 100)
        smooth = smooth_one_way(noisy, deviation=30.0, total=truth.sum())
        assert smooth.min() >= 0
        assert smooth.sum() == pytest.approx(truth.sum())
        gaps["smooth"].append(np.abs(smooth - truth).sum())
        gaps["plain"].append(np.abs(np.maximum(noisy, 0) - truth).sum())
    assert np.mean(gaps["smooth"]) < 0.6 * np.mean(gaps["plain"])


def test_the_allotment_spends_its_price_and_favours_what_depends():
    facts = RiskModel(50_000.0, TableNoise.of(Unit.RHO, Relation.ADD_REMOVE))
    prices = divide_price(facts, [20_000.0] + [100.0] * 19, [9000] * 20, [1.0] * 20, price=0.01)
    assert prices.sum() == pytest.approx(0.01)
    assert prices[0] > 1.5 * prices[1:].max()


def test_interests_count_how_often_attributes_meet():
    found = attribute_sets(
        union(marginals(DOMAIN, k=2), marginals(DOMAIN, attributes=[["a", "b"]]), prefixes(DOMAIN, "a"))
    )
    assert found.pairs == {(0, 1): 2.0, (0, 2): 1.0, (1, 2): 1.0}
    assert found.triples == {}
    assert found.ordered == {0}


def test_rows_are_carved_to_pairs_and_triples():
    rows = made_rows(4000)
    triple = (0, 1, 2)

    def everything(hierarchy):
        pairs = [Shape(p, (0, 0)) for p in ((0, 1), (0, 2), (1, 2))]
        return [*pairs, Shape(triple, hierarchy.finest_levels(triple, 200))]

    found = found_from(rows, everything)
    sampler = begin(found, m=4000, rng=generator("carve"))
    sweep(sampler, min_gains=(0.0, 0.01, 0.02, 0.05, 0.1), more=5, progress=lambda _: None)
    made = decode(found, sampler.rows, DOMAIN.names, rng=generator("codes")).columns
    for margin in (("a", "b"), ("a", "c"), ("b", "c")):
        true, got = (count_margins(DOMAIN.sizes, x, [margin])[margin] for x in (rows, made))
        product = np.outer(true.sum(axis=1), true.sum(axis=0)) / 4000
        assert np.abs(true - got).sum() < 0.25 * np.abs(true - product).sum()
    assert np.array_equal(
        sampler.counts, Layout.of(found.hierarchy, sampler.layout.shapes).count(sampler.rows)
    )


def test_the_same_key_gives_the_same_rows():
    rows = made_rows(1000)

    def one():
        found = found_from(rows, lambda _: [Shape((0, 1), (0, 0))])
        sampler = begin(found, m=700, rng=generator("same"))
        sweep(sampler, min_gains=(0.0, 0.1), more=0, progress=lambda _: None)
        return sampler.rows

    assert np.array_equal(one(), one())


def test_barred_cells_stay_empty():
    rows = made_rows(2000)
    found = found_from(rows, lambda _: [Shape((0, 1), (0, 0))])
    allowed = np.ones((5, 3), dtype=bool)
    allowed[2, 1] = allowed[0, 0] = False
    found.structural_zeros = [(Shape((1, 2), (0, 0)), allowed.ravel())]
    sampler = begin(found, m=2000, rng=generator("barred"))
    sweep(sampler, min_gains=(0.0, 0.01, 0.02), more=0, progress=lambda _: None)
    seen = np.zeros((5, 3), dtype=int)
    np.add.at(seen, (sampler.rows[:, 1], sampler.rows[:, 2]), 1)
    assert seen[~allowed].sum() <= 2
    assert seen[allowed].sum() >= 1998


def _model(noise, seed):
    rows = made_rows(3000)
    rng = generator(f"model {seed}")
    asked = Binned(("a", "b"), ((0, 4, 10), (0, 1, 2, 3, 4)))
    true = count_binned(DOMAIN, rows, [asked])[0]
    noisy = NoisyTable(
        asked, np.rint(true + rng.normal(0, noise, len(true))).astype(int), Fraction(noise**2), NOWHERE
    )
    wrong = {name: np.roll(column, 7) if name == "b" else column for name, column in rows.items()}
    return SculptModel.of(DOMAIN, [noisy], wrong, Size(3000, None, None), pure=False, stages=1), rows


def test_intervals_hold_even_where_the_rows_are_wrong():
    query = where(DOMAIN, "a < 10 and b <> 2")
    missed = 0
    for seed in range(200):
        model, rows = _model(20, seed)
        value, error = model.estimate(query, beta=0.05)
        truth = query.on_rows(rows)[0] / 3000
        missed += abs(value - truth) > error
    assert (
        missed <= 20
    )  # binomial(200, 0.05) exceeds this with probability 1e-3; the bound is far wider than that


def test_a_query_that_cuts_a_bin_is_not_covered():
    model, _ = _model(20, 0)
    assert model.estimate(where(DOMAIN, "a < 5"), beta=0.05) is None
    assert model.estimate(where(DOMAIN, "c = 1"), beta=0.05) is None
    assert model.estimate(where(DOMAIN, "b = 3"), beta=0.05) is not None


def test_the_model_survives_storage():
    model, _ = _model(20, 0)
    again = SculptModel.from_arrays(DOMAIN, *model.to_arrays())
    query = where(DOMAIN, "a >= 4")
    assert again.estimate(query, beta=0.1) == model.estimate(query, beta=0.1)
    assert math.isclose(again.tables[0].variance, 400.0)
    assert again.pure == model.pure
