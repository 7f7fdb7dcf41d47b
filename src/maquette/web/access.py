"""Signing in and out, and who a request is from. Every form brings back the CSRF token of its session."""

from __future__ import annotations

import hmac
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from maquette.web import auth, pace
from maquette.web.auth import BrowserSession, Person
from maquette.web.pages import page, redirect, refuse_haste
from maquette.web.server import COOKIE, SECURE_COOKIE
from maquette.web.service import Service

router = APIRouter(include_in_schema=False)
SIGN_IN = "/login"
"""Not counted before it is known who asks: somebody at the same address must not keep others from signing in. Wrong
tokens are counted by themselves, right ones for their person."""
ADDRESS_FAILURES, TOKEN_FAILURES = 60, 20
"""Wrong tokens per minute: of one address, and of one token from one address."""


class SignInFirst(Exception):
    """A page for people who are signed in."""


def service_of(request: Request) -> Service:
    return request.app.state.service


def sender(request: Request) -> str:
    """The address that a request comes from, as far as it can be believed."""
    return pace.sender(request, service_of(request).config.proxies)


def cookie_name(request: Request) -> str:
    return SECURE_COOKIE if service_of(request).config.is_secure else COOKIE


def browser_session(request: Request) -> BrowserSession | None:
    """The signed-in browser of a request, or the person that a trusted proxy names."""
    if not hasattr(request.state, "browser"):
        door = service_of(request).door
        person = door.by_proxy(request.headers, pace.peer(request))
        if person is not None:
            request.state.browser = BrowserSession(person, door.proxy_csrf(person))
        else:
            request.state.browser = door.by_cookie(request.cookies.get(cookie_name(request)))
    return request.state.browser


def signed_in(request: Request) -> Person:
    """Who looks at this page."""
    session = browser_session(request)
    if session is None:
        raise SignInFirst
    return session.person


async def count_request(request: Request) -> int:
    """Count a request once, whatever is done for it: for the person that it is from, or for its address.

    Files of the pages have a count of their own. Returns the seconds that are left to wait.
    """
    if request.url.path == SIGN_IN:
        return 0
    service, person = service_of(request), await _asker(request)
    if person is None:
        return service.slowed(service.visitors.count(sender(request), pace.VISITOR_REQUESTS))
    if request.url.path.startswith("/static/"):
        return service.slowed(service.pace.count(f"files of {person.name}", pace.VISITOR_REQUESTS))
    return service.slowed(service.pace.count(person.name, person.settings.requests_per_minute))


async def _asker(request: Request) -> Person | None:
    """Who sends a request: by its token where programs ask, by its session where pages do."""
    if is_for_programs(request.url.path):
        request.state.token_holder = await _token_holder(request)
        return request.state.token_holder
    session = await run_in_threadpool(browser_session, request)
    return None if session is None else session.person


def is_for_programs(path: str) -> bool:
    """Is this an address at which tokens count? Cookies do not count there, so that no other site can use them."""
    return path.startswith("/api/") or path == "/metrics"


async def _token_holder(request: Request) -> Person | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not text:
        return None
    person = service_of(request).door.by_recent_token(text.strip())
    if person is None:  # a look at the disk, or a slow digest
        return await run_in_threadpool(holder_of, request, text.strip())
    return person


def holder_of(request: Request, token: str) -> Person | None:
    """The person of a token, None if it is wrong. Wrong ones are counted, for the address and for the token they name.

    Too many wrong secrets of one token from one address are refused before another digest is computed; too many wrong
    tokens of one address are refused as such. The right token of anybody else is let in all the same.
    """
    service, address = service_of(request), sender(request)
    door, named = service.door, f"{auth.token_id(token)} from {address}"
    wait = 0 if door.is_remembered(token) else service.failures.wait(named, TOKEN_FAILURES)
    person = None if wait else door.by_token(token)
    if person is None:
        service.count("sign_in_failures")
        if door.is_issued(token):
            wait = max(wait, service.failures.count(named, TOKEN_FAILURES))
        wait = max(wait, service.failures.count(address, ADDRESS_FAILURES))
    refuse_haste(wait, "wrong tokens")
    return person


