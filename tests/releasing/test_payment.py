"""Which ledger pays for a release: where it lies, what it was made with, and what it refuses."""

import pandas as pd
import pytest

import maquette as mq
from maquette.core import _check
from maquette.core.budget import Budget
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import LedgerError
from maquette.releasing import payment

DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=3),))
BUDGET = Budget(1.0, 1e-6, "zcdp")


@pytest.fixture
def table(tmp_path):
    pd.DataFrame({"a": [0, 1, 2]}).to_csv(tmp_path / "people.csv", index=False)
    return mq.open(tmp_path / "people.csv", domain=DOMAIN)


def opened(table, ledger=None, budget=BUDGET):
    return payment.open_ledger(table, ledger, relation=Relation.ADD_REMOVE, budget=budget)


def test_a_ledger_lies_beside_the_file_of_its_table(table, tmp_path):
    assert payment.accounting_of(table, None) is None
    opened(table).close()
    assert table.ledger_location.parent == tmp_path
    assert table.ledger_location.exists()
    assert payment.accounting_of(table, None) == "zcdp"


def test_a_folder_that_cannot_be_written_is_named(table, monkeypatch):
    monkeypatch.setattr(_check, "kept_from_writing", lambda folder: "is not writable")
    with pytest.raises(LedgerError, match=r"the folder .* is not writable; name another place"):
        opened(table)
    assert not table.ledger_location.exists()


def test_the_total_of_a_ledger_is_fixed(table):
    with opened(table) as book:
        payment.require_total(book, epsilon=1.0, delta=1e-6)
        payment.require_total(book, epsilon=None, delta=None)
        for total in ({"epsilon": 2.0, "delta": None}, {"epsilon": None, "delta": 1e-5}):
            with pytest.raises(LedgerError, match="which is fixed"):
                payment.require_total(book, **total)


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
        assert payment.cost_of(Budget(0.5), pure).units > 0
        assert payment.cost_of(Budget(0.5, 1e-7, "zcdp"), zcdp).units > 0
        with pytest.raises(LedgerError, match="counts pure epsilon and cannot pay for a delta"):
            payment.cost_of(BUDGET, pure)
        with pytest.raises(LedgerError, match="counts by zcdp; ask again"):
            payment.cost_of(Budget(0.5, 1e-7, "gaussian"), zcdp)
