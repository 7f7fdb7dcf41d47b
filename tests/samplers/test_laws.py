"""The whole-number bounds really bound, and tightly: against decimals of 160 digits."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core.inversion import CubeRadius, Geometric, HalfGaussian, exp_minus
from maquette.core.noise import PRECISION, REST, _borders
from support.privacy_laws import DIGITS, Reference, cube_radius, decimal, geometric, half_gaussian

OWN_ROUNDING = Decimal(10) ** -40
"""The decimals' own error: far below 1, one step of the brackets."""
LAWS = [
    pytest.param(HalfGaussian(v), Reference(lambda j, v=v: half_gaussian(v, j)), id=f"gaussian {v}")
    for v in (Fraction(1, 9), Fraction(1, 4), Fraction(7, 3), Fraction(9), Fraction(3.7) ** 2, Fraction(1600))
]
LAWS += [
    pytest.param(Geometric(r), Reference(lambda j, r=r: geometric(r, j)), id=f"geometric {r}")
    for r in (Fraction(5), Fraction(1), Fraction(1, 7), Fraction(0.013), Fraction(1, 300))
]
LAWS += [
    pytest.param(Geometric(r, s), Reference(lambda j, r=r: geometric(r, j), stop=s), id=f"digit {r} {s}")
    for r, s in ((Fraction(1, 3), 1), (Fraction(1, 3), 2), (Fraction(1, 50), 16), (Fraction(1, 10**6), 64))
]
LAWS += [
    pytest.param(CubeRadius(k, b), Reference(lambda j, k=k, b=b: cube_radius(k, b, j)), id=f"cube {k} {b}")
    for k, b in (
        (1, Fraction(1, 3)),
        (1, Fraction(19, 20)),
        (2, Fraction(3, 5)),
        (3, Fraction(9, 10)),
        (10, Fraction(2, 3)),
        (10, Fraction(1, 50)),
        (40, Fraction(7, 8)),
    )
]


def _exp(x: Fraction) -> Decimal:
    return (-decimal(x)).exp()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    x=st.fractions(min_value=0, max_value=3000, max_denominator=10**12)
    | st.fractions(min_value=0, max_value=Fraction(1, 1000)),
    precision=st.integers(2, 300),
)
def test_exp_minus_brackets_and_is_tight(x, precision):
    low, high = exp_minus(x, precision)
    with localcontext() as context:
        context.prec = DIGITS
        true = _exp(x) * Decimal(2) ** precision
        assert Decimal(low) <= true <= Decimal(high)
    assert high - low <= 2


def test_exp_minus_at_zero_and_far_out():
    assert exp_minus(Fraction(0), 64)[0] <= 2**64 <= exp_minus(Fraction(0), 64)[1]
    assert exp_minus(Fraction(10**6), 64) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "reference"), LAWS)
def test_brackets_hold_the_weights_and_the_rest(law, reference):
    brackets = law.brackets(PRECISION, REST)
    with localcontext() as context:
        context.prec = DIGITS
        # a law's weights are known up to one factor: 1 at some j where the brackets meet
        pairs = list(zip(brackets.low, brackets.high, strict=True))
        unit = pairs.index((2**PRECISION, 2**PRECISION))
        scale = Decimal(2) ** PRECISION / reference.weights[brackets.first + unit]
        inside = reference.weights[brackets.first : brackets.first + len(brackets.low)]
        for low, high, weight in zip(brackets.low, brackets.high, inside, strict=True):
            assert low - OWN_ROUNDING <= weight * scale <= high + OWN_ROUNDING
        left = sum(reference.weights[: brackets.first], Decimal(0)) * scale
        right = sum(reference.weights[brackets.first + len(inside) :], Decimal(0)) * scale
        assert left <= brackets.left
        assert right <= brackets.right
        # tight: what is left out or unknown is far below one 64-bit step
        unknown = sum(b - a for a, b in zip(brackets.low, brackets.high, strict=True))
        assert unknown + brackets.left + brackets.right < reference.total * scale * Decimal(2) ** -78


@pytest.mark.slow
@pytest.mark.parametrize(("law", "reference"), LAWS)
@pytest.mark.parametrize("width", [8, 64, 128])
def test_borders_bracket_the_cumulative_distribution(law, reference, width):
    first, low, high = _borders(law, width, PRECISION + width, REST + width)
    with localcontext() as context:
        context.prec = DIGITS
        true = reference.cumulative()[first : first + len(low)]
        for a, b, border in zip(low, high, true, strict=True):
            # the reference itself stops 10^-100 short of the tail
            assert a <= border * 2**width + Decimal(10) ** -60
            assert border * 2**width <= b
            assert b - a <= 2
    assert low == sorted(low)
    assert high == sorted(high)


@pytest.mark.slow
@pytest.mark.parametrize(("law", "reference"), LAWS)
def test_all_words_of_a_small_width_add_up_to_the_law(law, reference):
    """Every word of 12 bits, decided or not: what is decided never exceeds the law, and only little is undecided."""
    width = 12
    first, low, high = _borders(law, width, PRECISION, REST)
    decided: dict[int, int] = {}
    for word in range(2**width):
        index = sum(1 for border in high if border <= word)
        if index < len(low) and word < low[index]:
            decided[first + index] = decided.get(first + index, 0) + 1
    undecided = 2**width - sum(decided.values())
    assert undecided <= len(low) + 2
    probabilities = reference.probabilities()
    for value, count in decided.items():
        assert count / 2**width <= probabilities[value] * (1 + 1e-12)
    for value, probability in enumerate(probabilities):
        assert probability <= (decided.get(value, 0) + undecided) / 2**width + 1e-12


def test_a_bracket_that_is_too_narrow_is_caught():
    law, reference = HalfGaussian(Fraction(9)), LAWS[3].values[1]
    wrong = HalfGaussian(Fraction(9) * (1 + Fraction(1, 2**40)))
    with pytest.raises(AssertionError):
        test_brackets_hold_the_weights_and_the_rest(wrong, reference)
    test_brackets_hold_the_weights_and_the_rest(law, reference)
