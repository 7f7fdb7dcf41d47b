"""Tables in folders that are kept from writing: nothing is put beside them unasked, and the message says what to do."""

from pathlib import Path

import pytest

import maquette as mq
from maquette.core import _check
from maquette.errors import LedgerError
from support.cli_files import call, desk, refused


@pytest.fixture
def locked(tmp_path: Path):
    """A desk whose table lies in a folder marked read-only; the marks are taken off again."""
    folder = tmp_path / "data"
    folder.mkdir()
    own = desk(folder)
    folder.chmod(0o555)
    yield own
    folder.chmod(0o755)


def test_why_a_folder_is_kept_from_writing(tmp_path, monkeypatch):
    assert _check.kept_from_writing(tmp_path) is None
    assert _check.kept_from_writing(tmp_path / "absent") == "does not exist"
    tmp_path.chmod(0o555)
    assert _check.kept_from_writing(tmp_path) == "is marked read-only"
    tmp_path.chmod(0o755)
    monkeypatch.setattr(_check.os, "access", lambda _place, _mode: False)
    assert _check.kept_from_writing(tmp_path) == "is not writable"


def test_a_ledger_is_not_put_beside_a_table_there(locked, tmp_path):
    domain = mq.Domain.load(locked.domain)
    private = mq.open(locked.table, domain=domain)
    asked = mq.marginals(domain, k=1)
    before = sorted(locked.folder.iterdir())
    with pytest.raises(LedgerError, match="marked read-only; name another place"):
        mq.release(private, asked, epsilon=1.0)
    with pytest.raises(LedgerError, match="marked read-only"):
        mq.session(private, epsilon=1.0)
    assert sorted(locked.folder.iterdir()) == before
    made = mq.release(private, asked, epsilon=1.0, ledger=tmp_path / "elsewhere.ledger")
    assert made.account.spent > 0


def test_an_older_ledger_beside_the_table_is_still_used(locked):
    domain = mq.Domain.load(locked.domain)
    asked = mq.marginals(domain, k=1)
    locked.folder.chmod(0o755)
    mq.release(mq.open(locked.table, domain=domain), asked, epsilon=1.0, total_epsilon=3.0)
    locked.folder.chmod(0o555)
    found = mq.api.open_ledger(
        mq.open(locked.table, domain=domain), None, relation=mq.Relation.ADD_REMOVE, budget=mq.Budget(3.0)
    )
    assert found.balance().spent_units > 0
    found.close()


@pytest.mark.slow
def test_commands_say_where_to_write_instead(locked, tmp_path):
    common = (
        "--domain",
        locked.domain,
        "--marginals",
        1,
        "--epsilon",
        1,
        "-o",
        tmp_path / "r.maquette",
        "--quiet",
    )
    ended = call("release", locked.table, *common)
    refused(ended, "marked read-only", "--ledger")
    assert call("release", locked.table, *common, "--ledger", tmp_path / "l.ledger").code == 0
    refused(
        call("evaluate", tmp_path / "r.maquette", locked.table, "--quiet"), "marked read-only", "--no-page"
    )
    assert call("evaluate", tmp_path / "r.maquette", locked.table, "--quiet", "--no-page").code == 0
    page = tmp_path / "page.html"
    assert call("evaluate", tmp_path / "r.maquette", locked.table, "--quiet", "-o", page).code == 0
    assert page.exists()
