"""What other programs spent on a table, in one ledger; and what a ledger paid, for the accountants of others."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from dp_accounting import NonPrivateDpEvent, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from maquette.accounting import UNITS, Budget, ComposedEvent, GaussianEvent, LaplaceEvent, PureEvent
from maquette.accounting.elsewhere import (
    MAX_EVENTS,
    dp_accounting_events,
    from_dp_accounting,
    payments,
    spent,
)
from maquette.accounting.ledger import Ledger
from maquette.errors import BudgetExceeded, KeyReused, MechanismError, ParameterError
from maquette.verify import verdict
from support.cli_files import call
from support.ledger_cases import create, memory

ZCDP, GAUSSIAN, PURE = Budget(1.0, 1e-6), Budget(1.0, 1e-6, "gaussian"), Budget(1.0)
PARTS = Budget(1.0, 1e-6, "zcdp", pure_epsilon=0.4)


def _charged(budget: Budget, *events) -> Ledger:
    ledger = memory(budget=budget)
    for event in events:
        ledger.charge(event, reason="another tool")
    return ledger


@pytest.mark.parametrize(
    ("budget", "stated", "units"),
    [
        (PURE, {"epsilon": 0.25}, UNITS // 4),
        (ZCDP, {"epsilon": 0.1}, UNITS // 200),
        (ZCDP, {"rho": 0.003}, 3 * UNITS // 1000),
        (ZCDP, {"mu": 0.1}, UNITS // 200),
        (GAUSSIAN, {"mu": 0.1}, UNITS // 200),
    ],
)
def test_a_stated_guarantee_costs_what_it_is_worth(budget, stated, units):
    ledger = _charged(budget, spent(**stated))
    assert ledger.spent_units == units
    assert ledger.slack_spent == 0


def test_a_delta_is_charged_to_the_slack_of_a_ledger_that_counts_rho():
    stated = Fraction(1, 10**12)
    ledger = _charged(ZCDP, spent(epsilon=0.1, delta=1e-12))
    assert ledger.spent_units == UNITS // 200
    assert ledger.slack_spent == stated * 10**24
    with pytest.raises(BudgetExceeded):  # more than such a ledger keeps
        _charged(ZCDP, spent(epsilon=0.1, delta=1e-9))


def test_pure_events_are_charged_to_a_pure_part_where_that_takes_less():
    balance = _charged(PARTS, spent(epsilon=0.3)).balance()
    assert balance.pure_spent == 3 * UNITS // 10
    assert balance.spent_units == 0


@pytest.mark.parametrize(
    ("budget", "stated"),
    [(PURE, {"rho": 0.1}), (PURE, {"epsilon": 0.1, "delta": 1e-9}), (GAUSSIAN, {"rho": 0.001})],
)
def test_what_a_unit_has_no_cost_for_is_refused_and_leaves_no_entry(budget, stated):
    ledger = memory(budget=budget)
    with pytest.raises(MechanismError, match=r"delta|rho"):
        ledger.charge(spent(**stated), reason="another tool")
    assert len(list(ledger.entries())) == 1


@pytest.mark.parametrize(
    "stated", [{}, {"epsilon": 1, "rho": 1}, {"delta": 0.1}, {"epsilon": -1}, {"rho": 0}]
)
def test_a_guarantee_is_stated_in_one_way(stated):
    with pytest.raises(ParameterError):
        spent(**stated)


def test_a_charge_comes_out_of_the_same_total_and_is_refused_beyond_it():
    ledger = _charged(PURE, spent(epsilon=0.75))
    with pytest.raises(BudgetExceeded):
        ledger.charge(spent(epsilon=0.5), reason="too much")
    assert ledger.spent_units == 3 * UNITS // 4


def test_each_charge_is_a_payment_unless_it_has_a_name():
    ledger = _charged(PURE, spent(epsilon=0.125), spent(epsilon=0.125))
    assert ledger.spent_units == UNITS // 4
    first = ledger.charge(spent(epsilon=0.125), reason="mean of age", key="opendp-1")
    again = ledger.charge(spent(epsilon=0.125), reason="mean of age", key="opendp-1")
    assert (first.seq, first.answered) == (again.seq, again.answered)
    assert ledger.spent_units == 3 * UNITS // 8
    with pytest.raises(KeyReused):
        ledger.charge(spent(epsilon=0.25), reason="mean of age", key="opendp-1")


def test_the_chain_and_the_independent_verifier_agree(tmp_path):
    for name, budget, events in (
        ("pure", PURE, [spent(epsilon=0.5)]),
        ("rho", ZCDP, [spent(epsilon=0.1, delta=1e-12), spent(rho=0.001), spent(mu=0.1)]),
        ("mu", GAUSSIAN, [spent(mu=0.1), spent(epsilon=0.05)]),
        ("parts", PARTS, [spent(epsilon=0.3), spent(rho=0.001)]),
    ):
        path = tmp_path / f"{name}.ledger"
        with create(path, budget=budget) as ledger:
            for event in events:
                ledger.charge(event, reason="another tool")
            ledger.verify()
        assert verdict([str(path)])[0] == 0, name


# --- events of dp_accounting ---


def test_events_of_dp_accounting_are_read():
    assert from_dp_accounting(dp_event.LaplaceDpEvent(4.0)) == LaplaceEvent(scale=Fraction(4), l1=1)
    assert from_dp_accounting(dp_event.DiscreteLaplaceDpEvent(0.25, 2)) == LaplaceEvent(
        scale=Fraction(4), l1=2
    )
    assert from_dp_accounting(dp_event.ZCDpEvent(0.01)) == GaussianEvent(
        sigma_squared=1, l2_squared=Fraction(1, 50)
    )
    assert from_dp_accounting(dp_event.GaussianDpEvent(10.0)) == spent(mu=0.1)
    both = dp_event.ComposedDpEvent([dp_event.LaplaceDpEvent(2.0), dp_event.NoOpDpEvent()])
    assert from_dp_accounting(dp_event.SelfComposedDpEvent(both, 3)) == ComposedEvent(
        (LaplaceEvent(scale=Fraction(2), l1=1),) * 3
    )


@pytest.mark.parametrize(
    "event",
    [
        NonPrivateDpEvent(),
        dp_event.NoOpDpEvent(),
        dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0)),
        dp_event.ZCDpEvent(0.1, 0.5),
        dp_event.LaplaceDpEvent(0.0),
        dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(1.0), 0),
        dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(1.0), 10 * MAX_EVENTS),
        "LaplaceDpEvent",
    ],
)
def test_events_without_a_cost_are_refused(event):
    with pytest.raises(ParameterError):
        from_dp_accounting(event)


def test_a_repeated_gaussian_is_one_of_more_loss():
    repeated = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(10.0), 4)
    assert from_dp_accounting(repeated) == spent(mu=0.2)


@pytest.mark.slow
def test_the_export_of_a_ledger_in_rho_composes_to_its_epsilon():
    ledger = memory(budget=ZCDP)
    for share in (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)):
        left = ledger.total_units * share * (1 - Fraction(1, 10**6))
        ledger.charge(
            GaussianEvent(sigma_squared=1, l2_squared=2 * Fraction(int(left), UNITS)), reason="a part"
        )
    theirs = RdpAccountant().compose(dp_accounting_events(ledger)).get_epsilon(1e-6)
    assert theirs == pytest.approx(1.0, rel=0.02)  # their orders are a grid


@pytest.mark.slow
def test_the_export_of_a_gaussian_ledger_composes_to_its_epsilon():
    ledger = memory(budget=GAUSSIAN)
    whole = Fraction(ledger.total_units, UNITS)
    for _ in range(4):
        ledger.charge(spent(mu=float(whole / 2) ** 0.5 * (1 - 1e-9)), reason="a quarter")
    theirs = PLDAccountant().compose(dp_accounting_events(ledger)).get_epsilon(1e-6)
    assert theirs == pytest.approx(1.0, rel=1e-3)


@pytest.mark.slow
def test_the_export_of_a_pure_ledger_composes_to_its_epsilon():
    ledger = _charged(PURE, spent(epsilon=0.5), spent(epsilon=0.25))
    theirs = PLDAccountant().compose(dp_accounting_events(ledger)).get_epsilon(0.0)
    assert theirs == pytest.approx(0.75, abs=1e-3)


def test_reservations_are_no_payments():
    ledger = memory(budget=PURE)
    cost = PureEvent(Fraction(1, 4), "noise").cost(PURE.unit)
    ledger.reserve("release", request="1" * 64, tag="release", cost=cost, body={}, envelope=True)
    assert payments(ledger) == []


# --- the command line ---


def test_charge_and_export_by_command(tmp_path):
    path = str(tmp_path / "people.ledger")
    create(path, budget=PURE).close()
    done = call("ledger", "charge", path, "--epsilon", 0.25, "--reason", "OpenDP: mean of age")
    assert done.code == 0
    assert "charged 25.0 % of the ledger: OpenDP: mean of age" in done.out
    assert "another program: OpenDP: mean of age" in call("ledger", "show", path).out
    (payment,) = json.loads(call("ledger", "export", path).out)["payments"]
    assert payment["events"][0]["event"] == "DiscreteLaplaceDpEvent"
    assert call("ledger", "charge", path, "--epsilon", 2, "--reason", "too much").code == 3
    assert call("ledger", "charge", path, "--rho", 0.1, "--reason", "no delta").code == 2
