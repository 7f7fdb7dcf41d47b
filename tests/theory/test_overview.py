"""All bounds side by side: what is listed when, and how the curves move."""

import math
from dataclasses import replace

import pytest

from maquette.domain import Domain, Relation
from maquette.errors import ParameterError, WorkloadError
from maquette.queries import marginals, points, prefixes, ranges, weights
from maquette.theory import overview, smalldb
from maquette.theory.existence import Facts, facts_of


def setting(**changes) -> overview.Setting:
    facts = Facts(universe=2**16, log_queries=math.log(1e5), vc=8)
    return overview.Setting(**({"facts": facts, "n": 10**5, "epsilon": 1.0, "delta": 1e-6} | changes))


def test_the_best_form_comes_first_and_is_the_best():
    lines = [line for line in overview.bounds(setting()) if line.group == "SmallDB"]
    assert lines[0].alpha == min(line.alpha for line in lines)
    assert lines[0].alpha == overview.mechanisms(setting())["smalldb"]


def test_a_private_number_of_rows_leaves_out_what_needs_it():
    public = {line.name for line in overview.bounds(setting())}
    private = {line.name for line in overview.bounds(setting(relation=Relation.ADD_REMOVE))}
    assert public - private == {"form c", "gaussian, projected"}


def test_gaussian_noise_needs_a_delta_and_the_floor_needs_none():
    with_delta = {line.name for line in overview.bounds(setting())}
    pure = {line.name for line in overview.bounds(setting(delta=0.0))}
    assert with_delta - pure == {
        "gaussian", "histogram-gaussian", "advanced-composition", "gaussian, projected",
    }  # fmt: skip
    assert pure - with_delta == {"shattered set"}


def test_endless_classes_and_vast_universes_have_what_applies():
    endless = setting(facts=Facts(universe=2**200, log_queries=math.inf, vc=2))
    groups = {line.group for line in overview.bounds(endless)}
    assert groups == {"SmallDB", "multiplicative weights", "online"}
    vast = setting(facts=Facts(universe=2**200, log_queries=math.log(1e5)))
    assert set(overview.mechanisms(vast)) == {
        *("smalldb", "roth", "laplace", "linf", "k-norm", "gaussian", "advanced-composition"),
        *("mw", "mwem", "pmw", "median"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["n", "epsilon", "queries"])
def test_curves_fall_in_n_and_epsilon_and_rise_in_queries(axis):
    points_of: dict[str, list[tuple[float, float]]] = {}
    for point in overview.curve(setting(), axis, points=7):
        points_of.setdefault(point["mechanism"], []).append((point["value"], point["alpha"]))
    assert set(points_of) == set(overview.mechanisms(setting()))
    for points_ in points_of.values():
        assert points_ == sorted(points_)
        alphas = [alpha for _, alpha in points_]
        assert alphas == sorted(alphas, reverse=axis != "queries")


@pytest.mark.slow
def test_records_reach_the_target_and_one_less_does_not():
    needed = overview.records(setting(), alpha=0.05)
    for name, n in needed.items():
        assert overview.mechanisms(setting(n=n))[name] <= 0.05 * (1 + 1e-9)
        assert overview.mechanisms(setting(n=n - 1))[name] > 0.05 * (1 - 1e-9)


def test_records_with_a_private_size_do_not_use_the_table_itself():
    few = Facts(universe=2, log_queries=0.0)
    public = overview.records(setting(facts=few, delta=0.0), alpha=0.1)["smalldb"]
    private = overview.records(setting(facts=few, delta=0.0, relation=Relation.ADD_REMOVE), alpha=0.1)[
        "smalldb"
    ]
    assert public <= private
    assert private == smalldb.records(few, alpha=0.1, epsilon=1.0, beta=0.05, only="ab").whole


@pytest.mark.parametrize("wrong", [{"n": 0}, {"epsilon": 0}, {"beta": 1.0}, {"delta": 1.0}])
def test_a_setting_is_checked(wrong):
    with pytest.raises(ParameterError):
        setting(**wrong)


def grid(*sizes: int) -> Domain:
    return Domain.from_dict(
        {
            "attributes": [
                {"name": f"a{i}", "kind": "ordinal", "size": size, "nullable": False}
                for i, size in enumerate(sizes)
            ]
        }
    )


def test_facts_of_our_classes():
    domain = grid(100, 2**40)
    assert facts_of(prefixes(domain, "a0")) == Facts(
        universe=100, log_queries=math.log(99), vc=1, shape="thresholds"
    )
    assert facts_of(ranges(domain, "a0")).shape == "intervals"
    box = facts_of(ranges(domain, "a0", "a1"))
    assert (box.shape, box.vc, box.universe) == (None, 4, 100 * 2**40)
    tables = facts_of(marginals(domain, k=1), vc=3)
    assert (tables.vc, tables.shape) == (3, None)
    assert facts_of(marginals(domain, k=1)).vc is None
    narrow = facts_of(weights(grid(2), [[0.25, 0.5]]))
    assert narrow.span == 0.25


def test_constant_queries_need_no_bound():
    with pytest.raises(WorkloadError, match="constant"):
        facts_of(points(grid(1)))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", list(Relation))
def test_every_error_is_that_of_counting_queries_times_the_span(relation, delta):
    """Weights in [a, a + D] are a + D q with q in [0, 1]; what is printed in books knows no D."""
    counting = Facts(universe=64, log_queries=math.log(50))
    terms = {"n": 5_000, "epsilon": 0.5, "delta": delta, "relation": relation}
    wide = overview.bounds(overview.Setting(facts=counting, **terms))
    for d in (0.5, 0.25, 2**-20):
        narrow = overview.bounds(overview.Setting(facts=replace(counting, span=d), **terms))
        assert [line.name for line in narrow] == [line.name for line in wide]
        for one, other in zip(narrow, wide, strict=True):
            by = 1.0 if one.group == "textbook SmallDB" else d
            assert one.alpha == pytest.approx(by * other.alpha), one.name
