"""Numbers in words: never smaller than they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.results import wording

GATE = Path(__file__).parents[2] / "src/maquette/core"


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
        (0.00811, "0.82 points"),
        (0.02, "2.0 points"),
        (0.0082, "0.82 points"),
        (0.5, "50 points"),
        (0.0, "0 points"),
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


def asked_words() -> set[str]:
    """Every text under the key "ask" in a dictionary of the gate."""
    return {
        node.value
        for file in GATE.glob("*.py")
        for pairs in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(pairs, ast.Dict)
        for key, value in zip(pairs.keys, pairs.values, strict=True)
        if isinstance(key, ast.Constant)
        and key.value == "ask"
        and not isinstance(value, (ast.Subscript, ast.JoinedStr))
        for node in ast.walk(value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_question_of_the_gate_has_a_label():
    assert {"size", "measure", "draw", "distances", "select signed"} <= asked_words()
    assert asked_words() <= set(wording.QUESTION_LABELS)


def test_a_payment_says_what_it_was_for_in_plain_words():
    assert wording.payment("distances", "smoothed") == "noisy distances of tables"
    assert wording.payment(None, "laplace") == "noisy answers"
    assert wording.payment(None, "release") == "release"
    assert wording.payment("binding", "binding") == "what the release states"


def test_every_kind_of_noise_has_a_label():
    from maquette.core import events

    assert set(events._KINDS) <= set(wording.EVENT_LABELS)


def test_what_the_rest_of_a_ledger_is_good_for():
    assert wording.further(0.8, 1e-9) == "one more release could have up to epsilon = 0.8, delta = 1e-09"
    assert wording.further(0.8, 0.0) == "one more release could have up to epsilon = 0.8"
    assert wording.further(None, 1e-9) == "nothing more can be released"
