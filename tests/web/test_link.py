"""The front's side of a worker on an event loop: a worker that is slow, that goes, and a caller that goes."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from maquette.errors import BudgetExceeded
from maquette.web import keeper as keepers
from maquette.web import link as links
from maquette.web.link import Link, WorkerGone

Reply = Callable[[dict[str, Any]], Awaitable[bytes]]


class Worker:
    """Answers each line by a function; counts what is open at a time."""

    def __init__(self, place: Path, reply: Reply) -> None:
        self._place, self._reply = place, reply
        self.open, self.most, self.connections = 0, 0, 0

    async def __aenter__(self) -> Worker:
        self._server = await asyncio.start_unix_server(self._serve, str(self._place))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while line := await reader.readline():
            self.open += 1
            self.most = max(self.most, self.open)
            reply = await self._reply(json.loads(line))
            self.open -= 1
            writer.write(reply)
            if not reply.endswith(b"\n"):
                break
        writer.close()


async def echo(message: dict[str, Any]) -> bytes:
    await asyncio.sleep(0)
    return json.dumps({"result": message["with"]["i"]}).encode() + b"\n"


def run(work: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(bounded())


@pytest.mark.slow
def test_ten_thousand_open_questions_go_over_few_connections_each_to_its_asker(tmp_path):
    async def work() -> tuple[list[int], Worker]:
        async with Worker(tmp_path / "s", echo) as worker:
            link = Link("people", tmp_path / "s")
            return await asyncio.gather(*(link.call_async("ask", i=i) for i in range(10_000))), worker

    results, worker = run(work())
    assert results == list(range(10_000))
    assert worker.most <= worker.connections <= links.MAX_CALLS


WAYS = pytest.mark.parametrize("is_async", [True, False], ids=["on a loop", "in a thread"])


async def ask(link: Link, is_async: bool, **arguments: Any) -> Any:
    """One call, in the way of routes or in that of pages."""
    if is_async:
        return await link.call_async("ask", **arguments)
    return await asyncio.to_thread(link.call, "ask", **arguments)


@WAYS
def test_errors_come_back_as_themselves(tmp_path, is_async):
    async def broke(_: dict[str, Any]) -> bytes:
        more = {"unit": "rho", "needed": 2.0, "left": 1.0}
        return json.dumps({"error": {"kind": "BudgetExceeded", "text": "no", "more": more}}).encode() + b"\n"

    async def work() -> None:
        async with Worker(tmp_path / "s", broke):
            await ask(Link("people", tmp_path / "s"), is_async)

    with pytest.raises(BudgetExceeded, match="no"):
        run(work())


@WAYS
def test_a_worker_that_goes_while_it_is_asked_is_said_and_the_next_call_is_answered(tmp_path, is_async):
    replies = [
        b"",
        b'{"result": 7',
        b"no JSON\n",
        b'{"result": 8}\n',
    ]  # gone; gone in the middle; spoilt; whole

    async def next_reply(_: dict[str, Any]) -> bytes:
        return replies.pop(0)

    async def work() -> list[Any]:
        found: list[Any] = []
        async with Worker(tmp_path / "s", next_reply):
            link = Link("people", tmp_path / "s")
            for _ in range(4):
                try:
                    found.append(await ask(link, is_async))
                except WorkerGone as error:
                    found.append(type(error))
        return found

    assert run(work()) == [WorkerGone, WorkerGone, WorkerGone, 8]


@WAYS
def test_a_reply_that_is_too_long_or_too_late_is_not_waited_for(tmp_path, monkeypatch, is_async):
    async def late(_: dict[str, Any]) -> bytes:
        await asyncio.sleep(1.0)
        return b'{"result": 1}\n'

    async def long(_: dict[str, Any]) -> bytes:
        return b'{"result": "' + b"x" * 2_000 + b'"}\n'

    async def work() -> None:
        for name, reply in (("s", late), ("t", long)):
            async with Worker(tmp_path / name, reply):
                with pytest.raises(WorkerGone):
                    await ask(Link("people", tmp_path / name), is_async)

    monkeypatch.setattr(links, "CALL_SECONDS", 0.2)
    monkeypatch.setattr(links, "MAX_LINE", 1_000)
    run(work())


@WAYS
def test_a_worker_that_is_not_there_is_waited_for_and_then_said(tmp_path, monkeypatch, is_async):
    monkeypatch.setattr(links, "WAIT_SECONDS", 0.3)
    with pytest.raises(WorkerGone, match="started again"):
        run(ask(Link("people", tmp_path / "s"), is_async))

    async def late() -> Any:
        link = Link("people", tmp_path / "t")
        assert not link.is_ready()
        call = asyncio.ensure_future(ask(link, is_async, i=3))
        await asyncio.sleep(0)
        async with Worker(tmp_path / "t", echo):
            assert link.is_ready()
            return await call

    monkeypatch.setattr(links, "WAIT_SECONDS", 30)
    assert run(late()) == 3


def test_the_reply_to_a_caller_who_went_is_read_by_nobody_else(tmp_path):
    async def slow(message: dict[str, Any]) -> bytes:
        await asyncio.sleep(0.2 if message["with"]["i"] == 1 else 0)
        return await echo(message)

    async def work() -> Any:
        async with Worker(tmp_path / "s", slow):
            link = Link("people", tmp_path / "s")
            call = asyncio.ensure_future(link.call_async("ask", i=1))
            await asyncio.sleep(0.05)
            call.cancel()
            return await asyncio.gather(*(link.call_async("ask", i=i) for i in range(2, 5)))

    assert run(work()) == [2, 3, 4]


def test_nobody_waits_for_all_that_another_asks():
    """One person has fifty calls waiting; the single call of another is the second to be let in."""

    async def work() -> list[str]:
        turns, order = links.Turns(1), []

        async def call(who: str) -> None:
            async with turns.turn(who):
                order.append(who)
                await asyncio.sleep(0)

        await asyncio.gather(*(call(who) for who in ["anna"] * 50 + ["bert"]))
        return order

    order = run(work())
    assert order.count("anna") == 50
    assert order.index("bert") <= 2


def test_a_place_is_not_lost_with_a_caller_who_goes():
    """Who goes while waiting leaves the place to the next; who goes when just let in hands it on."""

    async def work() -> int:
        turns, done = links.Turns(1), 0

        async def call() -> None:
            nonlocal done
            async with turns.turn("anna"):
                await asyncio.sleep(0.01)
                done += 1

        calls = [asyncio.ensure_future(call()) for _ in range(6)]
        await asyncio.sleep(0)
        calls[2].cancel()  # waits
        await calls[0]
        calls[1].cancel()  # was let in by the end of the first
        await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.wait_for(call(), 1)
        return done

    assert run(work()) == 5


class Ended:
    """A process that has written a line and ended."""

    pid, stdin = 1, None

    def __init__(self, line: bytes) -> None:
        self.stdout = io.BytesIO(line)

    def wait(self, timeout: float | None = None) -> None:
        return

    def terminate(self) -> None:
        return


def test_a_worker_is_started_again_at_once_unless_it_cannot_open_its_table(tmp_path, monkeypatch):
    ready, failed = b'{"ready": "people"}\n', b'{"failed": "no"}\n'
    lines, pauses = [ready, ready, failed, b"", failed, ready, ready], []
    monkeypatch.setattr(keepers.Keeper, "_start", lambda self: Ended(lines.pop(0)))
    keeper = keepers.Keeper(tmp_path / "serve.toml", "people", tmp_path / "s")
    monkeypatch.setattr(keeper._is_stopped, "wait", pauses.append)
    with pytest.raises(IndexError):  # nothing more is to be started
        keeper._watch()
    assert pauses == [0.1, 0.1, 0.2, 0.4, 0.8, 0.1, 0.1]
    assert keeper.restarts == 6


def test_who_stops_a_worker_does_not_wait_for_the_pause_before_its_next_start(tmp_path, monkeypatch):
    """The pause is a minute here: a lock that is held meanwhile would be seen."""
    starts: list[Ended] = []
    monkeypatch.setattr(keepers.Keeper, "_start", lambda self: starts.append(Ended(b"")) or starts[-1])
    monkeypatch.setattr(keepers, "SHORTEST_PAUSE", 60.0)
    keeper = keepers.Keeper(tmp_path / "serve.toml", "people", tmp_path / "s")
    watch = threading.Thread(target=keeper._watch, daemon=True)
    watch.start()
    time.sleep(0.1)
    stop = threading.Thread(target=keeper.stop, daemon=True)
    stop.start()
    stop.join(20)
    watch.join(20)
    assert (stop.is_alive(), watch.is_alive(), len(starts)) == (False, False, 1)
