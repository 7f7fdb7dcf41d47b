"""Which ledger pays for a release: where it lies, what it was made with, and what it refuses."""

import pandas as pd
import pytest

import maquette as mq
from maquette.core import _check
from maquette.core.budget import Budget
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import LedgerError
from maquette.releasing import payment
from maquette.requests import Payer

DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=3),))
BUDGET = Budget(1.0, 1e-6, "zcdp")


@pytest.fixture
def table(tmp_path):
    pd.DataFrame({"a": [0, 1, 2]}).to_csv(tmp_path / "people.csv", index=False)
    return mq.open(tmp_path / "people.csv", domain=DOMAIN)


def opened(table, ledger=None, budget=BUDGET):
    return payment.open_ledger(table, ledger, relation=Relation.ADD_REMOVE, budget=budget)


def found(table, ledger=None, **totals):
    payer = Payer(ledger=ledger, **totals)
    return payment.find_payer(table, payer, relation=Relation.ADD_REMOVE)


def bill(budget):
    return payment.Bill(tag="release", key="one", request="0" * 64, budget=budget, body={})


def test_a_ledger_lies_beside_the_file_of_its_table(table, tmp_path):
    assert found(table).accounting is None
    opened(table).close()
    assert table.ledger_location.parent == tmp_path
    assert table.ledger_location.exists()
    with found(table) as till:
        assert till.accounting == "zcdp"


def test_a_folder_that_cannot_be_written_is_named(table, monkeypatch):
    monkeypatch.setattr(_check, "kept_from_writing", lambda folder: "is not writable")
    with pytest.raises(LedgerError, match=r"the folder .* is not writable; name another place"):
        opened(table)
    assert not table.ledger_location.exists()


def test_the_total_of_a_ledger_is_fixed(table):
    with opened(table) as book:
        for total in ({}, {"total_epsilon": 1.0, "total_delta": 1e-6}):
            assert found(table, book, **total).open(Budget(0.5)) is book
        for total in ({"total_epsilon": 2.0}, {"total_delta": 1e-5}):
            with pytest.raises(LedgerError, match="which is fixed"):
                found(table, book, **total).open(Budget(0.5))


def test_a_ledger_that_another_process_made_meanwhile_is_opened(table, tmp_path, monkeypatch):
    place, create = tmp_path / "race.ledger", mq.Ledger.create

    def late(*args, **options):
        create(*args, **options).close()
        return create(*args, **options)

    monkeypatch.setattr(mq.Ledger, "create", late)
    with opened(table, place) as book:
        assert book.budget == BUDGET
    with pytest.raises(LedgerError, match="there is no directory"):
        opened(table, tmp_path / "nowhere" / "race.ledger")


def test_a_ledger_pays_in_what_it_counts(table, tmp_path):
    with (
        opened(table, tmp_path / "pure.ledger", Budget(1.0)) as pure,
        opened(table, tmp_path / "zcdp.ledger") as zcdp,
    ):
        assert bill(Budget(0.5)).cost(pure).units > 0
        assert bill(Budget(0.5, 1e-7, "zcdp")).cost(zcdp).units > 0
        with pytest.raises(LedgerError, match="counts pure epsilon and cannot pay for a delta"):
            bill(BUDGET).cost(pure)
        with pytest.raises(LedgerError, match="counts by zcdp; ask again"):
            bill(Budget(0.5, 1e-7, "gaussian")).cost(zcdp)
