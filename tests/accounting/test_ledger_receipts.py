"""The receipt beside a ledger: lost entries are noticed on open, and what is lost is charged, never less."""

from __future__ import annotations

import errno
import json
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from maquette.accounting.ledger import Ledger, Receipt
from maquette.core.ledger import receipts
from maquette.core.ledger.receipts import SLOT, ChainState
from maquette.errors import LedgerError, MaquetteError, ParameterError
from support.cli_files import call, desk, refused
from support.ledger_cases import create, pay
from support.ledger_process import environment
from support.ledger_tampering import tamper


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "survey.ledger"


def receipt_of(path: Path) -> Path:
    return path.with_name(path.name + ".receipt")


def take_back(path: Path, old: Path) -> None:
    """An older copy in the place of the ledger."""
    for tail in ("", "-wal", "-shm"):
        path.with_name(path.name + tail).unlink(missing_ok=True)
    shutil.copy(old, path)


def killed_with_a_log(path: Path, entries: int) -> None:
    """A process that paid and was killed: what it wrote is in the log."""
    script = (
        "import os, sys; from support.ledger_cases import pay; from maquette.accounting.ledger import Ledger\n"
        f"ledger = Ledger.open({str(path)!r})\n"
        f"for n in range({entries}): pay(ledger, f'k{{n}}', 3, body={{'text': 'x' * 300}})\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert done.returncode == -9, done.stderr


def test_a_ledger_that_fell_behind_its_receipt_is_refused(path, tmp_path):
    with create(path) as ledger:
        pay(ledger, "a", 10)
    old = shutil.copy(path, tmp_path / "old")
    with Ledger.open(path) as ledger:
        pay(ledger, "b", 20)
        assert ledger.last_receipt == ledger.receipt()
    take_back(path, old)
    with pytest.raises(LedgerError, match=r"ends at entry 2, but its receipt says that entry 3 was written"):
        Ledger.open(path)
    refused(call("ledger", "show", path), "entries that were paid for are lost", "maquette ledger recover")


def test_a_ledger_that_loses_entries_while_it_is_open_pays_nothing_more(path, tmp_path):
    ledger = create(path)
    pay(ledger, "a", 10)
    ledger.close()
    old = shutil.copy(path, tmp_path / "old")
    pay(ledger, "b", 20)
    ledger.close()
    take_back(path, old)
    with pytest.raises(LedgerError, match="entries that were paid for are lost"):
        pay(ledger, "c", 5)


@pytest.mark.parametrize("column", ["spent", "slack_spent"])
def test_an_edited_account_is_noticed_on_open(path, column):
    with create(path, 100) as ledger:
        pay(ledger, "a", 10)
    tamper(path, f"UPDATE account SET {column} = {column} + 1")
    with pytest.raises(LedgerError, match="entry 2 or the account was changed"):
        Ledger.open(path)


@pytest.mark.slow
def test_one_flipped_bit_in_the_log_is_noticed(path):
    create(path, 10**6).close()
    killed_with_a_log(path, 6)
    log = path.with_name(path.name + "-wal")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(bytes(data))
    with pytest.raises(LedgerError, match="entries that were paid for are lost"):
        Ledger.open(path)
    refused(call("ledger", "verify", path), "entries that were paid for are lost")


@pytest.mark.slow
def test_flips_anywhere_are_harmless_or_noticed_and_never_an_internal_error(path, tmp_path):
    """The database, its log and its index of the log: 120 damages, each opened, read through and verified."""
    create(path, 10**6).close()
    killed_with_a_log(path, 8)
    files = {tail: path.with_name(path.name + tail).read_bytes() for tail in ("", "-wal", "-shm", ".receipt")}
    with Ledger.open(path) as ledger:
        whole, spent = ledger.verify(), ledger.spent_units
    rng = random.Random(7)
    noticed = 0
    for number in range(120):
        place = tmp_path / f"{number}" / "survey.ledger"
        place.parent.mkdir()
        tail = rng.choice(["", "", "-wal", "-wal", "-shm"])
        for name, content in files.items():
            data = bytearray(content)
            if name == tail:
                start = rng.randrange(100 if number % 3 == 0 and not tail else len(data))
                for at in range(start, min(start + rng.choice([1, 1, 4, 64]), len(data))):
                    data[at] ^= 1 << rng.randrange(8)
            place.with_name(place.name + name).write_bytes(bytes(data))
        try:
            with Ledger.open(place) as ledger:
                ledger.balance()
                list(ledger.entries(payloads=True))
                assert ledger.verify() == whole
                assert ledger.spent_units == spent
        except LedgerError:
            noticed += 1
        shutil.rmtree(place.parent)
    assert noticed > 20


def test_a_flipped_byte_of_page_1_is_a_ledger_error_or_harmless(path):
    """In the header, and in the text of the schema, which SQLite quotes in its messages as it is."""
    with create(path) as ledger:
        pay(ledger, "a", 10)
    whole, refusals = path.read_bytes(), 0
    for at, bits in [(at, 0xFF) for at in range(16, 100, 6)] + [(at, 0x80) for at in range(1500, 4096, 60)]:
        data = bytearray(whole)
        data[at] ^= bits
        path.write_bytes(bytes(data))
        try:
            with Ledger.open(path) as ledger:
                ledger.verify()
                assert ledger.balance().spent_units == 10
        except LedgerError:
            refusals += 1
    assert refusals > 30


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER UPDATE OF spent ON account WHEN new.spent > 0 BEGIN UPDATE account SET spent = 0; END",
        "CREATE TRIGGER t AFTER INSERT ON entry BEGIN SELECT 1; END",
        "CREATE VIEW v AS SELECT * FROM account",
        "CREATE TABLE t (a)",
        "CREATE INDEX i ON entry (tag)",
        "ALTER TABLE entry ADD COLUMN more TEXT",
        "DROP TRIGGER entry_no_update",
        "DROP INDEX entry_parent",
    ],
)
def test_a_changed_schema_is_refused(path, statement):
    """The first of these let five charges of 3 through a total of 5."""
    create(path, 5).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)
    with pytest.raises(LedgerError, match=r"(lacks|has a foreign|has another) .*: its database was changed"):
        Ledger.open(path)


