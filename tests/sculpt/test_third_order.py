"""Which triples are measured where all of them are scored, and what is spent on them."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.core.laws import law_of_variance
from maquette.core.measurement import NoisyTable, Receipt, Size
from maquette.domain import Attribute, Domain, Kind
from maquette.models.answers import generator
from maquette.sculpt import rounds
from maquette.sculpt.allocation import TableNoise
from maquette.sculpt.bins import Hierarchy, Shape
from maquette.sculpt.measurements import Measurements, TableMeasurement
from maquette.sculpt.rounds import TripleScores, choose_triples

COLUMNS, N = 5, 20_000
DOMAIN = Domain(tuple(Attribute(f"x{i}", Kind.CATEGORICAL, codes=4) for i in range(COLUMNS)))
TRIPLES = list(combinations(range(COLUMNS), 3))
NOISE = TableNoise.of(Unit.RHO, mq.Relation.ADD_REMOVE)
PAIR_PRICE = 0.01


class Budget:
    """What the stage asks of its budget."""

    def __init__(self, price):
        self.total = price
        self.left = Fraction(price)

    def part(self, share):
        part = Fraction(share * self.total)
        self.left -= part
        return part


class Gate:
    """Exact counts of a table without noise; what was asked is noted."""

    def __init__(self, columns, budget):
        self.columns, self.budget, self.asked = columns, budget, []

    def exact(self, table):
        counts = np.zeros(table.shape, dtype=np.int64)
        places = [
            np.searchsorted(cut, self.columns[name], side="right") - 1
            for name, cut in zip(table.margin, table.cuts, strict=True)
        ]
        np.add.at(counts, tuple(places), 1)
        return counts.ravel()

    def distances(self, tables, references, *, price):
        gaps = [np.abs(self.exact(t) - r).sum() for t, r in zip(tables, references, strict=True)]
        return np.array(gaps), law_of_variance(NOISE.variance(float(price) / len(tables)), pure=False)

    def measure_tables(self, tables, *, variances):
        self.asked.append((list(tables), list(variances)))
        self.budget.left -= Fraction(sum(NOISE.price(float(v)) for v in variances))
        pairs = zip(tables, variances, strict=True)
        return [NoisyTable(t, self.exact(t), v, Receipt(0, "")) for t, v in pairs]


def columns(tied):
    rng = generator("third order")
    made = {f"x{i}": rng.integers(0, 4, N) for i in range(COLUMNS)}
    if tied:
        a, b, c = (f"x{i}" for i in tied)
        made[c] = (made[a] + made[b]) % 4
    return made


def pairs_measured(tied, *, price):
    """Where the third order begins, the pairs being known exactly and independent: its arguments."""
    one_way = [np.full(4, N / 4) for _ in range(COLUMNS)]
    measurements = Measurements(
        Size(N, None, None), Hierarchy.from_counts(DOMAIN, one_way), float(N), one_way, [1.0] * COLUMNS, []
    )
    budget = Budget(price)
    gate = Gate(columns(tied), budget)
    for pair in combinations(range(COLUMNS), 2):
        shape = Shape(pair, (0, 0))
        variance = NOISE.exact(PAIR_PRICE)
        (noisy,) = gate.measure_tables([measurements.hierarchy.table(*shape)], variances=[variance])
        measurements.tables.append(TableMeasurement(shape, noisy, measurements.product(shape)))
    gate.asked.clear()
    budget.left = Fraction(price)
    return (
        gate,
        budget,
        NOISE,
        measurements,
        TRIPLES,
        lambda shapes: [measurements.product(s) for s in shapes],
    )


def measured(tied, *, price):
    """All stages of the third order."""
    question = pairs_measured(tied, price=price)
    assert rounds.measure_triples(*question, rows=N, all_tables=True)
    gate, _, _, measurements, *_ = question
    return gate, [t.shape.attributes for t in measurements.tables if len(t.shape.attributes) == 3]


def test_a_triple_that_no_pair_shows_is_measured():
    _, triples = measured((1, 2, 4), price=0.1)
    assert (1, 2, 4) in triples


def test_triples_below_chance_are_left_out():
    values = np.array([-30.0, -10.0, 0.0, 500.0])
    assert choose_triples(TripleScores(values, 10.0), np.zeros(4), deviation=10.0, rows=N) == [1, 2, 3]


def test_blind_scores_leave_no_triple_out():
    values = np.array([-3000.0, 0.0, 500.0])
    assert choose_triples(TripleScores(values, 1000.0), np.zeros(3), deviation=10.0, rows=N) == [0, 1, 2]


def test_where_chance_moves_a_cell_by_more_than_noise_the_triple_is_measured():
    scores = TripleScores(np.array([-30.0, -30.0]), 10.0)
    assert choose_triples(scores, np.array([9.0, 11.0]), deviation=10.0, rows=N) == [1]


def test_the_strongest_are_taken_where_time_is_short(monkeypatch):
    monkeypatch.setattr(rounds, "_VISITS", 3.0 * 2 * N)
    values = np.array([70.0, 10.0, 90.0, 80.0])
    assert choose_triples(TripleScores(values, 1.0), np.zeros(4), deviation=1.0, rows=N) == [2, 3]


def test_a_triple_gets_so_many_times_a_pair_and_the_rest_goes_to_the_pairs():
    gate, triples = measured((0, 1, 2), price=1.0)
    (of_triples, variances), (again, _) = gate.asked
    assert [len(t.margin) for t in of_triples] == [3] * len(triples)
    assert all(NOISE.price(float(v)) == pytest.approx(3 * PAIR_PRICE, rel=1e-6) for v in variances)
    assert all(len(t.margin) == 2 for t in again)
    assert 0 <= gate.budget.left < Fraction(1, 1000)


def test_prices_follow_the_roots_of_the_scores():
    scores = TripleScores(np.array([1600.0, 400.0, -5.0, 0.0]), 100.0)
    assert rounds.triple_prices(scores, [0, 1, 3], price=0.7, equal=False) == pytest.approx([0.4, 0.2, 0.1])
    assert rounds.triple_prices(scores, [0, 1], price=0.7, equal=True) == pytest.approx([0.35, 0.35])


def parities(shapes):
    """What nobody would predict of four codes: nothing in half of the cells."""
    grids = [np.indices([4, 4, 4]).sum(axis=0) % 2 for _ in shapes]
    return [grid.ravel() * (2 * N / 64) for grid in grids]


@pytest.mark.parametrize("off", [True, False])
def test_all_triples_are_measured_if_half_of_them_are_off_by_more_than_noise(off):
    gate, budget, noise, measurements, triples, product = pairs_measured((), price=0.01)
    predict = parities if off else product
    question = gate, budget, noise, measurements, triples, predict
    assert rounds.measure_triples(*question, rows=N, all_tables=False) == off
    if off:
        assert [t.margin for t in gate.asked[0][0]] == [tuple(f"x{i}" for i in triple) for triple in triples]
    else:
        assert gate.asked == []
        assert budget.left == Fraction(0.01) - Fraction(0.015 * 0.01)


def test_blind_scores_are_not_bought():
    gate, budget, *others = pairs_measured((), price=1e-5)
    assert not rounds.measure_triples(gate, budget, *others, rows=N, all_tables=False)
    assert gate.asked == []
    assert budget.left == Fraction(1e-5)


def test_pairs_keep_a_quarter_of_what_is_left():
    budget = Budget(1.0)
    budget.left = Fraction(1, 2)
    assert rounds.ThirdOrder(0.7, True).price(budget) == pytest.approx(0.375)
    assert rounds.ThirdOrder(0.2, False).price(budget) == pytest.approx(0.2)


def test_chance_alone_scores_about_zero():
    budget = Budget(1e4)
    gate = Gate(columns(()), budget)
    one_way = [np.full(4, N / 4) for _ in range(COLUMNS)]
    hierarchy = Hierarchy.from_counts(DOMAIN, one_way)
    measurements = Measurements(Size(N, None, None), hierarchy, float(N), one_way, [1.0] * COLUMNS, [])

    def with_right_pairs(shapes):
        """The sampled two-way tables, and nothing of the third order."""
        tables = []
        for shape in shapes:
            table = gate.exact(hierarchy.table(*shape)).reshape(4, 4, 4).astype(float)
            interaction = table.copy()
            for axis in range(3):
                interaction -= interaction.mean(axis=axis, keepdims=True)
            tables.append((table - interaction).ravel())
        return tables

    scores = rounds.measure_triple_scores(
        gate, budget, measurements, TRIPLES, with_right_pairs, sampling=0.0, share=0.03
    )
    raw = math.sqrt(2 / math.pi * N * 64)
    assert abs(float(scores.values.mean())) < 0.1 * raw
