"""Where a ledger cannot be made, opened or written: what is said, and that nothing is lost."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import traceback
from contextlib import closing
from pathlib import Path

import pytest

from maquette.accounting.ledger import Ledger, Receipt
from maquette.core.ledger import create as birth
from maquette.core.ledger import entry, store
from maquette.errors import LedgerError
from support.ledger_cases import create, digest, pay
from support.ledger_postgres import new_database
from support.ledger_process import environment
from support.ledger_tampering import tamper


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "survey.ledger"


def test_a_ledger_file_is_for_its_owner_only_and_leaves_nothing_beside_it(path):
    old = os.umask(0)
    try:
        ledger = create(path)
        pay(ledger, "a")
    finally:
        os.umask(old)
    assert {stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()} == {0o600}
    ledger.close()
    beside = ["survey.ledger", "survey.ledger.queue", "survey.ledger.receipt"]
    assert sorted(p.name for p in path.parent.iterdir()) == beside


def test_a_ledger_opens_as_it_was_left(path):
    with create(path, 50) as ledger:
        pay(ledger, "a", 20)
        ledger.answer("a", b"x")
        salt, receipt = ledger.salt, ledger.receipt()
    for location in (path, str(path), f"sqlite:///{path}"):
        with Ledger.open(location) as again:
            assert (again.salt, again.spent_units, again.verify(receipt)) == (salt, 20, receipt)
            assert pay(again, "a", 20).payload == b"x"


@pytest.mark.slow
def test_commits_wait_for_the_disk(path):
    with create(path) as ledger, ledger._store.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() >= 60_000
    location = new_database()
    with create(location) as ledger, ledger._store.reading() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"


def test_unusual_file_names_work(tmp_path):
    for name in ("a b?#%.ledger", "ünïcode 鍵", "file:x?mode=ro"):
        with create(tmp_path / name) as ledger:
            pay(ledger, "a")
        with Ledger.open(tmp_path / name) as ledger:
            assert ledger.spent_units == 1


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda p: None, "no ledger at .*; make one with: maquette ledger create"),
        (lambda p: p.mkdir(), "found a directory"),
        (lambda p: p.write_bytes(b""), "is not a ledger or is damaged"),
        (lambda p: p.write_text("name,age\nAda,36\n"), "is not a ledger or is damaged"),
        (
            lambda p: p.write_bytes(b"SQLite format 3\0" + os.urandom(5000)),
            "not a ledger or is damaged|is damaged",
        ),
        (lambda p: _another_program(p), "is another program's database, not a ledger"),
        (lambda p: _newer(p), "has format 99, this version of maquette reads up to 4; install a newer one"),
        (lambda p: _without_account(p), "has lost its account"),
        (lambda p: _without_tables(p), "lacks index entry_parent"),
    ],
    ids=[
        "absent",
        "directory",
        "empty",
        "text",
        "noise",
        "another program",
        "newer",
        "no account",
        "no tables",
    ],
)
def test_what_is_no_ledger_is_not_opened(path, prepare, said):
    prepare(path)
    with pytest.raises(LedgerError, match=said) as caught:
        Ledger.open(path)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("column", ["relation", "epsilon", "delta"])
def test_an_account_that_makes_no_sense_is_not_opened(path, column):
    create(path).close()
    tamper(path, f"UPDATE account SET {column} = 'x'")
    with pytest.raises(LedgerError, match="its account cannot be read"):
        Ledger.open(path)


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.8])
def test_a_truncated_file_is_refused(path, kept):
    with create(path, 10**6) as ledger:
        for number in range(40):
            pay(ledger, f"k{number}", body={"text": "x" * 500})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(LedgerError, match=r"damaged|broken"), Ledger.open(path) as ledger:
        ledger.verify()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_overwritten_pages_are_never_taken_for_a_ledger_in_order(path, seed):
    import random

    with create(path, 10**6) as ledger:
        for number in range(40):
            pay(ledger, f"k{number}", body={"text": "x" * 500})
            ledger.answer(f"k{number}", os.urandom(300))
        receipt = ledger.receipt()
    data = bytearray(path.read_bytes())
    rng = random.Random(seed)
    start = (
        rng.randrange(100, len(data) // 4096) * 4096 if len(data) > 500_000 else rng.randrange(1, 4) * 4096
    )
    data[start : start + 4096] = rng.randbytes(4096)
    path.write_bytes(bytes(data))
    found = _read_all(path, receipt)
    assert found == 40 or (isinstance(found, LedgerError) and "x" * 20 not in str(found))


def test_a_ledger_is_not_made_over_anything(path):
    create(path).close()
    with pytest.raises(LedgerError, match=r"there is a file at .* already"):
        create(path)
    path.unlink()
    path.write_text("precious")
    with pytest.raises(LedgerError, match="already"):
        create(path)
    assert path.read_text() == "precious"
    with pytest.raises(LedgerError, match="found a directory"):
        create(path.parent)


def test_a_ledger_needs_its_directory(tmp_path):
    with pytest.raises(LedgerError, match=r"there is no directory .*absent; make it first"):
        create(tmp_path / "absent" / "x.ledger")


def test_the_log_of_a_removed_ledger_is_not_replayed_into_a_new_one(path):
    path.with_name("survey.ledger-wal").write_bytes(b"log")
    with pytest.raises(LedgerError, match=r"found .*-wal without its ledger: a ledger was removed or moved"):
        create(path)


@pytest.mark.parametrize("location", ["", "mysql://host/db", "postgresql+asyncpg://host/db", "://", "a\0b"])
def test_locations_that_are_neither_path_nor_postgresql_are_refused(location):
    with pytest.raises(LedgerError, match="expected"):
        Ledger.open(location)


def test_a_crash_while_creating_leaves_the_place_free(path, monkeypatch):
    def crash(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(birth, "_publish", crash)
        with pytest.raises(KeyboardInterrupt):
            create(path)
    assert not path.exists()
    assert not list(path.parent.iterdir())
    create(path).close()


def test_a_file_system_without_links_is_named(path, monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(LedgerError, match=r"cannot make a ledger at .*Operation not permitted"):
        create(path)
    assert not list(path.parent.iterdir())


def test_a_full_disk_fails_closed_and_can_be_continued(path, monkeypatch):
    create(path, 10**6).close()
    real = store._connect

    def small(address: str) -> sqlite3.Connection:
        connection = real(address)
        connection.execute("PRAGMA max_page_count = 24")
        return connection

    with monkeypatch.context() as patch, Ledger.open(path) as ledger:
        ledger.close()
        patch.setattr(store, "_connect", small)
        paid = _pay_until_it_fails(ledger, "the disk is full; make room and ask again with the same key")
        with pytest.raises(LedgerError, match="disk is full"):
            ledger.answer("k0", os.urandom(100_000))
        ledger.close()
    with Ledger.open(path) as ledger:
        ledger.verify()
        assert ledger.spent_units == paid == len(list(ledger.entries(kind="reserve")))
        assert ledger.answer("k0", b"now").payload == b"now"


DISK_SCRIPT = """
import sys
from support.ledger_cases import create, pay
from maquette.accounting.ledger import Ledger
from maquette.errors import LedgerError
path, paid = sys.argv[1], 0
ledger = create(path, 10**6)
try:
    while True:
        pay(ledger, f"k{paid}", body={"text": "x" * 3000})
        paid += 1
