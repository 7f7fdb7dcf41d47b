"""Listening on one address, public only behind TLS; and the guard, which sees every request before the application."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from starlette.exceptions import HTTPException

from maquette.errors import ParameterError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER_SECONDS = 10.0
"""How long a client may take for the head of its first request."""
MAX_HEAD = 64 * 1024
"""Bytes of the head of a request."""
MAX_CONNECTIONS = 1000
"""Connections and requests at one time; more get 503."""
MAX_THREADS = 24
"""Requests that are worked on at one time: enough to wait for disks, few enough not to fight over the interpreter."""


def check_address(host: str, *, behind_tls: bool) -> None:
    """Refuse a public address where nobody said that TLS is in front of it: tokens would be sent unencrypted."""
    if host == "localhost":
        return
    try:
        is_local = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_local = False
    if not is_local and not behind_tls:
        raise ParameterError(
            f"{host} can be reached from other machines, and without TLS tokens and answers would be sent "
            "unencrypted: listen on 127.0.0.1 behind a proxy that speaks TLS, or say that one is there (--behind-tls)"
        )


def run(app: FastAPI, *, host: str, port: int, on_start: Any = None) -> None:
    """Serve until the process is told to end."""
    import anyio.to_thread
    import uvicorn

    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=_patient_for_a_while(),
        ws="none",
        lifespan="off",
        proxy_headers=False,  # the address of a request is that of who connects: see `access.sender`
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        log_level="warning",
    )
    server = uvicorn.Server(config)

    async def serve() -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
        await server.serve()

    async def main() -> None:
        task = asyncio.ensure_future(serve())
        while not server.started and not task.done():
            await asyncio.sleep(0.02)
        if server.started and on_start is not None:
            on_start(server.servers[0].sockets[0].getsockname()[1])
        await task

    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(main())


def _patient_for_a_while() -> Any:
    """The protocol of uvicorn, which drops a client that does not send the head of a request in time, or never ends it.

    On httptools where it is there (it takes half the time of h11 for a request), which knows no longest head by itself.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Base

    class Protocol(Base):  # pyright: ignore[reportGeneralTypeIssues, reportUntypedBaseClass]
        head_bytes = 0
        """What came since the last head was whole; a body, which is read as it comes, is counted by the guard."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.loop.call_later(HEADER_SECONDS, self._drop_if_silent)

        def data_received(self, data: bytes) -> None:
            before = cast("Any", self).cycle
            super().data_received(data)
            cycle = cast("Any", self).cycle
            is_in_head = cycle is before and (cycle is None or cycle.response_complete)
            self.head_bytes = self.head_bytes + len(data) if is_in_head else 0
            if self.head_bytes > MAX_HEAD:
                self.transport.close()

        def _drop_if_silent(self) -> None:
            if cast("Any", self).cycle is None and not self.transport.is_closing():
                self.transport.close()

    return Protocol


def _new_loop() -> Any:
    """The faster event loop where it is there."""
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


# What goes with every reply, and what is refused before a request is read: hosts, sizes, slow senders.


MAX_BODY = 64 * 1024
"""Bytes of a request's body."""
BODY_SECONDS = 15.0
"""How long a sender may take for its body."""
QUESTIONS = ("/ask", "/questions", "/size", "/sql")
"""How the addresses end at which questions are asked."""
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_FIXED = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


COOKIE, SECURE_COOKIE = "maquette", "__Host-maquette"
"""What the cookie of a session is called, without and with TLS."""
ONCE = (
    "host", "authorization", "cookie", "origin", "sec-fetch-site", "content-length", "content-type",
    "idempotency-key", "x-maquette-proxy",
)  # fmt: skip
"""Headers that say who asks, where and for what. Of two nobody could say which one counts: they are refused."""


class Guard:
    """Refuses strange hosts, doubled headers and large or slow bodies; puts the headers of safety on every reply."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Sequence[str],
        is_secure: bool = False,
        tick: float = 0.0,
        identifying: Sequence[str] = (),
    ) -> None:
        """`hosts` are the names that this service answers to; `is_secure` if the way to the browser is TLS.

        `identifying` are further headers that say who asks, of which a request has at most one.

        Replies to questions leave on multiples of `tick` seconds after the question came: how long a look at the table
        took is rounded up to that. It is a stall, not a random delay, which would average out.
        """
        self._app = app
        self._tick = tick
        self._hosts = frozenset(name.lower() for name in hosts)
        self._once = tuple(name.lower() for name in (*ONCE, *identifying))
        self._headers = _FIXED
        if is_secure:
            self._headers = (*_FIXED, (b"strict-transport-security", b"max-age=31536000"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started, started = False, time.monotonic()
        is_ticked = self._tick > 0 and scope["method"] == "POST" and scope["path"].endswith(QUESTIONS)

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                if is_ticked:
                    spent = time.monotonic() - started
                    await asyncio.sleep(math.ceil(spent / self._tick) * self._tick - spent)
                headers = [*message.get("headers", []), *self._headers]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        twice = _doubled(scope["headers"], self._once)
        if twice is not None:
            await _refuse(send_with_headers, 400, f"expected one {twice}, got several; send it once")
            return
        headers = dict(scope["headers"])
        if _host(headers.get(b"host", b"")) not in self._hosts:
            await _refuse(send_with_headers, 421, "this service has another name; see its setting hosts")
            return
        try:
            length = int(headers.get(b"content-length", b"0"))
        except ValueError:
            length = MAX_BODY + 1
        if length > MAX_BODY or length < 0:
            await _refuse(send_with_headers, 413, f"a request takes at most {MAX_BODY:,} bytes")
            return
        try:
            await self._app(scope, _bounded(receive), send_with_headers)
        except Exception:
            # its kind is in the log and its reply was sent; a traceback in the server's log could quote anything
            if not has_started:
                await _refuse(send_with_headers, 500, "internal error")


def _bounded(receive: Receive) -> Receive:
    """The same messages, up to a number of bytes and a time for the body."""
    read, is_whole = 0, False

    async def next_message() -> Message:
        nonlocal read, is_whole
        if is_whole:  # what comes now is the end of the connection, which may take its time
            return await receive()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the request came too slowly", {"connection": "close"}) from None
        if message["type"] == "http.request":
            read += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if read > MAX_BODY:
                raise HTTPException(
                    413, f"a request takes at most {MAX_BODY:,} bytes", {"connection": "close"}
                )
        return message

    return next_message


def _doubled(headers: Sequence[tuple[bytes, bytes]], once: Sequence[str]) -> str | None:
    """The header, or the cookie of ours, that a request has more than once."""
    names = [name.decode("latin-1").lower() for name, _ in headers]
    for name in once:
        if names.count(name) > 1:
            return f"header {name}"
    cookies = next((value.decode("latin-1") for name, value in headers if name.lower() == b"cookie"), "")
    sent = [piece.partition("=")[0].strip() for piece in cookies.split(";")]
    return next((f"cookie {name}" for name in (COOKIE, SECURE_COOKIE) if sent.count(name) > 1), None)


def _host(header: bytes) -> str:
    """The name of a host without its port."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0]


async def _refuse(send: Send, status: int, why: str) -> None:
    import json

    body = json.dumps({"type": "about:blank", "title": why, "status": status}).encode()
    headers: list[Any] = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
