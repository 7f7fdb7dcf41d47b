"""A table that has no file has no ledger by itself: one is named, or asked for in memory with a warning."""

from __future__ import annotations

import warnings

import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from support.cli_files import call, refused

DOMAIN = Domain((Attribute("sex", Kind.BOOLEAN, categories=("f", "m")),))


def people() -> mq.Table:
    return mq.open({"sex": ["f", "m", "m"] * 30}, domain=DOMAIN)


def test_a_release_from_memory_without_a_ledger_is_refused_and_says_how():
    with pytest.raises(mq.LedgerError, match=r'ledger="people.ledger".*ledger="memory"'):
        mq.release(people(), mq.marginals(DOMAIN, k=1), epsilon=1.0)


def test_a_session_from_memory_without_a_ledger_is_refused_and_says_how():
    with pytest.raises(mq.LedgerError, match=r'ledger="people.ledger".*ledger="memory"'):
        mq.session(people(), epsilon=1.0, alpha=0.2)


def test_files_named_by_a_pattern_need_a_ledger_too(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("sex\nf\nm\n", encoding="utf-8")
    table = mq.open(str(tmp_path / "*.csv"), domain=DOMAIN)
    with pytest.raises(mq.LedgerError, match="no file of its own"):
        mq.release(table, mq.marginals(DOMAIN, k=1), epsilon=1.0)


def test_a_ledger_in_memory_warns_of_what_is_lost_once_for_a_handle():
    table = people()
    with pytest.warns(mq.MemoryLedgerWarning, match="starts a second budget"):
        mq.release(table, mq.marginals(DOMAIN, k=1), epsilon=1.0, ledger="memory", total_epsilon=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = mq.release(table, mq.marginals(DOMAIN, k=1), epsilon=0.5, ledger="memory")
    assert (made.account.total, made.account.spent) == (2.0, 1.5)
    with pytest.raises(mq.BudgetExceeded):
        mq.release(table, mq.marginals(DOMAIN, k=1), epsilon=0.6, ledger="memory")
    with pytest.warns(mq.MemoryLedgerWarning, match="starts a second budget"):
        mq.session(people(), epsilon=1.0, alpha=0.2, ledger="memory")


def test_the_warning_points_at_the_caller():
    with pytest.warns(mq.MemoryLedgerWarning) as seen:
        mq.release(people(), mq.marginals(DOMAIN, k=1), epsilon=1.0, ledger="memory")
    assert [one.filename for one in seen if one.category is mq.MemoryLedgerWarning] == [__file__]
    with pytest.warns(mq.MemoryLedgerWarning) as seen:
        mq.session(people(), epsilon=1.0, alpha=0.2, ledger="memory")
    assert [one.filename for one in seen if one.category is mq.MemoryLedgerWarning] == [__file__]


def test_three_releases_of_one_table_share_one_named_ledger(tmp_path):
    """Each from a new handle, as three runs of a script would make them."""
    spent = []
    for epsilon in (1.0, 0.5, 1.0):
        made = mq.release(
            people(),
            mq.marginals(DOMAIN, k=1),
            epsilon=epsilon,
            ledger=tmp_path / "x.ledger",
            total_epsilon=2.0,
        )
        spent.append((made.account.total, made.account.spent))
    assert spent == [(2.0, 1.0), (2.0, 1.5), (2.0, 1.5)]


def test_commands_keep_no_ledger_in_memory(tmp_path):
    (tmp_path / "a.csv").write_text("sex\nf\nm\n", encoding="utf-8")
    DOMAIN.save(tmp_path / "a.domain.json")
    usual = (
        tmp_path / "a.csv",
        "--domain",
        tmp_path / "a.domain.json",
        "--epsilon",
        "1",
        "--ledger",
        "memory",
    )
    for command in (
        ("release", *usual, "--marginals", "1", "-o", tmp_path / "a.maquette"),
        ("ask", *usual, "sex = 'f'"),
    ):
        refused(call(*command), "would end with this command")
    assert not (tmp_path / "a.maquette").exists()
