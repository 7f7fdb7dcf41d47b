"""Listening: uvicorn on one address, which is public only where somebody says that TLS is in front of it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import stat
from typing import TYPE_CHECKING, Any, cast

from maquette.errors import ParameterError

if TYPE_CHECKING:
    from fastapi import FastAPI

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


def only_for_owner(path: Any) -> None:
    """A folder that nobody else may enter."""
    os.makedirs(path, exist_ok=True)
    os.chmod(path, stat.S_IRWXU)
