"""What exact samplers do when the first bits decide nothing: they take more, and the law stays the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maquette.core import noise
from maquette.core import noise as noises
from maquette.core import weighting as weights
from maquette.core.inversion import Radius
from maquette.core.weighting import Weighting
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import MechanismError
from maquette.queries import marginals, where
from maquette.queries.marginals import Marginals
from maquette.samplers import brackets, check, trellis
from maquette.samplers import structures as public
from maquette.samplers.brackets import Bracket, Scale, Uniform, choose
from maquette.samplers.draw import COUNTERS, View, node_of
from maquette.samplers.lists import Column
from maquette.samplers.ordered import Nested
from maquette.samplers.slices import Blocks, Slices
from support.draw_cases import CASES, Case
from support.privacy_doubles import table_of
from support.seeded import SeededBits

DOMAIN = Domain(tuple(Attribute(name, Kind.ORDINAL, codes=2) for name in "ab"))


class Script:
    """Random bits that are written down beforehand."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "the script has ended"
        return np.array(taken, dtype=np.uint64)


class Hesitant:
    """A counter whose first proposal is rejected inside the counter."""

    top, start, acceptance = 8, 1, 0.1
    total = Bracket.whole(10)

    def __init__(self) -> None:
        self.proposals = 0

    def mass(self, level: int, *, exact: bool) -> Bracket:
        return Bracket.whole(min(level + 1, 10))

    def draw(self, level: int, uniform: Uniform) -> list[int] | None:
        self.proposals += 1
        return None if self.proposals == 1 else [0]

    def draw_any(self, uniform: Uniform) -> list[int]:
        return [0]

    def level(self, small: Sequence[int]) -> int:
        return 0