except LedgerError as error:
    print(error)
ledger.close()
with Ledger.open(path) as again:
    again.verify()
    assert again.spent_units == paid == len(list(again.entries(kind="reserve"))) > 0
    print("whole")
"""


@pytest.mark.slow
def test_a_really_full_disk_fails_closed(tmp_path):
    """A file system of 1 MB where the machine allows to mount one, else a limit on the size of files."""
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path}"
    allowed = subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode == 0
    limit = f"{mount} &&" if allowed else "trap '' XFSZ; ulimit -f 512;"
    command = (
        f"{limit} exec {sys.executable} -c '{DISK_SCRIPT.replace(chr(39), chr(34))}' {tmp_path}/x.ledger"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command] if allowed else ["sh", "-c", command],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    said, whole = done.stdout.strip().split("\n")
    assert "disk" in said
    assert "full" in said
    assert whole == "whole"


READ_ONLY_SCRIPT = """
import os, sys
from support.ledger_cases import create, memory, pay
from maquette.accounting.ledger import Ledger
from maquette.errors import LedgerError
pay(memory(), "a")      # load every module while this user may still read it
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
def attempt(what):
    try:
        what()
        print("worked")
    except LedgerError as error:
        print(error)
attempt(lambda: create(sys.argv[1] + "/new.ledger"))
attempt(lambda: pay(Ledger.open(sys.argv[1] + "/old.ledger"), "a"))
attempt(lambda: Ledger.open(sys.argv[1] + "/closed.ledger"))
attempt(lambda: create(sys.argv[1] + "/closed/new.ledger"))
attempt(lambda: Ledger.open(sys.argv[1] + "/closed/old.ledger"))
"""


@pytest.fixture
def open_folder():
    """A folder that any user may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="mq-ledger-") as name:
        yield Path(name)


