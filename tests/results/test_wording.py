"""Numbers in words: never smaller than they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.results import wording


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (364, "364"),
        (12_800, "12,800"),
        (20_916_532, "20.9 million"),
        (3e9, "3 billion"),
        (5e13, "50 trillion"),
    ],
)
def test_big(value, text):
    assert wording.big(value) == text


@pytest.mark.parametrize(
    ("alpha", "text"),
    [
        (0.00811, "0.82 percentage points"),
        (0.02, "2.0 percentage points"),
        (0.0082, "0.82 percentage points"),
        (0.5, "50 percentage points"),
        (0.0, "0 percentage points"),
        (float("inf"), "an unknown amount"),
    ],
)
def test_points(alpha, text):
    assert wording.points(alpha) == text


@given(st.floats(1e-9, 1.0))
def test_points_are_rounded_up_by_less_than_a_tenth(alpha):
    shown = float(wording.points(alpha).split()[0]) / 100
    assert alpha * (1 - 1e-9) <= shown <= alpha * 1.11


@pytest.mark.parametrize(
    ("value", "text"), [(1e-9, "10⁻⁹"), (1e-12, "10⁻¹²"), (2e-9, "2e-09"), (0.01, "0.01"), (0.0, "0")]
)
def test_small(value, text):
    assert wording.small(value) == text


def test_chance_percent_and_budget():
    assert wording.chance(0.05) == "5 %"
    assert wording.percent(0.20345) == "20.34 %"
    assert wording.budget(1.0, 0.0) == "epsilon = 1"
    assert wording.budget(0.5, 1e-9) == "epsilon = 0.5, delta = 1e-09"
