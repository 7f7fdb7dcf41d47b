"""What is stored is released: receipts publish hashes of every payload, so each must follow from what was returned.

A payload that could take two values for one returned value would let the holder of a receipt tell them apart by
guessing. The one exception is the threshold of an epoch, which is secret and stored with a random blind.
"""

# pyright: reportOptionalMemberAccess=false

import inspect
import re
from fractions import Fraction

import numpy as np
import pytest

from maquette.core import prices, sparse
from maquette.core.answers import ChoiceQuestion
from maquette.core.any_order import Family, Statistic
from maquette.core.budget import Budget, Cost
from maquette.core.class_errors import ReleasedTables
from maquette.core.combinations import ReleasedRows
from maquette.core.curator import OnlineCurator
from maquette.core.group_means import GroupMeans
from maquette.core.laws import NoiseRequest
from maquette.core.measurement import EpochTerms, pack, unpack
from maquette.core.typical import Distance
from maquette.core.weighting import weighting
from maquette.domain import Relation
from maquette.models.answers import Answers
from maquette.queries import prefixes, where
from maquette.queries.classes import class_sets
from maquette.samplers.draw import EXACT_DRAWS
from maquette.samplers.structures import Draw, Listed
from support.privacy_cases import VALUES, mixed
from support.privacy_conformance import TINY
from support.privacy_doubles import ledger_for, set_aside, table_of
from support.query_cases import full

BUDGET = Budget(30.0, 1e-6)
HISTOGRAM = (3, 0, 2, 0, 0, 1, 0, 0, 4, 0, 0, 2)
QUERIES = mixed(TINY)
GUESS = Answers.from_fractions(np.full(QUERIES.count, 0.25))
PRICE = Fraction(1, 10)
TABLES = [full(TINY, ("a",)), full(TINY, ("a", "b"))]
REFERENCES = [np.zeros(t.cells, dtype=np.int64) for t in TABLES]
SHARES = ReleasedTables({("b",): np.array([3, 1])}, 4)
TERMS = EpochTerms(4, 2, Fraction(1, 10), Fraction(1, 10), Fraction(1, 10))


def one(number) -> list[np.ndarray]:
    return [np.array([number])]


