"""Between front and worker: the front starts it, and again when it ends, and asks it over a pool of connections."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO

from maquette import errors
from maquette.errors import BudgetExceeded, MaquetteError, ParameterError, RateExceeded, UselessAnswer

CALL_SECONDS = 300.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Seconds before a worker is started again."""
MAX_CALLS = 8
"""Questions that a worker has at one time: enough to share commits, few enough not to fight over its interpreter. The
others wait in the front, where they take turns."""
WAIT_SECONDS = 5.0
"""How long a question waits for a worker that is being started again."""
log = logging.getLogger("maquette.web")

_Connection = tuple[socket.socket, Any]


class Link:
    """Calls to one worker."""

    def __init__(self, table: str, place: Path) -> None:
        self.table = table
        self._place = str(place)
        self._idle: queue.LifoQueue[_Connection] = queue.LifoQueue()
        self._wires = Wires(self._place)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The result of a call; errors of the library come back as themselves."""
        return _result(self._exchange({"call": name, "with": arguments}))

    async def call_async(self, name: str, /, **arguments: Any) -> Any:
        """The same on an event loop, which goes on meanwhile: no thread waits for the worker."""
        who = str(arguments.get("who", ""))
        return _result(await self._wires.exchange({"call": name, "with": arguments}, who=who))

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """One call on an idle connection, or on a new one. A connection that failed is not used again.

        A call is repeated on another connection only where it was not sent: what a worker may have begun is not begun
        twice by us. (It would do no harm either: the ledger knows keys and questions.)
        """
        connection = self._connect()
        if connection is None:
            return None
        try:
            send(connection[1], message)
            reply = receive(connection[1])
        except (OSError, ValueError):
            reply = None
        if reply is None:
            _close(connection)
            return None
        self._idle.put(connection)
        return reply

    def _connect(self) -> _Connection | None:
        while True:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                return self._new()
            if not _is_closed(connection[0]):
                return connection
            _close(connection)

    def _new(self) -> _Connection | None:
        until = time.monotonic() + WAIT_SECONDS
        while True:
            plug = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            plug.settimeout(CALL_SECONDS)
            try:
                plug.connect(self._place)
            except OSError:
                plug.close()
                if time.monotonic() > until:
                    return None
                time.sleep(0.1)
                continue
            return plug, plug.makefile("rwb")

    def is_ready(self) -> bool:
        """Does something listen?"""
        plug = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            plug.connect(self._place)
            return True
        except OSError:
            return False
        finally:
            plug.close()


_Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Turns:
    """So many at a time. Those who wait are let in person by person: nobody waits for all that one other asks."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By person, the one whose turn is next first."""

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncGenerator[None]:
        """A place for one call of a person."""
        if self._places:
            self._places -= 1
        else:
            await self._wait(who)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, who: str) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was let in just now
                self._leave()
            raise

    def _leave(self) -> None:
        """Hand the place to the next person, who then is behind all others."""
        while self._waiting:
            who = next(iter(self._waiting))
            line = self._waiting.pop(who)
            place = line.popleft()
            if line:
                self._waiting[who] = line
            if not place.done():
                place.set_result(None)
                return
        self._places += 1


