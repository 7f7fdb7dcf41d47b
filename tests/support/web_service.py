"""A running service over a small made-up table: workers as processes, the front in a thread of the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from maquette import demo
from maquette.web import config as configs
from maquette.web.app import service_site
from maquette.web.service import Service
from support.browser import served

ROWS = 4000
TEXT = """\
title = "Tests"
state = "state"
tick_milliseconds = {tick}

[tables.people]
source = "people.csv"
domain = "people.domain.json"
epsilon = 4.0
delta = 1e-9
about = "Made up."
{table}

[people.stella]
role = "steward"
requests_per_minute = 100000

[people.anna]
requests_per_minute = 100000
[people.anna.tables.people]
epsilon = 1.0
steps_per_minute = {steps}

[people.bert]
requests_per_minute = 100000
[people.bert.tables.people]
epsilon = 0.5
steps_per_minute = {steps}

[people.carl]
"""

UNDECLARED = """
[tables.drafted]
source = "people.csv"
domain = "drafted.domain.json"
ledger = "drafted.ledger"
epsilon = 2.0
review_draft = true

[tables.raw]
source = "people.csv"
domain = "raw.domain.json"
ledger = "raw.ledger"
epsilon = 4.0
delta = 1e-6
discovery = true

[people.dora.tables.raw]
epsilon = 0.5
[people.dora.tables.drafted]
epsilon = 0.5
"""
"""Two more tables: one with an unreviewed draft, one without any domain."""


def write_config(
    folder: Path, *, tick: int = 0, table: str = "", steps: int = 10_000, more: str = "", text: str = TEXT
) -> Path:
    """A folder with a table, its domain and a configuration."""
    demo.write(folder, rows=ROWS)
    path = folder / "serve.toml"
    path.write_text(text.format(tick=tick, table=table, steps=steps) + more, encoding="utf-8")
    return path


def write_undeclared(folder: Path) -> Path:
    """The same with two tables whose domains are still to be reviewed or found."""
    from maquette.owner import draft

    path = write_config(folder, more=UNDECLARED, table="fit_report = true")
    draft(folder / "people.csv").save(folder / "drafted.domain.json")
    return path


@dataclass
class World:
    """A service, its address, and clients of its people."""

    service: Service
    home: str
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, name: str) -> str:
        if name not in self.tokens:
            self.tokens[name] = self.service.door.new_token(name)
        return self.tokens[name]

    def browser(self, name: str | None = None) -> Browser:
        """A client with cookies, signed in by its token."""
        browser = Browser(httpx.Client(base_url=self.home, timeout=60))
        if name is not None:
            reply = browser.client.post("/login", data={"token": self.token(name)})
            assert reply.status_code == 303, reply.text
        return browser

    def script(self, name: str) -> httpx.Client:
        """A client with a token in its header."""
        headers = {"authorization": f"Bearer {self.token(name)}"}
        return httpx.Client(base_url=self.home, headers=headers, timeout=60)


@dataclass
class Browser:
    """What a browser without scripts does: follow links and send forms with what they hold."""

    client: httpx.Client

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/releases").text)
        return "" if found is None else found[1]

    def post(self, path: str, **values: Any) -> httpx.Response:
        return self.client.post(path, data={"csrf": self.csrf()} | values)

    def ask(self, query: str, *, key: str = "a-key-of-tests", **values: Any) -> httpx.Response:
        return self.post("/t/people/ask", q=query, key=key, **values)


@contextmanager
def running(path: Path, *, is_demo: bool = False) -> Iterator[World]:
    """The service of a configuration, on a free port of this machine."""
    config = replace(configs.load(path), is_demo=is_demo)
    service = Service.start(config)
    try:
        with served(service_site(service)) as home:
            yield World(service, home)
    finally:
        service.stop()
