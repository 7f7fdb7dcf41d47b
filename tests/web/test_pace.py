"""How often somebody may ask, and what says who somebody is: every route, every header that identifies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from starlette.requests import Request
from starlette.routing import Route

from maquette.errors import MaquetteError, ParameterError, RateExceeded
from maquette.web import access, app, pace, server
from maquette.web.app import public_site, service_site
from maquette.web.auth import Door
from maquette.web.config import Config, parse
from maquette.web.explore import Catalog
from maquette.web.pace import Pace
from maquette.web.service import Service
from maquette.web.state import State
from support.browser import served
from support.made_release import toy_release

DATA = {
    "state": "state",
    "tick_milliseconds": 0,
    "tables": {"people": {"source": "a.csv", "domain": "a.json", "epsilon": 1.0}},
    "people": {
        "anna": {"tables": {"people": {"epsilon": 0.5}}},
        "bert": {},
        "stella": {"role": "steward"},
    },
}
DOMAIN = {"attributes": [{"name": "age", "kind": "ordinal", "codes": 9}]}


class Worker:
    """The far side of a link: it describes a table and refuses everything else, as a worker would."""

    refusal: MaquetteError = ParameterError("expected another question")

    def call(self, name: str, **_: object) -> dict[str, object]:
        if name == "describe":
            return {
                "name": "people", "stage": "open", "about": "", "domain": DOMAIN, "relation": "add-remove",
                "fit_report": False, "records": None, "unit": "rho",
            }  # fmt: skip
        if name == "standing":
            return {"left": 0.1, "total": 0.2, "unit": "rho", "questions": 5}
        if name == "note":
            return {}
        raise self.refusal

    def is_ready(self) -> bool:
        return True


@contextmanager
def serving(folder: Path, **changes: object) -> Iterator[tuple[Service, str]]:
    """A whole front over a worker that is none; no time passes for its paces."""
    service = Service(Config(parse(DATA | changes, "x"), folder), cast("Any", {"people": Worker()}))
    service.pace, service.visitors, service.failures = (Pace(clock=lambda: 0.0) for _ in range(3))
    try:
        with served(service_site(service), protocol="httptools") as home:
            yield service, home
    finally:
        service.stop()


def signed_in(service: Service, home: str, name: str) -> httpx.Client:
    client = httpx.Client(base_url=home)
    assert client.post("/login", data={"token": service.door.new_token(name)}).status_code == 303
    return client


def csrf_of(client: httpx.Client) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', client.get("/releases").text)
    assert found is not None
    return found[1]


def routes_of(router: Any) -> Iterator[Any]:
    """Those of the application and of the routers that it includes."""
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        yield from [route] if inner is None else routes_of(inner)


def addresses(site: object) -> list[tuple[str, str]]:
    """Every route of an application with a method of its own."""
    values = {
        "table": "people", "name": "toy", "job": "00ff", "action": "cancel", "token": "00ff", "form": "csv",
        "what": "rows", "path": "site.css",
    }  # fmt: skip
    found = []
    for route in routes_of(site):
        assert isinstance(route, Route), f"{route} is no route of its own, so that nothing counts it"
        path = re.sub(r":path}", "}", route.path).format(**values)
        found += [(method, path) for method in sorted(route.methods or ()) if method != "HEAD"]
    return found


# --- the bucket -----------------------------------------------------------------------------------------------------


@pytest.fixture
def clock():
    return [0.0]


def test_the_pace_of_one_is_not_that_of_another(clock):
    people = Pace(clock=lambda: clock[0])
    assert [people.count("anna", 3) for _ in range(3)] == [0, 0, 0]
    assert people.wait("anna", 3) == 20
    assert people.count("bert", 3) == 0
    clock[0] = 20
    assert people.count("anna", 3) == 0


def test_seconds_to_wait_are_whole_and_rounded_up(clock):
    """A tenth of a second would say when the last request was counted, and polling would refine it."""
    people, seen = Pace(clock=lambda: clock[0]), set[object]()
    for step in range(400):
        clock[0] = step * 0.0371
        seen |= {people.wait("anna", 7), people.count("anna", 7)}
    assert seen <= set(range(61))
    assert all(isinstance(one, int) for one in seen)
    clock[0], exact = 0.0, Pace(clock=lambda: clock[0])
    exact.count("anna", 1)
    clock[0] = 0.5
    assert exact.wait("anna", 1) == 60  # 59.5 seconds: one that waits as long as it is told is let in
    clock[0] = 60.0
    assert exact.count("anna", 1) == 0


def test_who_is_refused_and_asks_on_is_refused_on_and_owes_at_most_a_minute(clock):
    people = Pace(clock=lambda: clock[0])
    for step in range(1000):  # ten a second, where six a minute are allowed
        clock[0] = step / 10
        people.count("anna", 6)
    assert people.count("anna", 6) == 60
    clock[0] += 59
    assert people.wait("anna", 6) == 1
    clock[0] += 1
    assert people.count("anna", 6) == 0


def test_a_flood_of_names_is_bounded_and_forgets_the_quiet_ones_first(clock, monkeypatch):
    monkeypatch.setattr(pace, "MAX_BUCKETS", 3)
    people = Pace(clock=lambda: clock[0])
    for name in ("a", "b", "c", "a", "d"):
        people.count(name, 1)
    assert set(people._buckets) == {"c", "a", "d"}
    for number in range(100):
        people.count(str(number), 1)
    assert len(people._buckets) == 3


# --- every route ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_request_to_every_route_counts_once_for_whoever_sends_it(tmp_path, monkeypatch):
    """Forms too, whose reply is a page that was counted again; also where it comes after a payment."""
    with serving(tmp_path) as (service, home):
        clients = {name: signed_in(service, home, name) for name in ("anna", "stella")}
        tokens = {name: service.door.new_token(name) for name in clients}
        forms = {name: csrf_of(client) for name, client in clients.items()}
        counted: list[str] = []
        monkeypatch.setattr(service.pace, "count", lambda name, _: counted.append(name) or 0)
        monkeypatch.setattr(service.visitors, "count", lambda name, _: counted.append(name) or 0)
        seen = 0
        for method, path in addresses(service_site(service)):
            for who, client in clients.items():
                form = {
                    "csrf": forms[who], "q": "age < 3", "key": "a-key-of-tests", "name": "bert", "column": "age",
                    "why": "x", "entry": "{}", "epsilon": "0.1", "marginals": "1", "token": tokens[who],
                }  # fmt: skip
                headers = {"authorization": f"Bearer {tokens[who]}"}
                counted.clear()
                if path.startswith(("/api/", "/metrics")):
                    client.request(method, path, headers=headers | {"idempotency-key": "a-key-of-tests"})
                elif method == "POST" and path != "/logout":
                    client.post(path, data=form)
                else:
                    client.request(method, path)
                expected = [f"files of {who}"] if path.startswith("/static/") else [who]
                if path == app.HEALTH or (method, path) == ("GET", access.SIGN_IN):
                    expected = []
                assert counted == expected, (method, path, who)
                seen += 1
        assert seen > 100


@pytest.mark.slow
def test_every_request_without_a_person_counts_once_for_its_address(tmp_path, monkeypatch):
    toy = toy_release().save(tmp_path / "toy.maquette")
    counted: list[str] = []

    def count(self: Pace, name: str, per_minute: int) -> int:
        counted.append(name)
        return 0

    with serving(tmp_path) as (service, home):
        monkeypatch.setattr(Pace, "count", count)
        for site in (service_site(service), public_site(Catalog.of([toy]))):
            with served(site) as home, httpx.Client(base_url=home) as client:
                for method, path in addresses(site):
                    counted.clear()
                    client.request(method, path)
                    is_free = path == app.HEALTH or (method, path) == ("GET", access.SIGN_IN)
                    assert counted == ([] if is_free else ["127.0.0.1"]), (method, path)


def test_the_public_site_slows_down_one_address_and_serves_the_others(tmp_path, monkeypatch):
    """The proxy is named, so that it is believed; what the browser wrote before the proxy's word is not."""
    toy = toy_release().save(tmp_path / "toy.maquette")
    monkeypatch.setattr(app, "Pace", lambda: Pace(clock=lambda: 0.0))
    site = public_site(Catalog.of([toy]), proxies=["127.0.0.1"], requests_per_minute=4)
    with served(site) as home, httpx.Client(base_url=home) as client:

        def get(*forwarded: str) -> httpx.Response:
            return client.get("/releases", headers=[("x-forwarded-for", one) for one in forwarded])

        statuses = [get(f"192.0.2.{i}, 198.51.100.7").status_code for i in range(6)]
        assert statuses == [200] * 4 + [429] * 2
        assert get("192.0.2.99", "198.51.100.7").status_code == 429  # in a line of its own
        assert 1 <= int(get("198.51.100.7").headers["retry-after"]) <= 60
        assert get("198.51.100.8").status_code == 200
        assert [get(f"2001:db8::{i}").status_code for i in range(6)] == statuses  # one site of IPv6
        assert get("2001:db8:0:1::1").status_code == 200
        assert client.get(app.HEALTH).status_code == 200