def check_form(request: Request, csrf: str) -> Person:
    """Who sends this form; refused unless it comes from a page of this service in the same session."""
    person = signed_in(request)
    session = browser_session(request)
    assert session is not None
    if not is_same_site(request) or not hmac.compare_digest(csrf.encode(), session.csrf.encode()):
        raise HTTPException(403, "this form is not from this session; load the page again")
    return person


def is_same_site(request: Request) -> bool:
    """Did a page of this service send the request? Browsers say so; other programs carry no cookies of ours."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


@router.get("/login", response_class=HTMLResponse)
def login_page(request: Request, to: str = "/") -> Response:
    return page(request, "login.html.j2", to=to, is_demo=service_of(request).config.is_demo)


@router.post("/login", response_class=HTMLResponse)
def login(
    request: Request, token: Annotated[str, Form(max_length=200)] = "", to: Annotated[str, Form()] = "/"
) -> Response:
    service = service_of(request)
    if not is_same_site(request):
        raise HTTPException(403, "this form is not from this site")
    person = holder_of(request, token.strip())
    if person is None:
        why = "this token is not valid: it is mistyped, has expired or was revoked"
        return page(request, "login.html.j2", status=401, to=to, problem=why, is_demo=service.config.is_demo)
    refuse_haste(service.slowed(service.pace.count(person.name, person.settings.requests_per_minute)))
    return _enter(request, person, to)


@router.post("/demo")
def demo(request: Request, role: Annotated[str, Form()] = "analyst") -> Response:
    """Sign in without a token: only over a made-up table, on this machine."""
    service = service_of(request)
    name = {"analyst": "anna", "steward": "stella"}.get(role, "anna")
    if not service.config.is_demo or not is_same_site(request) or name not in service.config.settings.people:
        raise HTTPException(404, "Not Found")
    settings = service.config.settings.people[name]
    return _enter(request, Person(name, settings.role, settings), "/")


def _enter(request: Request, person: Person, to: str) -> Response:
    """A new session, whatever cookie the browser came with."""
    service = service_of(request)
    name = cookie_name(request)
    service.door.close_browser(request.cookies.get(name))
    cookie = service.door.open_browser(person)
    service.record_sign_in(person, "signed in")
    response = redirect(local(to))
    response.set_cookie(
        name, cookie, path="/", httponly=True, samesite="strict", secure=service.config.is_secure,
        max_age=3600 * service.config.settings.session_hours,
    )  # fmt: skip
    return response


@router.post("/logout")
def logout(request: Request, csrf: Annotated[str, Form()] = "") -> Response:
    check_form(request, csrf)
    name = cookie_name(request)
    service_of(request).door.close_browser(request.cookies.get(name))
    response = redirect("/login")
    response.delete_cookie(name, path="/", secure=service_of(request).config.is_secure, httponly=True)
    return response


def to_sign_in(request: Request) -> Response:
    """Where somebody goes who is not signed in."""
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    to = f"?to={quote(path, safe='/')}" if request.method == "GET" and path != "/" else ""
    if is_partial(request):  # a part of a page cannot be the page to sign in; the browser goes there
        return Response(status_code=401, headers={"hx-redirect": "/login"})
    return redirect(f"/login{to}")


def is_partial(request: Request) -> bool:
    """Does a script of the page ask, for a part of it?"""
    return request.headers.get("hx-request") == "true"


def local(to: str) -> str:
    """A path of this site; anything else is the start."""
    parts = urlsplit(to)
    is_local = (
        to.startswith("/") and not to.startswith(("//", "/\\")) and not parts.netloc and to.isprintable()
    )
    return to if is_local and "\\" not in to else "/"