class Wires:
    """Connections to one worker for callers on one event loop."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._idle: list[_Wire] = []
        self._turns = Turns(MAX_CALLS)

    async def exchange(self, message: dict[str, Any], *, who: str = "") -> dict[str, Any] | None:
        """One call; None where the worker has gone. A connection that failed, or was left, is not used again."""
        async with self._turns.turn(who):
            wire = await self._connect()
            if wire is None:
                return None
            reply = None
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    wire[1].write(pack(message))
                    reply = unpack(await wire[0].readline())
            except (OSError, ValueError):
                reply = None
            finally:
                if reply is None:
                    wire[1].close()
                else:
                    self._idle.append(wire)
            return reply

    async def _connect(self) -> _Wire | None:
        while self._idle:
            wire = self._idle.pop()
            if not wire[0].at_eof():
                return wire
            wire[1].close()
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return await asyncio.open_unix_connection(self._place, limit=MAX_LINE)
            except OSError:
                if time.monotonic() > until:
                    return None
                await asyncio.sleep(0.1)


class Keeper:
    """Starts the worker of a table and starts it again whenever it ends, until it is stopped."""

    def __init__(self, config: Path, table: str, place: Path) -> None:
        self._command = [sys.executable, "-m", "maquette.web.worker", str(config), table, str(place)]
        self._table = table
        self._mutex = threading.Lock()
        self._is_stopped = threading.Event()
        self._process = self._start()
        self.restarts = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603

    def wait_ready(self) -> None:
        """Until the table is open; ParameterError with the worker's own words if it cannot be."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        words = json.loads(line) if line else {"failed": "its process ended"}
        if "failed" in words:
            self.stop()
            raise ParameterError(f"table '{self._table}': {words['failed']}")
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        """Start it again whenever it ends: at once if it had opened its table, else after longer and longer pauses."""
        pause, was_ready = SHORTEST_PAUSE, True
        while True:
            self._process.wait()
            pause = SHORTEST_PAUSE if was_ready else min(2 * pause, LONGEST_PAUSE)
            if not self._is_stopped.is_set():
                log.warning("the worker of table '%s' ended; it is started again", self._table)
                self._is_stopped.wait(pause)  # outside of the lock: who stops it does not wait for that
            with self._mutex:
                if self._is_stopped.is_set():
                    return
                self._process = self._start()
                self.restarts += 1
            assert self._process.stdout is not None
            was_ready = b'"ready"' in self._process.stdout.readline()

    def stop(self) -> None:
        """End the worker: its input is closed, then it is told."""
        with self._mutex:
            self._is_stopped.set()
            process = self._process
        if process.stdin is not None:
            process.stdin.close()
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def _result(reply: dict[str, Any] | None) -> Any:
    if reply is None:
        raise WorkerGone("the process that holds the table is being started again; ask once more in a moment")
    if "error" in reply:
        raise unpack_error(reply["error"])
    return reply["result"]


def _is_closed(plug: socket.socket) -> bool:
    """Has the other side gone? Nothing is waiting to be read on an idle connection."""
    plug.settimeout(0)
    try:
        return plug.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        plug.settimeout(CALL_SECONDS)


def _close(connection: _Connection) -> None:
    for one in reversed(connection):
        try:
            one.close()
        except OSError:
            continue


# What front and worker say to each other: one JSON object per line over a local socket, and errors by
# name.


MAX_LINE = 16 << 20


class WorkerGone(MaquetteError):
    """The process that holds the table is not there at the moment; it is being started again."""


class WorkerFailed(MaquetteError):
    """The process that holds the table met an error that nobody foresaw. Its text stays there."""


def pack(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=True).encode() + b"\n"


def unpack(line: bytes) -> dict[str, Any] | None:
    """The message of a line; None where the other side has gone."""
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    return message if isinstance(message, dict) else None


def tell_parent(words: dict[str, Any]) -> None:
    """One line to the process that started this one. Where that has gone nobody listens, and this one ends soon too."""
    try:
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # else it is tried once more at the end


def send(stream: BinaryIO, message: dict[str, Any]) -> None:
    stream.write(pack(message))
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None where the other side has gone."""
    return unpack(stream.readline(MAX_LINE))


def pack_error(error: Exception) -> dict[str, Any]:
    """An error of the library with its numbers; of any other only that there was one."""
    if not isinstance(error, MaquetteError):
        return {"kind": "WorkerFailed", "text": "internal error in the process that holds the table"}
    more = {
        name: getattr(error, name)
        for name in ("unit", "needed", "left", "seconds", "error")
        if hasattr(error, name)
    }
    return {"kind": type(error).__name__, "text": str(error), "more": more}


def unpack_error(packed: dict[str, Any]) -> MaquetteError:
    """The same error on the other side."""
    kind, text, more = str(packed.get("kind")), str(packed.get("text")), packed.get("more") or {}
    if kind == "BudgetExceeded":
        return BudgetExceeded(text, unit=more["unit"], needed=more["needed"], left=more["left"])
    if kind == "RateExceeded":
        return RateExceeded(text, seconds=more["seconds"])
    if kind == "UselessAnswer":
        return UselessAnswer(text, error=more["error"])
    known_kind = getattr(errors, kind, None) or {"WorkerGone": WorkerGone}.get(kind, WorkerFailed)
    return known_kind(text)
