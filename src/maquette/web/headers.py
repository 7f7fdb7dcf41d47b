"""What goes with every reply, and what is refused before a request is read: hosts, sizes, slow senders."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Guard:
    """Refuses strange hosts and large or slow bodies, and puts the headers of safety on every reply."""

    def __init__(
        self, app: ASGIApp, *, hosts: Sequence[str], is_secure: bool = False, tick: float = 0.0
    ) -> None:
        """`hosts` are the names that this service answers to; `is_secure` if the way to the browser is TLS.

        Replies to questions leave on multiples of `tick` seconds after the question came: how long a look at the table
        took is rounded up to that. It is a stall, not a random delay, which would average out.
        """
        self._app = app
        self._tick = tick
        self._hosts = frozenset(name.lower() for name in hosts)
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
