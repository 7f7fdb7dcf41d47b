"""What front and worker say to each other: one JSON object per line over a local socket, and errors by name."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from maquette import errors
from maquette.errors import BudgetExceeded, MaquetteError, RateExceeded, UselessAnswer

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
