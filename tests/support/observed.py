"""Everything that an observer sees of two neighbouring tables, in worlds where a ledger refuses and a store fails.

*A.* Both tables get the same draws. Then everything observable is the same: values, errors with their words and
numbers, entries with their dates, stored bytes, what a repeated call costs. A look takes the longer the more records
there are. *B.* A call that is refused has looked at nothing since the last answer that was stored, and used no random
bits; a third run on the first table with other draws is refused in the same words. What was seen and could not be
stored is kept: the same call again looks at nothing. A look that was lost with its process is charged again.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget, Cost
from maquette.core.inversion import SystemBits
from maquette.core.ledger import create
from maquette.core.ledger import ledger as ledger_module
from maquette.core.ledger.create import Identity
from maquette.core.ledger.entry import driver
from maquette.core.ledger.store import MemoryStore
from maquette.core.measurement import pack
from maquette.domain import Relation
from maquette.errors import MaquetteError
from maquette.owner import Table
from support.gate_moves import Draw
from support.gate_world import DOMAIN, Rows, Tape, TapedCurator, TapedEngine, neighbouring_rows, shown
from support.privacy_doubles import Divergence, set_aside

KEY = "fuzz"
STEP = timedelta(seconds=2)
"""From one call to the next, however long a look takes."""
LOOK = timedelta(milliseconds=13)
"""What a look takes for each record."""


class Clock:
    """The time of one observed ledger; all of them begin at the same moment."""

    now = datetime(2026, 1, 1, tzinfo=UTC)


class _Datetime(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return Clock.now


@contextmanager
def observed_time() -> Iterator[None]:
    """Let the ledger read the clock of the run, and wait for no other process."""
    clocks = [
        module
        for name, module in sys.modules.items()
        if name.startswith("maquette.") and getattr(module, "datetime", None) is datetime
    ]
    patience = getattr(ledger_module, "PATIENCE", None)
    for module in clocks:
        module.datetime = _Datetime  # type: ignore[attr-defined]
    if patience is not None:
        ledger_module.PATIENCE = -1.0  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in clocks:
            module.datetime = datetime  # type: ignore[attr-defined]
        if patience is not None:
            ledger_module.PATIENCE = patience  # type: ignore[attr-defined]


class Killed(BaseException):
    """The process ends in the middle of a look."""


@dataclass
class Fault:
    """What is wrong with the place where a ledger lies; nothing, as it is made."""

    is_read_only: bool = False
    fails_at: int | None = None
    """So many writes from now on."""
    room: int | None = None
    """Bytes of stored answers."""

    def before(self) -> None:
        if self.is_read_only:
            raise sqlite3.OperationalError("attempt to write a readonly database")
        if self.fails_at is not None:
            self.fails_at -= 1
            if self.fails_at == 0:
                raise sqlite3.OperationalError("disk I/O error")

    def after(self, size: int) -> None:
        if self.room is not None and size > self.room:
            raise sqlite3.OperationalError("database or disk is full")


class FaultyStore(MemoryStore):
    """A ledger in memory whose writes fail as they are told to; it says when answers were stored."""

    def __init__(self) -> None:
        super().__init__()
        self.fault = Fault()
        self.written: Callable[[bool], None] = lambda is_answer: None
        self.stored = 0
        self._driver: sqlite3.Connection | None = None

    @contextmanager
    def writing(self) -> Generator[Any]:
        with super().writing() as connection:
            self.fault.before()
            yield connection
            after, size = self._answers(connection)
            self.fault.after(size)
        before, self.stored = self.stored, after
        self.written(after > before)

    def _answers(self, connection: Any) -> tuple[int, int]:
        # by the driver itself: what the harness reads would else take a third of a pair's time
        rows = driver(connection).execute("SELECT count(*), coalesce(sum(length(data)), 0) FROM payload")
        count, size = rows.fetchone()
        return int(count), int(size)

    def read(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows as they are stored now, without a transaction."""
        with self._turn:
            if self._driver is None:
                with self.engine.connect() as connection:
                    self._driver = driver(connection)
            return self._driver.execute(statement, parameters).fetchall()


class BitsOnTape:
    """Words of the operating system, or those that an earlier run got."""

    def __init__(self, tape: ObservedTape) -> None:
        self._tape = tape

    def words(self, count: int) -> Any:
        return self._tape._record("bits", [], lambda: SystemBits().words(count), count=count)


