"""What the planner expects of `sculpt`: fitted constants, their spread, and the choices that follow."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from benchmarks import calibrate, expected, sizes
from benchmarks.__main__ import RESULTS

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import Task
from maquette.owner import exact_answers
from maquette.releasing.planning import plan
from maquette.releasing.ranking import preferred
from maquette.sculpt import allocation
from maquette.sculpt.allocation import attribute_sets

ADULT = (16, 42, 16, 15, 6, 5, 2, 99, 85, 74, 7, 9, 41, 2)
"""Sizes like those of a census table."""


def domain_of(*cells: int) -> Domain:
    return Domain(tuple(Attribute(f"x{i}", Kind.ORDINAL, codes=size) for i, size in enumerate(cells)))


def told(queries: mq.Queries, *, n: int, rho: float) -> allocation.TypicalError:
    task = Task(queries, Relation.ADD_REMOVE, Unit.RHO, Fraction(rho), 0.05)
    return allocation.typical_error(task, attribute_sets(queries), n=n)


@pytest.fixture(scope="module")
def tuning():
    return [point for point in expected.points(RESULTS / "expected.jsonl") if point["half"] == "tuning"]


@pytest.mark.slow
def test_the_shipped_constants_are_those_of_the_families(tuning):
    found = expected.fit(tuning)
    assert found["SIMULATIONS"] == len(tuning) >= 90
    shipped = calibrate.CONSTANTS.read_text(encoding="utf-8")
    assert calibrate.rewritten(shipped, found) == shipped
    assert calibrate.rewritten(shipped, found | {"SIMULATIONS": 1}) != shipped
    for name, value in found.items():
        shipped = getattr(allocation, name)
        assert (list(shipped) if isinstance(shipped, tuple) else shipped) == value


@pytest.mark.slow
def test_the_stated_spread_is_not_that_of_the_fitted_tables(tuning):
    """About nine of ten lie within the stated multiples, which come from kinds that were left out of the fit."""
    for name, found in expected.check(tuning).items():
        assert 0.85 <= found["inside"] <= 1, name
        low, high = found["nine of ten"]
        assert found["stated"][0] <= low * 1.1
        assert found["stated"][1] >= high * 0.9


@pytest.mark.slow
def test_a_fit_finds_a_power_law_again():
    """Errors that follow one exactly give its exponents back, and a spread of nothing."""
    truth = (0.3, 0.6, -0.2, 0.1, 0.2, -0.1, -0.3, 0.05)
    figures = []
    for seed in range(120):
        case = calibrate.case(seed)
        if calibrate.queries_of(case.sizes, case.k) > 20_000:
            continue
        figure = {
            "seed": seed,
            "n": case.n,
            "sizes": case.sizes,
            "k": case.k,
            "unit": Unit.RHO,
            "price": 0.01 * case.epsilon,
        }
        form = calibrate.form(figure)
        if isinstance(form, allocation.BinnedRegime):
            errors = (allocation.power_law(truth, form.terms),) * 2
        else:
            errors = 0.5 * form.largest, 2 * form.mean_l1
        figures.append(figure | {"max": errors[0], "L1": errors[1]})
    found = calibrate.fit(figures)
    assert found["LARGEST"] == pytest.approx(truth, abs=2e-3)
    assert found["LARGEST_WITHIN"] == [1.0, 1.0]
    assert found["DENSE_LARGEST"] == pytest.approx([math.log(0.5), 1], abs=2e-3)
    assert found["DENSE_MEAN_L1"] == pytest.approx([math.log(2), 1, 0], abs=2e-3)


@pytest.mark.accuracy
def test_the_stated_ranges_hold_for_tables_that_had_no_say():
    judging = [point for point in expected.points(RESULTS / "expected.jsonl") if point["half"] == "judging"]
    held = {name: found["inside"] for name, found in expected.check(judging).items()}
    assert set(held) == {"LARGEST", "MEAN_L1", "DENSE_LARGEST", "DENSE_MEAN_L1"}
    assert all(share >= 0.9 for share in held.values()), held


def test_few_kinds_leave_more_than_nine_of_ten_inside():
    """The next of a few kinds is as likely as any to be the farthest: laws of errors that differ by kind."""
    rng = np.random.default_rng(3)
    shares = {"nine of ten": (0.05, 0.95), "with room": expected._levels(16)}
    inside: dict[str, list[float]] = {name: [] for name in shares}
    for _ in range(3_000):
        kinds = np.exp(rng.normal(0, 0.2, 17)[:, None] + rng.normal(0, 0.02, (17, 30)))
        for name, levels in shares.items():
            bottom, top = np.quantile(kinds[:16], levels)
            inside[name].append(float(np.mean((kinds[16] >= bottom) & (kinds[16] <= top))))
    assert np.mean(inside["nine of ten"]) < 0.875
    assert np.mean(inside["with room"]) > 0.885
    assert expected._levels(5) == (0.0, 1.0)


@pytest.mark.accuracy
def test_cases_are_the_same_every_time_and_inside_their_limits():
    for seed in range(40):
        case = calibrate.case(seed)
        assert case == calibrate.case(seed)
        low, high, _, _ = calibrate.STYLES[case.style]
        assert all(low <= size <= high for size in case.sizes)
        assert 500 <= case.n <= 200_000
        assert 0.1 <= case.epsilon <= 10
        assert case.k <= len(case.sizes)
        assert calibrate.queries_of(case.sizes, case.k) <= calibrate.MAX_QUERIES
    small = next(c for c in map(calibrate.case, range(400)) if c.style == "tiny" and c.n < 3_000)
    found = calibrate.simulate(small)
    assert 0 < found["max"] <= 1
    assert 0 < found["L1"] <= 2
    assert found["price"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3])
def test_more_records_and_more_budget_are_expected_to_help(k):
    queries = mq.marginals(domain_of(*ADULT), k=k)
    by_n = [told(queries, n=n, rho=0.02) for n in (1_000, 10_000, 100_000, 1_000_000, 10**8)]
    by_rho = [told(queries, n=50_000, rho=rho) for rho in (1e-4, 1e-3, 0.01, 0.1, 1.0, 100.0)]
    for found in (by_n, by_rho):
        assert [e.largest for e in found] == sorted((e.largest for e in found), reverse=True)
        assert [e.mean_l1 for e in found] == sorted((e.mean_l1 for e in found), reverse=True)


def test_a_plan_says_how_far_the_expectation_can_be_trusted():
    queries = mq.marginals(domain_of(*ADULT), k=2)
    made = plan(queries, n=48_842, epsilon=1.0, delta=1e-9, mechanisms=["sculpt"])
    low, high = allocation.LARGEST_WITHIN
    assert f"90 % of tables within {low:g} to {high:g} times" in str(made)
    assert "mean L1 of a marginal about" in made.forecasts[0].notes[0]
    assert made.forecasts[0].guaranteed is None


@pytest.mark.slow
def test_other_mechanisms_are_taken_where_they_are_better():
    """Small universes without a delta, thresholds with one; what is chosen has the smaller true error."""
    bits = mq.marginals(domain_of(2, 2, 2), k=2)
    pure = plan(bits, n=5_000, epsilon=1.0)
    assert preferred(pure, bits) in ("laplace", "linf", "histogram-laplace", "smalldb")
    steps = mq.prefixes(domain_of(1000), "x0")
    assert preferred(plan(steps, n=50_000, epsilon=1.0, delta=1e-9), steps) != "sculpt"
    whole = mq.marginals(domain_of(*ADULT), k=2)
    assert preferred(plan(whole, n=48_842, epsilon=1.0, delta=1e-9), whole) == "sculpt"


@pytest.mark.slow
def test_the_choice_on_a_small_universe_states_less_and_is_about_as_near():
    """What is chosen states far less than rows that are fitted, nothing states a tenth less, and none is much nearer.

    Measured in forty releases of each: stated .445, .457 and .725 points, eight deviations between the first and the
    last. Their answers are about as far off: .196, .227 and .211, here .244, .236 and .216, each up to .014. Of the
    budget a fifth goes to certificates, which is why a smaller statement is not a smaller error.
    """
    case = calibrate.Case(5, 5_000, (3, 2, 2), 2, 1.0, 0.0, "tiny", 0.6, 1.0)
    made = calibrate.table(case)
    queries = mq.marginals(made.domain, k=2)
    private = made.open()
    exact = exact_answers(private, queries)
    true = exact.numerators / exact.denominator / exact.records
    chosen = preferred(plan(queries, n=case.n, epsilon=1.0), queries)
    stated, off = {}, {}
    for mechanism in ("laplace", "histogram-laplace", "sculpt"):
        released = [_released(private, queries, mechanism) for _ in range(40)]
        stated[mechanism] = np.mean([one.stated.alpha for one in released])
        off[mechanism] = np.mean([np.abs(one.answers.fractions - true).max() for one in released])
    assert chosen == "laplace"
    assert stated[chosen] < 0.75 * stated["sculpt"]
    assert stated[chosen] <= 1.1 * min(stated.values())
    assert off[chosen] <= 1.25 * min(off.values())


def _released(private: mq.Table, queries: mq.Queries, mechanism: str) -> mq.Release:
    ledger = mq.Ledger.memory(
        budget=mq.Budget(1.0),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=private.domain.fingerprint,
        name="x",
    )
    return mq.release(private.for_another_ledger(), queries, epsilon=1.0, mechanism=mechanism, ledger=ledger)


@pytest.mark.slow
def test_error_against_rows_is_drawn():
    lines = [
        json.dumps({"figures": {"k": 2, "rows": rows, "m": m, "rows max": 0.1 / m, "rows L1": 1 / m}})
        for rows, m in ((500, 500), (1_000, 1_000), ("small", 700), (500, 501))
    ]
    lines.append(json.dumps({"figures": {"k": 2, "rows": 9, "failed": ["no"]}}))
    found = sizes.newest(lines)
    assert {key: figure["m"] for key, figure in found.items()} == {
        (2, 500): 501,
        (2, 1_000): 1_000,
        (2, "small"): 700,
    }
    drawn = sizes.draw(found)
    assert drawn.startswith("<svg")
    assert "mean L1 distance" in drawn
    assert sizes.run(None) == []
