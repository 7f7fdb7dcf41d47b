"""Processes that are killed, slow clients, ledgers that cannot be written: nothing overspent, nothing paid is lost."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from fastapi import Request

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.errors import LedgerError, SourceError
from maquette.web import server
from maquette.web.app import service_site
from support.browser import served
from support.web_service import running, write_config

ROUNDS = 6
"""`python -m benchmarks.service --chaos 300` runs more of them."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with running(write_config(tmp_path_factory.mktemp("service"))) as world:
        yield world


def ask(client: httpx.Client, query: str, key: str) -> dict:
    """Send until there is an answer, as the client of the package does."""
    for _ in range(200):
        try:
            reply = client.post(
                "/api/v1/tables/people/questions", json={"query": query}, headers={"idempotency-key": key}
            )
        except httpx.TransportError:
            continue
        if reply.status_code != 503:
            assert reply.status_code == 200, reply.text
            return reply.json()
        time.sleep(0.1)
    raise AssertionError("no answer")


@pytest.mark.slow
def test_answers_outlive_workers_that_are_killed_at_any_moment(world):
    """A9, A8: two analysts ask while the worker is killed again and again; afterwards every key repeats its answer."""
    world.service.links["people"].call("buy_size", who="anna", role="analyst")
    world.service.links["people"].call("buy_size", who="bert", role="analyst")
    keeper = world.service.keepers["people"]
    answers: dict[tuple[str, int], dict] = {}
    is_over = threading.Event()

    def work(who: str) -> None:
        client, i = world.script(who), 0
        while not is_over.is_set():
            query = f"age < {10 * (i % 9 + 1)} and household = {i // 9 % 4 + 1}"
            answers[who, i] = ask(client, query, f"fault-{i:05}")
            i += 1

    threads = [threading.Thread(target=work, args=(who,)) for who in ("anna", "bert")]
    for thread in threads:
        thread.start()
    for _ in range(ROUNDS):
        before = len(answers)
        for _ in range(600):  # at least one answer between two kills
            if len(answers) > before:
                break
            time.sleep(0.05)
        os.kill(keeper.pid, signal.SIGKILL)
        time.sleep(0.3)
    is_over.set()
    for thread in threads:
        thread.join(120)
    assert keeper.restarts >= 1
    assert len(answers) >= ROUNDS
    for (who, i), first in answers.items():
        query = f"age < {10 * (i % 9 + 1)} and household = {i // 9 % 4 + 1}"
        again = ask(world.script(who), query, f"fault-{i:05}")
        assert (again["value"], again["error"]) == (first["value"], first["error"])
        assert again["cost"] == 0
    link = world.service.links["people"]
    assert link.call("verify")["audit_lines"] > 0
    with Ledger.open(world.service.config.ledger("people")) as ledger:
        assert ledger.spent_units <= ledger.total_units


@pytest.mark.slow
def test_a_job_goes_on_when_its_worker_is_killed(world):
    with mq.connect(world.home, token=world.token("stella")) as stella:
        wish = {"marginals": [1, 2], "epsilon": 0.4, "delta": 1e-9, "name": "killed"}
        job = stella.post("/tables/people/releases", wish, key="killed-release")["id"]
        while stella.get(f"/jobs/{job}")["stage"] in ("waiting", "starting"):
            time.sleep(0.05)
        os.kill(world.service.keepers["people"].pid, signal.SIGKILL)
        while (row := stella.get(f"/jobs/{job}"))["state"] == "running" or not row["release"]:
            assert row["state"] in ("running", "done"), row
            time.sleep(0.1)
        assert stella.load(row["release"]).answer("age < 30").error is not None
        with Ledger.open(world.service.config.ledger("people")) as ledger:
            parts = [entry.key for entry in ledger.entries(kind="reserve", parent=f"job-{job}")]
            assert len(parts) == len(set(parts))
            assert getattr(ledger.find(f"job-{job}"), "settlement", None) is not None
            ledger.verify()


@pytest.mark.slow
def test_a_cancelled_job_is_resumed_and_pays_nothing_twice(world):
    with mq.connect(world.home, token=world.token("stella")) as stella:
        wish = {"marginals": [1], "epsilon": 0.1, "delta": 1e-9}
        job = stella.post("/tables/people/releases", wish, key="cancelled-release")["id"]
        assert stella.post(f"/jobs/{job}/cancel")["state"] == "cancelled"
        with pytest.raises(mq.ParameterError, match="not finished"):
            stella.post(f"/jobs/{job}/publish")
        stella.post(f"/jobs/{job}/resume")
        for _ in stella.follow(job):
            pass
        assert stella.get(f"/jobs/{job}")["state"] == "done"
        with Ledger.open(world.service.config.ledger("people")) as ledger:
            keys = [entry.key for entry in ledger.entries(kind="reserve")]
            assert len(keys) == len(set(keys))


def start(path: Path) -> tuple[subprocess.Popen[str], str]:
    """The command itself, with its workers; where it listens."""
    command = [sys.executable, "-m", "maquette.cli", "serve", str(path), "--port", "0"]
    front = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert front.stdout is not None
    line = front.stdout.readline()
    found = re.search(r"http://[\d.:]+", line)
    assert found is not None, line
    return front, found[0]


