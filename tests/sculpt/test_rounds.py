"""Rounds of private selection: what they find decides who gets the rest of the price."""

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.models.answers import generator
from maquette.sculpt import rounds, stages
from maquette.sculpt.allocation import TableNoise
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.measurements import Measurements, TableMeasurement
from maquette.sculpt.rows import begin

SIZES = (6, 6, 6, 6, 6, 6, 6)
DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=size) for i, size in enumerate(SIZES)))


def released(columns):
    queries = mq.marginals(DOMAIN, k=3)
    table = mq.open(columns, domain=DOMAIN)
    return mq.release(table, queries, epsilon=0.3, delta=1e-9, mechanism="sculpt", ledger="memory")


def independent(count=20_000):
    rng = generator("independent")
    return {f"x{i}": rng.integers(0, size, count) for i, size in enumerate(SIZES)}


def chained(count=20_000):
    """Each column follows the one before: pairs say all."""
    rng = generator("chained")
    columns = independent(count)
    for i in range(1, len(SIZES)):
        follows = rng.random(count) < 0.6
        columns[f"x{i}"] = np.where(follows, columns[f"x{i - 1}"], columns[f"x{i}"])
    return columns


def chosen_in(monkeypatch, columns):
    """The release, and the calls that measured pairs again."""
    again = []
    plain = rounds.measure_pairs_again

    def noted(curator, table_noise, measurements, *, price):
        again.append(price)
        plain(curator, table_noise, measurements, price=price)

    monkeypatch.setattr(rounds, "measure_pairs_again", noted)
    return released(columns), again


@pytest.mark.slow
def test_nothing_of_third_order_leaves_the_rest_to_the_pairs(monkeypatch):
    made, again = chosen_in(monkeypatch, chained())
    assert len(again) == 1
    assert (
        made.parameters["two_way_tables"] + made.parameters["three_way_tables"]
        <= 21 + stages.TABLES_PER_ROUND
    )


@pytest.mark.slow
def test_third_order_is_followed_up(monkeypatch):
    columns = independent()
    for target, first, second in ((2, 0, 1), (5, 3, 4)):
        columns[f"x{target}"] = (columns[f"x{first}"] + columns[f"x{second}"]) % 6
    made, again = chosen_in(monkeypatch, columns)
    assert not again
    rows = {name: column.astype(int) for name, column in made.database.columns.items()}
    # one in six by chance, and by what pairs say
    assert np.mean((rows["x0"] + rows["x1"]) % 6 == rows["x2"]) > 0.3
    assert np.mean((rows["x3"] + rows["x4"]) % 6 == rows["x5"]) > 0.3


def test_two_measurements_count_by_their_precision():
    hierarchy = Hierarchy.from_counts(DOMAIN, [np.full(6, 100.0)] * 7)
    found = Measurements(Size(600, None, None), hierarchy, 600.0, [np.full(6, 100.0)] * 7, [1.0] * 7, [])
    shape = Shape((0, 1), (0, 0))
    for value, variance in ((10, 4), (20, 1)):
        table = NoisyTable(hierarchy.table(*shape), np.full(36, value), Fraction(variance), Receipt(-1, ""))
        found.tables.append(TableMeasurement(shape, table, found.product(shape)))
    (known,) = found.estimates().values()
    assert known.counts == pytest.approx(np.full(36, 18.0))
    assert known.variances == pytest.approx(np.full(36, 0.8))
    sampler = begin(found, m=300, rng=generator("rows"))
    place = sampler.layout.place(7)
    assert sampler.targets.counts[place] == pytest.approx(found.estimates()[shape].counts / 2)
    assert sampler.targets.counts[place] == pytest.approx(np.full(36, 9.0), rel=0.05)
    assert sampler.layout.shapes.count(shape) == 1
    assert {found.attributes for found in sampler.layout.shapes[8:]} == {shape.attributes}  # its sums


@pytest.mark.parametrize("unit", [Unit.EPSILON, Unit.RHO])
@pytest.mark.parametrize("relation", list(Relation))
def test_prices_and_variances_are_each_others_inverse(unit, relation):
    table_noise = TableNoise.of(unit, relation)
    assert table_noise.price(table_noise.variance(0.07)) == pytest.approx(0.07)
