"""Real disks that are full or read-only: refused or failed closed, and the next run loses nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_files import Desk, call, call_process, desk, refused
from support.small_disk import fill, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, where this user may mount one; else the other tests of this folder stand in for it."""
    with small_disk(tmp_path / "disk", megabytes=1) as place:
        yield place


@pytest.fixture
def own(tmp_path: Path) -> Desk:
    return desk(tmp_path)


def lock(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


def unlock(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


def test_a_read_only_place_is_refused_before_anything_is_paid(own, disk):
    lock(disk)
    refused(
        own.release("-o", disk / "x.maquette"), "cannot write", "Read-only file system", "nothing was spent"
    )
    assert not own.ledger.exists()


@pytest.mark.slow
def test_a_full_place_keeps_what_was_paid_for(own, disk):
    fill(disk)
    ended = own.release("-o", disk / "x.maquette")
    refused(ended, "cannot write", "No space left on device")
    assert [p.name for p in disk.iterdir()] == ["ballast"]
    spent = own.spent()
    assert own.release().code == 0
    assert own.spent() == max(spent, 1.0)


@pytest.mark.slow
def test_a_ledger_on_a_read_only_disk_pays_nothing(own, disk):
    ledger = disk / "people.ledger"
    assert own.release("--ledger", ledger, "--total-epsilon", 3, by=call_process).code == 0
    spent = call_process("ledger", "show", ledger, "--json").json["spent"]
    lock(disk)
    refused(own.release("--ledger", ledger, "--key", "more", by=call_process), "people.ledger")
    refused(own.release("--ledger", disk / "new.ledger", by=call_process), "new.ledger")
    unlock(disk)
    assert call("ledger", "show", ledger, "--json").json["spent"] == spent
    assert call("ledger", "verify", ledger).code == 0


@pytest.mark.slow
def test_a_ledger_on_a_full_disk_fails_closed(own, disk):
    ledger = disk / "people.ledger"
    assert own.release("--ledger", ledger, "--total-epsilon", 3).code == 0
    before = (own.place / "answers.parquet").read_bytes()
    fill(disk)
    refused(own.release("--ledger", ledger, "--key", "more"), "people.ledger")
    assert (own.place / "answers.parquet").read_bytes() == before
    (disk / "ballast").unlink()
    assert call("ledger", "verify", ledger).code == 0
    assert own.release("--ledger", ledger, "--key", "more").code == 0
    assert call("ledger", "show", ledger, "--json").json["spent"] == pytest.approx(2.0)