def test_a_schema_that_changes_under_an_open_ledger_is_refused_before_the_next_payment(path):
    with create(path, 5) as ledger:
        pay(ledger, "a", 3)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("CREATE TRIGGER t AFTER UPDATE OF spent ON account BEGIN SELECT 1; END")
        with pytest.raises(LedgerError, match="has a foreign trigger t: its database was changed"):
            pay(ledger, "b", 1)


def test_statistics_of_the_database_change_nothing(path):
    with create(path) as ledger:
        pay(ledger, "a", 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ANALYZE")
    Ledger.open(path).close()


def test_receipts_grow_sparse_with_their_age_and_fit_their_slot():
    kept = ChainState("f" * 64, Receipt(1, "0" * 64), 0, 0)
    for seq in range(2, 3000):
        kept = kept.followed_by(ChainState("f" * 64, Receipt(seq, f"{seq:064x}"), seq, 0))
    ages = [kept.end.seq - one.seq for one in kept.earlier]
    assert ages[0] == 1
    assert ages[-1] == kept.end.seq - 1
    assert all(older <= 4 * newer for newer, older in pairwise(ages))
    assert len(ages) < 30
    far = ChainState("f" * 64, Receipt(10**17, "0" * 64), 10**17, 10**24, (Receipt(10**17, "0" * 64),) * 80)
    assert ChainState.unpack(far.pack()) == far


def test_a_cut_write_of_the_receipt_leaves_the_one_before(path):
    with create(path) as ledger:
        for number in range(3):
            pay(ledger, f"k{number}", 1)
    place = receipt_of(path)
    raw = place.read_bytes()
    slots = {ChainState.unpack(raw[s : s + SLOT]).end.seq: s for s in (0, SLOT)}
    newest = max(slots)
    place.write_bytes(raw[: slots[newest]] + b"x" * 100 + raw[slots[newest] + 100 :])
    with Ledger.open(path) as ledger:  # and brings it up to date
        assert ledger.last_receipt == ledger.receipt()
    place.write_bytes(b"x" * 2 * SLOT)
    with pytest.raises(LedgerError, match=r"the receipt .* is damaged"):
        Ledger.open(path)


def test_a_receipt_that_was_not_written_before_a_crash_is_caught_up(path, monkeypatch):
    ledger = create(path)
    pay(ledger, "a", 1)
    with monkeypatch.context() as patch:
        patch.setattr(
            receipts.ReceiptFile, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "bad"))
        )
        with pytest.raises(LedgerError, match="Input/output error"):
            pay(ledger, "b", 1)  # committed, and nobody may act on it
    assert ledger.last_receipt.seq < ledger.receipt().seq
    assert pay(ledger, "b", 1).fresh is False
    assert ledger.last_receipt == ledger.receipt()


