"""Signing in and out, and who a request is from. Every form brings back the CSRF token of its session."""

from __future__ import annotations

import hmac
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from maquette.web.auth import BrowserSession, Person
from maquette.web.pages import page, redirect
from maquette.web.service import Service

router = APIRouter(include_in_schema=False)
COOKIE, SECURE_COOKIE = "maquette", "__Host-maquette"


class SignInFirst(Exception):
    """A page for people who are signed in."""


def service_of(request: Request) -> Service:
    return request.app.state.service


def peer(request: Request) -> str:
    """The address that the connection comes from: that of the proxy, where there is one."""
    return request.client.host if request.client else ""


def sender(request: Request) -> str:
    """The address of the browser: of the connection, or what a proxy says that the configuration trusts.

    Any program on this machine connects from 127.0.0.1: that address is believed only where it is named.
    """
    address, settings = peer(request), service_of(request).config.settings
    proxies = [*map(str, settings.trusted_proxies), *(settings.proxy.addresses if settings.proxy else ())]
    forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    return forwarded[:64] if address in proxies and forwarded else address


def cookie_name(request: Request) -> str:
    return SECURE_COOKIE if service_of(request).config.is_secure else COOKIE


def browser_session(request: Request) -> BrowserSession | None:
    """The signed-in browser of a request, or the person that a trusted proxy names."""
    if not hasattr(request.state, "browser"):
        door = service_of(request).door
        person = door.by_proxy(request.headers, peer(request))
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
    slow_down(request, session.person)
    return session.person


def slow_down(request: Request, person: Person) -> None:
    """Refuse a person who asks faster than they may."""
    service = service_of(request)
    wait = service.pace.wait(person.name, person.settings.requests_per_minute)
    if wait:
        service.count("slowed_down")
        raise HTTPException(429, "too many requests; wait a moment", {"retry-after": str(int(wait) + 1)})


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
    if service.pace.wait(f"sign-in from {sender(request)}", 60):
        raise HTTPException(429, "too many attempts; wait a minute", {"retry-after": "60"})
    person = service.door.by_token(token.strip())
    if person is None:
        service.count("sign_in_failures")
        why = "this token is not valid: it is mistyped, has expired or was revoked"
        return page(request, "login.html.j2", status=401, to=to, problem=why, is_demo=service.config.is_demo)
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
