"""The log of who did what: chained to itself and to the ledger, whole after a crash, and edits are found."""

from __future__ import annotations

import json
import os
import threading

import pytest

from maquette.errors import LedgerError
from maquette.web.audit import BEFORE_LEDGER, AuditLog
from maquette.web.ledger import Witness
from support.ledger_cases import create, pay


@pytest.fixture
def ledger(tmp_path):
    return create(tmp_path / "a.ledger")


def filled(tmp_path, ledger, lines: int = 5) -> AuditLog:
    log = AuditLog(tmp_path / "audit.jsonl")
    for i in range(lines):
        pay(ledger, f"k{i}")
        log.write("anna", "analyst", "asked", {"query": f"age < {i}"}, ledger.receipt(), is_paid=i % 2 == 0)
    return log


def test_a_whole_log_verifies_and_pages(tmp_path, ledger):
    log = filled(tmp_path, ledger)
    assert log.verify(ledger) == 5
    assert [line.number for line in log.newest(limit=2)] == [5, 4]
    assert [line.number for line in log.newest(limit=2, before=4)] == [3, 2]


def test_a_log_may_begin_before_its_ledger(tmp_path, ledger):
    """Lines of a review, before there is a ledger; another writer goes on from them."""
    AuditLog(tmp_path / "audit.jsonl").write("stella", "steward", "confirmed a column", {}, BEFORE_LEDGER)
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("stella", "steward", "dropped a column", {}, BEFORE_LEDGER)
    log.write("anna", "analyst", "asked", {}, ledger.receipt())
    assert log.verify(ledger) == 3


def test_two_writers_share_one_chain(tmp_path, ledger):
    first, second = filled(tmp_path, ledger), AuditLog(tmp_path / "audit.jsonl")
    for log in (second, first, second):
        log.write("bert", "analyst", "asked", {}, ledger.receipt())
    assert first.verify(ledger) == 8


def test_lines_of_many_threads_verify_whoever_read_the_ledger_first(tmp_path, ledger):
    log, early = AuditLog(tmp_path / "audit.jsonl"), ledger.receipt()
    pay(ledger, "k")
    log.write("anna", "analyst", "asked", {}, ledger.receipt())
    log.write("bert", "analyst", "asked", {}, early)  # read before, written after
    together = threading.Barrier(8)

    def work(number: int) -> None:
        together.wait()
        for i in range(5):
            receipt = ledger.receipt()
            pay(ledger, f"k{number}-{i}")
            log.write("anna", "analyst", "asked", {"i": i}, receipt, is_paid=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.verify(ledger) == 42


def test_lines_that_wait_for_the_disk_share_one_wait(tmp_path, ledger, monkeypatch):
    log, receipt = AuditLog(tmp_path / "audit.jsonl"), ledger.receipt()
    waiting, go, waits, sync = threading.Event(), threading.Event(), list[int](), os.fdatasync

    def slow(handle: int) -> None:
        waits.append(handle)
        waiting.set()
        assert go.wait(30)
        sync(handle)

    monkeypatch.setattr(os, "fdatasync", slow)

    def write() -> None:
        log.write("anna", "analyst", "asked", {}, receipt, is_paid=True)

    threads = [threading.Thread(target=write) for _ in range(10)]
    threads[0].start()
    assert waiting.wait(30)
    for thread in threads[1:]:
        thread.start()
    while len((tmp_path / "audit.jsonl").read_bytes().splitlines()) < 10:
        pass
    go.set()
    for thread in threads:
        thread.join()
    assert len(waits) == 2  # the first line's, and one for all that came meanwhile
    assert log.verify(ledger) == 10


def test_a_disk_that_takes_half_a_line_is_said_and_the_next_line_is_whole(tmp_path, ledger, monkeypatch):
    log, write = filled(tmp_path, ledger), os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[: len(data) // 2]))
    with pytest.raises(LedgerError, match="No space left"):
        log.write("anna", "analyst", "asked", {}, ledger.receipt())
    monkeypatch.undo()
    log.write("anna", "analyst", "asked", {}, ledger.receipt())
    assert log.verify(ledger) == 6


def test_the_longest_line_is_found_again_by_the_next_process(tmp_path, ledger):
    longest = {"where": ["\u20ac" * (64 * 1024 // 2)]}  # six characters here for three bytes of a request
    filled(tmp_path, ledger).write("stella", "steward", "started a release", longest, ledger.receipt())
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("anna", "analyst", "asked", {}, ledger.receipt())
    assert log.verify(ledger) == 7


def test_a_line_that_a_crash_cut_short_is_dropped(tmp_path, ledger):
    filled(tmp_path, ledger)
    with (tmp_path / "audit.jsonl").open("ab") as stream:
        stream.write(b'{"number": 6, "when": "20')
    log = AuditLog(tmp_path / "audit.jsonl")
    log.write("anna", "analyst", "asked", {}, ledger.receipt())
    assert log.verify(ledger) == 6


def edit_text(lines):
    lines[1] = lines[1].replace(b"age < 1", b"age < 9")


def cut_middle(lines):
    del lines[2]


def swap(lines):
    lines[1], lines[2] = lines[2], lines[1]


def cut_start(lines):
    del lines[0]


def other_ledger(lines):
    """Written again from the edit on, as somebody would who knows how; the ledger still knows better."""
    from maquette.web import audit

    fields = json.loads(lines[-1])
    fields["ledger"] = f"{fields['ledger'].split(':')[0]}:{'ab' * 32}"
    fields["head"] = audit._head(fields)
    lines[-1] = json.dumps(fields).encode() + b"\n"


@pytest.mark.parametrize("change", [edit_text, cut_middle, swap, cut_start, other_ledger])
def test_edits_are_found(tmp_path, ledger, change):
    log = filled(tmp_path, ledger)
    path = tmp_path / "audit.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))
    with pytest.raises(LedgerError):
        log.verify(ledger)


def test_a_restored_old_ledger_is_noticed_by_its_witness(tmp_path):
    ledger = create(tmp_path / "a.ledger")
    pay(ledger, "k0")
    ledger.close()
    old = (tmp_path / "a.ledger").read_bytes()
    receipt = (tmp_path / "a.ledger.receipt").read_bytes()
    from maquette.accounting.ledger import Ledger

    ledger = Ledger.open(tmp_path / "a.ledger")
    witness = Witness(tmp_path / "elsewhere")
    witness.check(ledger)
    pay(ledger, "k1")
    witness.write(ledger.receipt())
    witness.check(ledger)
    ledger.close()
    for path in tmp_path.glob("a.ledger-*"):
        path.unlink()
    (tmp_path / "a.ledger").write_bytes(old)
    (tmp_path / "a.ledger.receipt").write_bytes(receipt)  # the whole folder is from the backup
    restored = Ledger.open(tmp_path / "a.ledger")
    with pytest.raises(LedgerError, match="old copy"):
        Witness(tmp_path / "elsewhere").check(restored)


def test_a_damaged_witness_is_no_excuse(tmp_path, ledger):
    (tmp_path / "elsewhere").write_text("nothing")
    with pytest.raises(LedgerError, match="cannot be read"):
        Witness(tmp_path / "elsewhere").check(ledger)
