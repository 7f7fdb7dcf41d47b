"""Tokens, browser sessions, proxies and paces, without a server."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from maquette.errors import ParameterError
from maquette.web import auth, state
from maquette.web.auth import Door, Person
from maquette.web.config import Config, parse
from maquette.web.service import Service
from maquette.web.state import State

DATA = {
    "tables": {"people": {"source": "a.csv", "domain": "a.json", "epsilon": 1.0}},
    "people": {"anna": {}, "stella": {"role": "steward"}},
}


def config(folder: Path, **changes) -> Config:
    return Config(parse(DATA | changes, "x"), folder)


@pytest.fixture
def door(tmp_path) -> Any:
    return Door(config(tmp_path), State.at(tmp_path))


def test_a_token_opens_for_its_person_only_and_is_not_stored(door, tmp_path):
    token = door.new_token("anna")
    person = door.by_token(token)
    assert (person.name, person.role) == ("anna", "analyst")
    row = door.store.find(state.token, id=person.token)
    assert len(row["digest"]) == 32
    assert token.split("_", 2)[2].encode() not in row["digest"] + row["salt"]


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1] + "A", lambda t: t + "A", lambda t: t[:20], lambda t: "", lambda t: "x" * 500]
)
def test_another_token_opens_nothing(door, change):
    token = door.new_token("anna")
    door.by_token(token)  # remembered: that must not help another one
    if change(token) != token:
        assert door.by_token(change(token)) is None


def test_a_secret_does_not_open_under_another_id(door):
    first, second = door.new_token("anna"), door.new_token("stella")
    assert door.by_token(f"mq_{second.split('_')[1]}_{first.split('_', 2)[2]}") is None


def test_expired_and_revoked_tokens_end_at_once_with_their_sessions(door, monkeypatch):
    token = door.new_token("anna", days=1)
    person = door.by_token(token)
    cookie = door.open_browser(person)
    assert door.by_cookie(cookie).person.name == "anna"
    with monkeypatch.context() as later:
        later.setattr(auth.time, "time", lambda: time.monotonic() + 4e9)
        assert door.by_token(token) is None
        assert door.by_cookie(cookie) is None
    assert door.revoke(person.token)
    assert door.by_token(token) is None
    assert door.by_cookie(cookie) is None


def test_a_token_is_known_without_the_disk_for_a_moment_and_never_after_its_end(door, monkeypatch):
    token = door.new_token("anna", days=1)
    assert door.by_recent_token(token) is None  # nobody has looked at it
    person = door.by_token(token)
    monkeypatch.setattr(auth, "_digest", None)
    assert door.by_recent_token(token) == person
    assert door.by_recent_token(token + "x") is None
    assert door.by_recent_token("mq_nonsense") is None
    with monkeypatch.context() as later:
        later.setattr(auth.time, "time", lambda: time.monotonic() + 4e9)
        assert door.by_recent_token(token) is None
    with monkeypatch.context() as later:
        now = time.monotonic() + auth.ROW_SECONDS
        later.setattr(auth.time, "monotonic", lambda: now)
        assert door.by_recent_token(token) is None
    door.revoke(person.token)
    assert door.by_recent_token(token) is None


def test_a_role_that_was_taken_away_is_gone_at_once(door, tmp_path):
    token = door.new_token("stella")
    cookie = door.open_browser(door.by_token(token))
    lower: Any = Door(config(tmp_path, people={"stella": {}}), door.store)
    assert lower.by_token(token).role == "analyst"
    assert lower.by_cookie(cookie).person.role == "analyst"
    gone = Door(config(tmp_path, people={}), door.store)
    assert gone.by_token(token) is None
    assert gone.by_cookie(cookie) is None


def test_every_sign_in_is_a_new_session(door):
    person = door.by_token(door.new_token("anna"))
    first, second = door.open_browser(person), door.open_browser(person)
    assert first != second
    assert door.by_cookie(first).csrf != door.by_cookie(second).csrf
    assert door.by_cookie("chosen-by-somebody-else") is None


def test_only_people_of_the_configuration_get_tokens(door):
    with pytest.raises(ParameterError, match="nobody called"):
        door.new_token("mallory")
    with pytest.raises(ParameterError, match="1 to 3650 days"):
        door.new_token("anna", days=0)


def test_a_proxy_speaks_for_people_only_where_it_was_set_up(tmp_path):
    (tmp_path / "secret").write_text("s" * 40)
    headers = {"x-forwarded-user": "stella", "x-maquette-proxy": "s" * 40}
    assert Door(config(tmp_path), State.at(tmp_path)).by_proxy(headers, "127.0.0.1") is None
    door: Any = Door(config(tmp_path, proxy={"secret": "secret"}), State.at(tmp_path))
    assert door.by_proxy(headers, "127.0.0.1").name == "stella"
    assert door.by_proxy(headers, "192.0.2.1") is None
    assert door.by_proxy(headers | {"x-maquette-proxy": "wrong"}, "127.0.0.1") is None
    assert door.by_proxy({"x-forwarded-user": "stella"}, "127.0.0.1") is None
    assert door.by_proxy(headers | {"x-forwarded-user": "mallory"}, "127.0.0.1") is None


def test_a_short_secret_of_a_proxy_is_refused(tmp_path):
    (tmp_path / "secret").write_text("short")
    with pytest.raises(ParameterError, match="too short"):
        Door(config(tmp_path, proxy={"secret": "secret"}), State.at(tmp_path))


def test_a_draft_is_described_to_its_steward_alone(tmp_path):
    """Its lists may be read off the records. An analyst learns that the table is not open yet, and no more."""

    class Worker:
        def call(self, name: str) -> dict[str, object]:
            assert name == "describe"
            attributes = [{"name": "job", "categories": ["a secret job"]}]
            return {"name": "people", "stage": "draft", "about": "", "domain": {"attributes": attributes}}

    people = {"anna": {"tables": {"people": {"epsilon": 0.5}}}, "stella": {"role": "steward"}}
    with_table = config(tmp_path, people=people)
    service = Service(with_table, cast("Any", {"people": Worker()}))
    try:
        facts = {
            name: service.describe(Person(name, one.role, one), "people")
            for name, one in with_table.settings.people.items()
        }
    finally:
        service.stop()
    assert facts["stella"]["domain"]["attributes"][0]["categories"] == ["a secret job"]
    assert facts["anna"] == facts["stella"] | {"domain": None}


def test_who_forwards_is_believed_only_where_the_configuration_names_it(tmp_path):
    """Every program on the machine connects from 127.0.0.1: with a header it must not get a pace of its own."""
    from maquette.web import access

    def sender(**settings: object) -> str:
        service = SimpleNamespace(config=config(tmp_path, **settings))
        app = SimpleNamespace(state=SimpleNamespace(service=service))
        headers = [(b"x-forwarded-for", b"8.8.8.8, 9.9.9.9")]
        return access.sender(
            Request({"type": "http", "app": app, "client": ("127.0.0.1", 1), "headers": headers})
        )

    assert sender() == "127.0.0.1"
    assert sender(trusted_proxies=["10.0.0.1"]) == "127.0.0.1"
    assert sender(trusted_proxies=["127.0.0.1"]) == "9.9.9.9"


def test_a_proxy_that_says_whom_it_forwards_still_signs_people_in(tmp_path, monkeypatch):
    """Proxies add X-Forwarded-For. The connection is the proxy's all the same, and the pace is the browser's."""
    import uvicorn

    from maquette.web import access, server

    (tmp_path / "secret").write_text("s" * 40)
    service = Service(config(tmp_path, proxy={"secret": "secret", "addresses": ["10.0.0.1"]}), {})
    app = SimpleNamespace(state=SimpleNamespace(service=service))

    def request(peer: str, **headers: str) -> Request:
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return Request({"type": "http", "app": app, "client": (peer, 1), "headers": raw, "state": {}})

    said = {"x_forwarded_user": "stella", "x_maquette_proxy": "s" * 40, "x_forwarded_for": "8.8.8.8, 9.9.9.9"}
    try:
        session = access.browser_session(request("10.0.0.1", **said))
        assert session is not None
        assert session.person.name == "stella"
        assert access.browser_session(request("10.0.0.2", **said)) is None
        assert (
            access.sender(request("10.0.0.1", **said)) == "9.9.9.9"
        )  # what the proxy added, not the browser
        assert access.sender(request("10.0.0.2", **said)) == "10.0.0.2"
    finally:
        service.stop()
    options: dict[str, object] = {}

    def stop(app: object, **given: object) -> None:
        options.update(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn, "Config", stop)
    with pytest.raises(KeyboardInterrupt):
        server.run(cast("Any", app), host="127.0.0.1", port=0)
    assert options["proxy_headers"] is False  # else the address would be what a header says
