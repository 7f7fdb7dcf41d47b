"""Borders of the gate: ledgers that contradict themselves hand out nothing, and kinds nobody offers are refused."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.answers import Answers, cell_sensitivity
from maquette.core.budget import Budget, Cost, Unit
from maquette.core.curator import Curator, OnlineCurator
from maquette.core.ledger.create import BEFORE_DOMAIN
from maquette.core.measurement import EpochTerms
from maquette.core.table import raw_commitment
from maquette.discovery.prices import common_values
from maquette.domain import Attribute, Domain, Kind, Persons, Relation
from maquette.errors import LedgerError, MechanismError, ParameterError, SourceError
from maquette.owner import Truth, encode, exact_answers
from maquette.queries import marginals, where
from maquette.samplers.draw import EXACT_DRAWS
from support.priced import priced
from support.privacy_conformance import TINY
from support.privacy_doubles import ledger_for, set_aside, table_of

PURE = Budget(1.0)
HISTOGRAM = (3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2)
QUERY = where(TINY, "b = 0")
TINY_DELTA = Fraction(1, 10**6)
TERMS = EpochTerms(4, 2, Fraction(1, 10), Fraction(2, 10), Fraction(1, 10))


def opened(kind: type = Curator):
    ledger = ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE)
    set_aside(ledger, "key", PURE)
    return ledger, kind(table_of(TINY, HISTOGRAM), ledger, key="key", budget=PURE)


# --- a ledger that contradicts itself -------------------------------------------------------------------------------


def test_an_answer_that_was_not_stored_is_not_returned(monkeypatch):
    ledger, curator = opened()
    store = ledger.store
    monkeypatch.setattr(ledger, "store", lambda begun, look: replace(store(begun, look), payload=None))
    with pytest.raises(LedgerError, match="nothing is returned"):
        curator.size(price=Fraction(1, 10))
    assert ledger.spent_units > 0


def test_an_epoch_that_was_not_stored_is_not_opened(monkeypatch):
    ledger, curator = opened(OnlineCurator)
    curator.catch_up()
    monkeypatch.setattr(curator, "_follow", lambda entry: None)
    with pytest.raises(LedgerError, match="nothing was tested"):
        curator.open_epoch(TERMS)
    assert ledger.spent_units > 0


def test_a_step_that_has_no_answer_yet_is_taken_again_and_not_paid_twice():
    ledger, curator = opened(OnlineCurator)
    ledger.reserve("key/0000", request="1" * 64, tag="pure", cost=Cost(5), body={"ask": "size"}, parent="key")
    left = curator.left
    (step,) = curator.catch_up()
    assert not step.answered
    assert (curator._step, curator.left) == (0, left)
    assert [one.number for one in curator.catch_up()] == [0]  # it is looked at again


@pytest.mark.parametrize(("name", "body"), [("key/aside", {"ask": "size"}), ("key/0000", {})])
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_reservation_that_is_no_step_is_named_and_not_followed(name, body, is_answered):
    ledger, curator = opened(OnlineCurator)
    ledger.reserve(name, request="1" * 64, tag="pure", cost=Cost(5), body=body, parent="key")
    if is_answered:
        ledger.answer(name, b"")
    with pytest.raises(LedgerError, match=f"found '{name}', which something else reserved"):
        curator.catch_up()


def test_an_epoch_without_its_threshold_and_a_test_without_an_epoch_are_refused():
    ledger, curator = opened(OnlineCurator)
    curator.catch_up()
    curator.open_epoch(TERMS)
    curator.test(QUERY, guess=0)
    epoch, test = list(ledger.children("key"))
    _, other = opened(OnlineCurator)
    with pytest.raises(LedgerError, match="outside of every epoch"):
        other._take_in(test)
    with pytest.raises(LedgerError, match="lost the threshold"):
        other._unseal(replace(epoch, payload=None), SimpleNamespace(receipt=None))
    assert other.epoch is None


# --- a ledger before its domain -------------------------------------------------------------------------------------


def test_a_domain_that_was_not_found_from_a_table_is_declared_with_its_first_use():
    ledger = Ledger.memory(
        budget=PURE, relation=Relation.ADD_REMOVE, domain_fingerprint=BEFORE_DOMAIN, name="tiny"
    )
    set_aside(ledger, "key", PURE)
    Curator(table_of(TINY, HISTOGRAM), ledger, key="key", budget=PURE, draws=EXACT_DRAWS)
    assert ledger.domain_fingerprint == TINY.fingerprint


def test_a_table_that_cannot_be_read_again_shows_no_raw_columns():
    with pytest.raises(SourceError, match="open it again"):
        raw_commitment(table_of(TINY, HISTOGRAM), ["b"], b"salt")


# --- what is not offered --------------------------------------------------------------------------------------------


def test_noise_of_another_kind_is_refused():
    request = SimpleNamespace(kind="uniform", price=Fraction(1))
    with pytest.raises(ParameterError, match="laplace, gaussian, cube or norm"):
        priced(Unit.EPSILON).noise(request, cell_sensitivity(Relation.ADD_REMOVE), coordinates=1)


@pytest.mark.parametrize(
    ("unit", "delta"),
    [(Unit.EPSILON, TINY_DELTA), (Unit.RHO, Fraction(0)), (Unit.HALF_MU_SQUARED, TINY_DELTA)],
)
def test_thresholds_need_a_delta_and_a_ledger_in_rho(unit, delta):
    sensitivity = cell_sensitivity(Relation.ADD_REMOVE)
    with pytest.raises(MechanismError, match="values are found by thresholds"):
        common_values(priced(unit), Fraction(1, 10), delta, sensitivity, rows=1)


def test_a_method_of_choosing_that_the_unit_does_not_have_is_refused():
    assert priced(Unit.RHO).choice(Fraction(1, 10), method="exponential").event.method == "exponential"
    with pytest.raises(ParameterError, match="permute-and-flip"):
        priced(Unit.RHO).choice(Fraction(1, 10), method="permute-and-flip")


# --- the one look that nobody pays for ------------------------------------------------------------------------------


def test_exact_answers_are_of_the_table_s_own_domain_and_are_not_shown():
    other = Domain((Attribute("z", Kind.ORDINAL, codes=2),))
    table = table_of(TINY, HISTOGRAM)
    with pytest.raises(ParameterError, match="different domains"):
        exact_answers(table, marginals(other, k=1))
    truth = exact_answers(table, QUERY)
    assert isinstance(truth, Truth)
    assert repr(truth) == "Truth(1 private answers)"
    assert str(int(truth.numerators[0])) not in repr(truth).replace("1 private", "")


def test_texts_that_are_nobody_s_secret_are_coded_as_private_ones():
    domain = Domain((Attribute("z", Kind.ORDINAL, categories=("low", "high")),))
    assert encode(domain, {"z": ["high", "low", "high"]})["z"].tolist() == [1, 0, 1]


def test_a_query_is_chosen_without_its_sign_unless_it_is_asked_for(monkeypatch):
    _, curator = opened()
    queries = marginals(TINY, k=1)
    released = Answers.from_fractions(np.zeros(queries.count))
    lengths: list[int] = []

    def first(scores, **_how):
        lengths.append(len(scores))
        return 0

    monkeypatch.setattr(curator, "_noise", SimpleNamespace(select=first))
    curator.select(queries, released, price=Fraction(1, 10))
    curator.select(queries, released, price=Fraction(1, 10), signed=True)
    assert lengths == [queries.count, 2 * queries.count]


def test_questions_are_numbered_one_by_one_in_the_ledger():
    ledger, curator = opened()
    for _ in range(3):
        curator.size(price=Fraction(1, 10))
    assert [entry.key for entry in ledger.children("key")] == ["key/0000", "key/0001", "key/0002"]


def test_what_is_left_is_said_as_prices_of_single_records():
    persons = Persons("who", 4)
    ledger = ledger_for(TINY, budget=PURE, relation=Relation.ADD_REMOVE, persons=persons)
    set_aside(ledger, "key", PURE)
    curator = Curator(
        table_of(TINY, HISTOGRAM, persons=persons), ledger, key="key", budget=PURE, draws=EXACT_DRAWS
    )
    assert curator.left == Fraction(1, 4)
    curator.size(price=Fraction(1, 8))
    assert curator.left == Fraction(1, 8)


@pytest.mark.parametrize("budget", [PURE, Budget(1.0, 1e-6, "zcdp")], ids=["laplace", "gaussian"])
def test_counts_get_the_noise_that_they_state(monkeypatch, budget):
    """Whole counts are over 1: what the sampler is asked for is the law that comes with the number."""
    ledger = ledger_for(TINY, budget=budget, relation=Relation.ADD_REMOVE)
    set_aside(ledger, "key", budget)
    curator = Curator(table_of(TINY, HISTOGRAM), ledger, key="key", budget=budget, draws=EXACT_DRAWS)
    drawn: list[Fraction] = []

    def laplace(exact, *, scale):
        drawn.append(scale)
        return exact

    def gaussian(exact, *, sigma):
        drawn.append(Fraction(sigma) ** 2)
        return exact

    monkeypatch.setattr(curator, "_noise", SimpleNamespace(laplace=laplace, gaussian=gaussian))
    noise = curator.size(price=Fraction(1, 100)).noise
    assert drawn == [noise.scale if budget.pure else noise.sigma_squared]
