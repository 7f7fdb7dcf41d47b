"""Privacy bugs planted in the offline mechanisms of multiplicative weights; each must be caught."""

from dataclasses import replace

import pytest

from maquette.core import prices
from maquette.core.rows import engine as vault
from maquette.domain import Relation
from maquette.mechanisms.weights import MultiplicativeWeights, Mwem, PreparedMwem, PreparedWeights
from maquette.theory import multiplicative
from support import privacy_checks as checks
from support.privacy_cases import DELTA, steps
from support.privacy_conformance import mechanism_case
from support.privacy_doubles import CAUGHT

pytestmark = pytest.mark.privacy

AR, REP = Relation.ADD_REMOVE, Relation.REPLACE_ONE
SIGNED = checks.exactly("select signed, pure", REP)
LEARNING = checks.of_case(mechanism_case("mw", queries=steps, using=MultiplicativeWeights(fixed=2)), AR)
MEASURING = checks.of_case(mechanism_case("mwem", queries=steps, delta=DELTA, using=Mwem(fixed=2)), AR)


def sensitivity_of_two(patch):
    """Scores in half counts, charged as counts."""
    real = vault.signed_errors
    patch.setattr(vault, "signed_errors", lambda *args: 2 * real(*args))


def monotone(patch):
    """Signed scores are not monotone: a query's two scores move against each other, and the factor 2 is needed."""
    real = prices.selection

    def selection(*, price, unit):
        plan = real(price=price, unit=unit)
        return replace(plan, scale=plan.scale / 2)

    patch.setattr(prices, "selection", selection)


def rounds_by_the_true_size(patch):
    """T from the number of rows instead of its paid estimate."""
    real = PreparedWeights._learn

    def learn(self, curator, mapped, count, progress):
        return real(self, curator, mapped, 1 + curator._engine.size(), progress)

    patch.setattr(PreparedWeights, "_learn", learn)


def stops_when_it_is_good_enough(patch):
    """A round fewer where the table's own error is small."""
    real = PreparedMwem._learn

    def learn(self, curator, mapped, plan, *rest):
        enough = curator._engine.size() == 0
        return real(self, curator, mapped, replace(plan, rounds=1) if enough else plan, *rest)

    patch.setattr(PreparedMwem, "_learn", learn)


def widths_by_the_true_size(patch):
    """A public parameter that looks at the rows."""
    real = PreparedWeights._learn

    def learn(self, curator, *rest):
        average = real(self, curator, *rest)
        return average * (1 + 1e-9 * curator._engine.size())

    patch.setattr(PreparedWeights, "_learn", learn)


BUGS = [
    (sensitivity_of_two, SIGNED),
    (monotone, SIGNED),
    (rounds_by_the_true_size, LEARNING),
    (widths_by_the_true_size, LEARNING),
    (stops_when_it_is_good_enough, MEASURING),
]


@pytest.mark.parametrize(("plant", "check"), BUGS, ids=[b[0].__name__ for b in BUGS])
def test_the_bug_is_caught(plant, check, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(CAUGHT):
        check()


@pytest.mark.parametrize("check", [SIGNED, LEARNING, MEASURING], ids=["signed", "learning", "measuring"])
def test_the_check_passes_without_the_bug(check):
    check()


def test_the_bound_is_not_below_the_specification():
    """A selection that forgot the rounds in its logarithm would promise too much."""
    loss = multiplicative.selection(epsilon=0.1, log_candidates=1.0, rounds=10, beta=0.05)
    assert loss > multiplicative.selection(epsilon=0.1, log_candidates=1.0, rounds=1, beta=0.05)
