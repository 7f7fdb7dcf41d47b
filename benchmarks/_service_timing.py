"""What the time of a reply says, many questions that are open at once, memory: see `benchmarks.service`."""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from scipy import stats

from benchmarks.service import Client, prepare, processes, question, service, warm_up
from maquette import demo
from maquette.core.noise import SystemNoise
from maquette.domain import Domain

TICK = 25
"""Milliseconds of the tick of replies, as a service has it by default."""
DRAWS, SIGMA = 20_000, 67.0
"""How often noise is drawn, and its deviation: that of one of a hundred questions at epsilon 1."""


def timing(limit: int) -> dict[str, Any]:
    """A13, A14: do times of draws follow the noise, and do replies about neighbours differ in time or length?"""
    return {"what": "timing", "draws": draws(), "replies": replies(limit)}


def draws() -> dict[str, Any]:
    """One Gaussian draw after another: the rank correlation of its time with the size of the noise."""
    source = SystemNoise()
    times, sizes = np.empty(DRAWS), np.empty(DRAWS)
    exact = np.zeros(1, dtype=np.int64)
    for i in range(DRAWS):
        begun = time.perf_counter_ns()
        value = source.gaussian(exact, sigma=SIGMA)
        times[i], sizes[i] = time.perf_counter_ns() - begun, abs(int(value[0]))
    rho: Any = stats.spearmanr(times, sizes)
    return {
        "draws": DRAWS,
        "microseconds": round(float(np.median(times)) / 1000, 1),
        "spearman": round(float(rho.statistic), 4),
        "p": round(float(rho.pvalue), 4),
    }


def replies(limit: int) -> dict[str, Any]:
    """The same questions about a table and its neighbour, one after the other, over the net as an analyst sees it.

    Every question counts one record that the neighbour lacks; where it has few companions, a look that ended early on
    an empty set would show.
    """
    with tempfile.TemporaryDirectory(prefix="mq-timing-") as name:
        folders = [Path(name) / "with", Path(name) / "without"]
        places = []
        for folder in folders:
            folder.mkdir()
            path, tokens = prepare(folder, analysts=4)
            text = path.read_text("utf-8").replace(
                "[tables.people]", f"tick_milliseconds = {TICK}\n[tables.people]", 1
            )
            path.write_text(text.replace("questions = 400", "questions = 2000"), encoding="utf-8")
            places.append((path, tokens))
        record = _leave_out_first(folders[1] / "people.csv")
        conditions = _conditions(folders[0], record)[:limit]
        shares = [_share(folders[0] / "people.csv", one) for one in conditions]
        with service(places[0][0]) as (_, home), service(places[1][0]) as (_, other):
            people = [
                [Client(h, token) for token in tokens]
                for h, (_, tokens) in zip((home, other), places, strict=True)
            ]
            for clients in people:
                warm_up(clients)
            seen = asyncio.run(_ask_both([clients[1] for clients in people], conditions))
    times, lengths, values = (np.array([[one[i] for one in side] for side in seen]) for i in range(3))
    noise = np.abs(values - np.array(shares))
    ticks = np.ceil(1000 * times / TICK)
    return {
        "questions_of_each": len(conditions),
        "tick_milliseconds": TICK,
        "median_ms": [round(1000 * float(np.median(side)), 1) for side in times],
        "one_tick": [round(float(np.mean(side <= 1)), 3) for side in ticks],
        "ks_p_of_times": _ks(*times),
        "ks_p_of_ticks": _ks(*ticks),
        "ks_p_of_lengths": _ks(*lengths),
        "spearman_of_ticks_and_noise": [
            _rank_correlation(side, sizes) for side, sizes in zip(ticks, noise, strict=True)
        ],
        "pass": "KS p above 0.001; rank correlations within sampling error of 0",
    }


def _ks(one: Any, other: Any) -> float:
    result: Any = stats.ks_2samp(one, other)
    return round(float(result.pvalue), 4)


def _rank_correlation(ticks: Any, sizes: Any) -> float:
    result: Any = stats.spearmanr(ticks, sizes)
    return 0.0 if len(set(ticks)) == 1 else round(float(result.statistic), 4)


def _share(path: Path, condition: str) -> float:
    """The true share; the table is made up."""
    import duckdb

    text = f"select count(*) filter (where {condition}) / count(*) from read_csv('{path}')"
    with duckdb.connect() as connection:
        row = connection.execute(text).fetchone()
    assert row is not None
    return float(row[0])


def _leave_out_first(path: Path) -> dict[str, str]:
    """The neighbour without the first record, which is returned."""
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([lines[0], *lines[2:]]) + "\n", encoding="utf-8")
    return next(csv.DictReader(lines[:2]))


def _conditions(folder: Path, record: dict[str, str]) -> list[str]:
    """Conditions that the record meets: ranges of its age with every choice of its other values."""
    domain = Domain.load(folder / "people.domain.json")
    age = int(float(record["age"]))
    low, high = age // 10 * 10, age // 10 * 10 + 10
    ranges = [
        f"age >= {first} and age < {last}"
        for first in range(low, -1, -10)
        for last in range(high, 101, 10)
        if (first, last) != (0, 100)
    ]
    names = [
        n for n in domain.names if n in ("sex", "region", "education", "work", "household") and record[n]
    ]
    quoted = {n: record[n] if n == "household" else f"'{record[n]}'" for n in names}
    return [
        " and ".join([span, *(f"{n} = {quoted[n]}" for n in chosen)])
        for size in range(len(names), 0, -1)
        for chosen in itertools.combinations(names, size)
        for span in ranges
    ]


