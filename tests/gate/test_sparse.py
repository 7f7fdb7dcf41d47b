"""Epochs and tests through the gate: what is compared, what is paid when, and what stays secret over restarts."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOptionalMemberAccess=false

import gc
import itertools
import types
from fractions import Fraction

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import UNITS, Budget, Unit
from maquette.core.curator import OnlineCurator
from maquette.core.events import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    SparseEvent,
    from_body,
    from_dict,
)
from maquette.core.laws import Gaussian, Laplace
from maquette.core.measurement import EpochTerms
from maquette.core.noise import add_noise
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, KeyReused, MechanismError, ParameterError
from maquette.owner import Table
from maquette.queries import marginals, weights, where
from support import crash_points
from support.priced import priced
from support.privacy_conformance import TINY
from support.privacy_doubles import Touched, Untouchable, ledger_for, set_aside, table_of

PURE, CONCENTRATED = Budget(1.0), Budget(1.0, 1e-6)
HISTOGRAM = (3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2)
QUERY = where(TINY, "b = 0")
TERMS = EpochTerms(4, 2, Fraction(1, 10), Fraction(2, 10), Fraction(1, 10))
RHO_TERMS = EpochTerms(4, 1, Fraction(1, 50), Fraction(1, 50), Fraction(1, 1000))


class Given:
    """A sampler that hands out given noise in order: first the threshold's, then one per test, then values'."""

    watermark = None

    def __init__(self, *draws: int) -> None:
        self._draws = list(draws)
        self.scales: list[object] = []
        self.bits = self

    def words(self, count: int) -> np.ndarray:
        return np.arange(count, dtype=np.uint64)

    def laplace(self, exact: np.ndarray, *, scale: Fraction) -> np.ndarray:
        self.scales.append(scale)
        return exact + self._draws.pop(0)

    def gaussian(self, exact: np.ndarray, *, sigma: float) -> np.ndarray:
        self.scales.append(sigma)
        return exact + self._draws.pop(0)


def curator_on(ledger, *, draws=None, histogram=HISTOGRAM, budget=PURE, key="session") -> OnlineCurator:
    if ledger.find(key) is None:
        set_aside(ledger, key, budget)
    made = OnlineCurator(table_of(TINY, histogram), ledger, key=key, budget=budget)
    if draws is not None:
        made._noise = Given(*draws)
    made.catch_up()
    return made


def fresh(budget=PURE, relation=Relation.ADD_REMOVE, location=None):
    return ledger_for(TINY, budget=budget, relation=relation, location=location)


def exact_count() -> int:
    return int(table_of(TINY, HISTOGRAM)._engine.answer(QUERY.to_forms())[0])


@pytest.mark.slow
def test_a_guess_is_far_exactly_if_score_plus_noise_reaches_the_noisy_threshold():
    exact = exact_count()
    for guess, shift, nu in itertools.product((0, 3, exact, exact + 6), (-3, 0, 2), (-4, -1, 0, 1, 5)):
        curator = curator_on(fresh(), draws=[shift, nu, 100])
        curator.open_epoch(TERMS)
        outcome = curator.test(QUERY, guess=guess)
        assert outcome.far == (abs(exact - guess) + nu >= TERMS.threshold + shift)
        assert outcome.value == (exact + 100 if outcome.far else None)


def test_the_scales_are_those_of_the_terms_and_the_charge_is_their_price():
    ledger = fresh()
    curator = curator_on(ledger, draws=[0, 50, 0])
    epoch = curator.open_epoch(TERMS)
    assert (epoch.threshold_scale, epoch.test_scale) == (10, 20)
    curator.test(QUERY, guess=0)
    assert curator._noise.scales == [10, 20, 20]
    paid = list(ledger.entries(kind="reserve", parent="session"))
    assert [entry.tag for entry in paid] == ["composed", "test"]
    assert [entry.units for entry in paid] == [UNITS * 4 // 10, 0]
    event = from_body(paid[0].body)
    assert event == ComposedEvent((SparseEvent(10, 20, 2), LaplaceEvent(20, 2)))


def test_a_budget_in_rho_pays_the_square_of_the_epoch_and_draws_gaussian_values():
    ledger = fresh(CONCENTRATED)
    curator = curator_on(ledger, draws=[0, 50, 7], budget=CONCENTRATED)
    epoch = curator.open_epoch(RHO_TERMS)
    assert epoch.test_scale == 100
    assert curator.test(QUERY, guess=0).value == exact_count() + 7
    (paid, _) = ledger.entries(kind="reserve", parent="session")
    event = from_body(paid.body)
    assert event.events[0] == SparseEvent(50, 100, 1)
    assert isinstance(event.events[1], GaussianEvent)
    assert abs(paid.units - UNITS * (Fraction(4, 100) ** 2 / 2 + Fraction(1, 1000))) <= 2
    assert priced(Unit.RHO).epoch_cost(RHO_TERMS)[0].units == paid.units


def test_fractional_weights_are_tested_on_their_own_grid():
    query = weights(TINY, np.linspace(0, 1, TINY.size)[None, :])
    curator = curator_on(fresh(), draws=[1, 0, 0])
    exact = int(curator._engine.answer(query.to_forms())[0])
    curator.open_epoch(TERMS)
    step = query.denominator
    assert curator.test(query, guess=exact + 5 * step).far
    assert curator._noise.scales[1] == 20 * step
    curator = curator_on(fresh(), draws=[1, -1, 0])
    curator.open_epoch(TERMS)
    assert not curator.test(query, guess=exact + 5 * step).far


def test_after_the_cap_nothing_is_tested_until_an_epoch_is_paid_again():
    ledger = fresh()
    curator = curator_on(ledger, draws=[0, 99, 0, 99, 0, 0])
    curator.open_epoch(TERMS)
    with pytest.raises(MechanismError, match="open already"):
        curator.open_epoch(TERMS)
    assert curator.test(QUERY, guess=0).far
    assert curator.tests_left == 1
    assert curator.test(QUERY, guess=0).far
    assert curator.epoch is None
    with pytest.raises(MechanismError, match="open one"):
        curator.test(QUERY, guess=0)
    before = ledger.left_units
    curator.open_epoch(TERMS)
    assert ledger.find("session") is not None
    assert ledger.left_units == before  # the envelope holds it already
    assert curator.left == 1 - 2 * Fraction(4, 10)


def test_an_epoch_beyond_the_budget_is_refused_and_draws_nothing():
    curator = curator_on(fresh(), draws=[0, 99, 0, 99, 0, 0, 99, 0, 99, 0])
    for _ in range(2):
        curator.open_epoch(TERMS)
        curator.test(QUERY, guess=0)
        curator.test(QUERY, guess=0)
    with pytest.raises(BudgetExceeded, match=r"needs 40\.0 % of the budget"):
        curator.open_epoch(TERMS)
    assert curator._noise._draws == []


def test_an_epoch_reads_nothing_and_a_test_without_one_reads_nothing():
    ledger = fresh()
    set_aside(ledger, "session", PURE)
    table = Table(Untouchable(TINY), name="tiny", source="test")
    curator = OnlineCurator(table, ledger, key="session", budget=PURE)
    with pytest.raises(MechanismError):
        curator.test(QUERY, guess=0)
    curator.open_epoch(TERMS)
    with pytest.raises(Touched, match="touched"):
        curator.test(QUERY, guess=0)


def test_only_one_query_with_weights_up_to_one_is_tested():
    curator = curator_on(fresh(), draws=[0, 0])
    curator.open_epoch(TERMS)
    with pytest.raises(ParameterError, match="one query"):
        curator.test(marginals(TINY, k=1), guess=0)


@pytest.mark.parametrize(
    "terms", [EpochTerms(4, 0, *[Fraction(1)] * 3), EpochTerms(2**50, 1, *[Fraction(1)] * 3)]
)
def test_impossible_terms_are_refused(terms):
    with pytest.raises(ParameterError):
        priced(Unit.EPSILON).epoch(terms)


def test_the_threshold_survives_a_restart_and_is_not_drawn_again(tmp_path):
    location = tmp_path / "tiny.ledger"
    curator = curator_on(fresh(location=location), draws=[17])
    curator.open_epoch(TERMS)
    for _ in range(3):
        again = curator_on(Ledger.open(location), draws=[])
        assert again._open is not None
        assert (again._open.shift, again.left) == (17, Fraction(6, 10))
        assert again.epoch == curator.epoch


def test_a_restart_counts_the_far_guesses_of_before(tmp_path):
    location = tmp_path / "tiny.ledger"
    curator = curator_on(fresh(location=location), draws=[0, 99, 0, -99, 99, 0])
    curator.open_epoch(TERMS)
    curator.test(QUERY, guess=0)
    again = curator_on(Ledger.open(location), draws=[-99, 99, 0])
    assert again.tests_left == 1
    assert not again.test(QUERY, guess=1).far
    assert again.test(QUERY, guess=0).far
    assert again.epoch is None
    assert [s.ask for s in curator.catch_up()] == ["epoch", "test", "test", "test"]
    assert curator.epoch is None


def test_an_epoch_is_charged_before_its_threshold_is_drawn_and_once(tmp_path, monkeypatch):
    location = tmp_path / "tiny.ledger"
    curator = curator_on(fresh(location=location), draws=[5])

    def ends_at(place: str):
        def fail(name: str) -> None:
            if name == place:
                raise RuntimeError("the process ends here")

        return fail

    for place in ("before-reserve", "after-reserve"):
        with monkeypatch.context() as patch:
            crash_points.install(patch)
            patch.setattr(crash_points, "point", ends_at(place))
            with pytest.raises(RuntimeError):
                curator.open_epoch(TERMS)
        assert curator._noise._draws == [5]
    (entry,) = Ledger.open(location).children("session")
    assert (entry.units, entry.answered) == (UNITS * 4 // 10, None)
    again = curator_on(Ledger.open(location), draws=[7])  # nothing was tested against any threshold
    assert (again._open.shift, again.left) == (7, Fraction(6, 10))
    assert curator.open_epoch(TERMS) == again.epoch
    assert (curator._open, curator._noise._draws) == (again._open, [5])


def test_two_processes_cannot_both_use_the_last_far_guess(tmp_path):
    location = tmp_path / "tiny.ledger"
    terms = EpochTerms(4, 1, *[Fraction(1, 10)] * 3)
    one = curator_on(fresh(location=location), draws=[0, 99, 0])
    one.open_epoch(terms)
    other = curator_on(Ledger.open(location), draws=[99, 0])
    assert one.test(QUERY, guess=0).far
    with pytest.raises(KeyReused):
        other.test(QUERY, guess=1)
    assert [step.ask for step in other.catch_up()] == ["test"]
    assert other.epoch is None
    assert len(list(Ledger.open(location).entries(kind="reserve", parent="session"))) == 2


def test_two_processes_that_open_at_once_share_one_threshold_and_one_charge(tmp_path):
    location = tmp_path / "tiny.ledger"
    one = curator_on(fresh(location=location), draws=[3])
    other = curator_on(Ledger.open(location), draws=[8])
    one.open_epoch(TERMS)
    other.open_epoch(TERMS)
    assert one._open == other._open
    assert one._open is not None
    assert one._open.shift == 3
    assert one.left == other.left == Fraction(6, 10)


def test_the_secret_is_in_no_returned_object_and_blinded_in_the_chain():
    curator = curator_on(fresh(), draws=None)
    curator._noise = Given(987_654_321, 0, 0)
    epoch = curator.open_epoch(TERMS)
    outcome = curator.test(QUERY, guess=3)
    again = curator_on(curator._ledger, draws=[])
    again._seen = 0
    again._step, again._open = 0, None
    shown = [epoch, outcome, *again.catch_up(), repr(curator._open), repr(curator)]
    for item in _reachable(shown):
        assert item != 987_654_321
        assert not (isinstance(item, np.ndarray) and 987_654_321 in item)
    assert "987" not in repr(curator._open)
    payload = curator._ledger.find("session/0000").payload
    assert len(payload) > 128  # the secret beside 128 random bits


def _reachable(root: object) -> list[object]:
    seen: dict[int, object] = {}
    todo = [root]
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, (type, types.ModuleType, types.FunctionType)):
            continue
        seen[id(item)] = item
        todo.extend(gc.get_referents(item))
    return list(seen.values())


def test_blinds_differ_between_epochs_with_the_same_threshold():
    payloads = set()
    for _ in range(2):
        ledger = fresh()
        set_aside(ledger, "session", PURE)
        curator = OnlineCurator(table_of(TINY, HISTOGRAM), ledger, key="session", budget=PURE)
        bits = curator._noise.bits
        curator._noise = Given(0)
        curator._noise.bits = bits
        curator.open_epoch(TERMS)
        payloads.add(ledger.find("session/0000").payload)
    assert len(payloads) == 2


def test_the_event_of_a_sparse_vector_costs_its_threshold_and_its_tests():
    event = SparseEvent(threshold_scale=10, test_scale=Fraction(40), cap=2)
    assert event.epsilon == Fraction(1, 10) + Fraction(1, 10)
    assert event.cost(Unit.EPSILON).units == UNITS // 5
    assert event.cost(Unit.RHO).units == UNITS // 50
    assert from_dict(event.to_dict()) == event
    assert SparseEvent(10, 40, 2, sensitivity=2).epsilon == 2 * event.epsilon
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, Fraction(1, 2))):
        with pytest.raises(ParameterError):
            SparseEvent(*wrong)
    with pytest.raises(ParameterError, match="without an event"):
        from_body({"ask": "test"})


@pytest.mark.parametrize("denominator", [1, 3, 20])
def test_values_of_fractional_queries_carry_noise_stretched_to_their_denominator(denominator):
    """The law is in counts, the numerators are over the denominator: the deviation grows with it, and no faster."""
    variance, scale = Fraction(50), Fraction(7, 2)
    noise = Given(0, 0)
    for law in (Gaussian(Fraction(1, 100), variance), Laplace(Fraction(2, 7), scale)):
        add_noise(np.array([5]), law, denominator=denominator, source=noise)
    sigma, drawn = noise.scales
    assert (
        variance * denominator**2
        <= Fraction(sigma) ** 2
        <= variance * denominator**2 * (1 + Fraction(1, 10**12))
    )
    assert drawn == scale * denominator
