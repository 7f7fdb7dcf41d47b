"""Group commit: threads that wait for the disk share one transaction.

A caller puts its work in the queue. The first one leads: it commits up to 64 pieces of work together,
wakes those whose work is done, and hands the lead to the next that still waits. While a leader waits for
the disk, the others queue up; so the busier a ledger is, the more charges share a commit. There is no
thread to start or stop and nothing to flush.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from maquette.core.errors import LedgerError, MaquetteError
from maquette.core.ledger import create
from maquette.core.ledger.store import Store
from maquette.core.ledger.transaction import Transaction
from maquette.core.ledger.verify import check_opening

T = TypeVar("T")
GROUP = 64
"""The most pieces of work in one transaction."""


@dataclass(eq=False)
class _Job(Generic[T]):
    """One piece of work and what became of it."""

    work: Callable[[Transaction], T]
    keys: tuple[str, ...]
    done: bool = False
    leads: bool = False
    turn: threading.Event = field(default_factory=threading.Event)
    """Set when the work is done or this caller has to lead."""
    _result: list[T] = field(default_factory=list[T])
    _error: MaquetteError | None = None

    def attempt(self, transaction: Transaction) -> None:
        """Do the work in a transaction that is not yet durable; nobody looks before `done`."""
        self._result, self._error = [], None
        try:
            self._result.append(self.work(transaction))
        except MaquetteError as error:
            self._error = error

    def finish(self) -> None:
        self.done = True
        self.turn.set()

    def fail(self, error: MaquetteError) -> None:
        self._error = error
        self.finish()

    def result(self) -> T:
        if self._error is not None:
            raise self._error from None
        return self._result[0]


class Writer:
    """The one place of a process that writes to a ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mutex = threading.Lock()
        self._queue: deque[_Job[Any]] = deque()
        self._led = False
        self._schema_version: int | None = None
        """The version of the database's schema that was found in order."""

    def submit(self, work: Callable[[Transaction], T], *, keys: tuple[str, ...] = ()) -> T:
        """Run the work, which asks for `keys`, in a transaction; its result is durable when this returns."""
        job = _Job(work, keys)
        try:
            with self._mutex:
                self._queue.append(job)
                if not self._led:
                    self._lead(job)
            job.turn.wait()
            if not job.done:
                self._commit_some()
        finally:
            self._leave(job)
        return job.result()

    def _leave(self, job: _Job[Any]) -> None:
        """Hand on the lead. Work that was interrupted before its turn is dropped."""
        with self._mutex:
            if job in self._queue:
                self._queue.remove(job)
            if job.leads:
                self._led = False
                if self._queue:
                    self._lead(self._queue[0])

    def _lead(self, job: _Job[Any]) -> None:
        job.leads = self._led = True
        job.turn.set()

    def _commit_some(self) -> None:
        with self._mutex:
            batch = [self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))]
        try:
            self._commit(batch)
        except LedgerError as error:
            self._commit_singly(batch, error)
        finally:
            for job in batch:
                if not job.done:  # an interrupt: the commit may or may not have happened
                    job.fail(
                        LedgerError("the ledger was interrupted while writing; ask again with the same key")
                    )

    def _commit_singly(self, batch: list[_Job[Any]], error: LedgerError) -> None:
        """Let no request suffer from another's, such as an answer too large for the disk."""
        if len(batch) == 1:
            batch[0].fail(error)
            return
        for job in batch:
            try:
                self._commit([job])
            except LedgerError as own:
                job.fail(own)

    def _commit(self, batch: list[_Job[Any]]) -> None:
        with self._store.turn() as state:
            with self._store.writing() as connection:
                version = self._store.schema_version(connection)
                if version != self._schema_version:
                    create.check_schema(connection, location=self._store.location)
                    check_opening(connection, location=self._store.location)
                    self._schema_version = version
                keys = (key for job in batch for key in job.keys)
                transaction = Transaction(connection, keys, state=state, location=self._store.location)
                for job in batch:
                    job.attempt(transaction)
                if transaction.dirty:
                    transaction.finish()
            reached = transaction.reached
            if state is None or state.end != reached.end:  # before anybody acts on what was written
                self._store.keep(reached if state is None else state.followed_by(reached))
        for job in batch:
            job.finish()
