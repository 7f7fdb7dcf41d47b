"""Threads and processes that write at the same time: commits are shared, locks kept, and forks start afresh."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from maquette.accounting.ledger import Ledger
from maquette.core.ledger import receipts
from maquette.core.ledger.transaction import Transaction
from maquette.core.ledger.writer import GROUP, Writer
from maquette.errors import BudgetExceeded, KeyReused, LedgerError
from support.ledger_cases import create, digest, pay
from support.ledger_postgres import new_database
from support.ledger_process import environment


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def ledger(request, tmp_path):
    with create(tmp_path / "survey.ledger" if request.param == "sqlite" else new_database(), 100) as made:
        yield made


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "survey.ledger"


@pytest.fixture
def commits(monkeypatch) -> list[int]:
    """The sizes of the transactions of all writers."""
    sizes: list[int] = []
    real = Writer._commit

    def count(self: Writer, batch: list) -> None:
        sizes.append(len(batch))
        real(self, batch)

    monkeypatch.setattr(Writer, "_commit", count)
    return sizes


def at_once(ledger: Ledger, *calls: Callable[[], object]) -> list[object]:
    """Start all calls while nobody may write, so that they wait together; gives results and errors in order."""
    outcomes: list[object] = [None] * len(calls)

    def run(number: int) -> None:
        try:
            outcomes[number] = calls[number]()
        except BaseException as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    writer = ledger._writer
    writer._led = True  # as if another thread were waiting for the disk
    for number, thread in enumerate(threads):
        thread.start()
        while len(writer._queue) <= number:
            time.sleep(0.001)
    writer._lead(writer._queue[0])
    for thread in threads:
        thread.join()
    return outcomes


def test_waiting_threads_share_one_commit(ledger, commits):
    entries = at_once(ledger, *(lambda n=n: pay(ledger, f"k{n}") for n in range(40)))
    assert [e.key for e in entries] == [f"k{n}" for n in range(40)]
    assert commits == [40]
    assert ledger.spent_units == 40
    ledger.verify()


def test_a_transaction_has_a_largest_size(ledger, commits):
    at_once(ledger, *(lambda n=n: pay(ledger, f"k{n}") for n in range(GROUP + 6)))
    assert commits == [GROUP, 6]


def test_a_refused_request_does_not_disturb_those_beside_it(ledger, commits):
    first, refused, reused, same, unknown, last = at_once(
        ledger,
        lambda: pay(ledger, "a", 60),
        lambda: pay(ledger, "b", 41),
        lambda: pay(ledger, "a", 60, request=digest("other")),
        lambda: pay(ledger, "a", 60),
        lambda: ledger.answer("never", b"x"),
        lambda: pay(ledger, "c", 40),
    )
    assert commits == [6]
    assert isinstance(refused, BudgetExceeded)
    assert isinstance(reused, KeyReused)
    assert isinstance(unknown, LedgerError)
    assert (first.fresh, same.fresh, same.seq == first.seq) == (True, False, True)
    assert last.units == 40
    assert ledger.left_units == 0
    ledger.verify()


def test_copies_of_a_key_in_one_commit_are_charged_once_and_answered_once(ledger, commits):
    entries = at_once(ledger, *(lambda: pay(ledger, "a", 5) for _ in range(4)))
    answers = at_once(ledger, *(lambda n=n: ledger.answer("a", bytes([n])) for n in range(4)))
    assert commits == [4, 4]
    assert [e.fresh for e in entries] == [True, False, False, False]
    assert {e.payload for e in answers} == {b"\x00"}
    assert ledger.spent_units == 5
    ledger.verify()


def test_children_in_one_commit_see_one_another(ledger):
    pay(ledger, "whole", 50, envelope=True)
    children = at_once(ledger, *(lambda n=n: pay(ledger, f"part-{n}", 20, parent="whole") for n in range(4)))
    assert [isinstance(c, BudgetExceeded) for c in children] == [False, False, True, True]
    late = at_once(ledger, lambda: ledger.settle("whole"), lambda: pay(ledger, "late", 1, parent="whole"))
    assert isinstance(late[1], LedgerError)
    assert ledger.spent_units == 40
    ledger.verify()


def test_a_database_error_of_one_request_is_its_own(ledger, monkeypatch):
    real = Transaction.answer

    def too_large(self: Transaction, key: str, data: bytes) -> object:
        if key == "b":
            raise OperationalError("INSERT", {}, Exception("no room"))
        return real(self, key, data)

    for key in "abc":
        pay(ledger, key)
    monkeypatch.setattr(Transaction, "answer", too_large)
    outcomes = at_once(ledger, *(lambda key=key: ledger.answer(key, key.encode()) for key in "abc"))
    assert [getattr(o, "payload", type(o)) for o in outcomes] == [b"a", LedgerError, b"c"]
    assert {e.key for e in ledger.entries(kind="answer")} == {"a", "c"}
    ledger.verify()


def test_an_interrupt_while_writing_fails_all_that_wait_and_can_be_repeated(ledger, monkeypatch):
    def interrupt(_self: Writer, _batch: list) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "_commit", interrupt)
        outcomes = at_once(ledger, *(lambda n=n: pay(ledger, f"k{n}") for n in range(3)))
    assert sorted(type(o).__name__ for o in outcomes) == ["KeyboardInterrupt", "LedgerError", "LedgerError"]
    assert any("ask again with the same key" in str(o) for o in outcomes)
    assert ledger.spent_units == 0
    assert [pay(ledger, f"k{n}").fresh for n in range(3)] == [True] * 3


def test_a_waiting_thread_that_is_interrupted_holds_nobody_up(ledger, monkeypatch):
    waits: list[str] = []
    real = threading.Event.wait

    def interrupted(self: threading.Event, timeout: float | None = None) -> bool:
        if threading.current_thread().name == "interrupted":
            waits.append("interrupted")
            time.sleep(0.05)
            raise KeyboardInterrupt
        return real(self, timeout)

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    caught: list[BaseException] = []

    def give_up() -> None:
        try:
            pay(ledger, "given up")
        except KeyboardInterrupt as error:
            caught.append(error)

    writer = ledger._writer
    writer._led = True
    thread = threading.Thread(target=give_up, name="interrupted")
    thread.start()
    while not waits:
        time.sleep(0.001)
    writer._lead(writer._queue[0])  # the lead falls to the one that is about to be interrupted
    thread.join()
    assert len(caught) == 1
    assert pay(ledger, "next").fresh
    assert ledger.find("given up") is None


def test_reading_goes_on_beside_writing(ledger):
    pay(ledger, "a")
    with ledger._store.writing():
        assert ledger.spent_units == 1
        assert ledger.find("a") is not None


FORK_SCRIPT = """
import os, sys
from support.ledger_cases import memory, pay
from maquette.accounting.ledger import Ledger
from maquette.errors import LedgerError
ledger, private = Ledger.open(sys.argv[1]), memory()
pay(ledger, "parent-before"); pay(private, "x")
ledger._writer._mutex.acquire()         # another thread of the parent was writing
children = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            pay(ledger, f"child-{number}"); ledger.answer(f"child-{number}", b"x"); ledger.verify()
            try:
                pay(private, "y")
            except LedgerError as error:
                code = 0 if "forked" in str(error) else 2
        finally:
            os._exit(code)
    children.append(pid)
