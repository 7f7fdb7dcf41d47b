"""Every rule of the ledger, in a file, in memory and in PostgreSQL."""

from __future__ import annotations

import pytest

from maquette.accounting import UNITS, Budget, Cost
from maquette.accounting.ledger import Ledger, Receipt
from maquette.domain import Relation
from maquette.errors import BudgetExceeded, KeyReused, LedgerError, ParameterError
from support.ledger_cases import IDENTITY, budget_of, create, digest, memory, pay
from support.ledger_postgres import new_database


@pytest.fixture(params=["sqlite", "memory", pytest.param("postgres", marks=pytest.mark.server)])
def make(request, tmp_path):
    """Make a ledger of some units in each kind of store."""
    made: list[Ledger] = []

    def build(units: int = 100, **changes) -> Ledger:
        if request.param == "memory":
            ledger = memory(units, **changes)
        else:
            place = tmp_path / "survey.ledger" if request.param == "sqlite" else new_database()
            ledger = create(place, units, **changes)
        made.append(ledger)
        return ledger

    yield build
    for ledger in made:
        ledger.verify()
        ledger.close()


def test_a_new_ledger_knows_what_it_is_for(make):
    ledger = make(budget=Budget(1.0, 1e-6))
    assert ledger.budget == Budget(1.0, 1e-6)
    assert (ledger.relation, ledger.name, ledger.domain_fingerprint) == (
        Relation.ADD_REMOVE,
        "survey",
        "d" * 64,
    )
    assert ledger.total_units == ledger.left_units == Budget(1.0, 1e-6).total_units
    assert ledger.slack_total == ledger.slack_left == Budget(1.0, 1e-6).slack_units
    assert (ledger.spent_units, ledger.slack_spent, ledger.commitment) == (0, 0, None)
    assert len(ledger.salt) == 32
    assert ledger.salt.hex() not in repr(ledger)


def test_a_reservation_is_charged_once_and_found_again(make):
    ledger = make()
    first = pay(ledger, "a", 30)
    again = pay(ledger, "a", 30)
    assert (first.units, first.fresh, again.fresh) == (30, True, False)
    assert (again.seq, again.head, again.payload, again.answered) == (first.seq, first.head, None, None)
    assert (ledger.spent_units, ledger.left_units) == (30, 70)
    assert ledger.left() == 70 / UNITS


def test_the_first_answer_stays(make):
    ledger = make()
    pay(ledger, "a")
    first = ledger.answer("a", b"\x00one\xff")
    second = ledger.answer("a", b"two")
    retry = pay(ledger, "a")
    assert first.payload == second.payload == retry.payload == b"\x00one\xff"
    assert (first.fresh, second.fresh, retry.fresh) == (True, False, False)
    assert first.answered == second.answered == retry.answered == ledger.receipt(retry)
    assert ledger.find("a").payload == b"\x00one\xff"
    assert ledger.find("b") is None


def test_an_answer_can_be_empty_or_large(make):
    ledger = make()
    for key, data in (("empty", b""), ("large", bytes(range(256)) * 20_000)):
        pay(ledger, key)
        ledger.answer(key, data)
        assert pay(ledger, key).payload == data


def test_an_answer_needs_a_reservation(make):
    ledger = make()
    with pytest.raises(LedgerError, match="nothing was reserved under key 'a'; reserve before"):
        ledger.answer("a", b"x")
    with pytest.raises(LedgerError, match="nothing was reserved"):
        ledger.settle("a")
    assert ledger.receipt().seq == 1


