"""Errors of released answers in whole counts: exact, on both arithmetic paths, and of sensitivity 1."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maquette.core import answers as scores
from maquette.core.answers import check_answers, count_errors, distance_sensitivity, signed_errors
from maquette.core.binned import Binned
from maquette.core.rows.engine import distances
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import ParameterError
from maquette.models.answers import Answers
from support.privacy_doubles import histograms, neighbours, table_of


@st.composite
def _cases(draw):
    n = draw(st.integers(0, 10**9))
    denominator = draw(st.sampled_from([1, 3, 2**20]))
    over = draw(st.sampled_from([1, 7, 2**30, 3 * 2**40]))
    count = draw(st.integers(1, 5))
    exact = [draw(st.integers(0, n * denominator)) for _ in range(count)]
    released = [draw(st.integers(0, over)) for _ in range(count)]
    return n, denominator, over, exact, released


@pytest.mark.slow
@settings(max_examples=400)
@given(case=_cases())
def test_errors_are_exact_on_both_paths(case):
    n, denominator, over, exact, released = case
    expected = [
        ceil(abs(Fraction(e, denominator) - n * Fraction(r, over)))
        for e, r in zip(exact, released, strict=True)
    ]
    errors = count_errors(
        np.array(exact, dtype=np.int64), denominator, Answers(np.array(released, dtype=np.int64), over), n
    )
    assert errors.dtype == np.int64
    assert errors.tolist() == expected


def test_the_long_path_gives_what_the_short_one_gives(monkeypatch):
    generator = np.random.default_rng(5)
    exact, released = generator.integers(0, 1000, 50), generator.integers(0, 2**30 + 1, 50)
    short = count_errors(exact, 1, Answers(released, 2**30), 1000)
    monkeypatch.setattr(scores.bounds, "EXACT", 1)
    assert np.array_equal(count_errors(exact, 1, Answers(released, 2**30), 1000), short)


def test_numbers_beyond_64_bits_do_not_wrap():
    n = 10**12
    answers = Answers(np.array([2**60, 0]), 2**60)
    assert count_errors(np.array([0, n]), 1, answers, n).tolist() == [n, n]
    # without the long path the products would wrap around
    assert n * 2**60 > 2**63


def test_an_empty_table_takes_no_other_way():
    answers = Answers(np.array([2**61, 5]), 3 * 2**61)
    assert count_errors(np.array([0, 0]), 7, answers, 0).tolist() == [0, 0]


@pytest.mark.parametrize("errors", [count_errors, signed_errors])
@pytest.mark.parametrize("relation", list(Relation))
def test_sensitivity_is_one_on_all_neighbours(relation, errors):
    """Scores, and the largest of them, move by at most 1: over every pair, weights in quarters, odd answers."""
    weights = np.array([[0, 1, 4, 2], [4, 4, 4, 4], [1, 0, 3, 0], [0, 0, 0, 0]])
    fractions = [Answers(np.array(r), 6) for r in ([0, 6, 1, 5], [6, 0, 3, 2], [2, 5, 6, 6], [3, 3, 3, 0])]
    tables = histograms(4, most=6)
    moved = set()
    for answers in fractions:
        score = {t: errors(weights @ np.array(t), 4, answers, sum(t)) for t in tables}
        for one, other in neighbours(tables, relation):
            gap = np.abs(score[one] - score[other])
            assert gap.max() <= 1
            assert abs(int(score[one].max()) - int(score[other].max())) <= 1
            moved.add(int(gap.max()))
    assert {1} <= moved <= {0, 1}


def test_an_answer_above_one_would_break_the_sensitivity():
    """Why `check_answers` refuses it: one record more moves the score by 2."""
    outside = Answers(np.array([2]), 1)
    assert (
        abs(
            int(count_errors(np.array([0]), 1, outside, 1)[0] - count_errors(np.array([0]), 1, outside, 0)[0])
        )
        == 2
    )
    with pytest.raises(ParameterError, match="between 0 and 1"):
        check_answers(outside, 1)


def test_answers_from_anywhere_are_clipped_into_the_score():
    answers = Answers.from_fractions(np.array([-0.2, 1.7, np.nan, np.inf, -np.inf, 0.5]))
    assert answers.fractions.tolist() == [0, 1, 0, 1, 0, 0.5]
    check_answers(answers, 6)


@pytest.mark.slow
@settings(max_examples=200)
@given(case=_cases())
def test_signed_errors_are_exact_on_both_paths(case):
    n, denominator, over, exact, released = case
    gaps = [Fraction(e, denominator) - n * Fraction(r, over) for e, r in zip(exact, released, strict=True)]
    errors = signed_errors(
        np.array(exact, dtype=np.int64), denominator, Answers(np.array(released, dtype=np.int64), over), n
    )
    assert errors.dtype == np.int64
    assert errors.tolist() == [ceil(gap) for gap in gaps] + [ceil(-gap) for gap in gaps]


TWO = Domain((Attribute("a", Kind.ORDINAL, codes=2), Attribute("b", Kind.ORDINAL, codes=2)))


@pytest.mark.parametrize("relation", list(Relation))
def test_distances_of_tables_move_as_far_as_is_stated_on_all_neighbours(relation):
    """In all three norms: reached by some pair of tables of up to two records, and never passed."""
    tables = [Binned(("a",), ((0, 1),)), Binned(("b",), ((0, 1),)), Binned(("a", "b"), ((0, 1), (0, 1)))]
    references = [np.array([1, 0]), np.array([0, 1]), np.array([0, 1, 0, 1])]
    exact = {
        one: distances(table_of(TWO, one)._engine, tables, references) for one in histograms(TWO.size, most=2)
    }
    moved = np.array([np.abs(exact[a] - exact[b]) for a, b in neighbours(list(exact), relation)])
    stated = distance_sensitivity(len(tables), relation)
    assert moved.sum(axis=1).max() == stated.l1
    assert (moved**2).sum(axis=1).max() == stated.l2_squared
    assert moved.max() == stated.linf