@pytest.mark.slow
def test_a_front_that_is_killed_takes_its_worker_along_and_everything_goes_on(tmp_path):
    path = write_config(tmp_path)
    token = subprocess.run(
        [sys.executable, "-m", "maquette.cli", "token", "new", str(path), "stella"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    front, home = start(path)
    try:
        with mq.connect(home, token=token) as stella:
            wish = {"marginals": [1, 2], "epsilon": 0.4, "delta": 1e-9, "name": "first"}
            job = stella.post("/tables/people/releases", wish, key="the-only-release")["id"]
        family = psutil.Process(front.pid).children(recursive=True)
        assert family
        front.kill()
        front.wait()
        _, alive = psutil.wait_procs(family, timeout=30)
        assert alive == []
    finally:
        front.kill()
    front, home = start(path)
    try:
        with mq.connect(home, token=token) as stella:
            for _ in range(600):
                row = stella.get(f"/jobs/{job}")
                if row["release"]:
                    break
                time.sleep(0.1)
            assert stella.load("first").headline
            assert stella.post("/tables/people/ledger/verify")["audit_lines"] > 0
        front.terminate()
        assert front.wait(30) in (0, -signal.SIGTERM)
    finally:
        front.kill()


# --- slow and broken clients, without workers -----------------------------------------------------------------------


def test_replies_to_questions_leave_on_the_tick(monkeypatch):
    """A13, A14: whatever a look takes is rounded up to the next tick; other pages do not wait."""
    clock = [100.0]
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)

    monkeypatch.setattr(server.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(server.asyncio, "sleep", sleep)

    def reply_after(seconds: float, path: str) -> None:
        async def app(scope, receive, send) -> None:
            clock[0] += seconds
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        async def nothing(*_: object) -> Any:
            return None

        scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"host", b"localhost")]}
        asyncio.run(server.Guard(app, hosts=["localhost"], tick=0.025)(scope, nothing, nothing))

    for took in (0.001, 0.0249, 0.026, 0.9):
        reply_after(took, "/api/v1/tables/people/questions")
        total = took + sleeps.pop()
        assert total / 0.025 == pytest.approx(round(total / 0.025), abs=1e-6)
        assert took <= total < took + 0.025 + 1e-9
    reply_after(0.001, "/login")
    assert sleeps == []


def bare_site():
    from maquette.web.app import bare
    from maquette.web.pages import Frame

    async def count_request(_: Request) -> int:
        return 0

    app = bare(frame_of=lambda _: Frame("x"), count_request=count_request, title="x", hosts=["127.0.0.1"])

    @app.post("/slow")
    async def slow(request: Request) -> dict:
        return {"length": len(await request.body())}

    return app


def test_a_client_that_never_sends_its_request_is_dropped(monkeypatch):
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)
    with served(bare_site(), protocol=server._patient_for_a_while()) as home:
        url = httpx.URL(home)
        with socket.create_connection((url.host, url.port)) as plug:
            plug.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127")
            plug.settimeout(20)
            assert plug.recv(100) == b""
        assert httpx.get(f"{home}/healthz").status_code == 200


def test_a_head_that_never_ends_is_dropped():
    """Whichever protocol is installed: httptools knows no longest head by itself."""
    with served(bare_site(), protocol=server._patient_for_a_while()) as home:
        port = int(home.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as plug:
            plug.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert plug.recv(4096).startswith(
                b"HTTP/1.1 200"
            )  # the second head on a connection is bounded too
            plug.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n")
            sent, is_open = 0, True
            while is_open and sent < 40 * server.MAX_HEAD:
                try:
                    plug.sendall(b"x-more: " + b"a" * 4000 + b"\r\n")
                    sent += 4010
                except OSError:
                    is_open = False
            if (
                is_open
            ):  # all of it may still wait in the system's buffers; a read ends when the server hangs up
                with suppress(ConnectionError):
                    while plug.recv(4096):
                        pass


def test_a_body_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    with served(bare_site()) as home:
        url = httpx.URL(home)
        with socket.create_connection((url.host, url.port)) as plug:
            plug.sendall(b"POST /slow HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\nabc")
            plug.settimeout(20)
            assert b" 408 " in plug.recv(1000)
        chunks = (b"x" * 1000 for _ in range(100))
        assert httpx.post(f"{home}/slow", content=chunks).status_code == 413
        assert httpx.post(f"{home}/slow", content=b"abc").json() == {"length": 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        LedgerError("cannot write the ledger /secret/place/people.ledger: no space left on device"),
        SourceError("file /secret/place/people.csv was changed since it was opened"),
    ],
    ids=["ledger", "table"],
)
def test_what_cannot_be_written_or_read_is_503_without_its_place(world, monkeypatch, error):
    """A12: no answer without a committed payment, and no path in what a reader sees."""

    def full(*_: object, **__: object) -> None:
        raise error

    link = world.service.links["people"]
    monkeypatch.setattr(link, "call_async", full)
    with served(service_site(world.service)) as home:
        headers_ = {"authorization": f"Bearer {world.token('anna')}", "idempotency-key": "no-space-left"}
        reply = httpx.post(
            f"{home}/api/v1/tables/people/questions", json={"query": "age < 3"}, headers=headers_
        )
    assert reply.status_code == 503
    assert "secret" not in reply.text
    assert "value" not in reply.json()
    monkeypatch.undo()
    monkeypatch.setattr(world.service, "forecast", full)
    page = world.browser("anna").get("/t/people/ask?q=age+<+3")
    assert "secret" not in page.text
    assert "Tell the steward" in page.text
