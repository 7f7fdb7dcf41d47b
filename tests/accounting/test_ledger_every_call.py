"""A ledger's files as they lie between any two calls that write: opened, each is as before the request or as after it.

The state machine of the ledger runs with a hook at every SQL statement, commit, write, fsync, open and rename. There
the files are copied as a killed process would leave them: the log also cut off within what was just appended, the
receipt also written in part. Each copy is opened as by the next process.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, run_state_machine_as_test
from sqlalchemy import Engine, event

from accounting.test_ledger_machine import LedgerMachine, Model, _settings
from maquette.accounting.ledger import Ledger
from maquette.core.ledger.receipts import SLOT, ReceiptFile
from maquette.core.ledger.transaction import Transaction
from maquette.core.ledger.writer import Writer
from support.ledger_cases import create, pay

pytestmark = pytest.mark.law

CALLS = ("open", "pwrite", "fsync", "fdatasync", "ftruncate", "link", "unlink", "rename", "replace")
STATEMENTS = ("before_cursor_execute", "after_cursor_execute", "commit", "rollback")
LOG = "-wal"

Files = dict[str, bytes]


class Watch:
    """Copies the files of a folder at every call, each different state once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states: list[Files] = []
        self.last: Files = {}
        self.calls = 0
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Watch:
        for name in (one for one in CALLS if hasattr(os, one)):
            real = getattr(os, name)
            setattr(os, name, self._around(name, real))
            self._undo.append(lambda name=name, real=real: setattr(os, name, real))
        for name in STATEMENTS:
            event.listen(Engine, name, self._take)
            self._undo.append(lambda name=name: event.remove(Engine, name, self._take))
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()

    def _around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            self._take()
            if name == "pwrite":  # a write may end on its way
                handle, data, place = args
                for part in (100, 4096):
                    real(handle, data[:part], place)
                    self._take()
            done = real(*args, **named)
            self._take()
            return done

        return called

    def _take(self, *_: object, **__: object) -> None:
        self.calls += 1
        now = {
            path.name: path.read_bytes()
            for path in self.folder.iterdir()
            if path.is_file() and not path.name.endswith("-shm")
        }
        if now == self.last:
            return
        for name, data in now.items():
            before = self.last.get(name, b"")
            if name.endswith(LOG) and len(data) > len(before):
                added = len(data) - len(before)
                self.states += [now | {name: data[: len(before) + part]} for part in (added // 3, added - 1)]
        self.states.append(now)
        self.last = now


class EveryCallMachine(LedgerMachine):
    @initialize(total=st.integers(1, 300))
    def start(self, total: int) -> None:
        self._folder = None
        self.location = self.place()
        assert self._folder is not None
        self.watch = Watch(self._folder)
        with self.watch:
            self.ledger = create(self.location, total)
        self.check_beginnings(total)
        self.watch.__enter__()
        self.model, self.before = Model(total), Model(total)
        self.receipts = [self.ledger.receipt()]
        self.dropped = []
        self.count = 0

    def check_beginnings(self, total: int) -> None:
        """A ledger that is being made is whole, or not there and can be made again."""
        for state in self.taken():
            with Copy(state) as place:
                if not place.exists():
                    create(place, total).close()
                with Ledger.open(place) as ledger:
                    assert (ledger.spent_units, ledger.left_units) == (0, total)

    def taken(self) -> list[Files]:
        states, self.watch.states = self.watch.states, []
        return states

    @invariant()
    def every_state_was_that_before_or_after(self) -> None:
        self.watch.__exit__()
        try:
            for state in self.taken():
                with Copy(state) as place, Ledger.open(place) as ledger:
                    self.check_state(ledger)
        finally:
            self.before = copy.deepcopy(self.model)
            self.watch.__enter__()

    def check_state(self, ledger: Ledger) -> None:
        ledger.verify()
        assert ledger.spent_units <= self.model.total
        found = {entry.key: entry for entry in ledger.entries(kind="reserve")}
        assert set(self.before.held) <= set(found) <= set(self.model.held)
        for key, held in self.model.held.items():
            entry, earlier = ledger.find(key), self.before.held.get(key)
            if entry is None:
                assert earlier is None
                continue
            assert entry.units == held.cost
            assert (
                entry.payload == held.answer
                or (earlier is None and entry.payload is None)
                or (earlier is not None and entry.payload == earlier.answer)
            )
            assert entry.settlement is not None or not (earlier is not None and earlier.settled)
            assert entry.settlement is None or held.settled

    def teardown(self) -> None:
        if hasattr(self, "watch"):
            self.watch.__exit__()
        super().teardown()


class Copy:
    """The files of a ledger in a folder of their own, for the next process."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __enter__(self) -> Path:
        self._folder = Path(tempfile.mkdtemp(prefix="mq-copy-"))
        for name, data in self._files.items():
            (self._folder / name).write_bytes(data)
        return self._folder / "survey.ledger"

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)


def quick(examples: int, steps: int) -> settings:
    return settings(
        _settings(examples, steps),
        derandomize=True,
        database=None,
        phases=[p for p in settings().phases if p.name == "generate"],
    )


def test_between_any_two_calls_a_ledger_is_as_before_or_as_after():
    run_state_machine_as_test(EveryCallMachine, settings=_settings(6, 12))


def test_a_request_is_looked_at_from_many_sides(tmp_path):
    with Watch(tmp_path) as watch:
        ledger = create(tmp_path / "survey.ledger")
        made = len(watch.states)
        ledger.answer(pay(ledger, "one").key, b"seen")
        ledger.close()
    assert made >= 3
    assert len(watch.states) - made >= 8
    assert watch.calls >= 30


def _receipt_first(_real: Callable[..., Any]) -> Callable[..., Any]:
    """The receipt of a commit that is still to come: a process that is killed between both has lost its ledger."""

    def broken(self: Any, batch: list[Any]) -> None:
        with self._store.turn() as state, self._store.writing() as connection:
            keys = (key for job in batch for key in job.keys)
            transaction = Transaction(connection, keys, state=state, location=self._store.location)
            for job in batch:
                job.attempt(transaction)
            if transaction.dirty:
                transaction.finish()
            reached = transaction.reached
            self._store.keep(reached if state is None else state.followed_by(reached))
        for job in batch:
            job.finish()

    return broken


def _one_slot(real: Callable[..., Any]) -> Callable[..., Any]:
    """The newest receipt is overwritten where it stands."""

    def broken(self: ReceiptFile, handle: int, state: Any) -> None:
        if self._raw:
            self._newest = SLOT - self._newest
        real(self, handle, state)

    return broken


@pytest.mark.parametrize(
    ("where", "method", "breaks"),
    [(Writer, "_commit", _receipt_first), (ReceiptFile, "write", _one_slot)],
    ids=["the receipt first", "one slot"],
)
def test_it_notices_what_only_a_crash_shows(monkeypatch, where, method, breaks):
    monkeypatch.setattr(where, method, breaks(getattr(where, method)))
    run_state_machine_as_test(LedgerMachine, settings=quick(2, 8))  # whoever is never killed sees nothing
    with pytest.raises(BaseException, match=r"its receipt says|is damaged"):
        run_state_machine_as_test(EveryCallMachine, settings=quick(4, 8))
