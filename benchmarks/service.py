"""Requests per second of a whole service, beside a bare FastAPI endpoint with one SQLite commit, in one run.

python -m benchmarks service                     # figures, with 1, 16 and 64 analysts at once
python -m benchmarks.service --chaos 300         # rounds in which the worker or the front is killed (-9)
python -m benchmarks.service --chaos 60 --postgres   # the same with the database, which is killed too
python -m benchmarks.service --install           # from pip install to the first answer
python -m benchmarks.service --fuzz 1000         # schemathesis, examples for each operation
python -m benchmarks.service --timing 600        # what the times of draws and of replies say (A13, A14)
python -m benchmarks.service --open 10000        # questions that are open at once
python -m benchmarks.service --memory            # of front and worker, by the size of the table

Clients are sockets of one asyncio loop in this process, so that they share the machine with the service: figures of CPU
time per request are steadier than requests per second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks import ledger
from maquette import demo
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.domain import Domain, Relation
from maquette.web import config as configs
from maquette.web.auth import Door
from maquette.web.state import State

ANALYSTS = 64
CLIENTS = (1, 16, 64)
SECONDS = 4.0
QUESTIONS = 400
"""New questions of one analyst."""
OFFERED = 400
"""Requests per second at which times are taken as well: the goal of the mixed load. Otherwise every analyst sends the
next request as soon as the last is answered, so that a time is mostly what the others of that moment take."""
PEER = """
import sqlite3, sys, threading, uvicorn
from fastapi import FastAPI
app, lock = FastAPI(), threading.Lock()
book = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE t (a TEXT)"):
    book.execute(statement)

@app.post("/spend")
def spend(body: dict) -> dict:
    with lock:
        book.execute("INSERT INTO t VALUES (?)", (str(body),))
    return {"value": 0.5}

@app.get("/nothing")
def nothing() -> dict:
    return {"value": 0.5}

