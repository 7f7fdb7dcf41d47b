"""The application: routes, refusals and guards put together. `public_site` is the one without any table behind it."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from maquette._version import __version__
from maquette.errors import MaquetteError, RateExceeded
from maquette.web import site
from maquette.web.explore import Catalog
from maquette.web.link import WorkerGone
from maquette.web.pace import VISITOR_REQUESTS, Pace, sender
from maquette.web.pages import (
    STATIC,
    Frame,
    FrameOf,
    problem,
    redirect,
    refusal,
    refuse_haste,
    status_of,
    words_of,
)
from maquette.web.server import Guard
from maquette.web.service import Service

if TYPE_CHECKING:
    from starlette.types import ASGIApp

HEALTH = "/healthz"
LOCAL = ("127.0.0.1", "localhost", "[::1]")
log = logging.getLogger("maquette.web")


def public_site(
    catalog: Catalog,
    *,
    title: str = "maquette",
    hosts: Sequence[str] = LOCAL,
    proxies: Sequence[str] = (),
    requests_per_minute: int = VISITOR_REQUESTS,
) -> FastAPI:
    """Releases for everybody: no sign-in, no table, no ledger, nothing that could be spent.

    One address may send `requests_per_minute`; `proxies` are believed when they say which address that is.
    """
    names, visitors = catalog.names(), Pace()
    frame = Frame(title, (("Releases", "/releases"),))

    async def count_request(request: Request) -> int:
        return visitors.count(sender(request, proxies), requests_per_minute)

    app = bare(frame_of=lambda _: frame, count_request=count_request, title=title, hosts=hosts)
    app.state.catalog = catalog
    app.state.visible_releases = lambda _request: names
    app.include_router(site.router)

    @app.get("/", include_in_schema=False)
    def start() -> Response:
        return redirect("/releases" if len(names) != 1 else f"/r/{names[0]}")

    return app


LINKS = (("Tables", "/"), ("Releases", "/releases"))
STEWARD_LINKS = (*LINKS, ("Jobs", "/jobs"), ("People", "/people"))


def service_site(service: Service) -> FastAPI:
    """Tables, questions, releases and jobs, for people who are signed in."""
    from maquette.web import access, api, asking, domains, steward

    settings = service.config.settings

    def frame_of(request: Request) -> Frame:
        session = access.browser_session(request)
        if session is None:
            return Frame(settings.title)
        links = STEWARD_LINKS if session.person.is_steward else LINKS
        return Frame(settings.title, links, session.person.name, session.person.role, session.csrf)

    proxy = () if settings.proxy is None else (settings.proxy.header,)
    app = bare(
        frame_of=frame_of,
        count_request=access.count_request,
        title=settings.title,
        hosts=(*LOCAL, settings.host, *settings.hosts),
        is_secure=service.config.is_secure,
        tick=settings.tick_milliseconds / 1000,
        identifying=proxy,
    )
    app.state.service = service
    app.state.catalog = service.catalog
    app.state.visible_releases = lambda request: service.visible_releases(access.signed_in(request))
    app.add_exception_handler(access.SignInFirst, lambda request, _: access.to_sign_in(request))
    for part in (api, access, asking, steward, domains, site):
        app.include_router(part.router)
    app.include_router(api.operations)

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    def description() -> dict[str, Any]:
        return app.openapi()

    @app.get("/readyz", include_in_schema=False)
    def ready() -> Response:
        is_ready = service.is_ready()
        return JSONResponse({"status": "ready" if is_ready else "waiting"}, 200 if is_ready else 503)

    return app


CountRequest = Callable[[Request], Awaitable[int]]
"""Counts a request for whoever it is from; the seconds that are left to wait, 0 if it may go on."""


class Guarded(FastAPI):
    """An application inside its guard, which is the outermost layer: its headers are on the reply to a failure too."""

    def __init__(self, *, title: str, **guard: Any) -> None:
        super().__init__(
            title=title,
            version=__version__,
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            dependencies=[Depends(keep_pace)],
        )
        self._guard = guard

    def build_middleware_stack(self) -> ASGIApp:
        return Guard(super().build_middleware_stack(), **self._guard)


async def keep_pace(request: Request) -> None:
    """Refuse who asks faster than they may. Every route does this first, and once; being alive is told to anybody."""
    if request.url.path != HEALTH:
        refuse_haste(await request.app.state.count_request(request))


def bare(
    *, frame_of: FrameOf, count_request: CountRequest, title: str, hosts: Sequence[str], **guard: Any
) -> FastAPI:
    """An application with guards, style sheets, health and refusals, and no pages yet. `guard` is for `Guard`."""
    app = Guarded(title=title, hosts=tuple(hosts), **guard)
    app.state.frame_of = frame_of
    app.state.count_request = count_request
    files = StaticFiles(directory=STATIC)

    @app.api_route("/static/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def static(request: Request, path: str) -> Response:
        return await files.get_response(path, request.scope)

    @app.get(HEALTH, include_in_schema=False)
    def health() -> dict[str, str]:
        return {"status": "alive"}

    app.add_exception_handler(MaquetteError, on_refusal)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_bad_request)
    app.add_exception_handler(Exception, on_failure)
    return app


def on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, MaquetteError)
    numbers = {
        name: getattr(error, name) for name in ("unit", "needed", "left", "error") if hasattr(error, name)
    }
    response = refuse(request, status_of(error), words_of(error), kind=type(error).__name__, **numbers)
    if isinstance(error, (RateExceeded, WorkerGone)):
        response.headers["retry-after"] = str(max(math.ceil(getattr(error, "seconds", 1)), 1))
    return response


def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = refuse(request, error.status_code, str(error.detail))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def on_bad_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first: Any = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:])
    return refuse(request, 422, f"{place or 'the request'}: {first['msg']}")


def on_failure(request: Request, error: Exception) -> Response:
    """An error that nobody foresaw: its text may quote anything, so that only its kind is logged."""
    log.error("internal error: %s in %s", type(error).__name__, request.scope.get("route"))
    return refuse(request, 500, "internal error; what was paid is stored")


def refuse(request: Request, status: int, why: str, **numbers: Any) -> Response:
    """A refusal as a page, or as problem+json under /api/; its words are cut where they quote a long request."""
    why = str(MaquetteError(why))
    if request.url.path.startswith("/api/"):
        return problem(status, why, **numbers)
    return refusal(request, status, why)