def test_old_ledgers_without_a_receipt_open_and_get_one(path):
    with create(path) as ledger:
        pay(ledger, "a", 1)
    receipt_of(path).unlink()
    assert "no receipt is kept beside it" in call("ledger", "verify", path).out
    with Ledger.open(path) as ledger:
        pay(ledger, "b", 1)
    assert "agrees" in call("ledger", "verify", path).out
    assert json.loads(call("ledger", "verify", path, "--json").out)["kept"].startswith("3:")


def test_the_receipt_of_another_ledger_is_not_taken_for_ones_own(path, tmp_path):
    for place in (path, tmp_path / "other.ledger"):
        with create(place) as ledger:
            pay(ledger, "a", 1)
    shutil.copy(receipt_of(tmp_path / "other.ledger"), receipt_of(path))
    with pytest.raises(LedgerError, match="is that of another ledger"):
        Ledger.open(path)
    with pytest.raises(LedgerError, match="is that of another ledger"):
        Ledger.recover(path)


def test_a_removed_ledger_leaves_its_receipt_and_no_new_one_is_made_there(path):
    with create(path) as ledger:
        pay(ledger, "a", 1)
    path.unlink()
    with pytest.raises(LedgerError, match=r"found .*receipt without its ledger"):
        create(path)


def test_recovering_charges_what_the_receipt_says_was_spent(path, tmp_path):
    with create(path, 100) as ledger:
        pay(ledger, "a", 10)
        pay(ledger, "open", 50, envelope=True)
    old = shutil.copy(path, tmp_path / "old")
    with Ledger.open(path) as ledger:
        pay(ledger, "open/0", 45, parent="open")
        ledger.settle("open")
        pay(ledger, "b", 7)
        spent = ledger.spent_units
    assert spent == 62
    take_back(path, old)
    done = Ledger.recover(path)
    assert (done.lost.seq, done.exceeded) == (6, False)
    assert done.agreed.seq in (2, 3)  # ends are kept more sparsely the older they are
    with Ledger.open(path) as ledger:
        ledger.verify()
        assert ledger.balance().charged_units == spent
        assert ledger.open_envelopes() == []
        with pytest.raises(LedgerError, match="settled"):
            pay(ledger, "open/0", 45, parent="open")
        pay(ledger, "c", 38)
    with pytest.raises(LedgerError, match="nothing is lost"):
        Ledger.recover(path)


def test_recovering_a_copy_that_was_used_by_itself_charges_both(path, tmp_path):
    with create(path, 100) as ledger:
        pay(ledger, "a", 10)
    old = shutil.copy(path, tmp_path / "old")
    with Ledger.open(path) as ledger:
        for number in range(3):
            pay(ledger, f"lost-{number}", 10)
    with Ledger.open(old) as other:
        pay(other, "elsewhere", 5)
    take_back(path, old)
    refused(call("ledger", "show", path), "are lost")
    shown = call("ledger", "recover", path)
    assert "lost: entries after 2, up to 5" in shown.out
    with Ledger.open(path) as ledger:
        assert ledger.spent_units == 10 + 30 + 5
    with create(tmp_path / "full.ledger", 100) as ledger:
        pay(ledger, "a", 10)
    copy = shutil.copy(tmp_path / "full.ledger", tmp_path / "copy.ledger")
    with Ledger.open(tmp_path / "full.ledger") as ledger:
        pay(ledger, "b", 80)
    with Ledger.open(copy) as other:
        pay(other, "c", 70)
    take_back(tmp_path / "full.ledger", copy)
    assert Ledger.recover(tmp_path / "full.ledger").exceeded
    with Ledger.open(tmp_path / "full.ledger") as ledger:
        assert ledger.left_units == 0


