"""Privacy bugs of online answering, planted one by one: each is seen by a check that passes without it."""

from fractions import Fraction

import numpy as np
import pytest

from maquette.accounting import events
from maquette.accounting.budget import UNITS, Budget, Cost
from maquette.accounting.ledger import Ledger
from maquette.domain import Relation
from maquette.errors import MechanismError
from maquette.gate import online, sparse
from maquette.gate.online import OnlineCurator
from maquette.models.testing import Terms
from maquette.queries import where
from support.online_variants import probability
from support.privacy_conformance import TINY
from support.privacy_doubles import RecordingNoise, ledger_for, set_aside, table_of

BUDGET = Budget(4.0)
TERMS = Terms(2, 2, *[Fraction(1, 2)] * 3)
QUERY = where(TINY, "b = 0")
HISTOGRAM = (3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2)


class Loud(RecordingNoise):
    """Every test is far off: noise that lifts every score."""

    def laplace(self, exact, *, scale):
        return self._record("laplace", exact + (10**6 if exact.any() else 0), scale=scale)


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
    plan = sparse.plan(Terms(2, 1, Fraction(1, 2), Fraction(1, 2), None), unit="epsilon")
    charged = plan.event.cost("epsilon").units / UNITS
    here, there = (probability(s, (0, 0, 1), threshold=2, plan=plan) for s in ((2, 2, 3), (3, 3, 2)))
    return np.log(here / there) <= charged


def stores_before_it_shows(folder) -> bool:
    curator = curator_at(folder / "d.ledger", noise=Loud())
    curator.open_epoch(TERMS)
    shown = curator.test(QUERY, guess=0)
    stored = [online.tested(s) for s in curator_at(folder / "d.ledger").catch_up() if s.ask == "test"]
    steps = list(Ledger.open(folder / "d.ledger").children("session"))
    return len(steps) == 2 and not stored and shown.value is not None


BUGS = {
    "the threshold is drawn again after a restart": (
        keeps_its_threshold,
        lambda patch: patch.setattr(sparse, "unseal", lambda arrays: np.random.default_rng().integers(10**9)),
    ),
    "far guesses are not counted": (
        stops_at_its_cap,
        lambda patch: patch.setattr(OnlineCurator, "_count", lambda self, outcome: None),
    ),
    "the value is the one that was compared": (
        draws_values_afresh,
        lambda patch: patch.setattr(sparse, "add_noise", lambda exact, law, *, denominator, noise: exact),
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
            lambda self, queries, *, guess: online.Tested(
                True, self._look(queries, guess, self._open)[1][0], None
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
