"""The exact checks of `test_exact_ratios`, on ledgers that count Gaussian differential privacy."""

from fractions import Fraction

import pytest

from maquette.core.budget import UNITS
from maquette.domain import Relation
from maquette.mechanisms.base import MECHANISMS
from support.privacy_cases import GAUSSIAN_CASES
from support.privacy_conformance import TINY, check_exactly, run_on
from support.privacy_doubles import histograms, ledger_for, set_aside

pytestmark = pytest.mark.privacy

TABLES = histograms(TINY.size, most=2)[:55]


def _id(case) -> str:
    return f"{case.name} at {case.budget}"


def test_every_registered_mechanism_has_a_line():
    assert set(MECHANISMS) <= {case.name for case in GAUSSIAN_CASES}
    assert {case.budget.unit for case in GAUSSIAN_CASES} == {"mu^2/2"}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("case", GAUSSIAN_CASES, ids=_id)
def test_no_pair_of_neighbours_loses_more_than_was_charged(case, relation):
    verdict = check_exactly(case, relation, TABLES)
    assert verdict.pairs >= 100
    if case.name in MECHANISMS:
        assert 0.15 < verdict.tightest <= 1


@pytest.mark.parametrize("case", GAUSSIAN_CASES, ids=_id)
def test_the_real_ledger_charges_the_same(case, tmp_path):
    table, relation = TABLES[40], Relation.ADD_REMOVE
    tape = run_on(case, table, relation, None).calls
    quick = run_on(case, table, relation, tape)
    ledger = ledger_for(case.domain, budget=case.budget, relation=relation, location=tmp_path / "x.ledger")
    set_aside(ledger, "case", case.budget)
    real = run_on(case, table, relation, tape, ledger=ledger)
    assert real.charges == quick.charges
    ledger.settle("case")
    assert ledger.spent_units == sum(units for _, units, _ in real.charges)
    assert ledger.slack_spent == sum(slack for _, _, slack in real.charges)
    assert Fraction(ledger.spent_units, UNITS) <= Fraction(case.budget.total_units, UNITS)
    assert ledger.verify() == ledger.balance().head
    ledger.close()
