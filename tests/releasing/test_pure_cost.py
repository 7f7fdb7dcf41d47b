"""A pure epsilon on a ledger with a delta: what it takes is said before it is paid, with what a delta would save."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest

import maquette as mq
from maquette.accounting.charges import affordable_epsilon
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.results.document import dump
from maquette.results.report import account_in_words
from support.online_cases import PEOPLE, book, people

TOTAL = Budget(3.0, 1e-5)
WORDS = r"a pure epsilon=0\.5 takes up to 55\.7 % of a total of epsilon=3, delta=1e-05.* takes up to 3\.8 %"


def release(ledger: Ledger, *, mechanism: str = "laplace", **options: Any) -> mq.Release:
    return mq.release(people(2_000), mq.marginals(PEOPLE, k=1), ledger=ledger, mechanism=mechanism, **options)


@pytest.mark.parametrize(("accounting", "share"), [("zcdp", 0.557), ("gaussian", 0.759)])
def test_a_release_says_what_it_takes_before_it_is_paid(accounting, share):
    ledger = book(replace(TOTAL, accounting=accounting))
    words = WORDS if accounting == "zcdp" else r"takes up to 75\.9 % of"
    with warnings.catch_warnings():
        warnings.simplefilter("error", mq.PureCostWarning)
        with pytest.raises(mq.PureCostWarning, match=words):
            release(ledger, epsilon=0.5)
    assert ledger.balance().charged_units == ledger.balance().reserved_units == 0
    with pytest.warns(mq.PureCostWarning, match=words):
        release(ledger, epsilon=0.5)
    release(ledger, epsilon=0.5)  # a repeat costs nothing and says nothing
    assert 0.1 < ledger.balance().charged_units / ledger.total_units <= share + 0.001


def test_so_does_a_session():
    ledger = book(TOTAL)
    with pytest.warns(mq.PureCostWarning, match=WORDS):
        first = mq.session(people(2_000), epsilon=0.5, ledger=ledger)
    again = mq.session(people(2_000), epsilon=0.5, ledger=ledger)
    assert again.key == first.key


def test_so_does_a_tool():
    with pytest.warns(mq.PureCostWarning, match=WORDS):
        mq.above_threshold(
            people(2_000), threshold=100, positives=1, questions=5, epsilon=0.5, ledger=book(TOTAL)
        )


@pytest.mark.parametrize("total", [Budget(3.0), TOTAL])
def test_nothing_is_said_where_both_are_of_a_kind(total):
    release(book(total), epsilon=0.5, delta=total.delta, mechanism="auto")


def test_one_more_release_is_quoted_at_the_delta_of_the_total():
    ledger = book(TOTAL)
    with pytest.warns(mq.PureCostWarning):
        made = release(ledger, epsilon=0.5)
    assert made.account is not None
    further = affordable_epsilon(ledger.budget, ledger.balance().left)
    said = account_in_words(made.account, delta=made.budget.delta)
    assert said.endswith(f"one more release could have up to epsilon = {further:g}, delta = 1e-05")
    assert dump(made)["account"]["delta"] == 1e-5
    same = release(book(TOTAL), epsilon=0.5, delta=1e-5, mechanism="gaussian")
    assert "delta" not in dump(same)["account"]
