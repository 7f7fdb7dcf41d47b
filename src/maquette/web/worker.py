"""The process that holds one table: opens it, then answers the front over a local socket that only its owner can open.

    python -m maquette.web.worker CONFIG TABLE SOCKET

A front that starts it keeps its standard input open; when that ends, so does the worker. Started by somebody else
(`--alone`), for example under a user of its own, it runs until it is told to end.
"""

from __future__ import annotations

import logging
import os
import signal
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO, cast

from maquette.errors import MaquetteError
from maquette.web import config as configs
from maquette.web import link
from maquette.web.holder import Holder
from maquette.web.keeper import tell_parent
from maquette.web.undeclared import UndeclaredTable, open_holder

SWITCH_SECONDS = 0.001
"""How long one thread may keep the interpreter while others wait: a free answer waits for few of these."""
log = logging.getLogger("maquette.worker")


class Handler(socketserver.StreamRequestHandler):
    """One connection of the front: calls one after another."""

    def handle(self) -> None:
        while True:
            try:
                message = link.receive(cast("BinaryIO", self.rfile))
            except (OSError, ValueError):
                return
            if message is None:
                return
            reply = cast("Server", self.server).answer(message)
            try:
                self.wfile.write(link.pack(reply))
            except OSError:
                return


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A thread for every connection."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, path: str, holder: Holder | UndeclaredTable) -> None:
        self._holder = holder
        super().__init__(path, Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that ended in an unforeseen way: its kind alone, for the text may quote anything."""
        log.error("internal error: %s in a connection", getattr(sys.exc_info()[0], "__name__", "unknown"))

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The result of one call, or why there is none. What an unforeseen error says stays here, unread."""
        try:
            return {"result": self._holder.call(str(message.get("call")), dict(message.get("with") or {}))}
        except MaquetteError as error:
            return {"error": link.pack_error(error)}
        except Exception as error:
            log.error("internal error: %s in call %r", type(error).__name__, str(message.get("call"))[:40])
            return {"error": link.pack_error(error)}


def main(arguments: list[str]) -> int:
    is_alone = "--alone" in arguments
    path, table, place = (one for one in arguments if one != "--alone")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    sys.setswitchinterval(SWITCH_SECONDS)
    if not is_alone:  # whoever starts one alone says who else may read what it writes: see deploy/
        os.umask(0o077)
    try:
        holder = open_holder(configs.load(Path(path)), table)
    except MaquetteError as error:
        tell_parent({"failed": str(error)})
        return error.exit_code
    except Exception as error:
        tell_parent({"failed": f"internal error ({type(error).__name__}) while the table was opened"})
        return 1
    Path(place).unlink(missing_ok=True)
    mask = os.umask(0o117 if is_alone else 0o177)
    server = Server(place, holder)
    os.umask(mask)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    signal.signal(signal.SIGINT, signal.SIG_IGN if not is_alone else signal.default_int_handler)
    if not is_alone:
        threading.Thread(target=_end_with_front, args=(server,), daemon=True).start()
    tell_parent({"ready": table})
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        holder.close()
        Path(place).unlink(missing_ok=True)
    return 0


def _end_with_front(server: Server) -> None:
    while os.read(0, 4096):  # not through sys.stdin, whose lock a thread must not hold when the process ends
        pass
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
