"""The hypothesis of weighted rows, on universes that no table could hold."""

from dataclasses import replace

import numpy as np
import pytest

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError
from maquette.models.hypothesis import Released
from maquette.models.start import hypothesis_for
from maquette.models.version_space import VersionSample
from maquette.models.weighted import WeightedRows, _members, _Work
from maquette.queries import boxes, marginals, where
from support.online_universe import kinds_of_query, random_box, universe

HUGE = universe(*[50] * 11)
"""5e18 cells."""


def made_table(domain, rows, seed):
    """Rows with one dominant value in most attributes, and a pair that moves together."""
    rng = np.random.default_rng(seed)
    columns = {name: np.minimum(rng.geometric(0.4, rows) - 1, 49) for name in domain.names}
    columns["x1"] = np.minimum(columns["x0"] + rng.integers(0, 2, rows), 49)
    return columns


def answers(domain, columns, count, seed, deviation=0.002):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        query = random_box(domain, rng, width=3)
        value = query.on_rows(columns)[0] / len(columns["x0"])
        found.append(Released(query, float(value + deviation * rng.normal()), deviation))
    return found


def test_auto_takes_rows_beyond_what_can_be_held():
    assert isinstance(hypothesis_for(HUGE), WeightedRows)
    assert not isinstance(hypothesis_for(universe(4, 5)), WeightedRows)
    assert isinstance(hypothesis_for(universe(4, 5), kind="rows"), WeightedRows)


def test_it_starts_near_uniform():
    found = hypothesis_for(HUGE)
    query = boxes(HUGE, [{"x0": (0, 24), "x5": (0, 9)}])
    assert found.answer(query)[0] == pytest.approx(0.1, abs=0.01)


def test_a_refit_is_a_function_of_the_list_alone():
    released = answers(HUGE, made_table(HUGE, 5000, 1), 12, seed=2)
    start = WeightedRows.uniform(HUGE, HUGE.names, rows=4096)
    grown = start
    for j in range(1, 13):
        grown = grown.refit(released[:j])
    at_once = start.refit(released)
    for other in (grown, start.refit(released[3:]).refit(released)):
        assert np.array_equal(other.weights, at_once.weights)
        assert all(np.array_equal(other.columns[n], at_once.columns[n]) for n in HUGE.names)
        assert other.digest() == at_once.digest()
    assert start.refit(released[::-1]).digest() != at_once.digest()
    assert np.array_equal(start.weights, np.full(4096, 1 / 4096))


def test_a_refit_meets_answers_about_parts_without_rows():
    rare = [boxes(HUGE, [{f"x{i}": (7, 7), "x9": (3, 3), "x10": (1, 1)}]) for i in range(4)]
    released = [Released(query, 0.1, 0.001) for query in rare]
    start = hypothesis_for(HUGE)
    assert max(start.answer(query)[0] for query in rare) < 0.01
    found = start.refit(released)
    for query in rare:
        assert found.answer(query)[0] == pytest.approx(0.1, abs=0.01)


def test_it_learns_what_was_released():
    columns = made_table(HUGE, 20000, 3)
    released = answers(HUGE, columns, 60, seed=4)
    found = hypothesis_for(HUGE).refit(released)
    misses = [abs(found.answer(a.queries)[0] - a.value) for a in released]
    assert np.median(misses) < 0.002
    assert max(misses) < 0.03
    before = [abs(hypothesis_for(HUGE).answer(a.queries)[0] - a.value) for a in released]
    assert max(before) > 0.2


def test_every_kind_of_query():
    small = universe(6, 5, 4)
    found = hypothesis_for(small, kind="rows")
    for query in kinds_of_query(small):
        moved = found.refit([Released(query, 0.7, 0.001)])
        constant = query.distinct() == 0
        assert moved.answer(query)[0] == pytest.approx(1.0 if constant else 0.7, abs=0.01)
        stepped = found.step(query, 1.0, step=0.2)
        assert stepped.answer(query)[0] >= found.answer(query)[0] - 1e-12
        assert stepped.digest() != found.digest()
    assert found.answer(marginals(small, k=2)).sum() == pytest.approx(3.0)
    either = where(HUGE, "x0 = 3 OR (x1 = 4 AND x2 = 5)")
    assert hypothesis_for(HUGE).refit([Released(either, 0.8, 0.001)]).answer(either)[0] == pytest.approx(
        0.8, abs=0.02
    )


