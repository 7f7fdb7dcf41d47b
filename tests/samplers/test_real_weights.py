"""Tables whose records weigh between 0 and 1 (Roth 2010): neighbours are all tables within L1 distance 1.

The counters' levels, masses and draws on weights are held against brute force next door, with the other cases; here
are the exact ratios over all neighbours on a grid, the gate's view of a weighted table, and the mechanism.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.core.inversion import exp_minus
from maquette.core.rows.engine import MemoryEngine
from maquette.core.weighting import GRID, Weighting, weighting
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MaquetteError, ParameterError
from maquette.queries import marginals, prefixes, ranges, weights, where
from maquette.samplers.structures import Draw, Thresholds
from maquette.samplers.trellis import WeightedTable
from support.draw_cases import WEIGHED, Case
from support.priced import priced

pytestmark = pytest.mark.privacy

PAIRS = 10_000


def steps(universe: int, reach: int) -> list[tuple[int, ...]]:
    """All changes of L1 length 1 .. reach, in units of the grid."""
    moves = product(range(-reach, reach + 1), repeat=universe)
    return [step for step in moves if 0 < sum(map(abs, step)) <= reach]


def worst_loss(case: Case, reach: int) -> tuple[bool, int, int]:
    """Does any database pass e on any pair within `reach` grid steps; how many pairs; the farthest levels."""
    most = 9 if case.universe == 3 else 5
    known = list(product(range(most), repeat=case.universe))
    base = priced(Unit.EPSILON).draw(Fraction(1), resolution=case.resolution, what="test").decay
    counters = ((table, case.counter(table)) for table in known)
    levels = {t: [counter.level(case.given(s)) for s in case.smalls] for t, counter in counters}
    masses = {
        t: sum(w * base**level for w, level in zip(case.weights, found, strict=True))
        for t, found in levels.items()
    }
    limit = Fraction(1 << 200, exp_minus(Fraction(1), 200)[1])
    pairs, farthest, passed = 0, 0, False
    for x in known:
        for step in steps(case.universe, reach):
            z = tuple(a + b for a, b in zip(x, step, strict=True))
            if z not in levels:
                continue
            pairs += 1
            apart = [a - b for a, b in zip(levels[x], levels[z], strict=True)]
            farthest = max(farthest, *map(abs, apart))
            passed = passed or base ** min(apart) * masses[z] > limit * masses[x]
    return passed, pairs, farthest


@pytest.mark.parametrize("case", WEIGHED, ids=lambda c: c.name)
def test_all_tables_within_distance_one_are_within_epsilon(case):
    passed, pairs, farthest = worst_loss(case, case.grid)
    assert not passed
    assert pairs >= PAIRS
    assert farthest == case.resolution  # the sensitivity is attained


def test_the_check_sees_records_that_weigh_twice_as_much_as_allowed():
    case = WEIGHED[0]
    passed, _, farthest = worst_loss(case, 2 * case.grid)
    assert passed
    assert farthest > case.resolution


DOMAIN = Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=16, nullable=True),
        Attribute("spend", Kind.NUMERIC, bounds=(0.0, 50.0), bins=25, nullable=True),
        Attribute("sex", Kind.BOOLEAN, codes=2),
        Attribute("vet", Kind.BOOLEAN, codes=2),
    )
)


def coded(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {a.name: rng.integers(0, a.size, n) for a in DOMAIN}


def weights_of(columns: dict[str, np.ndarray]) -> np.ndarray:
    """What every record weighs, by the declaration: the middle of its cell over the upper bound, missing is 0."""
    codes = columns["spend"]
    return np.where(codes < 25, np.rint((codes + 0.5) / 25 * GRID), 0).astype(np.int64)


@pytest.mark.parametrize(
    "queries",
    [
        prefixes(DOMAIN, "age"),
        ranges(DOMAIN, "age"),
        marginals(DOMAIN, attributes=[["age"], ["sex", "vet"]]),
        where(DOMAIN, "sex = 1 or vet = 1"),
        prefixes(DOMAIN, "age") + where(DOMAIN, "sex = 1"),
    ],
    ids=lambda q: q.describe(),
)
def test_a_weighted_table_answers_as_its_records_weigh(queries):
    columns = coded(300)
    held = WeightedTable(MemoryEngine(DOMAIN, columns), weighting(DOMAIN, "spend"))
    expected = queries.on_rows(columns, weights=weights_of(columns))
    assert held.answer(queries.to_forms()).tolist() == np.asarray(expected).tolist()
    assert held.size() == weights_of(columns).sum()
    codes, sums = held.distinct("age")
    assert dict(zip(codes.tolist(), sums.tolist(), strict=True)) == {
        c: s for c in range(17) if (s := int(weights_of(columns)[columns["age"] == c].sum()))
    }


def test_weights_come_from_the_declaration_alone():
    found = weighting(DOMAIN, "spend")
    assert found.bound == 50.0
    assert found.numerators[0] == round(GRID / 50)
    assert found.numerators[-1] == 0  # missing
    assert max(found.numerators) <= GRID
    ordinal = weighting(Domain((Attribute("w", Kind.ORDINAL, codes=5),)), "w")
    assert ordinal.numerators == (0, 256, 512, 768, 1024)


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        (Attribute("w", Kind.NUMERIC, bounds=(-1.0, 1.0), bins=4), "not negative"),
        (Attribute("w", Kind.CATEGORICAL, categories=("a", "b")), "texts"),
        (Attribute("w", Kind.ORDINAL, codes=2**40), "cells"),
        (Attribute("w", Kind.ORDINAL, categories=(0,)), "not all 0"),
    ],
)
def test_what_cannot_weigh_is_refused(attribute, said):
    with pytest.raises(ParameterError, match=said):
        weighting(Domain((attribute,)), "w")


def test_weights_above_one_and_weights_of_the_asked_attribute_never_reach_the_gate():
    with pytest.raises(ParameterError, match="from 0 to 1"):
        Weighting("spend", (0, 5), 4, 1.0)
    with pytest.raises(ParameterError, match="from 0 to 1"):
        Weighting("spend", (-1, 2), 4, 1.0)
    with pytest.raises(ParameterError, match="weighs the records"):
        Draw(Thresholds("age"), "tree", 3, weight=Weighting("age", (0,) * 17, 4, 1.0))
    with pytest.raises(ParameterError, match="one weight per cell"):
        WeightedTable(MemoryEngine(DOMAIN, coded(3)), Weighting("spend", (0, 1), 4, 1.0))


def opened(n: int = 900) -> tuple[mq.Table, dict[str, np.ndarray]]:
    columns = coded(n)
    values = {name: codes.astype(object) for name, codes in columns.items()}
    values["spend"] = np.where(columns["spend"] < 25, columns["spend"] * 2 + 1.0, np.nan)
    values["age"] = np.where(columns["age"] < 16, columns["age"].astype(object), None)
    return mq.open({k: v.tolist() for k, v in values.items()}, domain=DOMAIN), columns


@pytest.mark.parametrize("relation", list(Relation))
def test_a_weighted_release_states_shares_of_the_total_weight(relation):
    table, columns = opened()
    queries = prefixes(DOMAIN, "age")
    made = mq.release(
        table,
        queries,
        epsilon=2.0,
        relation=relation,
        mechanism="roth",
        weight="spend",
        rows=20,
        beta=1e-8,
        certificate=0.05,
        ledger="memory",
    )
    weights = weights_of(columns) / GRID
    exact = np.asarray(queries.on_rows(columns, weights=weights_of(columns))) / GRID / weights.sum()
    gap = np.abs(made.answers.fractions - exact).max()
    assert gap <= made.certificate.alpha
    assert gap <= made.guarantee.alpha
    assert not made.size.public  # a total weight is never public
    assert abs(made.size.value - weights.sum()) < 20 / 0.05
    useful = made.parameters["relative usefulness"]
    assert useful["eta"] == made.guarantee.alpha
    assert np.abs(made.answers.fractions * made.size.value - exact * weights.sum()).max() <= useful["counts"]
    assert "spend" not in made.database.columns  # every row stands for the same share
    assert [s.asked for s in made.spending] == ["total", "draw", "judge"]
    assert "total weight" in made.facts()


def test_the_same_request_is_free_and_another_weight_is_another_request():
    table, _ = opened(100)
    asked = {"epsilon": 1.0, "mechanism": "roth", "rows": 4, "total_epsilon": 2.0}
    first = mq.release(table, prefixes(DOMAIN, "age"), weight="spend", ledger="memory", **asked)
    again = mq.release(table, prefixes(DOMAIN, "age"), weight="spend", ledger="memory", **asked)
    assert first.answers.numerators.tolist() == again.answers.numerators.tolist()
    assert again.account.spent == first.account.spent
    other = mq.release(table, prefixes(DOMAIN, "age"), weight="sex", ledger="memory", **asked)
    assert other.account.spent > first.account.spent


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mechanism": "roth"}, "weight="),
        ({"mechanism": "roth", "weight": "age"}, "weighs the records"),
        ({"mechanism": "roth", "weight": "nobody"}, "nobody"),
        ({"mechanism": "laplace", "weight": "spend"}, "'roth'"),
    ],
)
def test_what_cannot_be_weighed_is_refused_before_any_data_is_touched(options, said):
    class Untouchable:
        domain = DOMAIN

        def __getattr__(self, name: str):
            raise AssertionError(f"looked at the table: {name}")

    table = mq.Table(Untouchable(), name="x", source="x")  # type: ignore[arg-type]
    with pytest.raises(MaquetteError, match=said):
        mq.release(table, prefixes(DOMAIN, "age"), epsilon=1.0, ledger="memory", **options)


def test_weights_choose_the_mechanism_and_the_planner_lists_no_other():
    table, _ = opened(100)
    made = mq.release(table, prefixes(DOMAIN, "age"), epsilon=1.0, weight="spend", rows=4, ledger="memory")
    assert made.mechanism == "roth"
    planned = mq.plan(prefixes(DOMAIN, "age"), n=1000, epsilon=1.0, weight="spend")
    assert [f.mechanism for f in planned.forecasts] == ["roth"]
    assert planned.best().guaranteed is not None


def test_real_valued_queries_on_weighted_records():
    """Both of Roth's generalisations at once: fractional query weights, fractional record weights."""
    domain = Domain((Attribute("kind", Kind.CATEGORICAL, codes=4), Attribute("w", Kind.ORDINAL, codes=5)))
    rng = np.random.default_rng(1)
    matrix = rng.random((3, 4))
    columns = {"kind": rng.integers(0, 4, 500), "w": rng.integers(0, 5, 500)}
    table = mq.open({k: v.tolist() for k, v in columns.items()}, domain=domain)
    queries = weights(domain, matrix, attributes=["kind"])
    made = mq.release(
        table,
        queries,
        epsilon=4.0,
        mechanism="roth",
        weight="w",
        rows=12,
        beta=1e-8,
        certificate=0.05,
        ledger="memory",
    )
    held = np.bincount(columns["kind"], weights=columns["w"] / 4, minlength=4)
    gap = np.abs(made.answers.fractions - matrix @ held / held.sum()).max()
    assert gap <= made.certificate.alpha
    assert gap <= made.guarantee.alpha
    assert made.parameters["sampler"] == "enumeration"
