"""Refusals of the HTTP interface: problem+json (RFC 9457), without a value of any table."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse


def problem(status: int, detail: str, **more: Any) -> JSONResponse:
    """One refusal: what kind it is, and what to do about it."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail} | more
    return JSONResponse(body, status_code=status, media_type="application/problem+json")