# --- wrong tokens ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_who_sends_wrong_tokens_locks_nobody_out(tmp_path):
    """All come from one address, as behind a proxy that is not named. Wrong ones are slowed down alone."""
    with serving(tmp_path) as (service, home), httpx.Client(base_url=home) as client:
        right = {name: service.door.new_token(name) for name in ("anna", "bert")}

        def by_form(token: str) -> int:
            return client.post("/login", data={"token": token}).status_code

        def by_header(token: str) -> int:
            headers = {"authorization": f"Bearer {token}"}
            return httpx.get(f"{home}/api/v1/tables", headers=headers).status_code

        ways = (by_form, by_header)
        statuses = [ways[number % 2](f"mq_{number:012x}_guess") for number in range(90)]
        assert statuses == [401] * access.ADDRESS_FAILURES + [429] * (90 - access.ADDRESS_FAILURES)
        assert by_form(right["anna"]) == 303
        assert by_header(right["bert"]) == 200


@pytest.mark.slow
def test_wrong_secrets_of_one_token_cost_few_digests_and_stop_no_other_token(tmp_path, monkeypatch):
    from maquette.web import auth

    with serving(tmp_path) as (service, home), httpx.Client(base_url=home) as client:
        anna, other, bert = (service.door.new_token(name) for name in ("anna", "anna", "bert"))
        assert client.post("/login", data={"token": other}).status_code == 303
        digests: list[str] = []
        digest = auth._digest
        monkeypatch.setattr(
            auth, "_digest", lambda secret, salt: digests.append(secret) or digest(secret, salt)
        )
        for i in range(access.TOKEN_FAILURES + 15):
            for one in (anna, other):
                client.post("/login", data={"token": f"mq_{one.split('_')[1]}_guess{i}"})
        assert len(digests) == 2 * access.TOKEN_FAILURES
        assert client.post("/login", data={"token": anna}).status_code == 429  # the token that was guessed at
        assert client.post("/login", data={"token": other}).status_code == 303  # one that was right before
        assert client.post("/login", data={"token": bert}).status_code == 303