def test_synthetic_rows_repeat_and_follow_the_weights():
    query = boxes(HUGE, [{"x0": (7, 7), "x9": (3, 3)}])
    found = hypothesis_for(HUGE, attributes=["x0", "x9"], kind="rows").refit([Released(query, 0.4, 0.001)])
    rows = found.synthetic(1000, key="k")
    assert set(rows.columns) == {"x0", "x9"}
    assert rows.answer(query).fractions[0] == pytest.approx(found.answer(query)[0], abs=0.005)
    assert all(
        np.array_equal(found.synthetic(1000, key="k").columns[n], rows.columns[n]) for n in rows.columns
    )
    with pytest.raises(WorkloadError, match="not about x1"):
        found.answer(boxes(HUGE, [{"x1": (0, 1)}]))


def test_copies_are_whole_rows():
    """A copy differs from a row only in the attributes of the query: what columns have in common stays."""
    rows = WeightedRows.uniform(HUGE, HUGE.names, rows=4096)
    tied = dict.fromkeys(HUGE.names, rows.columns["x0"])
    weights = np.arange(1.0, 4097.0)
    start = replace(rows, columns=tied, weights=weights / weights.sum())
    rare = boxes(HUGE, [{"x9": (3, 3), "x10": (1, 1)}])
    found = _Work.of(start)
    found.add(Released(rare, 0.1, 0.001), "key")
    counted = np.flatnonzero(rare.columns_of(found.columns)[0])
    assert len(counted) >= 64
    others = [name for name in HUGE.names if name not in ("x9", "x10")]
    assert all(np.array_equal(found.columns[name], found.columns["x0"]) for name in others)


WIDE = Domain(
    (
        Attribute("id", Kind.ORDINAL, codes=2**33),
        Attribute("sex", Kind.CATEGORICAL, categories=("f", "m")),
    )
)
"""An attribute whose codes need more than 32 bits, and whose cells nobody lists."""


@pytest.mark.parametrize("kind", ["rows", "versions"])
def test_an_attribute_of_more_cells_than_32_bits_count(kind):
    half = boxes(WIDE, [{"id": (0, 2**32 - 1)}])
    both = boxes(WIDE, [{"id": (2**32, 2**33 - 1), "sex": (0, 0)}])
    found = (
        WeightedRows.uniform(WIDE, WIDE.names)
        if kind == "rows"
        else VersionSample.whole(WIDE, WIDE.names, 50)
    )
    assert found.answer(half)[0] == pytest.approx(0.5, abs=0.05)
    assert found.answer(both)[0] == pytest.approx(0.25, abs=0.05)
    fitted = found.refit([Released(half, 0.9, 0.001)])
    assert fitted.answer(half)[0] > 0.5
    assert max(int(codes.max()) for codes in fitted.columns.values()) >= 2**32


def test_new_rows_of_a_long_run_are_drawn_and_not_listed():
    few = boxes(WIDE, [{"id": (2**32, 2**32 + 2**20)}])  # no row is there
    start = WeightedRows.uniform(WIDE, WIDE.names, rows=1024)
    assert start.answer(few)[0] < 0.01
    fitted = start.refit([Released(few, 0.3, 0.001)])
    assert fitted.answer(few)[0] == pytest.approx(0.3, abs=0.01)
    runs = ((3, 4), (7, 7), (10, 12))
    listed = np.array([3, 4, 7, 10, 11, 12])
    own, other = (np.random.default_rng(1) for _ in range(2))
    assert np.array_equal(_members(runs, own, 50), listed[other.integers(0, 6, 50)])