async def _ask_both(pair: list[Client], conditions: list[str]) -> list[list[tuple[float, int, float]]]:
    seen: list[list[tuple[float, int, float]]] = [[], []]
    for client in pair:
        await client.open()
    for i, condition in enumerate(conditions):
        for side in (0, 1) if i % 2 else (1, 0):
            begun = time.perf_counter()
            where = "/api/v1/tables/people/questions"
            status, body = await pair[side].send("POST", where, {"query": condition}, f"timing-{i:05}")
            spent = time.perf_counter() - begun
            assert status == 200, body
            seen[side].append((spent, len(body), json.loads(body)["value"]))
    for client in pair:
        await client.close()
    return seen


# --- many open questions --------------------------------------------------------------------------------------------


CONNECTIONS = 800


def open_questions(count: int) -> dict[str, Any]:
    """So many questions sent before the first answer is read; one analyst who sends one at a time meanwhile.

    One in ten is new, the others were asked before and get a key of their own: all of them are written to the ledger.
    """
    with tempfile.TemporaryDirectory(prefix="mq-open-") as name:
        path, tokens = prepare(Path(name))
        with service(path) as (front, home):
            people = [Client(home, token) for token in tokens]
            warm_up(people)
            sent = asyncio.run(_flood(people[1:-1], people[-1], count, front))
            headers = {"authorization": f"Bearer {tokens[0]}"}
            base = f"{home}/api/v1/tables/people/ledger"
            verified = httpx.post(f"{base}/verify", headers=headers, timeout=300).json()
            book = httpx.get(base, headers=headers, timeout=60).json()
    within = book["spent"] + book["reserved"] <= book["total"] * (1 + 1e-9)
    return {"what": "open questions", **sent, "audit_lines": verified["audit_lines"], "within_total": within}


async def _flood(people: list[Client], patient: Client, count: int, front: psutil.Process) -> dict[str, Any]:
    crowd = [
        Client(f"http://{patient.host}:{patient.port}", people[i % len(people)].token)
        for i in range(CONNECTIONS)
    ]
    for i, client in enumerate(crowd):
        client.asked = i * 40
    for client in (*crowd, patient):
        await client.open()
    begun = time.perf_counter()
    statuses: dict[str, int] = {}
    each = -(-count // CONNECTIONS)

    async def all_of(number: int, client: Client) -> None:
        wishes = []
        for i in range(min(each, count - number * each)):
            query = question(client, 0) if i % 10 == 5 else "age >= 60"
            wishes.append((query, f"open-{number:04}-{i:03}"))
        for status in await client.pipeline(wishes):
            statuses[str(status)] = statuses.get(str(status), 0) + 1

    waits: list[float] = []

    async def one_at_a_time(flood: asyncio.Future[Any]) -> None:
        await asyncio.sleep(0.5)
        while not flood.done():
            start = time.perf_counter()
            await patient.ask("age >= 60", f"patient-{len(waits):05}")
            waits.append(time.perf_counter() - start)
            await asyncio.sleep(0.2)

    flood = asyncio.gather(*(all_of(i, client) for i, client in enumerate(crowd)))
    await one_at_a_time(flood)
    await flood
    seconds = time.perf_counter() - begun
    for client in (*crowd, patient):
        await client.close()
    ordered = sorted(waits) or [0.0]
    return {
        "questions": count,
        "connections": CONNECTIONS,
        "statuses": statuses,
        "seconds": round(seconds, 1),
        "another_analyst": {
            "requests": len(waits),
            "p50_ms": round(1000 * ordered[len(ordered) // 2], 1),
            "max_ms": round(1000 * ordered[-1], 1),
        },
        "front_megabytes": round(front.memory_info().rss / 2**20),
        "records": demo.ROWS,
    }


# --- memory ---------------------------------------------------------------------------------------------------------


def memory(sizes: tuple[int, ...] = (20_000, 200_000, 2_000_000)) -> dict[str, Any]:
    """Megabytes of front and worker, when the table is open and after ten questions of one analyst, by records."""
    return {"what": "memory per table", "by_records": {str(rows): _memory_of(rows) for rows in sizes}}


def _memory_of(rows: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mq-memory-") as name:
        path, tokens = prepare(Path(name), analysts=1)
        demo.write(Path(name), rows=rows)
        begun = time.perf_counter()
        with service(path) as (front, home):
            figures: dict[str, Any] = {"seconds_to_ready": round(time.perf_counter() - begun, 1)}
            figures["opened"] = {one["role"]: one["megabytes"] for one in processes(front)}
            with httpx.Client(base_url=f"{home}/api/v1/tables/people", timeout=300) as client:
                client.headers["authorization"] = f"Bearer {tokens[1]}"
                client.post("/size").raise_for_status()
                for i in range(10):
                    key = {"idempotency-key": f"memory-{i:03}"}
                    reply = client.post("/questions", json={"query": f"age < {10 * i + 5}"}, headers=key)
                    reply.raise_for_status()
            figures["after_questions"] = {one["role"]: one["megabytes"] for one in processes(front)}
    return figures