ledger._writer._mutex.release()
pay(ledger, "parent-after")
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
ledger.verify()
print(codes, ledger.spent_units, sorted(e.key for e in ledger.entries(kind="answer")))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_after_a_fork_parent_and_children_go_on_with_the_same_ledger(tmp_path, kind):
    location = str(tmp_path / "survey.ledger") if kind == "sqlite" else new_database()
    create(location).close()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_SCRIPT, location],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0, 0, 0] 5 ['child-0', 'child-1', 'child-2']"


def test_a_closed_ledger_opens_again_when_it_is_used(ledger):
    pay(ledger, "a")
    ledger.close()
    assert ledger.spent_units == 1


@pytest.mark.slow
def test_a_second_handle_does_not_drop_the_locks_of_the_first(path):
    """Closing any handle of a file drops a process's locks on it; another then removed the log under the first."""
    ledger = create(path, 100)
    pay(ledger, "a", 1)
    Ledger.open(path).close()
    script = "from maquette.accounting.ledger import Ledger\n"
    script += f"with Ledger.open({str(path)!r}) as other: print(other.spent_units)"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert done.stdout.strip() == "1", done.stderr
    assert path.with_name(path.name + "-wal").exists()
    pay(ledger, "b", 1)
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert done.stdout.strip() == "2", done.stderr
    ledger.close()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EACCES])
def test_a_file_system_without_locks_is_named(path, monkeypatch, number):
    ledger = create(path)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LedgerError, match=r"cannot lock files \(E\w+\), as is common on network shares"):
        pay(ledger, "a", 1)


def test_a_lock_that_sqlite_takes_for_anothers_is_named(path, monkeypatch):
    ledger = create(path)

    def busy(*_: object, **__: object) -> None:
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorname = "SQLITE_BUSY"
        raise error

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("maquette.core.ledger.writer.Transaction", busy)
    with pytest.raises(LedgerError, match="another process has held it"):
        pay(ledger, "a", 1)
    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(LedgerError, match=r"cannot lock files \(ENOLCK\)"):
        pay(ledger, "a", 1)


def test_a_writer_gives_up_after_a_while_and_leaves_no_lock_behind(path, monkeypatch):
    monkeypatch.setattr(receipts, "SECONDS", 0.3)
    ledger, other = create(path), receipts.Turn(path)
    with other.acquired(), pytest.raises(LedgerError, match="another process has held it"):
        pay(ledger, "a", 1)
    for number in range(3):
        pay(ledger, f"b{number}", 1)
    assert ledger.verify() == ledger.last_receipt


def test_writers_of_several_handles_keep_one_order(path):
    create(path, 1000).close()

    def work(number: int) -> None:
        with Ledger.open(path) as ledger:
            for step in range(10):
                pay(ledger, f"{number}-{step}", 1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Ledger.open(path) as ledger:
        assert ledger.spent_units == 40
        assert ledger.last_receipt == ledger.verify()
