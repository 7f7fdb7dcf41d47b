"""Calls to the worker of a table: one JSON object per line over a local socket, errors by name.

Lines and not HTTP: a call takes 0.1 ms of the two processes, one by httpx over the same socket 2.4 ms, and a whole free
answer about 1 ms.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, BinaryIO

from maquette import errors
from maquette.errors import BudgetExceeded, MaquetteError, RateExceeded, UselessAnswer

CALL_SECONDS = 300.0
MAX_CALLS = 8
"""Questions that a worker has at one time: enough to share commits, few enough not to fight over its interpreter. The
others wait in the front, where they take turns."""
MAX_LINE = 16 << 20
WAIT_SECONDS = 5.0
"""How long a question waits for a worker that is being started again."""


class WorkerGone(MaquetteError):
    """The process that holds the table is not there at the moment; it is being started again."""


class WorkerFailed(MaquetteError):
    """The process that holds the table met an error that nobody foresaw. Its text stays there."""


class Link:
    """Calls to one worker.

    What was sent is not sent again, for the worker may have begun it. (It would do no harm: the ledger knows keys and
    questions.)
    """

    def __init__(self, table: str, place: Path) -> None:
        self.table = table
        self._place = str(place)
        self._plugs: list[socket.socket] = []
        self._wires: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._turns = Turns(MAX_CALLS)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The result of a call; errors of the library come back as themselves."""
        return _result(self._exchange({"call": name, "with": arguments}))

    async def call_async(self, name: str, /, **arguments: Any) -> Any:
        """The same on an event loop, which goes on meanwhile: no thread waits for the worker."""
        async with self._turns.turn(str(arguments.get("who", ""))):
            return _result(await self._exchange_async({"call": name, "with": arguments}))

    def is_ready(self) -> bool:
        """Does something listen?"""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as plug:
            try:
                plug.connect(self._place)
            except OSError:
                return False
        return True

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """One call over an idle connection or a new one; None where the worker has gone."""
        plug = self._idle_plug() or self._new_plug()
        if plug is None:
            return None
        reply = None
        try:
            plug.sendall(pack(message))
            with plug.makefile("rb") as stream:
                reply = receive(stream)
        except (OSError, ValueError):
            reply = None
        if reply is None:
            plug.close()
        else:
            self._plugs.append(plug)
        return reply

    def _idle_plug(self) -> socket.socket | None:
        """A connection on which nothing waits to be read: the other side has not gone."""
        with suppress(IndexError):  # of a list that another thread has emptied
            while wait([plug := self._plugs.pop()], timeout=0):
                plug.close()
            return plug
        return None

    def _new_plug(self) -> socket.socket | None:
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
            else:
                return plug

    async def _exchange_async(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The same on an event loop. A connection that failed, or was left by its caller, is not used again."""
        wire = await self._wire()
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
                self._wires.append(wire)
        return reply

    async def _wire(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        while self._wires:
            wire = self._wires.pop()
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


def pack(message: dict[str, Any]) -> bytes:
    """A message as one line."""
    return json.dumps(message, ensure_ascii=True).encode() + b"\n"


def unpack(line: bytes) -> dict[str, Any] | None:
    """The message of a line; None where the other side has gone."""
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    return message if isinstance(message, dict) else None


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None where the other side has gone."""
    return unpack(stream.readline(MAX_LINE))


def _result(reply: dict[str, Any] | None) -> Any:
    if reply is None:
        raise WorkerGone("the process that holds the table is being started again; ask once more in a moment")
    if "error" in reply:
        raise unpack_error(reply["error"])
    return reply["result"]


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