class ObservedTape(Tape):
    """Also its bits are recorded and given back, so that payloads are equal to the last byte."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.bits = BitsOnTape(self)  # type: ignore[assignment]
        self.goes_on = False
        """Are there other draws after those that are given, or none?"""

    def _record(self, kind: str, exact: Any, fresh: Callable[[], Any], **parameters: Any) -> Any:
        if self.goes_on and self.given is not None and len(self.calls) >= len(self.given):
            self.given = None
        return super()._record(kind, exact, fresh, **parameters)


class ObservedEngine(TapedEngine):
    """A look takes time, and something may happen in the middle of it."""

    __slots__ = ("digest", "is_public_size", "meanwhile")

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        return self.digest


def _observed(name: str) -> Callable[..., Any]:
    def method(self: ObservedEngine, *args: Any) -> Any:
        if name == "size" and self.is_public_size:
            return self._rows()  # reading it is no look
        event, self.meanwhile = self.meanwhile, None
        if event is not None:
            event()
        Clock.now += LOOK * self._rows()
        return getattr(super(ObservedEngine, self), name)(*args)

    return method


for _name in ("size", "answer", "margins", "binned", "distinct"):
    setattr(ObservedEngine, _name, _observed(_name))


@dataclass
class Seen:
    """All that an observer sees of one call, and what happened behind the gate."""

    error: tuple[str, str, str] | None
    """Class, words, and numbers that it carries."""
    shown: str
    entries: list[tuple[Any, ...]]
    public: str
    draws: list[Draw] = field(repr=False)
    unstored: int
    """Looks and draws since the last stored answer."""
    charged: int
    touched: int
    is_killed: bool = False

    @property
    def observable(self) -> tuple[Any, ...]:
        return self.error, self.shown, self.entries, self.public

    def __str__(self) -> str:
        return "answered" if self.error is None else f"{self.error[0]}({self.error[1]!r}) {self.error[2]}"


Call = Callable[["Watched"], Any]


_MADE: dict[Any, FaultyStore] = {}


class Watched:
    """One table with its ledger, curator and clock: what is asked of it, and what is seen then."""

    is_opened_by_itself = False
    """Does whatever is asked make its own envelope?"""

    def __init__(
        self, rows: Rows, relation: Relation, budgets: tuple[Budget, Budget], tape: ObservedTape
    ) -> None:
        whole, self.budget = budgets
        columns = {
            name: np.array([row[i] for row in rows], dtype=np.uint64 if name == "huge" else np.uint8)
            for i, name in enumerate(DOMAIN.columns)
        }
        self.engine = ObservedEngine(DOMAIN, columns)
        self.engine.meanwhile, self.engine.tape, self.engine.digest = None, tape, "one for all"
        self.engine.is_public_size = relation is Relation.REPLACE_ONE
        self.tape = tape
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        Clock.now = self.time
        self.store = FaultyStore()
        self.store.written = self._mark
        self._fill(whole, relation)
        self.ledger = Ledger(self.store)
        self.table = Table(self.engine, name="fuzz", source="test")
        self.asked: Any = None
        self.start()
        self._at_store = (0, 0)
        self._seen = self._read(0)[0][1]

    def _fill(self, whole: Budget, relation: Relation) -> None:
        """A new ledger with an envelope: the copy of one that was made before, because a new one takes long to make."""
        made = (whole, self.budget, relation, self.is_opened_by_itself)
        if made not in _MADE:
            _MADE[made] = FaultyStore()
            create.create(_MADE[made], Identity("tiny", whole, relation, DOMAIN.fingerprint))
            if not self.is_opened_by_itself:
                set_aside(Ledger(_MADE[made]), KEY, self.budget)
        with _MADE[made].reading() as old, self.store.engine.connect() as new:
            driver(old).backup(driver(new))
        self.store.stored = _MADE[made].stored

    @property
    def key(self) -> str:
        """Of the envelope."""
        return KEY

    def stop(self) -> None: ...

    @property
    def stored_bytes(self) -> int:
        """What the answers take that are stored now."""
        with self.store.reading() as connection:
            return self.store._answers(connection)[1]

    def start(self) -> None:
        """A process that opens the table and its ledger."""
        self.asked = TapedCurator(self.table, self.ledger, key=KEY, budget=self.budget, noise=self.tape)

    def restart(self) -> None:
        """Another process after the end of this one: it knows what the ledger holds and nothing else."""
        rates = {
            name: getattr(self.ledger, name) for name in ("_rates", "_paces") if hasattr(self.ledger, name)
        }
        self.ledger = Ledger(self.store)
        for name, value in rates.items():
            setattr(self.ledger, name, value)
        self.start()

    @property
    def other_process(self) -> Ledger:
        """The same ledger as another process has it."""
        return Ledger(self.store)

    def take_step(self, ahead: int = 0) -> Any:
        """Another process takes a step of the envelope, the next one or one further on."""
        foreign_step(self.other_process, self.asked._step + ahead)

    def _mark(self, is_answer: bool) -> None:
        """Something was written. The next step of the same call is dated as if the look before had taken no time."""
        Clock.now = self.time
        if is_answer:
            self._at_store = (self.engine.touched, len(self.tape.calls))

    def do(self, call: Call, given: list[Draw] | None, *, goes_on: bool = False) -> Seen:
        """One call, two seconds after the one before."""
        self.tape.start(given)
        self.tape.goes_on = goes_on
        self.time += STEP
        Clock.now = self.time
        before = self.engine.touched
        self._at_store = (before, 0)
        error, result, is_killed = None, None, False
        try:
            result = call(self)
        except Divergence:
            raise
        except Killed:
            is_killed = True
            self.restart()
        except MaquetteError as caught:
            numbers = {n: v for n, v in sorted(vars(caught).items()) if not n.startswith("_")}
            error = (type(caught).__name__, str(caught), shown(numbers))
        except Exception as caught:
            raise AssertionError(f"{type(caught).__name__}({caught}) is no error of this package") from caught
        self.engine.meanwhile = None
        unstored = self.engine.touched - self._at_store[0] + len(self.tape.calls) - self._at_store[1]
        account, entries = self._read(self._seen)
        self._seen = account[1]
        return Seen(
            error,
            shown(result),
            entries,
            repr(account) + self.public,
            list(self.tape.calls),
            unstored,
            sum(units for kind, units, *_ in entries if kind == "reserve"),
            self.engine.touched - before,
            is_killed,
        )

    def _read(self, after: int) -> tuple[tuple[int, ...], list[tuple[Any, ...]]]:
        """The account, and every entry since one: all but the chain and the random blinds of envelopes in it."""
        (account,) = self.store.read("SELECT spent, seq, slack_spent, total FROM account")
        rows = self.store.read(_ENTRIES, after)
        return account, [(*row[:-1], _BLIND.sub("", row[-1])) for row in rows]

    @property
    def public(self) -> str:
        """Every public attribute of what is asked."""
        names = [n for n in dir(self.asked) if n[0] != "_" and n not in ("domain", "receipt", "rules")]
        return repr([(n, _attribute(self.asked, n)) for n in names])


def _attribute(asked: Any, name: str) -> str | None:
    """Its value, or why it cannot be told; None for a method."""
    try:
        value = getattr(asked, name)
    except MaquetteError as error:
        return f"{type(error).__name__}({error})"
    return None if callable(value) else shown(value)


_ENTRIES = (
    "SELECT kind, units, slack, key, parent, tag, request, envelope, payload_sha256, created, body "
    "FROM entry WHERE seq > ? ORDER BY seq"
)
_BLIND = re.compile('"blind":"[0-9a-f]+"')


def foreign_step(ledger: Ledger, number: int) -> None:
    """Another process takes a step of the envelope."""
    ledger.record(
        f"{KEY}/{number:04d}",
        request="f" * 64,
        tag="note",
        cost=Cost(0),
        body={"ask": "note"},
        payload=pack([]),
        parent=KEY,
    )


class Trio:
    """Two neighbouring tables, and the first of them once more with other draws where it was refused."""

    def __init__(self, seed: int, budgets: tuple[Budget, Budget], watched: Any = None) -> None:
        self.rng = np.random.default_rng([seed, 3])
        self.relation = list(Relation)[int(self.rng.integers(2))]
        one, other = neighbouring_rows(self.rng, self.relation)
        self.sides = [
            (watched or Watched)(rows, self.relation, budgets, ObservedTape(np.random.default_rng([seed, i])))
            for i, rows in enumerate((one, other, one))
        ]
        self.calls = 0

    def do(self, name: str, call: Call) -> Seen:
        """The same call to all; AssertionError where an observer could tell them apart."""
        first, second, third = self.sides
        self.calls += 1
        one = first.do(call, None)
        other = second.do(call, one.draws)
        # a refusal follows from what is stored: what would have been drawn after it cannot matter
        again = third.do(call, one.draws, goes_on=one.error is not None and not one.unstored)
        if one.observable != other.observable:
            raise Divergence(f"{name}: {_first_difference(one, other)}")
        if one.error is not None and again.error != one.error:
            raise Divergence(f"{name}: with other noise on the same table {again}, and {one} before")
        if again.observable != one.observable:
            raise Divergence(f"{name}: run again, {_first_difference(one, again)}")
        return one


def _first_difference(one: Seen, other: Seen) -> str:
    for name, a, b in zip(
        ("error", "result", "entries", "public"), one.observable, other.observable, strict=True
    ):
        if a != b:
            return f"another {name}: {a} on one table, {b} on its neighbour"
    return "no difference"
