"""The radius of L-infinity noise without a table: exactly the law of the table."""

from fractions import Fraction

import numpy as np
import pytest

from maquette.core import noise
from maquette.core.inversion import START, CubeRadius, Radius, SystemBits
from maquette.core.noise import LONG, TableNoise, table
from support.seeded import SeededBits

LAWS = [
    (1, Fraction(9, 10)),
    (2, Fraction(99, 100)),
    (3, Fraction(1, 2)),
    (7, Fraction(4, 5)),
    (40, Fraction(19, 20)),
]


def weight(law, place):
    return (2 * place + 1) ** law.k * law.base**place


@pytest.mark.parametrize(("k", "base"), LAWS)
def test_bounds_of_the_ratio_hold_in_rationals(k, base):
    law = Radius.of(k, base)
    for place in range(0, law.middle + 4 * law.distance, 1 + law.distance // 7):
        low, high = law.ratio(place, START)
        exact = weight(law, place) / weight(law, law.middle) * 2**START
        assert low <= exact <= high
        assert high - low <= max(2, exact / 2**64)


@pytest.mark.law
@pytest.mark.parametrize(("k", "base"), LAWS)
def test_every_place_is_accepted_in_proportion_to_its_weight(k, base):
    """Place and block are drawn with probability 2^-(i+1) / (2 d), and accepted with g 2^i / 2: together g / (8 d)."""
    law = Radius.of(k, base)
    for place in range(law.middle + 12 * law.distance):
        away = place - law.middle if place >= law.middle else law.middle - 1 - place
        block = away // law.distance
        assert weight(law, place) / weight(law, law.middle) * 2**block / 2 <= 1  # a probability


@pytest.mark.parametrize(("k", "base"), [(10_000, 1 - Fraction(1, 1000)), (300, 1 - Fraction(1, 100_000))])
def test_wide_laws_have_their_mode_and_their_envelope(k, base):
    law = Radius.of(k, base)
    one = 1 << START
    assert law.ratio(law.middle + 1, START)[0] <= one
    assert law.ratio(law.middle - 1, START)[0] <= one
    for blocks in range(1, 6):
        for place in (law.middle + blocks * law.distance, law.middle - blocks * law.distance):
            assert law.ratio(place, START)[1] <= one >> blocks


@pytest.mark.law
def test_draws_have_the_law():
    k, base = 3, Fraction(9, 10)
    law, bits = Radius.of(k, base), SeededBits(4)
    sample = np.array([law.draw(bits) for _ in range(6000)])

    def pmf(b):
        weights = (2.0 * np.arange(600) + 1) ** k * float(b) ** np.arange(600)
        return weights / weights.sum()

    seen = np.bincount(sample, minlength=600)
    for b, right in ((base, True), (Fraction(92, 100), False), (Fraction(88, 100), False)):
        expected = pmf(b) * len(sample)
        used = expected > 5
        statistic = float((((seen - expected) ** 2) / expected)[used].sum())
        assert (statistic < used.sum() + 5 * np.sqrt(2 * used.sum())) == right


def test_long_tables_are_not_made(monkeypatch):
    made = []
    monkeypatch.setattr(noise, "table", lambda law: made.append(law) or table(law))
    source = TableNoise(SystemBits())
    source.cube(np.zeros(5, dtype=np.int64), base=Fraction(9, 10))
    assert made == [CubeRadius(5, Fraction(9, 10))]
    drawn = source.cube(np.zeros(10_000, dtype=np.int64), base=1 - Fraction(1, 1000))
    assert len(made) == 1
    assert 0.9 < np.abs(drawn).max() / 10**7 < 1.1
    assert LONG < 10**5
