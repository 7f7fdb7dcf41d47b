"""A handle is paid for by one ledger: whatever mistake names a second one is refused before anything is looked at."""

from __future__ import annotations

import threading

import pytest

import maquette as mq
from maquette.core import barrier
from maquette.core.curator import Curator
from maquette.domain import Attribute, Domain, Kind, Relation

DOMAIN = Domain((Attribute("day", Kind.ORDINAL, codes=2),))
ONE_WAY = mq.marginals(DOMAIN, k=1)


def people() -> mq.Table:
    return mq.open({"day": [0, 1, 1] * 30}, domain=DOMAIN)


def book(epsilon: float = 2.0) -> mq.Ledger:
    return mq.Ledger.memory(
        budget=mq.Budget(epsilon),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=DOMAIN.fingerprint,
        name="people",
    )


def blinded(table: mq.Table, monkeypatch) -> mq.Table:
    """The same handle; whatever reads its rows from now on fails the test."""

    def looked(*_: object) -> None:
        pytest.fail("the table was looked at")

    monkeypatch.setattr(barrier, "engine_of", looked)
    monkeypatch.setattr(barrier, "commitment_of", looked)
    return table


def test_a_release_on_a_second_ledger_is_refused_before_that_is_made(tmp_path, monkeypatch):
    table = people()
    mq.release(table, ONE_WAY, epsilon=1.0, ledger=tmp_path / "first.ledger", total_epsilon=2.0)
    for place in (tmp_path / "second.ledger", "memory", book()):
        with pytest.raises(
            mq.LedgerError, match=r"first\.ledger.*a second budget.*for_another_ledger"
        ) as refusal:
            mq.release(blinded(table, monkeypatch), ONE_WAY, epsilon=1.0, ledger=place)
        assert "nothing was paid" in str(refusal.value)
    assert not (tmp_path / "second.ledger").exists()
    monkeypatch.undo()
    again = mq.release(table, ONE_WAY, epsilon=0.5, ledger=tmp_path / "first.ledger")
    assert again.account.spent == 1.5


PAYING = {
    "session": lambda table, book: mq.session(table, epsilon=1.0, alpha=0.4, ledger=book),
    "choose": lambda table, book: mq.choose(table, ONE_WAY, epsilon=1.0, ledger=book),
    "stream": lambda table, book: mq.count_stream(table, "day", epsilon=1.0, ledger=book),
}


@pytest.mark.parametrize("ask", PAYING)
def test_so_is_everything_else_that_pays(ask, tmp_path):
    table, second = people(), book()
    mq.session(table, epsilon=1.0, alpha=0.4, ledger=tmp_path / "first.ledger")
    with pytest.raises(mq.LedgerError, match="a second budget"):
        PAYING[ask](table, second)
    assert second.balance().spent_units == 0
    assert second.commitment is None


def test_the_gate_itself_refuses_a_second_ledger(monkeypatch):
    """Whoever goes around releases and sessions is told the same."""
    table, first, second = people(), book(), book()
    Curator(table, first, key="a", budget=mq.Budget(1.0))
    Curator(table, first, key="b", budget=mq.Budget(1.0))
    with pytest.raises(mq.LedgerError, match="a second budget"):
        Curator(blinded(table, monkeypatch), second, key="a", budget=mq.Budget(1.0))
    assert second.commitment is None


def test_a_ledger_that_refuses_the_table_is_not_remembered():
    table, other = people(), book()
    Curator(mq.open({"day": [0]}, domain=DOMAIN), other, key="a", budget=mq.Budget(1.0))
    with pytest.raises(mq.LedgerError, match="belongs to another table"):
        Curator(table, other, key="a", budget=mq.Budget(1.0))
    Curator(table, book(), key="a", budget=mq.Budget(1.0))


def test_two_objects_of_one_ledger_are_one_ledger_and_a_new_file_at_its_place_is_not(tmp_path):
    table, place = people(), tmp_path / "first.ledger"
    mq.release(table, ONE_WAY, epsilon=0.5, ledger=place, total_epsilon=1.0)
    with mq.Ledger.open(place) as ledger:
        mq.release(table, ONE_WAY, epsilon=0.25, ledger=ledger)
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(mq.LedgerError, match="a new ledger would be a second budget"):
        mq.release(table, ONE_WAY, epsilon=0.5, ledger=place)
    assert not place.exists()


def test_a_second_budget_on_purpose(tmp_path):
    table = people()
    mq.release(table, ONE_WAY, epsilon=1.0, ledger=tmp_path / "first.ledger")
    other = table.for_another_ledger()
    made = mq.release(other, ONE_WAY, epsilon=1.0, ledger=tmp_path / "second.ledger")
    assert (other.domain, other.name, other.source) == (table.domain, table.name, table.source)
    assert made.account.spent == 1.0
    for handle, place in ((other, "first.ledger"), (table, "second.ledger")):
        with pytest.raises(mq.LedgerError, match="a second budget"):
            mq.release(handle, ONE_WAY, epsilon=0.5, ledger=tmp_path / place)


def test_of_threads_that_come_at_once_with_a_ledger_each_one_pays():
    table, ledgers, start = people(), [book() for _ in range(8)], threading.Barrier(8)
    held = []

    def run(ledger: mq.Ledger) -> None:
        start.wait()
        try:
            Curator(table, ledger, key="a", budget=mq.Budget(1.0))
        except mq.LedgerError:
            return
        held.append(ledger)

    threads = [threading.Thread(target=run, args=(one,)) for one in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 1