config = uvicorn.Config(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
uvicorn.Server(config).run()
"""


def run(data: Path | None) -> list[dict[str, Any]]:
    del data
    with tempfile.TemporaryDirectory(prefix="mq-bench-") as name:
        folder = Path(name)
        path, tokens = prepare(folder)
        started = time.perf_counter()
        with service(path) as (front, home):
            first = time.perf_counter() - started
            people = [Client(home, token) for token in tokens]
            release = make_release(home, tokens[0])
            warm_up(people)
            figures = [
                figure(
                    "free answers: sent again with its key",
                    front,
                    people,
                    lambda c, i: c.ask("age >= 60", f"free-{c.name}"),
                ),
                figure(
                    "free answers: asked before, under a new key (durable)",
                    front,
                    people,
                    lambda c, i: c.ask("age >= 60", f"new-{c.name}-{time.perf_counter_ns()}"),
                ),
                figure("forecasts, with what is published", front, people, lambda c, i: c.forecast(i)),
                figure("exploration (a table of a release)", front, people, lambda c, i: c.table(release, i)),
                figure(
                    "paid answers, durable",
                    front,
                    people,
                    lambda c, i: c.ask(question(c, i), f"paid-{c.name}-{c.asked}"),
                ),
                figure("mixed: nine free to one paid", front, people, mixed),
                figure(
                    f"mixed as above, but {OFFERED} requests per second come by chance, from all analysts together",
                    front,
                    people,
                    mixed,
                    offered=OFFERED,
                ),
            ]
            memory = {one["role"]: one["megabytes"] for one in processes(front)}
        with peer(folder) as (bare, home):
            others = [Client(home, "") for _ in range(ANALYSTS)]
            figures.append(
                figure("peer: bare endpoint, one SQLite commit", bare, others, lambda c, i: c.spend(i))
            )
            figures.append(figure("peer: bare endpoint, nothing", bare, others, lambda c, i: c.nothing()))
        charges = ledger.figure("SQLite file, synchronous=FULL", str(folder / "charges.ledger"))
    start = {
        "what": "a service started",
        "load_average_5_min": round(os.getloadavg()[1], 1),
        "seconds_to_ready": round(first, 2),
        "megabytes": memory,
        "records": demo.ROWS,
    }
    return [*with_ratios(figures), charges, start]


# --- what is measured -----------------------------------------------------------------------------------------------


def prepare(folder: Path, *, analysts: int = ANALYSTS, database: Any = None) -> tuple[Path, list[str]]:
    """A table, a configuration with a steward and many analysts, and a token for each; the steward's comes first.

    `database` has the addresses of a ledger and of the service's state in PostgreSQL.
    """
    demo.write(folder)
    text = "" if database is None else f'database = "{database.state}"\n'
    text += (
        'state = "state"\n[tables.people]\nsource = "people.csv"\n'
        'domain = "people.domain.json"\n'
        f"{'' if database is None else f'ledger = {json.dumps(database.ledger)}'}\n"
        "epsilon = 8.0\ndelta = 1e-9\n[people.stella]\nrole = 'steward'\nrequests_per_minute = 100000000\n"
    )
    for i in range(analysts):
        text += (
            f"[people.a{i}]\nrequests_per_minute = 100000000\n[people.a{i}.tables.people]\nepsilon = 0.5\n"
            f"questions = {QUESTIONS}\nsteps_per_minute = 100000\n"
        )
    path = folder / "serve.toml"
    path.write_text(text, encoding="utf-8")
    config = configs.load(path)
    if database is not None:  # a ledger in a database is made first, by whoever runs it
        table, domain = config.settings.tables["people"], Domain.load(folder / "people.domain.json")
        Ledger.create(
            database.ledger,
            budget=Budget(table.epsilon, table.delta, table.accounting),
            relation=Relation.named(table.relation),
            domain_fingerprint=domain.fingerprint,
            name="people",
        ).close()
    config.state.mkdir(mode=0o700)
    door = Door(config, State.at(config.state, config.settings.database))
    tokens = [door.new_token(name) for name in ("stella", *(f"a{i}" for i in range(analysts)))]
    door.store.close()
    return path, tokens


@contextmanager
def service(path: Path) -> Iterator[tuple[psutil.Process, str]]:
    """The command itself, with its worker."""
    command = [sys.executable, "-m", "maquette.cli", "serve", str(path), "--port", "0"]
    front = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert front.stdout is not None
    found = re.search(r"http://[\d.:]+", front.stdout.readline())
    assert found is not None
    try:
        yield psutil.Process(front.pid), found[0]
    finally:
        front.terminate()
        front.wait(30)


@contextmanager
def peer(folder: Path) -> Iterator[tuple[psutil.Process, str]]:
    program = folder / "peer.py"
    program.write_text(PEER, encoding="utf-8")
    port = 20_000 + random.randrange(20_000)
    bare = subprocess.Popen([sys.executable, str(program), str(folder / "peer.db"), str(port)])
    home = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            httpx.get(f"{home}/nothing")
            break
        except httpx.TransportError:
            time.sleep(0.1)
    try:
        yield psutil.Process(bare.pid), home
    finally:
        bare.terminate()
        bare.wait(30)


class Client:
    """One analyst on one connection, by the bytes: a library would take more time than the service."""

    def __init__(self, home: str, token: str) -> None:
        url = httpx.URL(home)
        self.host, self.port, self.token = url.host, url.port, token
        self.name = token.split("_")[1] if token else "peer"
        self.asked = 0
        self.chance = random.Random(self.name)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> None:
        self._streams = await asyncio.open_connection(self.host, self.port)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()

    async def send(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, bytes]:
        self._write(method, path, body, key)
        return await self._read()

    def _write(self, method: str, path: str, body: Any, key: str) -> None:
        assert self._streams is not None
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.host}", f"content-length: {len(content)}"]
        lines += ["content-type: application/json"] + (
            [f"authorization: Bearer {self.token}"] if self.token else []
        )
        lines += [f"idempotency-key: {key}"] if key else []
        self._streams[1].write("\r\n".join([*lines, "", ""]).encode() + content)

    async def _read(self) -> tuple[int, bytes]:
        assert self._streams is not None
        reader = self._streams[0]
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        assert length is not None, head
        return int(head.split()[1]), await reader.readexactly(int(length[1]))

    async def pipeline(self, wishes: list[tuple[str, str]]) -> list[int]:
        """Send many questions, each with its key, before the first answer is read."""
        assert self._streams is not None
        for query, key in wishes:
            self._write("POST", "/api/v1/tables/people/questions", {"query": query}, key)
        return [(await self._read())[0] for _ in wishes]

    async def ask(self, query: str, key: str) -> int:
        return (await self.send("POST", "/api/v1/tables/people/questions", {"query": query}, key))[0]

    async def forecast(self, i: int) -> int:
        body = {"query": f"age < {10 * (i % 9 + 1)} and region = '{demo.REGIONS[i % 4]}'"}
        return (await self.send("POST", "/api/v1/tables/people/forecast", body))[0]

    async def table(self, release: str, i: int) -> int:
        by = ("age", "sex", "region", "work")[i % 4]
        return (await self.send("GET", f"/api/v1/releases/{release}/table?by={by}&by=household"))[0]

    async def spend(self, i: int) -> int:
        return (await self.send("POST", "/spend", {"query": f"age < {i}"}))[0]

    async def nothing(self) -> int:
        return (await self.send("GET", "/nothing"))[0]


def question(client: Client, _i: int) -> str:
    """A condition that this analyst has not asked; others may have, so that each has words of their own."""
    client.asked += 1
    n = client.asked * ANALYSTS + int(client.name, 16) % ANALYSTS
    age, household, rest = n % 9 + 1, n // 9 % 4 + 1, n // 36
    region = demo.REGIONS[rest % 4]
    work = demo.WORK[rest // 4 % 5]
    education = demo.EDUCATION[rest // 20 % 4]
    return (
        f"age < {10 * age} and household = {household} and region = '{region}' and work = '{work}' "
        f"and education = '{education}' and sex = '{('female', 'male')[rest // 80 % 2]}'"
    )


async def mixed(client: Client, i: int) -> int:
    """One in ten by chance: analysts who all pay at their first, eleventh, ... question would pay at the same time."""
    if client.chance.random() < 0.9:
        return await client.ask("age >= 60", f"free-{client.name}")
    return await client.ask(question(client, i), f"mixed-{client.name}-{client.asked}")


def make_release(home: str, token: str) -> str:
    import maquette as mq

    with mq.connect(home, token=token) as stella:
        release = stella.release("people", marginals=[1, 2], epsilon=1.0, delta=1e-9, name="bench")
        job = stella.get("/jobs")["items"][0]["id"]
        stella.post(f"/jobs/{job}/publish")
        return release.name


def warm_up(people: list[Client]) -> None:
    """Everybody buys the number of records and asks once, before any clock runs."""

    async def one(client: Client) -> None:
        await client.open()
        if client.token:
            await client.send("POST", "/api/v1/tables/people/size")
            await client.ask("age >= 60", f"free-{client.name}")
        await client.close()

    async def all_of_them() -> None:
        for client in people[1:]:
            await one(client)

    asyncio.run(all_of_them())


def figure(
    what: str, server: psutil.Process, people: list[Client], call: Any, *, offered: float | None = None
) -> dict[str, Any]:
    """Requests per second and times for each number of clients, and CPU milliseconds of the server's processes."""
    by_clients = {}
    for count in CLIENTS if offered is None else CLIENTS[-1:]:
        before = cpu(server)
        times, statuses, seconds = asyncio.run(
            _drive(people[1 : count + 1] if len(people) > count else people, call, offered)
        )
        used = cpu(server) - before
        ordered = sorted(times)
        by_clients[str(count)] = {
            "requests": len(times),
            "per_second": round(len(times) / seconds, 1),
            "p50_ms": round(1000 * statistics.median(ordered), 1),
            "p99_ms": round(1000 * ordered[int(0.99 * (len(ordered) - 1))], 1),
            "cpu_ms_per_request": round(1000 * used / max(len(times), 1), 2),
            "refused": sum(status != 200 for status in statuses),
        }
    return {"what": what, "clients": by_clients}


async def _drive(
    people: list[Client], call: Any, offered: float | None = None
) -> tuple[list[float], list[int], float]:
    """With a number of requests that are offered per second, a time counts from when the request was due."""
    times: list[float] = []
    statuses: list[int] = []
    for client in people:
        await client.open()
    started = time.perf_counter()

    async def work(client: Client) -> None:
        i, begun = 0, started
        while time.perf_counter() - started < SECONDS and i < QUESTIONS // 4:
            if offered is None:
                begun = time.perf_counter()
            else:
                begun += client.chance.expovariate(offered / len(people))
                await asyncio.sleep(max(begun - time.perf_counter(), 0))
            statuses.append(await call(client, i))
            times.append(time.perf_counter() - begun)
            i += 1

    await asyncio.gather(*(work(client) for client in people))
    seconds = time.perf_counter() - started
    for client in people:
        await client.close()
    return times, statuses, seconds


def cpu(server: psutil.Process) -> float:
    family = [server, *server.children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in family if one.is_running())


def processes(server: psutil.Process) -> list[dict[str, Any]]:
    family = [("front", server), *(("worker", child) for child in server.children())]
    return [{"role": role, "megabytes": round(one.memory_info().rss / 2**20)} for role, one in family]


def with_ratios(figures: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Beside every figure: how many of the bare endpoint's requests one of ours takes."""
    bare = next(one for one in figures if "one SQLite commit" in one["what"])["clients"]
    for one in figures:
        for count, numbers in one["clients"].items():
            numbers["of_the_bare_endpoint"] = round(numbers["per_second"] / bare[count]["per_second"], 3)
    return figures


def main() -> None:
    from benchmarks.__main__ import append_each
    from benchmarks._service_faults import chaos, fuzz, install
    from benchmarks._service_timing import memory, open_questions, timing

    parser = argparse.ArgumentParser(prog="python -m benchmarks.service")
    parser.add_argument("--chaos", type=int, metavar="ROUNDS")
    parser.add_argument("--postgres", action="store_true", help="chaos over PostgreSQL, which is killed too")
    parser.add_argument("--fuzz", type=int, metavar="EXAMPLES")
    parser.add_argument(
        "--timing", type=int, metavar="QUESTIONS", help="questions about each of two neighbours"
    )
    parser.add_argument("--open", type=int, metavar="QUESTIONS", help="questions that are open at once")
    parser.add_argument("--memory", action="store_true", help="megabytes by the size of the table")
    parser.add_argument("--install", action="store_true", help="from pip install to the first answer")
    chosen = parser.parse_args()
    figures = []
    if chosen.install:
        figures.append(install() | {"command": "python -m benchmarks.service --install"})
    if chosen.memory:
        figures.append(memory() | {"command": "python -m benchmarks.service --memory"})
    if chosen.timing:
        command = f"python -m benchmarks.service --timing {chosen.timing}"
        figures.append(timing(chosen.timing) | {"command": command})
    if chosen.open:
        command = f"python -m benchmarks.service --open {chosen.open}"
        figures.append(open_questions(chosen.open) | {"command": command})
    if chosen.chaos:
        more = " --postgres" if chosen.postgres else ""
        command = f"python -m benchmarks.service --chaos {chosen.chaos}{more}"
        figures.append(chaos(chosen.chaos, with_postgres=chosen.postgres) | {"command": command})
    if chosen.fuzz:
        figures.append(fuzz(chosen.fuzz) | {"command": f"python -m benchmarks.service --fuzz {chosen.fuzz}"})
    append_each("service", figures)


if __name__ == "__main__":
    main()