def from_first_slice(residual) -> np.ndarray:
    """The residual less its first slice along each removed axis, over its denominator: always whole."""
    values = residual.values
    for axis in residual.axes:
        values = values - values.take([0], axis=axis)
    assert not (values % residual.denominator).any()
    return (values // residual.denominator).ravel()


def halves(drawn) -> list[np.ndarray]:
    parts = [(int(code) >> 32, int(code) & (2**32 - 1)) for code in drawn.values[0]]
    assert len(drawn.values) == 1
    return [np.array([high for high, _ in parts]), np.array([low for _, low in parts])]


def outcome_of(test) -> list[np.ndarray]:
    return [np.array([test.far]), np.array([test.value or 0])]


NUMBERS = ((0, 1, 2), (), ())
ROWS = ReleasedRows(TINY.names, np.zeros((2, 3), dtype=np.uint16))
QUESTIONS = {
    "size": (lambda c: c.size(price=PRICE), lambda r: one(r.value)),
    "total": (lambda c: c.total(weighting(TINY, "a"), price=PRICE), lambda r: one(r.value)),
    "sums": (lambda c: c.sums("x", ("g",), price=PRICE), lambda r: [r.values]),
    "measure": (lambda c: c.measure(QUERIES, noise=NoiseRequest("gaussian", PRICE)), lambda r: [r.values]),
    "measure_residuals": (
        lambda c: c.measure_residuals([("a",), ("a", "b")], variances=[Fraction(9), Fraction(900)]),
        lambda r: [from_first_slice(part) for part in r],
    ),
    "measure_binned_residuals": (
        lambda c: c.measure_binned_residuals(TABLES, variances=[Fraction(9), Fraction(900)]),
        lambda r: [from_first_slice(part) for part in r],
    ),
    "measure_tables": (
        lambda c: c.measure_tables(TABLES, variances=[Fraction(100)] * 2),
        lambda r: [table.values for table in r],
    ),
    "distances": (lambda c: c.distances(TABLES, REFERENCES, price=PRICE), lambda r: [r[0]]),
    "select_tables": (
        lambda c: c.select_tables(TABLES, REFERENCES, np.zeros(2, dtype=np.int64), count=1, price=PRICE),
        lambda r: [np.array(r)],
    ),
    "select": (lambda c: c.select(QUERIES, GUESS, price=PRICE), one),
    "choose": (lambda c: c.choose(ChoiceQuestion("count", QUERIES), price=PRICE), one),
    "largest_error": (lambda c: c.largest_error(QUERIES, GUESS, price=PRICE), lambda r: [r.values]),
    "class_errors": (
        lambda c: c.class_errors(class_sets(TINY, ["one attribute"], [("b",)]), SHARES, price=PRICE),
        lambda r: [r.values],
    ),
    "combination_errors": (
        lambda c: c.combination_errors(ROWS, [Statistic(Family.CELL, 3)], price=PRICE),
        lambda r: [r.values],
    ),
    "typical_errors": (
        lambda c: c.typical_errors(ROWS, [Distance((("b",),))], price=PRICE),
        lambda r: [r.values],
    ),
    "group_mean_errors": (
        lambda c: c.group_mean_errors(ROWS, GroupMeans(NUMBERS, 2), price=PRICE),
        lambda r: [r.values],
    ),
    "draw": (lambda c: drawn(c), halves),
    "score_of": (lambda c: c.score_of(drawn(c), price=PRICE), lambda r: [r.values]),
    "test": (lambda c: in_epoch(c).test(where(TINY, "b = 0"), guess=0), outcome_of),
}
"""How each question is asked, and what its payload must be, from what it returned."""
PUBLIC = {"catch_up", "note", "note_all"}
"""Methods that look at nothing: what they store is given by the caller."""
SAME_AS = {"test_all": "test"}
BLINDED = {"open_epoch"}


def drawn(curator):
    return curator.draw(Draw(Listed(prefixes(TINY, "a")), "flat", 2), price=PRICE)


def in_epoch(curator):
    curator.open_epoch(TERMS)
    return curator


def fresh(domain=TINY):
    ledger = ledger_for(domain, budget=BUDGET, relation=Relation.ADD_REMOVE)
    set_aside(ledger, "session", BUDGET)
    curator = OnlineCurator(
        table_of(domain, HISTOGRAM), ledger, key="session", budget=BUDGET, draws=EXACT_DRAWS
    )
    return curator, ledger


def last_payload(ledger) -> bytes:
    *_, entry = ledger.entries(kind="answer", payloads=True)
    return entry.payload


def test_every_question_is_here():
    methods = {
        name
        for name, member in inspect.getmembers(OnlineCurator)
        if not name.startswith("_") and inspect.isfunction(member)
    }
    assert methods == {*QUESTIONS, *PUBLIC, *SAME_AS, *BLINDED}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_payload_follows_from_what_was_returned(name):
    ask, stored = QUESTIONS[name]
    for _ in range(5):
        curator, ledger = fresh(VALUES if name == "sums" else TINY)
        assert last_payload_is(stored(ask(curator)), ledger)


def last_payload_is(arrays, ledger) -> bool:
    numbers = [np.asarray(array, dtype=np.int64) for array in arrays]
    return last_payload(ledger) in (pack(numbers), pack(numbers, fixed=True))


@pytest.mark.parametrize("name", ["measure_residuals", "measure_binned_residuals"])
def test_a_table_stored_before_its_projection_is_noticed(name, monkeypatch):
    monkeypatch.setattr(prices, "relative", lambda table, axes: table.ravel())
    ask, stored = QUESTIONS[name]
    noticed = 0
    for _ in range(5):
        curator, ledger = fresh()
        noticed += not last_payload_is(stored(ask(curator)), ledger)
    assert noticed == 5


def test_residuals_read_from_a_ledger_that_stored_whole_tables_are_the_same(monkeypatch):
    """Ledgers of earlier versions hold the tables before the projection; they answer as they did."""
    curator, ledger = fresh()
    with monkeypatch.context() as earlier:
        earlier.setattr(prices, "relative", lambda table, axes: table.ravel())
        first = QUESTIONS["measure_residuals"][0](curator)
    again = OnlineCurator(table_of(TINY, HISTOGRAM), ledger, key="session", budget=BUDGET, draws=EXACT_DRAWS)
    for old, new in zip(first, QUESTIONS["measure_residuals"][0](again), strict=True):
        assert np.array_equal(old.values, new.values)
        assert old.denominator == new.denominator


def test_a_threshold_is_stored_with_a_blind():
    """Two epochs with the same secret have payloads that differ in 128 random bits."""
    payloads = []
    for _ in range(2):
        curator, ledger = fresh()
        curator.open_epoch(TERMS)
        secret, blind = unpack(last_payload(ledger))
        assert secret.shape == (1,)
        payloads.append(blind)
    assert payloads[0].size == payloads[1].size == sparse.BLIND_WORDS == 2
    assert not np.any(payloads[0] == payloads[1])


def test_an_envelope_blinds_what_comes_after_it():
    """A published head tells nothing about entries before its envelope, not even to whoever knows all the rest."""
    ledger = ledger_for(TINY, budget=BUDGET, relation=Relation.ADD_REMOVE)
    blinds = set()
    for key in ("one", "two"):
        ledger.reserve(key, request="0" * 64, tag="release", cost=Cost(1), body={"a": 1}, envelope=True)
        entry = ledger.find(key)
        assert entry.body["a"] == 1
        assert re.fullmatch("[0-9a-f]{32}", entry.body["blind"])
        blinds.add(entry.body["blind"])
    assert len(blinds) == 2
    head = ledger.find("two").head
    ledger.reserve("two", request="0" * 64, tag="release", cost=Cost(1), body={"a": 1}, envelope=True)
    assert ledger.find("two").head == head


def test_a_note_cannot_replace_what_the_gate_writes():
    from maquette.errors import ParameterError

    curator, ledger = fresh()
    spent = ledger.spent_units
    for ask in (
        lambda: curator.size(price=PRICE, note={"sigma_squared": "1"}),
        lambda: curator.measure(QUERIES, noise=NoiseRequest("gaussian", PRICE), note={"tag": "laplace"}),
        lambda: curator.measure_tables(TABLES, variances=[Fraction(9)] * 2, note={"ask": "note"}),
        lambda: curator.note({"ask": "epoch", "terms": {}}),
    ):
        with pytest.raises(ParameterError, match="cannot replace"):
            ask()
    assert ledger.spent_units == spent
    assert not list(ledger.children("session"))


def test_the_note_of_a_refused_question_is_not_kept_for_the_next():
    from maquette.errors import BudgetExceeded

    curator, ledger = fresh()
    with pytest.raises(BudgetExceeded):
        curator.measure(
            QUERIES, noise=NoiseRequest("gaussian", Fraction(10**6)), note={"text": "the refused one"}
        )
    curator.size(price=PRICE, note={"text": "the next one"})
    (entry,) = ledger.children("session")
    assert entry.body["text"] == "the next one"
