"""Few tables are chosen in rounds, where many would drown in their noise."""

from functools import partial
from itertools import combinations
from types import MappingProxyType

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.core.measurement import Size
from maquette.domain import Attribute, Domain, Kind
from maquette.sculpt.allocation import AttributeSets, TableNoise
from maquette.sculpt.rounds import plan_rounds, small_triples

PURE, WITH_DELTA = TableNoise(Unit.EPSILON, 1), TableNoise(Unit.RHO, 1)


def planned(n, *, attributes=12, pairs=66, price=1.0, noise=PURE, triples=MappingProxyType({})):
    wanted = list(combinations(range(attributes), 2))[:pairs]
    sets = AttributeSets(tuple(range(attributes)), frozenset(), dict.fromkeys(wanted, 1.0), triples)
    return plan_rounds(noise, Size(n, None, None), sets, price=price)


def test_without_a_delta_narrow_tables_have_rounds_too():
    assert planned(10_000) == (5, 4)  # 18 tables
    assert planned(10_000, noise=WITH_DELTA) is None


def test_more_records_have_more_tables_until_all_are_measured_at_once():
    wide = partial(planned, attributes=40, pairs=780)
    rounds = [wide(n) for n in (1_000, 10_000, 60_000, 100_000)]
    assert rounds[0] == rounds[1] < rounds[2] < rounds[3]
    assert wide(1_000_000) is None
    assert planned(20_000) is None  # 66 pairs
    assert planned(10_000, price=20.0) is None


def test_few_pairs_are_all_measured():
    assert planned(10_000, attributes=4, pairs=6) is None


def test_with_a_delta_few_of_very_many_pairs_are_measured_in_rounds():
    wide = partial(planned, attributes=50, pairs=1225, price=0.015, noise=WITH_DELTA)
    assert wide(50_000) == (10, 15)
    assert wide(5_000).tables < 15  # noise bears fewer
    assert wide(500) is None  # none: one-way tables alone are nearer
    assert wide(50_000, price=1.0) is None  # every pair stands out
    assert wide(50_000, triples={(0, 1, 2): 1.0}) is None


def test_small_triples_hold_wanted_pairs_only():
    pairs = {(0, 1): 1.0, (0, 2): 1.0, (1, 2): 1.0, (1, 3): 1.0, (2, 3): 1.0, (0, 4): 1.0}
    assert small_triples(pairs, [4, 3, 4, 2, 2]) == [(1, 2, 3), (0, 1, 2)]
    assert small_triples(pairs, [2, 3, 40, 2, 2]) == []


@pytest.fixture(scope="module")
def made():
    """Twelve columns in a chain of copies: eleven pairs say everything."""
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, 3, 4_000)]
    for _ in range(11):
        columns.append(np.where(rng.random(4_000) < 0.85, columns[-1], rng.integers(0, 3, 4_000)))
    domain = Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=3) for i in range(12)))
    table = mq.open({f"x{i}": c.astype(np.uint8) for i, c in enumerate(columns)}, domain=domain)
    release = mq.release(
        table,
        mq.marginals(domain, k=2),
        epsilon=1.0,
        mechanism="sculpt",
        certificate=0.0,
        ledger="memory",
    )
    return table, release


@pytest.mark.slow
def test_a_pure_release_measures_few_tables_and_follows_the_chain(made):
    table, release = made
    assert release.budget.delta == 0
    assert release.parameters["two_way_tables"] + release.parameters["three_way_tables"] <= 20
    truth = table._engine.answer(release.workload.to_forms()) / table._engine.size()
    gaps = np.abs(release.database.answer(release.workload).fractions - truth)
    assert gaps.sum() / 66 < 0.15  # pairs at equal shares: 0.27


def test_every_round_has_its_share_of_the_failure_probability(made):
    _, release = made
    assert release.model.stages == 1 + planned(4_000).number


def test_the_whole_budget_is_spent_and_no_more(made):
    _, release = made
    assert 0.99 < sum(one.amount for one in release.spending) <= 1.0
