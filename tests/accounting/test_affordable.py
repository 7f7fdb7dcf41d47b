"""The epsilon that a ledger says it can still pay for: the ledger pays it, and refuses the next one."""

from __future__ import annotations

import pytest

from maquette.accounting.charges import affordable_epsilon, release_cost, what_fits
from maquette.accounting.ledger import Ledger
from maquette.core.budget import DIGITS, Budget, Cost, epsilon_for_units, percent_of
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, ParameterError


def next_epsilon(epsilon: float) -> float:
    """The next larger number of three digits."""
    mantissa, _, exponent = f"{epsilon:.{DIGITS - 1}e}".partition("e")
    return float(f"{int(mantissa.replace('.', '')) + 1}e{int(exponent) - DIGITS + 1}")


LEDGERS = [
    Budget(3.0),
    Budget(2.0, 1e-6, "zcdp"),
    Budget(2.0, 1e-9, "gaussian"),
    Budget(0.05, 1e-9, "gaussian"),
    Budget(40.0, 1e-6, "gaussian"),
]


def ledger(budget: Budget) -> Ledger:
    return Ledger.memory(
        budget=budget, relation=Relation.ADD_REMOVE, domain_fingerprint="0" * 64, name="people"
    )


def pay(book: Ledger, key: str, release: Budget) -> None:
    cost = release_cost(release, book.budget)
    book.reserve(key, request="0" * 64, tag="release", cost=cost, body={}, envelope=True)


def left(book: Ledger) -> Cost:
    balance = book.balance()
    return balance.left


@pytest.mark.parametrize("budget", LEDGERS, ids=str)
@pytest.mark.parametrize("spent", [0.0, 0.37, 0.9])
@pytest.mark.parametrize("pure", [False, True])
def test_the_ledger_pays_it_and_refuses_the_next(budget, spent, pure):
    delta = 0.0 if pure else budget.delta
    with ledger(budget) as book:
        if spent:
            pay(book, "first", Budget(spent * budget.epsilon, budget.delta, budget.accounting))
        epsilon = affordable_epsilon(budget, left(book), delta=delta)
        assert epsilon is not None
        assert float(f"{epsilon:.3g}") == epsilon
        with pytest.raises(BudgetExceeded):
            pay(book, "too much", Budget(next_epsilon(epsilon), delta, budget.accounting))
        pay(book, "second", Budget(epsilon, delta, budget.accounting))


def test_an_untouched_ledger_affords_its_own_epsilon():
    for budget in LEDGERS:
        assert affordable_epsilon(budget, Cost(budget.total_units, budget.slack_units)) == budget.epsilon


def test_nothing_fits_into_nothing():
    for budget in LEDGERS:
        assert affordable_epsilon(budget, Cost(0, 0)) is None


def test_a_pure_epsilon_needs_more_of_a_ledger_with_a_delta():
    budget = Budget(2.0, 1e-9, "gaussian")
    whole = Cost(budget.total_units, budget.slack_units)
    pure, usual = affordable_epsilon(budget, whole, delta=0.0), affordable_epsilon(budget, whole)
    assert pure is not None
    assert usual is not None
    assert pure < usual / 3


def test_it_grows_with_what_is_left():
    budget = Budget(1.0, 1e-6, "gaussian")
    amounts = [budget.total_units * k // 20 for k in range(1, 21)]
    found = [affordable_epsilon(budget, Cost(units, budget.slack_units)) for units in amounts]
    assert None not in found
    assert found == sorted(found)  # pyright: ignore[reportArgumentType]
    assert len(set(found)) == 20


@pytest.mark.parametrize(
    ("epsilon", "following"), [(1.0, 1.01), (0.999, 1.0), (9.99, 10.0), (1.23e-6, 1.24e-6)]
)
def test_the_next_number_of_three_digits(epsilon, following):
    assert next_epsilon(epsilon) == following


def test_budgets_of_other_ways_of_counting_have_no_cost():
    with pytest.raises(ParameterError, match="cannot pay"):
        release_cost(Budget(1.0, 1e-6, "zcdp"), Budget(1.0, 1e-6, "gaussian"))


@pytest.mark.parametrize("budget", LEDGERS, ids=str)
def test_units_alone_give_the_same(budget):
    units = budget.total_units // 3
    left = Cost(units, budget.slack_units)
    assert epsilon_for_units(units, budget.unit, delta=budget.delta) == affordable_epsilon(budget, left)


def test_a_refusal_offers_what_fits():
    budget = Budget(2.0, 1e-9, "gaussian")
    rest = Cost(budget.total_units // 4, budget.slack_units)
    usual, pure = affordable_epsilon(budget, rest), affordable_epsilon(budget, rest, delta=0.0)
    assert what_fits(budget, rest, delta=1e-9) == f"epsilon={usual:g}, delta=1e-09 fits"
    text = what_fits(budget, rest, delta=0.0)
    assert f"epsilon={usual:g}, delta=1e-09 fits; a pure epsilon={pure:g} fits" in text
    assert "needs more of a ledger with a delta" in text
    assert what_fits(Budget(2.0), Cost(10**12, 0), delta=0.0) == "a pure epsilon=1 fits"
    assert what_fits(budget, Cost(0, 0), delta=1e-9) == "nothing more fits"


def test_parts_of_a_ledger():
    assert percent_of(123, 1000) == "12.3 %"
    assert percent_of(1, 10**6) == "0.0001 %"
    assert percent_of(0, 5) == "0.0 %"
    assert (percent_of(12_341, 10**5), percent_of(12_341, 10**5, up=True)) == ("12.3 %", "12.4 %")
    assert (percent_of(1_231, 10**8), percent_of(1_231, 10**8, up=True)) == ("0.0012 %", "0.0013 %")
    assert percent_of(0, 5, up=True) == "0.0 %"
    assert percent_of(5, 5) == "100.0 %"
