"""What is compared when a ledger is opened: the account with its first entry, and what lies beside the file."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

import maquette as mq
from maquette.accounting import Cost
from maquette.accounting.ledger import Ledger
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import LedgerError, MissingReceiptWarning
from support.cli_files import call, refused
from support.ledger_cases import create, pay
from support.ledger_tampering import tamper

DOMAIN = Domain((Attribute("sex", Kind.BOOLEAN, categories=("f", "m")),))
EDITS = {
    "a larger total": "total = total * 2",
    "a larger slack": "slack_total = slack_total + 1",
    "a larger epsilon": "epsilon = '1.0'",
    "a larger delta": "delta = '0.5'",
    "another unit": "unit = 'rho'",
    "another relation": "relation = 'replace-one'",
    "another salt": "salt = zeroblob(32)",
    "another name": "name = 'other'",
    "another domain": "domain_fingerprint = 'x'",
    "another format": "format = 2",
    "another table": "commitment = 'x'",
    "no table": "commitment = NULL",
}


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "survey.ledger"


def receipt_of(path: Path) -> Path:
    return path.with_name(path.name + ".receipt")


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_account_that_is_not_the_one_that_was_opened_is_not_opened(path, edit):
    with create(path) as ledger:
        ledger.bind("c" * 64)
        pay(ledger, "a", 10)
    tamper(path, f"UPDATE account SET {edit}")
    with pytest.raises(
        LedgerError, match=r"differs from the one that was opened|does not follow|another format"
    ):
        Ledger.open(path)
    refused(call("ledger", "show", path), str(path))


def test_an_opening_that_was_edited_with_its_account_is_found(path):
    with create(path) as ledger:
        pay(ledger, "a", 10)
    tamper(path, "UPDATE account SET total = 900", "UPDATE entry SET units = 900 WHERE seq = 1")
    with pytest.raises(LedgerError, match="entry 1: its contents do not match its hash"):
        Ledger.open(path)


def test_an_account_that_is_edited_while_the_ledger_is_open_pays_nothing_more(path):
    with create(path, 100) as ledger:
        pay(ledger, "a", 90)
        tamper(path, "UPDATE account SET total = 1000")
        with pytest.raises(LedgerError, match="differs from the one that was opened"):
            pay(ledger, "b", 500)


@pytest.mark.parametrize("emptied", [False, True])
def test_a_missing_receipt_is_said_aloud_by_what_pays_and_by_the_commands(tmp_path, emptied):
    table, place = people(), tmp_path / "people.ledger"
    pay_for(table, place)
    receipt_of(place).unlink()
    if emptied:
        receipt_of(place).touch()
    for command in ("show", "verify"):
        done = call("ledger", command, place)
        assert done.code == 0
        assert "warning: the ledger" in done.err
        assert "people.ledger.receipt is missing or empty" in done.err.replace("\n", " ")
    with pytest.warns(MissingReceiptWarning, match="no receipt beside it") as seen:
        pay_for(table, place)
    assert {one.filename for one in seen} == {__file__}


def test_a_ledger_with_its_receipt_and_a_new_one_are_silent(tmp_path):
    table, place = people(), tmp_path / "people.ledger"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pay_for(table, place)
        pay_for(table, place)
    for command in ("show", "verify"):
        assert "receipt is missing" not in call("ledger", command, place).err


def people() -> mq.Table:
    return mq.open({"sex": ["f", "m", "m"] * 30}, domain=DOMAIN)


def pay_for(table: mq.Table, ledger: Path | Ledger, *, epsilon: float = 1.0) -> mq.Release:
    return mq.release(
        table,
        mq.marginals(DOMAIN, k=1),
        epsilon=epsilon,
        ledger=ledger,
        total_epsilon=3.0,
        mechanism="laplace",
    )


@pytest.fixture
def set_back(tmp_path) -> Path:
    """A ledger whose last release lies beside it and is not in it: an older copy, and its receipt is gone."""
    place, old = tmp_path / "people.ledger", tmp_path / "old"
    pay_for(people(), place)
    shutil.copy(place, old)
    pay_for(people(), place, epsilon=1.5).save(tmp_path / "second.maquette")
    for tail in ("", "-wal", "-shm", ".receipt"):
        place.with_name(place.name + tail).unlink(missing_ok=True)
    shutil.copy(old, place)
    return place


LOST = "whose receipt is in .*second.maquette"


def test_a_release_is_refused_by_a_ledger_that_was_set_back(set_back):
    with pytest.raises(LedgerError, match=LOST):
        pay_for(people(), set_back, epsilon=1.5)
    with Ledger.open(set_back) as book, pytest.raises(LedgerError, match=LOST):
        pay_for(people(), book, epsilon=1.5)


def test_a_session_and_a_tool_are_refused_too(set_back):
    with pytest.raises(LedgerError, match=LOST):
        mq.session(people(), epsilon=1.0, alpha=0.2, ledger=set_back)
    with pytest.raises(LedgerError, match=LOST):
        mq.choose(people(), mq.marginals(DOMAIN, k=1), epsilon=0.5, ledger=set_back)


def test_verify_looks_at_release_folders(set_back):
    with Ledger.open(set_back) as book, pytest.raises(LedgerError, match=LOST):
        book.verify()
    refused(call("ledger", "verify", set_back), "second.maquette")
    refused(call("ledger", "show", set_back), "second.maquette")


def test_folders_of_other_ledgers_say_nothing(set_back, tmp_path):
    place = tmp_path / "other.ledger"
    pay_for(people(), place)
    with Ledger.open(place) as book:
        book.verify()
        assert book.releases_nearby() == []
        assert book.reserve("x", request="0" * 64, tag="x", cost=Cost(1), body={}).units == 1