@pytest.mark.parametrize(
    "change",
    [
        {"request": digest("other")},
        {"tag": "laplace"},
        {"cost": Cost(2)},
        {"envelope": True},
        {"parent": "whole"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_key_belongs_to_one_request(make, change):
    ledger = make()
    pay(ledger, "whole", 10, envelope=True)
    pay(ledger, "a", 1)
    with pytest.raises(KeyReused, match="key 'a' was"):
        pay(ledger, "a", **change)
    assert ledger.spent_units == 11


def test_a_stored_answer_is_free_whatever_it_would_cost_today(make):
    ledger = make()
    pay(ledger, "a", 1)
    ledger.answer("a", b"x")
    assert pay(ledger, "a", 99).payload == b"x"
    assert ledger.spent_units == 1


def test_what_is_not_covered_is_refused_and_leaves_no_trace(make):
    ledger = make(100)
    pay(ledger, "a", 60)
    before = ledger.receipt()
    with pytest.raises(
        BudgetExceeded, match=r"needs 41.0 % of ledger 'survey', and 40.0 % is left; nothing more fits"
    ) as caught:
        pay(ledger, "b", 41)
    assert (caught.value.unit, caught.value.exit_code) == ("epsilon", 3)
    assert caught.value.needed >= 41 / UNITS > caught.value.left
    assert (ledger.receipt(), ledger.spent_units, ledger.find("b")) == (before, 60, None)
    pay(ledger, "b", 40)
    assert ledger.left_units == 0
    with pytest.raises(BudgetExceeded):
        pay(ledger, "c", 1)
    pay(ledger, "free", 0)


def test_costs_beyond_any_database_integer_are_refused_too(make):
    with pytest.raises(BudgetExceeded):
        pay(make(), "a", 10**40)


def test_slack_is_an_account_of_its_own(make):
    ledger = make(budget=Budget(1.0, 1e-9))
    whole = ledger.slack_total
    pay(ledger, "a", cost=Cost(5, whole - 1))
    with pytest.raises(BudgetExceeded, match="total variation") as caught:
        pay(ledger, "b", cost=Cost(5, 2))
    assert caught.value.unit == "total variation"
    assert (ledger.spent_units, ledger.slack_left) == (5, 1)


def test_a_pure_ledger_has_no_slack_for_inexact_samplers(make):
    with pytest.raises(BudgetExceeded, match="total variation"):
        pay(make(), "a", cost=Cost(1, 1))


def test_children_draw_on_their_envelope_and_the_rest_goes_back(make):
    ledger = make(100)
    pay(ledger, "whole", 80, envelope=True)
    pay(ledger, "part-1", 30, parent="whole")
    pay(ledger, "part-2", 20, parent="whole")
    assert ledger.spent_units == 80
    with pytest.raises(BudgetExceeded, match=r"needs 38.8 % of reservation 'whole', and 37.5 % is left"):
        pay(ledger, "part-3", 31, parent="whole")
    ledger.answer("part-1", b"seen")  # part-2 is never answered and stays charged
    settled = ledger.settle("whole")
    assert settled.settlement is not None
    assert ledger.spent_units == 50
    assert ledger.settle("whole").settlement == settled.settlement
    assert ledger.spent_units == 50
    with pytest.raises(LedgerError, match=r"is settled: .* pays for nothing more"):
        pay(ledger, "part-4", 1, parent="whole")
    assert pay(ledger, "part-1", 30, parent="whole").payload == b"seen"
    assert ledger.answer("part-2", b"late").payload == b"late"
    assert ledger.answer("whole", b"release").payload == b"release"
    assert [e.key for e in ledger.entries(parent="whole")] == ["part-1", "part-2"]


def test_slack_of_children_comes_from_their_envelope(make):
    ledger = make(budget=Budget(1.0, 1e-9))
    pay(ledger, "whole", cost=Cost(10, 7), envelope=True)
    pay(ledger, "part", cost=Cost(1, 3), parent="whole")
    with pytest.raises(BudgetExceeded, match="total variation"):
        pay(ledger, "more", cost=Cost(1, 5), parent="whole")
    ledger.settle("whole")
    assert (ledger.spent_units, ledger.slack_spent) == (1, 3)


def test_envelopes_nest(make):
    ledger = make(100)
    pay(ledger, "outer", 60, envelope=True)
    pay(ledger, "inner", 40, parent="outer", envelope=True)
    pay(ledger, "leaf", 10, parent="inner")
    ledger.settle("inner")
    pay(ledger, "next", 50, parent="outer")
    with pytest.raises(BudgetExceeded):
        pay(ledger, "more", 1, parent="outer")
    ledger.settle("outer")
    assert ledger.spent_units == 60


def test_an_inner_envelope_gives_nothing_back_after_the_outer_was_closed(make):
    ledger = make(100)
    pay(ledger, "outer", 60, envelope=True)
    pay(ledger, "inner", 40, parent="outer", envelope=True)
    ledger.settle("outer")
    assert ledger.spent_units == 40
    ledger.settle("inner")
    assert ledger.spent_units == 40


def test_a_look_at_the_data_is_never_given_back(make):
    ledger = make()
    pay(ledger, "a", 10)
    with pytest.raises(LedgerError, match="stays charged; only an envelope can be settled"):
        ledger.settle("a")
    with pytest.raises(LedgerError, match="is not an envelope"):
        pay(ledger, "b", 1, parent="a")
    with pytest.raises(LedgerError, match="nothing was reserved"):
        pay(ledger, "b", 1, parent="nowhere")
    assert ledger.spent_units == 10


def test_a_ledger_is_bound_to_one_table(make):
    ledger = make()
    ledger.bind("c" * 64)
    ledger.bind("c" * 64)
    assert ledger.commitment == "c" * 64
    with pytest.raises(LedgerError, match="belongs to another table"):
        ledger.bind("e" * 64)
    assert [e.kind for e in ledger.entries()] == ["open", "bind"]


def test_a_ledger_is_for_one_domain_and_relation(make):
    ledger = make()
    ledger.require(relation=Relation.ADD_REMOVE, domain_fingerprint="d" * 64)
    with pytest.raises(LedgerError, match="counts add-remove neighbours, not replace-one"):
        ledger.require(relation=Relation.REPLACE_ONE, domain_fingerprint="d" * 64)
    with pytest.raises(LedgerError, match="another domain"):
        ledger.require(relation=Relation.ADD_REMOVE, domain_fingerprint="x")


def test_entries_come_in_order_and_may_be_written_meanwhile(make, monkeypatch):
    monkeypatch.setattr("maquette.core.ledger.reading._PAGE", 3)
    ledger = make()
    for i in range(7):
        pay(ledger, f"k{i}")
    ledger.answer("k0", b"zero")
    seen = []
    for entry in ledger.entries(payloads=True):
        if entry.key == "k5":
            pay(ledger, "late")
        seen.append((entry.seq, entry.kind, entry.key, entry.payload))
    assert [s[0] for s in seen] == list(range(1, 11))
    assert seen[0][1] == "open"
    assert seen[8] == (9, "answer", "k0", b"zero")
    assert seen[9] == (10, "reserve", "late", None)
    assert [e.key for e in ledger.entries(kind="reserve", after=6)] == ["k5", "k6", "late"]


def test_bodies_and_unusual_keys_survive(make):
    ledger = make()
    body = {"b": [1, None, {"ü": "\x00\n"}], "a": "x" * 5000}
    pay(ledger, "schlüssel 鍵 'quoted' \"%s", body=body)
    assert [e.body for e in ledger.entries(kind="reserve")] == [body]
    assert ledger.find("schlüssel 鍵 'quoted' \"%s") is not None


@pytest.mark.parametrize("key", ["", "a\x00b", "line\nbreak", "x" * 201, "\ud800", None, 7])
def test_keys_are_printable_text(make, key):
    with pytest.raises(ParameterError, match="expected key as 1 to 200 printable"):
        make().reserve(key, request=digest("x"), tag="pure", cost=Cost(1), body={})


def test_other_arguments_are_checked_before_anything_is_written(make):
    ledger = make()
    with pytest.raises(ParameterError, match="expected request as a SHA-256"):
        pay(ledger, "a", request="abc")
    with pytest.raises(ParameterError, match="expected tag"):
        pay(ledger, "a", tag="")
    for body in ({"x": float("nan")}, {"x": object()}, {"x": b"bytes"}):
        with pytest.raises(ParameterError, match="expected body as a dictionary that JSON can hold"):
            pay(ledger, "a", body=body)
    with pytest.raises(ParameterError, match="expected commitment"):
        ledger.bind("")
    assert ledger.receipt().seq == 1


def test_every_entry_has_a_receipt_that_verifies(make):
    ledger = make()
    pay(ledger, "a")
    answered = ledger.answer("a", b"x")
    receipts = [Receipt(e.seq, e.head) for e in ledger.entries()]
    assert ledger.receipt(answered) == receipts[-1] == ledger.receipt()
    for receipt in receipts:
        assert ledger.verify(receipt) == receipts[-1]
        assert Receipt.parse(str(receipt)) == receipt
    for wrong in (Receipt(2, "0" * 64), Receipt(99, receipts[-1].head)):
        with pytest.raises(
            LedgerError, match=f"in the place of the receipt's entry {wrong.seq}: it was cut back"
        ):
            ledger.verify(wrong)


@pytest.mark.parametrize("text", ["", "1", "0:" + "a" * 64, "1:" + "A" * 64, "1:abc", "x:" + "a" * 64])
def test_a_receipt_has_one_spelling(text):
    with pytest.raises(ParameterError, match="expected a receipt such as"):
        Receipt.parse(text)


def test_a_ledger_made_with_wrong_words_is_refused(tmp_path):
    for change in ({"name": ""}, {"domain_fingerprint": "a\nb"}):
        with pytest.raises(ParameterError, match="expected"):
            create(tmp_path / "x.ledger", **change)
    assert not list(tmp_path.iterdir())


def test_two_ledgers_in_memory_are_strangers():
    with memory() as one, memory() as other:
        pay(one, "a")
        assert other.find("a") is None
        assert one.salt != other.salt


def test_a_closed_ledger_in_memory_is_gone():
    ledger = memory()
    ledger.close()
    with pytest.raises(LedgerError, match="was closed and forgotten"):
        pay(ledger, "a")


def test_what_is_left_is_rounded_down():
    ledger = Ledger.memory(budget=Budget(0.3), **IDENTITY)
    pay(ledger, "a", 1)
    assert Budget(ledger.left()).total_units == ledger.left_units == 3 * UNITS // 10 - 1
    assert budget_of(7).total_units == 7