@pytest.mark.slow
def test_right_tokens_are_no_failures_and_still_have_a_pace(tmp_path):
    people = DATA["people"] | {"bert": {"requests_per_minute": 5}}
    with serving(tmp_path, people=people) as (service, home):
        anna, bert = service.door.new_token("anna"), service.door.new_token("bert")
        statuses = [httpx.post(f"{home}/login", data={"token": anna}).status_code for _ in range(70)]
        assert statuses == [303] * 70
        statuses = [httpx.post(f"{home}/login", data={"token": bert}).status_code for _ in range(6)]
        assert statuses == [303] * 5 + [429]


# --- who it is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*server.ONCE, "x-remote-user"])
def test_a_header_that_identifies_comes_once(tmp_path, name):
    """The proxy's own word and one that a client smuggled in beside it: neither is taken, in either order."""
    (tmp_path / "secret").write_text("s" * 40)
    proxy = {"secret": "secret", "header": "X-Remote-User"}
    values = {
        "host": "localhost", "authorization": "Bearer x", "cookie": "maquette=x", "origin": "http://localhost",
        "sec-fetch-site": "none", "content-length": "0", "content-type": "text/plain",
        "idempotency-key": "a-key-of-tests", "x-maquette-proxy": "s" * 40, "x-remote-user": "stella",
    }  # fmt: skip
    with serving(tmp_path, proxy=proxy) as (_, home):
        sent = [("x-maquette-proxy", "s" * 40), ("x-remote-user", "stella"), ("host", "localhost")]
        first = httpx.get(f"{home}/people", headers=sent)
        assert (first.status_code, "stella" in first.text) == (200, True)
        for pair in ([values[name], "anna"], ["anna", values[name]], [values[name], values[name]]):
            others = [one for one in sent if one[0] != name]
            assert status(home, [*others, *((name, value) for value in pair)]) == 400, pair


