"""The same table behind the service, its routes and its worker in one process, and random requests of a program."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from maquette.domain import Relation
from maquette.errors import MaquetteError
from maquette.web import config as configs
from maquette.web import holder as holders
from maquette.web import link
from maquette.web.app import service_site
from maquette.web.service import Service
from maquette.web.worker import Server
from support.gate_arguments import Rng, pick
from support.gate_world import DOMAIN
from support.observed import Call, Killed
from support.observed_sessions import SELECTS, TEXTS, WatchedSession, taped_sessions

TEXT = """\
title = "Tests"
state = "state"
tick_milliseconds = 0

[tables.people]
source = "people.csv"
domain = "people.domain.json"
epsilon = {epsilon!r}
delta = {delta!r}
relation = "{relation}"

[people.anna]
requests_per_minute = 100000
[people.anna.tables.people]
epsilon = {share!r}
delta = {share_delta!r}
questions = {questions}
attributes = ["a", "b", "c", "d"]
{alpha}
"""
HIDDEN = {"receipt", "head"}
"""What holds the chain, and with it the random blinds of envelopes."""


class Refused(MaquetteError):
    """A reply that is no answer: status, words and headers."""

    def __init__(self, status: int, body: Any, headers: dict[str, str]) -> None:
        super().__init__(json.dumps(body))
        self.status, self.headers = status, headers


class DirectLink(link.Link):
    """Calls a worker of this process; its reply may be lost on the way."""

    def __init__(self, side: WatchedService) -> None:
        super().__init__("people", Path("nowhere"))
        self._side = side
        self.loses_reply = False

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any] | None:
        worker: Any = SimpleNamespace(_holder=self._side.holder)
        try:
            reply = Server.answer(worker, json.loads(json.dumps(message)))
        except Killed:
            self._side.open_holder()
            return None
        lost, self.loses_reply = self.loses_reply, False
        return None if lost else json.loads(json.dumps(reply))

    async def call_async(self, name: str, /, **arguments: Any) -> Any:
        return self.call(name, **arguments)

    def is_ready(self) -> bool:
        return True


_SITES: list[Any] = []


class WatchedService(WatchedSession):
    """One service with one table and one analyst."""

    service: Service | None = None

    def start(self) -> None:
        if self.service is not None:
            self.open_holder()
            return
        self._folder = tempfile.TemporaryDirectory(prefix="observed-")
        folder = Path(self._folder.name)
        DOMAIN.save(folder / "people.domain.json")
        (folder / "people.csv").write_text(",".join(DOMAIN.names) + "\n", encoding="utf-8")
        options, budget = self.options, self.ledger.budget
        alpha = options.get("alpha") if self.ledger.relation is Relation.ADD_REMOVE else None
        (folder / "serve.toml").write_text(
            TEXT.format(
                epsilon=budget.epsilon,
                delta=budget.delta,
                relation=str(self.ledger.relation),
                share=options["epsilon"],
                share_delta=options.get("delta", 0.0),
                questions=options["queries"],
                alpha="" if alpha is None else f"alpha = {alpha}",
            ),
            encoding="utf-8",
        )
        self._config = configs.load(folder / "serve.toml")
        self._config.state.mkdir(exist_ok=True)
        self.open_holder()
        self.link = DirectLink(self)
        self.service = Service(self._config, {"people": self.link})
        self._headers = {"authorization": f"Bearer {self.service.door.new_token('anna')}"}
        self.asked = SimpleNamespace()

    def open_holder(self) -> None:
        """A worker, with the table and the ledger that are observed."""
        open_table, open_ledger = holders.open_table, holders.open_ledger
        holders.open_table = lambda *_, **__: self.table
        holders.open_ledger = lambda *_, **__: self.ledger
        try:
            self.holder = holders.Holder(self._config, "people")
        finally:
            holders.open_table, holders.open_ledger = open_table, open_ledger

    def stop(self) -> None:
        assert self.service is not None
        self.service.stop()
        with suppress(OSError):
            self._folder.cleanup()

    @property
    def key(self) -> str:
        with taped_sessions(self.tape):
            return self.holder._session("anna").key

    def restart(self) -> None:
        raise AssertionError("a worker that is killed is started again by its link")

    def post(self, path: str, key: str, **body: Any) -> Any:
        """What a program sees of one request."""
        return self._send("POST", path, json=body, headers=self._headers | {"idempotency-key": key})

    def get(self, path: str) -> Any:
        return self._send("GET", path, headers=self._headers)

    def _site(self) -> Any:
        """The routes are made once, which takes long, and lead to the service of this side."""
        assert self.service is not None
        if not _SITES:
            _SITES.append(service_site(self.service))
        _SITES[0].state.service, _SITES[0].state.catalog = self.service, self.service.catalog
        return _SITES[0]

    def _send(self, method: str, path: str, **request: Any) -> Any:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._site())
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, f"/api/v1/tables/people{path}", **request)

        with taped_sessions(self.tape):
            reply = asyncio.run(send())
        headers = {name: value for name, value in reply.headers.items() if name != "date"}
        body = without(reply.json())
        if reply.status_code >= 400:
            raise Refused(reply.status_code, body, headers)
        return reply.status_code, json.dumps(body), sorted(headers.items())


def without(value: Any) -> Any:
    """A document without what holds the chain."""
    if isinstance(value, dict):
        return {name: without(one) for name, one in value.items() if name not in HIDDEN}
    return [without(one) for one in value] if isinstance(value, list) else value


def service_call(rng: Rng) -> tuple[str, Call]:
    """A request of an analyst's program."""
    text, select = pick(rng, TEXTS), pick(rng, SELECTS)
    key = f"key-{int(rng.integers(10**9))}"
    calls: list[tuple[str, Call]] = [
        ("questions", lambda side: side.post("/questions", key, query=text, allow_useless=True)),  # type: ignore[attr-defined]
        ("questions", lambda side: side.post("/questions", key, query=text)),  # type: ignore[attr-defined]
        ("sql", lambda side: side.post("/sql", key, statement=select, allow_useless=True)),  # type: ignore[attr-defined]
        ("size", lambda side: side.post("/size", key)),  # type: ignore[attr-defined]
        ("forecast", lambda side: side.post("/forecast", key, query=text)),  # type: ignore[attr-defined]
        ("history", lambda side: side.get("/history")),  # type: ignore[attr-defined]
        ("table", lambda side: side.get("")),  # type: ignore[attr-defined]
    ]
    return pick(rng, calls)
