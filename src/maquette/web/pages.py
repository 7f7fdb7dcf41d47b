"""Pages out of templates, where every value is escaped and one that is missing is an error; and refusals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException

from maquette import __version__
from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    LedgerError,
    MaquetteError,
    RateExceeded,
    ReleaseError,
    SourceError,
)
from maquette.results import report, wording
from maquette.web import charts, plain
from maquette.web.link import WorkerFailed, WorkerGone

if TYPE_CHECKING:
    from jinja2 import Environment, Template

STATIC = Path(__file__).parent / "static"
log = logging.getLogger("maquette.web")


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page shows around its content: the title of the site, its links, who is signed in."""

    title: str
    links: tuple[tuple[str, str], ...] = ()
    person: str | None = None
    role: str | None = None
    csrf: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


FrameOf = Callable[[Request], Frame]


def page(
    request: Request,
    template_name: str,
    /,
    *,
    problem: str | None = None,
    status: int | None = None,
    **values: Any,
) -> HTMLResponse:
    """A page by the name of its template; one that says what did not work has status 400 unless another is given."""
    frame: Frame = request.app.state.frame_of(request)
    text = template(template_name).render(frame=frame, path=request.url.path, problem=problem, **values)
    return HTMLResponse(text, status_code=status or (200 if problem is None else 400))


def redirect(path: str) -> RedirectResponse:
    """To another page, which the browser then gets."""
    return RedirectResponse(path, status_code=303)


def refusal(request: Request, status: int, why: str) -> HTMLResponse:
    """A page that says what did not work and what to do."""
    return page(request, "refusal.html.j2", status=status, why=why, code=status)


@lru_cache(maxsize=64)
def template(name: str) -> Template:
    return _environment().get_template(name)


def day(seconds: int) -> str:
    """A moment as a day (UTC)."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = report.environment("maquette.web")
    environment.globals.update(version=__version__, wording=wording, charts=charts, plain=plain)
    environment.filters.update(
        points=wording.points, day=day, percent=wording.percent, chance=wording.chance, big=wording.big
    )
    return environment


# Refusals: their status, what a reader sees of them, and problem+json (RFC 9457). Without a value of any
# table.


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


def refuse_haste(seconds: int, what: str = "requests") -> None:
    """Refuse who has to wait so many whole seconds; 0 goes on."""
    if seconds:
        raise HTTPException(429, f"too many {what}; wait {seconds} s", {"retry-after": str(seconds)})


def problem(status: int, detail: str, **more: Any) -> JSONResponse:
    """One refusal: what kind it is, and what to do about it."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail} | more
    return JSONResponse(body, status_code=status, media_type="application/problem+json")
