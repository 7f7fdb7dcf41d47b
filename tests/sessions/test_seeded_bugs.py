"""Privacy bugs of online answering, planted one by one: each is seen by a check that passes without it."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core import events, sparse
from maquette.core.budget import UNITS, Budget, Cost, Unit
from maquette.core.curator import OnlineCurator
from maquette.core.ledger.transaction import Transaction
from maquette.core.measurement import EpochTerms, GuessOutcome, outcome_of, pack_outcomes
from maquette.core.prices import Prices, VariancePlan
from maquette.core.sparse import Guess
from maquette.domain import Relation
from maquette.errors import KeyReused, LedgerError, MechanismError
from maquette.queries import where
from support.online_survey import weigh
from support.online_variants import probability
from support.priced import priced
from support.privacy_conformance import TINY
from support.privacy_doubles import RecordingNoise, ledger_for, set_aside, table_of

pytestmark = pytest.mark.privacy

BUDGET = Budget(4.0)
TERMS = EpochTerms(2, 2, *[Fraction(1, 2)] * 3)
QUERY = where(TINY, "b = 0")
HISTOGRAM = (3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2)


class Loud(RecordingNoise):
    """Every test is far off: noise that lifts every score."""

    def laplace(self, exact, *, scale):
        return self._record("laplace", exact + (10**6 if exact.any() else 0), scale=scale)


class Quiet(RecordingNoise):
    """Every test is near: noise that lowers every score."""

    def laplace(self, exact, *, scale):
        return self._record("laplace", exact - (10**6 if exact.any() else 0), scale=scale)


def curator_at(location, *, noise=None):
    fresh = not location.exists()
    facts = {"budget": BUDGET, "relation": Relation.ADD_REMOVE}
    ledger = ledger_for(TINY, **facts, location=location) if fresh else Ledger.open(location)
    if fresh:
        set_aside(ledger, "session", BUDGET)
    made = OnlineCurator(table_of(TINY, HISTOGRAM), ledger, key="session", budget=BUDGET)
    made._noise = noise or RecordingNoise(seed=len(str(location)))
    made.catch_up()
    return made


def keeps_its_threshold(folder) -> bool:
    first = curator_at(folder / "a.ledger")
    first.open_epoch(TERMS)
    again = curator_at(folder / "a.ledger")
    return first._open is not None and first._open == again._open


def stops_at_its_cap(folder) -> bool:
    curator = curator_at(folder / "b.ledger", noise=Loud())
    curator.open_epoch(TERMS)
    for _ in range(TERMS.cap):
        assert curator.test(QUERY, guess=0).far
    try:
        curator.test(QUERY, guess=0)
    except MechanismError:
        return True
    return False


def draws_values_afresh(folder) -> bool:
    noise = Loud()
    curator = curator_at(folder / "c.ledger", noise=noise)
    curator.open_epoch(TERMS)
    curator.test(QUERY, guess=0)
    return [call.method for call in noise.calls] == ["laplace"] * 3  # threshold, test, value


def charges_what_it_loses(folder) -> bool:
    plan = priced(Unit.EPSILON).epoch(EpochTerms(2, 1, Fraction(1, 2), Fraction(1, 2), None))
    charged = plan.event.cost(Unit.EPSILON).units / UNITS
    here, there = (probability(s, (0, 0, 1), threshold=2, plan=plan) for s in ((2, 2, 3), (3, 3, 2)))
    return np.log(here / there) <= charged


def stores_before_it_shows(folder) -> bool:
    curator = curator_at(folder / "d.ledger", noise=Loud())
    curator.open_epoch(TERMS)
    shown = curator.test(QUERY, guess=0)
    stored = [outcome_of(s) for s in curator_at(folder / "d.ledger").catch_up() if s.ask == "test"]
    steps = list(Ledger.open(folder / "d.ledger").children("session"))
    return len(steps) == 2 and not stored and shown.value is not None


def ends_a_batch_with_the_first_far_guess(folder) -> bool:
    curator = curator_at(folder / "e.ledger", noise=Loud())
    curator.open_epoch(TERMS)
    three = [Guess(QUERY, guess) for guess in range(3)]
    try:
        found = [len(curator.test_all(three)) for _ in range(2)]
    except LedgerError:  # a test outside of every epoch
        return False
    return found == [1, 1] and curator.epoch is None


def _look_at_all_of_them(self, tests, current):
    return pack_outcomes([self._look(query, guess, current) for query, guess in tests], len(tests))


def keeps_out_of_an_epoch_that_another_process_closed(folder) -> bool:
    """The other process tested the same first guess and found it far: the second has no threshold any more."""
    terms = EpochTerms(2, 1, *[Fraction(1, 2)] * 3)
    one = curator_at(folder / "f.ledger", noise=Loud())
    one.open_epoch(terms)
    other = curator_at(folder / "f.ledger", noise=Loud())
    assert one.test(QUERY, guess=0).far
    with suppress(KeyReused, LedgerError):
        other._noise = Quiet()
        other.test_all([Guess(QUERY, 0), Guess(QUERY, 1)])
    steps = Ledger.open(folder / "f.ledger").children("session")
    return sum(e.body["ask"] == "test" for e in steps) == 1


def surveys_for_what_it_charges(_folder) -> bool:
    found = weigh(Relation.ADD_REMOVE, "zcdp")
    return found.surveys == 2 and found.lost <= found.charged


def _draw_half(self, noise, counts):
    narrow = replace(self, widths=tuple(width / 2 for width in self.widths))
    return _DRAW(narrow, noise, counts)


def _charge_for_one(self, domain, binned, variances):
    plan = _PLAN(self, domain, binned, variances)
    return replace(plan, event=replace(plan.event, l2_squared=plan.event.l2_squared / len(binned)))


def _only_what_is_compared(self, exact, law, denominator=1):
    """Noise for thresholds and tests, none for values."""
    is_value = self._open is not None and law is self._open.epoch.answer_noise
    return exact if is_value else _PLUS_NOISE(self, exact, law, denominator)


_PLUS_NOISE = OnlineCurator._plus_noise
_DRAW, _PLAN = VariancePlan.draw, Prices.tables

BUGS = {
    "the tables of a survey carry half their noise": (
        surveys_for_what_it_charges,
        lambda patch: patch.setattr(VariancePlan, "draw", _draw_half),
    ),
    "the tables of a survey are charged as one": (
        surveys_for_what_it_charges,
        lambda patch: patch.setattr(Prices, "tables", _charge_for_one),
    ),
    "a batch goes on after a far guess": (
        ends_a_batch_with_the_first_far_guess,
        lambda patch: patch.setattr(OnlineCurator, "_look_all", _look_at_all_of_them),
    ),
    "a batch is stored behind the step of another process": (
        keeps_out_of_an_epoch_that_another_process_closed,
        lambda patch: patch.setattr(
            Transaction,
            "begin_all",
            lambda self, given, parent, *, pace: [self.reserve(one) for one in given],
        ),
    ),
    "the threshold is drawn again after a restart": (
        keeps_its_threshold,
        lambda patch: patch.setattr(sparse, "unseal", lambda arrays: np.random.default_rng().integers(10**9)),
    ),
    "far guesses are not counted": (
        stops_at_its_cap,
        lambda patch: patch.setattr(sparse, "after", lambda current, verdict: current),
    ),
    "the value is the one that was compared": (
        draws_values_afresh,
        lambda patch: patch.setattr(OnlineCurator, "_plus_noise", _only_what_is_compared),
    ),
    "the tests are not charged": (
        charges_what_it_loses,
        lambda patch: patch.setattr(events.SparseEvent, "cost", lambda self, unit: Cost(UNITS // 100)),
    ),
    "an outcome is shown without being stored": (
        stores_before_it_shows,
        lambda patch: patch.setattr(
            OnlineCurator,
            "test",
            lambda self, queries, *, guess: GuessOutcome(
                True, self._look(queries.to_forms(), guess, self._open)[1], None
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_check_passes_without_the_bug_and_sees_it(name, tmp_path, monkeypatch):
    check, plant = BUGS[name]
    (tmp_path / "sound").mkdir()
    (tmp_path / "broken").mkdir()
    assert check(tmp_path / "sound")
    plant(monkeypatch)
    assert not check(tmp_path / "broken")
