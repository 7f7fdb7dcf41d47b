"""Refusals: their status, what a reader sees of them, and problem+json (RFC 9457). Without a value of any table."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse

from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    LedgerError,
    MaquetteError,
    RateExceeded,
    ReleaseError,
    SourceError,
)
from maquette.web.protocol import WorkerFailed, WorkerGone

log = logging.getLogger("maquette.web")


class Missing(MaquetteError):
    """It is not there, or not for this person."""


class Forbidden(MaquetteError):
    """It is there, and this person may not do it."""


STATUS: tuple[tuple[type[MaquetteError], int], ...] = (
    (BudgetExceeded, 402),
    (RateExceeded, 429),
    (KeyReused, 422),
    (Forbidden, 403),
    (Missing, 404),
    (ReleaseError, 404),
    (LedgerError, 503),
    (SourceError, 503),
    (WorkerGone, 503),
    (WorkerFailed, 500),
)


def status_of(error: MaquetteError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 400)


def words_of(error: MaquetteError) -> str:
    """What a reader sees. What a ledger or the table says names files and keys: for the steward's log."""
    what = next((name for kind, name in _HIDDEN if isinstance(error, kind)), None)
    if what is None or status_of(error) != 503:
        return str(error)
    log.error("%s: %s", what, error)
    return f"the {what} cannot be used at the moment; what was paid is stored. Tell the steward"


_HIDDEN = ((LedgerError, "ledger"), (SourceError, "table"))


def problem(status: int, detail: str, **more: Any) -> JSONResponse:
    """One refusal: what kind it is, and what to do about it."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail} | more
    return JSONResponse(body, status_code=status, media_type="application/problem+json")