@pytest.mark.slow
def test_read_only_places_are_named_and_nothing_is_paid(open_folder):
    tmp_path = open_folder
    create(tmp_path / "old.ledger").close()
    create(tmp_path / "closed.ledger").close()
    (tmp_path / "old.ledger").chmod(0o444)
    (tmp_path / "closed.ledger").chmod(0o000)
    (tmp_path / "closed").mkdir(mode=0o000)
    tmp_path.chmod(0o555)
    try:
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY_SCRIPT, str(tmp_path)],
            capture_output=True,
            text=True,
            env=environment(),
        )
    finally:
        tmp_path.chmod(0o755)
    assert done.returncode == 0, done.stderr
    made, paid, closed, inside, within = done.stdout.strip().split("\n")
    assert "cannot make a ledger" in made
    assert "Permission denied; choose a directory that is writable" in made
    assert "read-only" in paid or "writable" in paid
    assert "cannot read the ledger" in closed
    assert "Permission denied" in closed
    assert "cannot make a ledger" in inside
    assert "cannot read the ledger" in within
    (tmp_path / "old.ledger").chmod(0o600)
    with Ledger.open(tmp_path / "old.ledger") as ledger:
        assert ledger.spent_units == 0


def test_errors_show_neither_payloads_nor_statements(path):
    ledger = create(path)
    pay(ledger, "a")
    secret = b"canary-4711-canary"
    _raw(path, "DROP TABLE payload")
    with pytest.raises(LedgerError) as caught:
        ledger.answer("a", secret)
    shown = "".join(traceback.format_exception(caught.value))
    assert "canary" not in shown
    assert "INSERT" not in shown
    assert "sqlalchemy" not in shown.lower()


def test_a_postgresql_password_is_never_shown():
    password = digest("password")[:12]
    with pytest.raises(LedgerError, match="cannot reach the ledger") as caught:
        Ledger.open(f"postgresql+psycopg://ada:{password}@127.0.0.1:1/none")
    assert password not in "".join(traceback.format_exception(caught.value))


@pytest.mark.server
def test_an_empty_postgresql_database_holds_no_ledger():
    location = new_database()
    with pytest.raises(LedgerError, match=r"no ledger in .*; make one with"):
        Ledger.open(location)
    create(location).close()
    with pytest.raises(LedgerError, match=r"there is a ledger in .* already"):
        create(location)


def test_a_missing_driver_is_named(monkeypatch):
    def refuse(*_arguments: object, **_options: object) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'")

    monkeypatch.setattr(store, "create_engine", refuse)
    with pytest.raises(
        LedgerError,
        match=r"needs the psycopg package; install it with: pip install 'maquette-dp\[postgres\]'",
    ):
        Ledger.open("postgresql://host/db")


def test_importing_the_package_does_not_load_the_database_library():
    script = "import sys, maquette, maquette.accounting; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def _pay_until_it_fails(ledger: Ledger, said: str) -> int:
    for paid in range(1000):
        try:
            pay(ledger, f"k{paid}", body={"text": "x" * 2000})
        except LedgerError as error:
            if said in str(error) and paid > 0:
                return paid
            raise
    raise AssertionError("the disk never got full")


def _read_all(path: Path, receipt: Receipt) -> int | LedgerError:
    """How many answers an intact ledger holds (the page may have held an index that nobody needs), or the refusal."""
    try:
        with Ledger.open(path) as ledger:
            assert ledger.verify(receipt) == receipt
            return len(list(ledger.entries(kind="answer", payloads=True)))
    except LedgerError as error:
        return error


def _raw(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def _another_program(path: Path) -> None:
    _raw(path, "CREATE TABLE account (id INTEGER)")


def _newer(path: Path) -> None:
    create(path).close()
    _raw(path, "PRAGMA user_version = 99")


def _without_account(path: Path) -> None:
    create(path).close()
    tamper(path, "DELETE FROM account")


def _without_tables(path: Path) -> None:
    _raw(path, f"PRAGMA application_id = {store.APPLICATION_ID}", f"PRAGMA user_version = {entry.FORMAT}")
    _raw(path, f'CREATE TABLE "{digest("x")[:6]}" (id INTEGER)')
