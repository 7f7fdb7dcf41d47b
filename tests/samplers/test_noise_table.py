"""Draws decided by hand-made random words, ambiguous ones above all."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from maquette.core.inversion import CubeRadius, Geometric, HalfGaussian, SystemBits, below
from maquette.core.noise import Table
from support.privacy_laws import DIGITS, Reference, cube_radius, geometric, half_gaussian
from support.seeded import SeededBits

TOP = 2**64 - 1
CASES = [
    pytest.param(
        HalfGaussian(Fraction(9)), Reference(lambda j: half_gaussian(Fraction(9), j)), id="gaussian"
    ),
    pytest.param(
        Geometric(Fraction(1, 7)), Reference(lambda j: geometric(Fraction(1, 7), j)), id="geometric"
    ),
    pytest.param(
        Geometric(Fraction(1, 7), 5), Reference(lambda j: geometric(Fraction(1, 7), j), stop=5), id="digit"
    ),
    pytest.param(
        CubeRadius(3, Fraction(2, 3)), Reference(lambda j: cube_radius(3, Fraction(2, 3), j)), id="cube"
    ),
]


class Script:
    """A source that hands out given words and counts them."""

    def __init__(self, *words: int) -> None:
        self._words = list(words)
        self.taken = 0

    def words(self, count: int) -> np.ndarray:
        out, self._words = self._words[:count], self._words[count:]
        assert len(out) == count, "more random words were asked for than the script holds"
        self.taken += count
        return np.array(out, dtype=np.uint64)


def _draw(law, *words: int) -> tuple[int, int]:
    source = Script(*words)
    return int(Table(law).draw(source, 1)[0]), source.taken


@pytest.mark.slow
@pytest.mark.parametrize(("law", "reference"), CASES)
def test_a_word_on_a_border_is_decided_by_the_words_after_it(law, reference):
    with localcontext() as context:
        context.prec = DIGITS
        borders = reference.cumulative()
        for value, border in enumerate(borders[:25]):
            scaled = border * 2**64
            word = int(scaled)
            if word > TOP or scaled == word:
                continue
            rest = int((scaled - word) * 2**64)
            for extension in {0, max(rest - 1, 0), min(rest + 1, TOP), TOP}:
                drawn, taken = _draw(law, word, extension, 1, 1)
                assert drawn == reference.invert([word, extension, 1, 1])
                assert taken >= 2, "a word on a border was decided without looking further"
            assert _draw(law, word, 0, 1, 1)[0] <= value
            assert _draw(law, word, TOP, 1, 1)[0] >= value + 1


@pytest.mark.parametrize(("law", "reference"), CASES)
def test_a_border_that_needs_three_words(law, reference):
    with localcontext() as context:
        context.prec = DIGITS
        border = reference.cumulative()[1]
        first = int(border * 2**64)
        second = int(border * 2**128) - (first << 64)
        third = int(border * 2**192) - (int(border * 2**128) << 64)
    assert _draw(law, first, second, third - 1, 0, 0)[0] == 1
    assert _draw(law, first, second, third + 1, 0, 0)[0] == 2
    assert _draw(law, first, second, third + 1, 0, 0)[1] == 3


@pytest.mark.parametrize(("law", "reference"), CASES)
def test_words_in_the_tail(law, reference):
    for words in ([TOP, 0, 0], [TOP, TOP, 0, 0], [TOP, TOP // 3, 5, 5], [TOP - 1, 7, 7], [0, 0, 0]):
        assert _draw(law, *words)[0] == reference.invert(words)


@pytest.mark.parametrize(("law", "reference"), CASES)
def test_random_words_are_decided_as_by_exact_inversion(law, reference):
    words = SeededBits(5).words(400)
    source = Script(*map(int, words))
    drawn = Table(law).draw(source, len(words))
    borders = reference.cumulative()
    with localcontext() as context:
        context.prec = DIGITS
        for word, value in zip(words, drawn, strict=True):
            point = Decimal(int(word)) / 2**64
            assert value == next(i for i, border in enumerate(borders) if point < border)


def test_a_law_that_ends_never_goes_beyond_its_end():
    law = Geometric(Fraction(1, 7), 5)
    assert _draw(law, TOP, TOP, TOP)[0] == 4


def test_below_rejects_the_unfair_words():
    limit = 3 * 2**60
    unfair = 2**64 % limit
    source = Script(unfair - 1, *range(unfair, unfair + 20))
    assert list(below(source, limit, 3)) == [(unfair + i) % limit for i in range(3)]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 2**62])
def test_below_stays_below(limit):
    drawn = below(SystemBits(), limit, 1000)
    assert drawn.min() >= 0
    assert drawn.max() < limit
    assert len(drawn) == 1000
