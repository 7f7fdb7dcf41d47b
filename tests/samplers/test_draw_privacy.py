"""The exact law of every sampler on all neighbouring tables of a tiny universe, in whole numbers.

No sampling and no tolerance: P(y|x) <= e^epsilon P(y|x') is checked with a rational number below e^epsilon. It
covers the stated law; that the samplers draw from it is checked against brute force next door.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import comb

import pytest

from maquette.core.budget import Unit
from maquette.core.inversion import exp_minus
from maquette.domain import Relation
from support.draw_cases import CASES, NARROW, Case, Table, tables
from support.priced import priced

pytestmark = pytest.mark.privacy

PAIRS = 10_000
PRECISION = 200
EPSILON = Fraction(1)


def below_exp(epsilon: Fraction) -> Fraction:
    """A rational number just below e^epsilon."""
    return Fraction(1 << PRECISION, exp_minus(epsilon, PRECISION)[1])


def most_records(case: Case) -> int:
    """So many that there are enough pairs under both relations."""
    most = 1
    while comb(most - 1 + case.universe, case.universe) * case.universe < PAIRS:
        most += 1
    return most


def neighbours(known: Sequence[Table], relation: Relation) -> list[tuple[Table, Table]]:
    """All unordered pairs."""
    held = set(known)
    pairs = []
    for table in known:
        for i in range(len(table)):
            more = (*table[:i], table[i] + 1, *table[i + 1 :])
            if relation is Relation.ADD_REMOVE:
                pairs.append((table, more))
            else:
                for j in range(i):
                    if more[j]:
                        pairs.append((table, (*more[:j], more[j] - 1, *more[j + 1 :])))
    return [pair for pair in pairs if pair[1] in held]


Law = Callable[[Case, Table], list[int]]


def stated(case: Case, table: Table, *, base: Fraction) -> list[int]:
    """weight * base**level of every database, with the level that the sampler itself uses."""
    counter = case.counter(table)
    levels = [counter.level(case.given(small)) for small in case.smalls]
    top = max(levels)
    powers = {j: base.numerator**j * base.denominator ** (top - j) for j in set(levels)}
    return [weight * powers[level] for weight, level in zip(case.weights, levels, strict=True)]


def worst(laws: dict[Table, list[int]], pairs: list[tuple[Table, Table]], limit: Fraction) -> bool:
    """Does any database on any pair, in either direction, pass the limit?"""
    over, under = limit.numerator, limit.denominator
    totals = {table: sum(law) for table, law in laws.items()}
    for x, z in pairs:
        to_z, to_x = totals[z] * under, totals[x] * over
        back_x, back_z = totals[x] * under, totals[z] * over
        for p, q in zip(laws[x], laws[z], strict=True):
            if p * to_z > q * to_x or q * back_x > p * back_z:
                return True
    return False


def mass(case: Case, levels: Sequence[int], base: Fraction, top: int) -> int:
    """The sum of weight * base**level, times denominator**top."""
    per_level: dict[int, int] = {}
    for weight, level in zip(case.weights, levels, strict=True):
        per_level[level] = per_level.get(level, 0) + weight
    return sum(w * base.numerator**j * base.denominator ** (top - j) for j, w in per_level.items())


@pytest.mark.parametrize("case", [c for c in CASES if c.grid == 1], ids=lambda c: c.name)
def test_every_pair_of_neighbours_is_within_epsilon(case):
    base = priced(Unit.EPSILON).draw(EPSILON, resolution=case.resolution, what="test").decay
    known = tables(case.universe, most_records(case))
    counters = ((table, case.counter(table)) for table in known)
    levels = {t: [counter.level(case.given(s)) for s in case.smalls] for t, counter in counters}
    top = max(max(found) for found in levels.values())
    masses = {table: mass(case, found, base, top) for table, found in levels.items()}
    limit = below_exp(EPSILON)
    for relation in Relation:
        pairs = neighbours(known, relation)
        assert len(pairs) >= PAIRS
        for x, z in pairs:
            # the base weight cancels: P(y|x) / P(y|z) = base^(level - level') Z(z) / Z(x)
            apart = [a - b for a, b in zip(levels[x], levels[z], strict=True)]
            assert base ** min(apart) * masses[z] <= limit * masses[x]
            assert base ** -max(apart) * masses[x] <= limit * masses[z]


def small_pairs(case: Case, law: Law, relation: Relation, most: int = 6) -> bool:
    known = tables(case.universe, most)
    return worst({t: law(case, t) for t in known}, neighbours(known, relation), below_exp(EPSILON))


CASE = CASES[0]
BASE = priced(Unit.EPSILON).draw(EPSILON, resolution=1, what="test").decay


def broken_levels(change: Callable[[Case, Table, Sequence[int]], Fraction], base: Fraction) -> Law:
    def law(case: Case, table: Table) -> list[int]:
        levels = [change(case, table, small) for small in case.smalls]
        ceiled = [-(-level.numerator // level.denominator) for level in levels]
        top = max(ceiled)
        return [
            w * base.numerator**j * base.denominator ** (top - j)
            for w, j in zip(case.weights, ceiled, strict=True)
        ]

    return law


def test_the_unbroken_law_passes_the_same_check():
    honest = broken_levels(lambda case, table, small: case.error(table, small), BASE)
    assert not any(small_pairs(CASE, honest, relation) for relation in Relation)


@pytest.mark.parametrize(
    ("bug", "law"),
    [
        ("missing factor 2", broken_levels(lambda c, t, s: c.error(t, s), BASE**2)),
        (
            "unpaid grid: scores rounded to multiples of 3 counts, sensitivity still 1",
            broken_levels(lambda c, t, s: 3 * Fraction(-(-c.error(t, s) // 3)), BASE),
        ),
        (
            "underflowed bucket: far databases get weight 0",
            lambda c, t: [
                w if lv <= 2 else 0 for w, lv in zip(stated(c, t, base=BASE), c.levels(t), strict=True)
            ],
        ),
        (
            "data-dependent cap: only databases as near as the nearest plus 2",
            lambda c, t: [
                w if lv <= min(c.levels(t)) + 2 else 0
                for w, lv in zip(stated(c, t, base=BASE), c.levels(t), strict=True)
            ],
        ),
        (
            "wrong base: databases that share rows with the table weigh four times as much",
            lambda c, t: [
                w * 4 ** sum(1 for r in set(s) if t[r])
                for w, s in zip(stated(c, t, base=BASE), c.smalls, strict=True)
            ],
        ),
        (
            "sensitivity 1/len(data) of a score that is already in counts",
            broken_levels(lambda c, t, s: c.error(t, s) * sum(t), BASE),
        ),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_seeded_bugs_are_caught(bug, law):
    assert any(small_pairs(CASE, law, relation) for relation in Relation)


def per_span(span: Fraction) -> Law:
    return broken_levels(lambda c, t, s: c.error(t, s) / span, BASE)


def test_a_span_below_the_true_one_is_caught():
    """D = 1/4 for these weights: scores over a quarter pass, scores over an eighth do not."""
    case = next(c for c in CASES if c.queries == NARROW)
    assert case.span == Fraction(1, 4)
    assert not any(small_pairs(case, per_span(case.span), relation) for relation in Relation)
    assert any(small_pairs(case, per_span(case.span / 2), relation) for relation in Relation)


def float_law(case: Case, table: Table) -> list[int]:
    """How many of the 2^53 uniform doubles a plain `u < cumulative sum` gives to each database."""
    weights = [w * math.exp(-level / 2) for w, level in zip(case.weights, case.levels(table), strict=True)]
    borders = [math.floor(total / sum(weights) * 2**53) for total in accumulate(weights)]
    return [b - a for a, b in pairwise([0, *borders])]


def test_a_float_draw_is_caught():
    """Databases whose weight is below 2^-53 vanish, and not the same ones for neighbours."""
    known = [(k, 0, 0, j) for k in range(60, 90) for j in (0, 1)]
    laws = {table: float_law(CASE, table) for table in known}
    honest = {table: stated(CASE, table, base=BASE) for table in known}
    pairs = neighbours(known, Relation.ADD_REMOVE)
    assert worst(laws, pairs, below_exp(EPSILON))
    assert not worst(honest, pairs, below_exp(EPSILON))