def test_a_crash_in_the_middle_of_recovering_charges_once(path, tmp_path, monkeypatch):
    with create(path, 100) as ledger:
        pay(ledger, "a", 10)
    old = shutil.copy(path, tmp_path / "old")
    with Ledger.open(path) as ledger:
        pay(ledger, "b", 20)
        pay(ledger, "c", 20)
    take_back(path, old)
    with monkeypatch.context() as patch:
        patch.setattr(
            receipts.ReceiptFile, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "bad"))
        )
        with pytest.raises(LedgerError):
            Ledger.recover(path)
    Ledger.recover(path)
    with Ledger.open(path) as ledger:
        assert ledger.spent_units == 50


@pytest.mark.slow
def test_release_folders_near_the_ledger_are_receipts_too(tmp_path):
    place = desk(tmp_path)
    assert place.release("--mechanism", "laplace", "--total-epsilon", 3).code == 0
    old = tmp_path / "old"
    shutil.copy(place.ledger, old)
    assert (
        place.release("--mechanism", "laplace", "--key", "again", "-o", tmp_path / "again.maquette").code == 0
    )
    assert "release folders" in call("ledger", "verify", place.ledger).out
    take_back(place.ledger, old)
    for tail in (".receipt", ".queue"):
        place.ledger.with_name(place.ledger.name + tail).unlink()
    refused(call("ledger", "show", place.ledger), "again.maquette", "cut back or replaced")
    refused(place.release("--mechanism", "laplace", "--key", "third"), "again.maquette")


READ_ONLY = """
import os, sys
from support.ledger_cases import memory, pay
from maquette.accounting.ledger import Ledger
from maquette.errors import LedgerError
pay(memory(), "a")
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
with Ledger.open(sys.argv[1]) as ledger:
    print(ledger.verify().seq, ledger.spent_units, len(ledger.open_envelopes()))
    try:
        pay(ledger, "b")
    except LedgerError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_log", [False, True])
def test_a_ledger_on_a_read_only_medium_is_shown_and_verified(tmp_path, with_log):
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mq-ledger-") as name:  # any user may enter it, unlike pytest's
        folder = Path(name)
        folder.chmod(0o755)
        path = folder / "survey.ledger"
        create(path, 10**6).close()
        if with_log:
            killed_with_a_log(path, 3)
            path.with_name(path.name + "-shm").unlink()
        else:
            with Ledger.open(path) as ledger:
                for number in range(3):
                    pay(ledger, f"k{number}", 3)
        for one in folder.iterdir():
            one.chmod(0o444)
        folder.chmod(0o555)
        before = sorted(p.name for p in folder.iterdir())
        try:
            done = subprocess.run(
                [sys.executable, "-c", READ_ONLY, str(path)],
                env=environment(),
                capture_output=True,
                text=True,
            )
        finally:
            folder.chmod(0o755)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("4 9 0\n")
        assert "read-only; make both writable" in done.stdout
        assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("key", ["\ud800", "a\nb", "", "x" * 3000])
def test_keys_that_cannot_be_stored_are_refused_in_a_short_message(path, key):
    ledger = create(path)
    for use in (
        lambda: pay(ledger, key, request="0" * 64),
        lambda: ledger.find(key),
        lambda: ledger.answer(key, b""),
        lambda: ledger.settle(key),
        lambda: pay(ledger, "a", parent=key),
    ):
        with pytest.raises(ParameterError, match="1 to 200 printable characters") as caught:
            use()
        assert len(str(caught.value)) < 300
        str(caught.value).encode("utf-8")


def test_messages_are_escaped_and_bounded():
    said = str(MaquetteError("a\ud800b\x1b[31m\n" + "x" * 5000))
    assert said.startswith("a\\ud800b\\x1b[31m\n")
    assert len(said) < 2100
    assert "characters left out" in said
    with pytest.raises(ParameterError) as caught:
        Receipt.parse("y" * 4000)
    assert len(str(caught.value)) < 250