# --- choices by bits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "index"), [(0, 0), (2**64 - 1, 1)])
def test_a_number_on_a_border_is_decided_by_further_bits(more, index):
    words = [2**64 // 3, more]  # one third begins with this word
    asked: list[int] = []

    def weights(precision: int) -> list[Bracket]:
        asked.append(precision)
        return [Bracket.whole(1), Bracket.whole(2)]

    uniform: Any = SimpleNamespace(bits=lambda _: words.pop(0))
    assert choose(uniform, weights) == index
    assert (asked, words) == ([128, 256], [])


def test_a_run_of_zeros_goes_on_in_the_next_word():
    assert Radius.of(5, Fraction(9, 10))._block(Script(0, 0, 8)) == 64 + 64 + 3


@pytest.mark.parametrize(("more", "accepted"), [(0, True), (2**64 - 1, False)])
def test_a_radius_on_the_border_is_decided_by_further_bits(more, accepted):
    law = Radius.of(5, Fraction(9, 10))
    low, _ = law.ratio(law.middle + 3, 400)
    bits = Script(low >> (400 + 1 - 64), more)
    assert law._accepts(bits, law.middle + 3, 0) is accepted
    assert bits.left == []


def test_unfair_words_are_drawn_again():
    assert noise._below(Script(0, 7), np.array([3])).tolist() == [
        1
    ]  # 2^64 mod 3 = 1: the word 0 is one too many


def test_noise_in_a_norm_tries_until_a_point_lies_in_the_body(monkeypatch):
    points = iter([None, np.array([1, -1])])
    monkeypatch.setattr(noises, "table", lambda law: SimpleNamespace(draw=lambda bits, count: None))
    monkeypatch.setattr(noises, "whole_point", lambda *_: next(points))
    source = noises.TableNoise(SeededBits(1))
    body: Any = SimpleNamespace(box=(1, 1))
    assert source.norm(np.array([5, 5]), body=body, resolution=1, decay=Fraction(1, 2)).tolist() == [6, 4]


# --- slices ---------------------------------------------------------------------------------------------------------


def test_a_proposal_that_the_counter_rejects_is_made_again():
    counter = Hesitant()
    slices = Slices(counter, decay=Fraction(1, 2), report=lambda _: None)
    for seed in range(50):
        assert slices.draw(Uniform(SeededBits(seed))) == [0]
    assert counter.proposals >= 2
    assert Blocks((Hesitant(),)).draw(1, Uniform(SeededBits(0))) is None
    assert Blocks((counter, counter)).draw(1, Uniform(SeededBits(0))) == [[0], [0]]


def test_masses_in_whole_numbers_are_counted_once():
    slices = Slices(CASES[0].counter((2, 0, 1, 1)), decay=Fraction(3, 4), report=lambda _: None)
    first, again = slices._weights(256), slices._weights(256)
    assert first == again
    level = slices._grid[0]
    assert slices._count(level) == slices._float_bounds[level].log2
    exact, rough = slices._whole(level), slices._float_bounds[level]
    assert (
        rough.low * 2.0**rough.exponent <= exact.low * 2.0**exact.exponent <= rough.high * 2.0**rough.exponent
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_any_database_has_its_rows_in_the_universe(case: Case):
    counter = case.counter((1,) * case.universe)
    assert 0 < counter.acceptance < 1
    assert counter.start <= max(counter.top, counter.start)
    for seed in range(3):
        rows = list(case.rows(counter.draw_any(Uniform(SeededBits(seed)))))
        assert len(rows) == case.m
        assert all(0 <= row < case.universe for row in rows)


def test_rows_outside_of_nested_sets_lie_in_every_loose_cell():
    family = public.family(((1, 1),), 4)
    column = Column.of(np.array([0, 1, 3]), np.array([2, 1, 2]), cells=4, size=4)
    counter = Nested(node_of(family, column), column.n, Scale(3, 1, 1))
    places = {p for seed in range(60) for p in counter.draw_any(Uniform(SeededBits(seed)))}
    assert places == {0, 1, 2, 3}
    drawn = {p for seed in range(60) for p in counter.draw(counter.top, Uniform(SeededBits(seed)))}
    assert drawn == {0, 1, 2, 3}


def test_masses_of_nothing_need_no_slices():
    class Empty(Hesitant):
        total = Bracket(0, 0)

        def mass(self, level: int, *, exact: bool) -> Bracket:
            return Bracket(0, 0)

    slices = Slices(Empty(), decay=Fraction(1, 2), report=lambda _: None)
    assert all(slices._float_bounds[level].high == 0 for level in slices._grid)


# --- bounds in floating point ----------------------------------------------------------------------------------------


def test_wide_bands_are_left_to_whole_numbers(monkeypatch):
    counter = next(c for c in CASES if c.name.startswith("thresholds-tree")).counter((2, 1, 0, 1))
    exact, rough = counter.mass(1, exact=True), counter.mass(1, exact=False)
    monkeypatch.setattr(brackets, "_WIDEST", 0)
    assert counter.mass(1, exact=False) == exact
    assert rough.log2 == pytest.approx(exact.log2)


def test_nothing_has_the_mass_nothing():
    assert brackets._bounds(0.0, 5, 10) == Bracket(0, 0)
    assert brackets._bounds(1.0, 5, -1) is None


# --- structures ------------------------------------------------------------------------------------------------------


def test_a_trellis_of_too_many_states_is_refused(monkeypatch):
    structure = public.Trellis(marginals(DOMAIN, k=1))
    check._check_queries(DOMAIN, structure, 3)
    monkeypatch.setattr(check, "MAX_TRELLIS_STATES", 1)
    with pytest.raises(MechanismError, match="ask for fewer rows"):
        check._check_queries(DOMAIN, structure, 3)


def test_a_drawn_forest_is_one_column_of_bits_per_attribute():
    structure = public.Forest(("a", "b"), (("a", "b"),), ())
    engine = table_of(DOMAIN, (2, 1, 0, 3))._engine
    view = View(engine, "sequence", Scale(3, 1, 1), Fraction(1, 2))
    counted = COUNTERS[public.Forest.kind].count(structure, view)
    small = counted.counter.draw_any(Uniform(SeededBits(3)))
    first, second = counted.codes(small, Uniform(SeededBits(0)))
    assert [set(np.flatnonzero(first)), set(np.flatnonzero(second))] == [set(small[0]), set(small[1])]


def test_weighted_records_answer_any_class():
    engine = table_of(DOMAIN, (2, 1, 0, 3))._engine
    weighted = trellis.WeightedTable(engine, Weighting("b", (1, 2), 2, 1.0))
    assert weighted.answer(where(DOMAIN, "a = 1").to_forms()).tolist() == [6]
    assert weighted.answer(Marginals(DOMAIN, (("a",),)).to_forms()).tolist() == [4, 6]
    assert weighted.answer(where(DOMAIN, "a >= 0").to_forms()).tolist() == [10]  # looks at no attribute


def test_weighted_tables_that_are_too_wide_are_refused_by_the_check(monkeypatch):
    monkeypatch.setattr(weights, "MAX_WEIGHTED_CELLS", 3)
    with pytest.raises(MechanismError, match="more than 3 cells"):
        weights.check_weight(DOMAIN, Weighting("b", (1, 2), 2, 1.0), [("a",)])


@pytest.mark.parametrize(("atoms", "m"), [(3, 2), (2, 5), (5, 3), (1, 4)])
def test_the_limit_of_an_enumeration_is_on_all_rows_of_all_databases(monkeypatch, atoms, m):
    rows = math.comb(atoms + m - 1, m) * m
    monkeypatch.setattr(check, "MAX_ENUMERATED_ROWS", rows)
    check._check_listed(atoms, m)
    if atoms > 1:  # one atom makes one database, which is never too many
        monkeypatch.setattr(check, "MAX_ENUMERATED_ROWS", rows - 1)
        with pytest.raises(MechanismError, match="too many databases"):
            check._check_listed(atoms, m)
