"""Exact output ratios on all neighbouring tables of a tiny universe, for every mechanism and every question.

In integers and rationals, through the production curator; only the sampler is replaced by its law. That proves the
formulas on these inputs; the samplers have tests of their own in `tests/samplers`.
"""

from fractions import Fraction

import pytest

from maquette.core.budget import UNITS
from maquette.domain import Relation
from maquette.mechanisms.base import MECHANISMS
from support.privacy_cases import MECHANISM_CASES, MORE_CASES, QUESTION_CASES
from support.privacy_conformance import TINY, check_exactly, run_on
from support.privacy_doubles import histograms, ledger_for, neighbours, set_aside

pytestmark = pytest.mark.privacy

TABLES = histograms(TINY.size, most=3)
FEWER_TABLES = histograms(TINY.size, most=2)


def _id(case) -> str:
    return f"{case.name} at {case.budget}"


def test_every_registered_mechanism_has_a_line_in_the_table():
    missing = set(MECHANISMS) - {case.name for case in MECHANISM_CASES}
    assert not missing, (
        f"no conformance case for {sorted(missing)}: add a line to privacy_cases.MECHANISM_CASES"
    )


def test_there_are_enough_pairs():
    pairs = {relation: sum(1 for _ in neighbours(TABLES, relation)) for relation in Relation}
    assert pairs == {Relation.ADD_REMOVE: 2184, Relation.REPLACE_ONE: 12012}
    assert sum(pairs.values()) >= 10_000


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("case", MECHANISM_CASES, ids=_id)
def test_no_pair_of_neighbours_loses_more_than_was_charged(case, relation):
    verdict = check_exactly(case, relation, TABLES)
    assert verdict.pairs == (2184 if relation is Relation.ADD_REMOVE else 12012)
    # the charge is no fantasy: some pair comes close to it
    assert 0.2 < verdict.tightest <= 1


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("case", [*MORE_CASES, *QUESTION_CASES], ids=_id)
def test_no_question_loses_more_than_was_charged(case, relation):
    verdict = check_exactly(case, relation, FEWER_TABLES)
    assert verdict.pairs >= 300


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("case", [*MECHANISM_CASES, *MORE_CASES], ids=_id)
def test_the_real_ledger_charges_the_same(case, relation, tmp_path):
    for i, table in enumerate(TABLES[5:200:97]):
        tape = run_on(case, table, relation, None).calls
        quick = run_on(case, table, relation, tape)
        ledger = ledger_for(
            case.domain, budget=case.budget, relation=relation, location=tmp_path / f"{i}.ledger"
        )
        set_aside(ledger, "case", case.budget)
        real = run_on(case, table, relation, tape, ledger=ledger)
        assert real.charges == quick.charges
        assert real.public == quick.public
        spent = ledger.settle("case")
        assert ledger.spent_units == sum(units for _, units, _ in real.charges)
        assert ledger.slack_spent == sum(slack for _, _, slack in real.charges)
        assert Fraction(ledger.spent_units, UNITS) <= Fraction(case.budget.total_units, UNITS)
        assert spent.settlement is not None
        ledger.close()
