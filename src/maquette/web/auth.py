"""Who is asking: tokens that are shown once, and browser sessions with a CSRF token.

A token is `mq_ID_SECRET`, 256 random bits. Stored is its scrypt digest; a digest that matched is remembered for a while
in memory by the SHA-256 of the token, so that not every request pays for scrypt. Expiry and revocation are looked at
with every request.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import ParameterError
from maquette.web import state
from maquette.web.config import Config, PersonSettings, Role

if TYPE_CHECKING:
    from maquette.web.state import State

SCRYPT: dict[str, int] = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
MAX_MATCHES = 4096
ROW_SECONDS = 1.0
"""How long a token's row is believed: one that another process revoked ends within this time, our own at once."""
MAX_AT_ONCE = 2
"""Digests that are computed at one time: each takes 16 MB and a twentieth of a second."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who is signed in."""

    name: str
    role: Role
    settings: PersonSettings
    token: str | None = None
    """The id of the token, which is no secret."""

    @property
    def is_steward(self) -> bool:
        return self.role == "steward"


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A signed-in browser: who it is, and what its forms have to bring back."""

    person: Person
    csrf: str


class Door:
    """Knows people by token, by cookie or by the word of a proxy."""

    def __init__(self, config: Config, store: State) -> None:
        self._config = config
        self.store = store
        self._matches: OrderedDict[bytes, str] = OrderedDict()
        self._rows: dict[str, tuple[float, dict[str, Any]]] = {}
        self._mutex = threading.Lock()
        self._slow = threading.Semaphore(MAX_AT_ONCE)
        proxy = config.settings.proxy
        self._proxy_secret = None if proxy is None else _secret(config.place(proxy.secret))

    # --- tokens -----------------------------------------------------------------------------------------------------

    def new_token(self, person: str, *, label: str = "", days: int | None = None) -> str:
        """A token for a person, to be shown once."""
        if person not in self._config.settings.people:
            raise ParameterError(f"there is nobody called '{person}' in the configuration")
        days = self._config.settings.token_days if days is None else days
        if not 1 <= days <= 3650:
            raise ParameterError(f"expected a token for 1 to 3650 days, got {days}")
        name, secret, salt = secrets.token_hex(6), secrets.token_urlsafe(32), secrets.token_bytes(16)
        now = int(time.time())
        self.store.add(
            state.token,
            id=name,
            person=person,
            label=label[:80],
            salt=salt,
            digest=_digest(secret, salt),
            created=now,
            expires=now + days * 86400,
            revoked=None,
        )
        return f"mq_{name}_{secret}"

    def revoke(self, name: str) -> bool:
        """End a token, and every browser session that it opened."""
        self.store.remove(state.browser, token=name)
        with self._mutex:
            self._rows.clear()
        return bool(self.store.change(state.token, {"id": name}, revoked=int(time.time())))

    def by_token(self, text: str) -> Person | None:
        """The person of a token; None if it is wrong, expired or revoked."""
        name = token_id(text)
        row = None if name is None else self._valid(name)
        if name is None or row is None:
            return None
        if not self.is_remembered(text):
            with self._slow:
                matches = hmac.compare_digest(_digest(text.split("_", 2)[2], row["salt"]), row["digest"])
            if not matches:
                return None
            self._remember(_secret_mark(text), name)
        return self._person(row["person"], name)

    def by_recent_token(self, text: str) -> Person | None:
        """The person of a token that was looked at just now; None means that nobody knows yet, see `by_token`."""
        with self._mutex:
            recent = self._rows.get(token_id(text) or "")
            is_recent = recent is not None and time.monotonic() - recent[0] < ROW_SECONDS
        return self.by_token(text) if is_recent and self.is_remembered(text) else None

    def is_remembered(self, text: str) -> bool:
        """Was this token right before? Then no digest is needed to know it again."""
        name = token_id(text)
        with self._mutex:
            return name is not None and self._matches.get(_secret_mark(text)) == name

    def is_issued(self, text: str) -> bool:
        """Does a token name one that was made and has not ended, whatever its secret is?"""
        name = token_id(text)
        return name is not None and self._valid(name) is not None

    def _valid(self, name: str) -> dict[str, Any] | None:
        with self._mutex:
            recent = self._rows.get(name)
        if recent is not None and time.monotonic() - recent[0] < ROW_SECONDS:
            row = recent[1]
        else:
            row = self.store.find(state.token, id=name)
            if row is None:
                return None
            with self._mutex:
                self._rows[name] = (time.monotonic(), row)
                while len(self._rows) > MAX_MATCHES:
                    self._rows.pop(next(iter(self._rows)))
        return None if row["revoked"] is not None or row["expires"] < time.time() else row

    def _remember(self, mark: bytes, name: str) -> None:
        with self._mutex:
            self._matches[mark] = name
            while len(self._matches) > MAX_MATCHES:
                self._matches.popitem(last=False)

    def _person(self, name: str, token: str | None) -> Person | None:
        """By the configuration of today: a role that was taken away is gone at once."""
        settings = self._config.settings.people.get(name)
        return None if settings is None else Person(name, settings.role, settings, token)

    # --- browsers ---------------------------------------------------------------------------------------------------

    def open_browser(self, person: Person) -> str:
        """A new session for a browser; its cookie. Always a new one, so that nobody can fix it beforehand."""
        cookie, now = secrets.token_urlsafe(32), int(time.time())
        self.store.remove_expired(now)
        self.store.add(
            state.browser,
            id=_mark(cookie),
            person=person.name,
            token=person.token,
            csrf=secrets.token_urlsafe(24),
            expires=now + 3600 * self._config.settings.session_hours,
        )
        return cookie

    def by_cookie(self, cookie: str | None) -> BrowserSession | None:
        if not cookie or len(cookie) > 100:
            return None
        row = self.store.find(state.browser, id=_mark(cookie))
        if row is None or row["expires"] < time.time():
            return None
        if row["token"] is not None and self._valid(row["token"]) is None:
            return None
        person = self._person(row["person"], row["token"])
        return None if person is None else BrowserSession(person, row["csrf"])

    def close_browser(self, cookie: str | None) -> None:
        if cookie:
            self.store.remove(state.browser, id=_mark(cookie))

    # --- a proxy ----------------------------------------------------------------------------------------------------

    def by_proxy(self, headers: Any, address: str) -> Person | None:
        """The person that a trusted proxy names, where the configuration has one."""
        proxy = self._config.settings.proxy
        if proxy is None or self._proxy_secret is None or address not in proxy.addresses:
            return None
        if not hmac.compare_digest(headers.get("x-maquette-proxy", "").encode(), self._proxy_secret):
            return None
        return self._person(headers.get(proxy.header, ""), None)

    def proxy_csrf(self, person: Person) -> str:
        """What forms bring back where a proxy signs people in, and there is no cookie of ours."""
        assert self._proxy_secret is not None
        return hmac.new(self._proxy_secret, f"csrf {person.name}".encode(), hashlib.sha256).hexdigest()


def token_id(text: str) -> str | None:
    """The part of a token that names it and is no secret; None for what is no token."""
    parts = text.split("_", 2)
    return parts[1] if len(text) <= 200 and len(parts) == 3 and parts[0] == "mq" else None


def _digest(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode("utf-8", "replace"), salt=salt, **SCRYPT)


def _secret_mark(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _mark(cookie: str) -> str:
    return _secret_mark(cookie).hex()


def _secret(path: Path) -> bytes:
    try:
        text = path.read_text("utf-8").strip().encode()
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"cannot read the secret of the proxy in {path}") from None
    if len(text) < 32:
        raise ParameterError(f"the secret of the proxy in {path} is too short; take 32 random characters")
    return text