def test_a_cookie_of_ours_comes_once(tmp_path):
    with serving(tmp_path) as (service, home):
        client = signed_in(service, home, "stella")
        cookie = client.cookies["maquette"]
        assert status(home, [("host", "localhost"), ("cookie", f"theme=dark; maquette={cookie}")]) == 200
        for pair in (f"maquette={cookie}; maquette=other", f"maquette=other;maquette={cookie}"):
            assert status(home, [("host", "localhost"), ("cookie", pair)]) == 400


def status(home: str, headers: list[tuple[str, str]]) -> int:
    """The status of a request whose headers are sent as they are; a client would put some of them together."""
    import socket

    with socket.create_connection(("127.0.0.1", httpx.URL(home).port or 0), timeout=10) as plug:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        plug.sendall(f"GET /people HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
        return int(plug.makefile("rb").readline().split()[1])


# --- seconds to wait, as the service says them ----------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "said"), [(0.0, "1"), (0.1, "1"), (1.0, "1"), (3.2, "4"), (12.0, "12")])
def test_the_seconds_of_a_refusal_are_whole(tmp_path, monkeypatch, seconds, said):
    monkeypatch.setattr(Worker, "refusal", RateExceeded("at most 5 new steps in 60 s", seconds=seconds))
    with serving(tmp_path) as (service, home):
        headers = {"authorization": f"Bearer {service.door.new_token('anna')}"}
        reply = httpx.get(f"{home}/api/v1/tables/people/questions", headers=headers)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, said)


def test_an_address_is_believed_only_from_a_named_proxy(tmp_path):
    def request(*forwarded: str) -> Request:
        headers = [(b"x-forwarded-for", one.encode()) for one in forwarded]
        return Request({"type": "http", "client": ("127.0.0.1", 1), "headers": headers})

    assert pace.sender(request("8.8.8.8"), []) == "127.0.0.1"
    assert pace.sender(request("8.8.8.8", "9.9.9.9"), ["127.0.0.1"]) == "9.9.9.9"
    assert pace.sender(request("what a proxy may say"), ["127.0.0.1"]) == "what a proxy may say"
    assert pace.sender(request("2001:db8::1"), ["127.0.0.1"]) == "2001:db8::/64"


def test_a_door_knows_what_a_token_names_without_its_secret(tmp_path):
    door = Door(Config(parse(DATA, "x"), tmp_path), State.at(tmp_path))
    token = door.new_token("anna")
    wrong = f"mq_{token.split('_')[1]}_wrong"
    assert (door.is_issued(wrong), door.is_remembered(token)) == (True, False)
    assert door.by_token(token) is not None
    assert (door.is_remembered(token), door.is_remembered(wrong)) == (True, False)
    door.revoke(token.split("_")[1])
    assert not door.is_issued(wrong)
    assert not door.is_issued("nonsense")


@pytest.mark.parametrize("who", ["anna", None])
def test_no_refusal_is_longer_than_a_message(tmp_path, who):
    """What a request brings may be quoted, not sent back whole."""
    with serving(tmp_path) as (service, home):
        headers = {} if who is None else {"authorization": f"Bearer {service.door.new_token(who)}"}
        headers |= {"idempotency-key": "a-key-of-tests"}
        long = "x" * 50_000
        replies = [
            httpx.post(f"{home}/api/v1/tables/people/questions", json=body, headers=headers)
            for body in ({long: 1}, {"query": long}, {"query": {long: 1}}, [long], long)
        ]
        replies += [
            httpx.get(f"{home}/{place}/{'y' * 5_000}", headers=headers) for place in ("r", "t", "jobs", "x")
        ]
        assert max(len(reply.content) for reply in replies) < 4_000
        assert not any(reply.is_success or reply.is_server_error for reply in replies)
