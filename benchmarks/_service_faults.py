"""A service whose processes are killed, one that is fuzzed, and one that is installed: see `benchmarks.service`."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.service import Client, make_release, prepare, question, service


def chaos(
    rounds: int, *, analysts: int = 4, seed: int | None = None, with_postgres: bool = False
) -> dict[str, Any]:
    """Kill the worker, the front or the database at random moments while analysts ask; then ask every key again."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="mq-chaos-") as name, database_for(with_postgres) as database:
        path, tokens = prepare(Path(name), analysts=analysts, database=database)
        asking = Asking(tokens[1:])
        kills = {"worker": 0, "front": 0} | ({"database": 0} if database else {})
        while sum(kills.values()) < rounds:
            with service_that_may_die(path) as (front, home):
                asking.go_on(home)
                while sum(kills.values()) < rounds:
                    if chance.random() < 0.6:  # in the middle of answers; else also while a process starts
                        asking.wait_for_answer(30)
                    time.sleep(chance.uniform(0.0, 0.25))
                    what = chance.choices(list(kills), weights=[50, 10, 40][: len(kills)])[0]
                    kills[what] += 1
                    if what == "front":
                        break
                    if what == "database":
                        assert database is not None
                        database.kill(chance)
                    for one in front.children() if what == "worker" else ():
                        one.kill()
        with service(path) as (_, home):
            asking.go_on(home)
            asking.finish()
            changed = sum(
                asking.ask(token, query, key) != (value, error)
                for (token, key), (query, value, error) in asking.answers.items()
            )
            twice = sum(paid_twice(home, token) for token in tokens[1:])
            headers = {"authorization": f"Bearer {tokens[0]}"}
            base = f"{home}/api/v1/tables/people/ledger"
            verified = httpx.post(f"{base}/verify", headers=headers, timeout=300).json()
            ledger = httpx.get(base, headers=headers, timeout=60).json()
        return {
            "what": "chaos",
            "store": "PostgreSQL" if database else "SQLite",
            "kills": kills,
            "answers": len(asking.answers),
            "changed": changed,
            "paid_twice": twice,
            "audit_lines": verified["audit_lines"],
            "within_total": ledger["spent"] + ledger["reserved"] <= ledger["total"] * (1 + 1e-9),
        }


def paid_twice(home: str, token: str) -> int:
    """Keys of an analyst that were charged more than once, by the history that the ledger holds."""
    seen: Counter[str] = Counter()
    headers, after = {"authorization": f"Bearer {token}"}, 0
    while after is not None:
        address = f"{home}/api/v1/tables/people/questions?limit=500&after={after}"
        page = httpx.get(address, headers=headers, timeout=60).json()
        seen.update(one["key"] for one in page["items"] if one["key"] and one["cost"])
        after = page["next"]
    return sum(count > 1 for count in seen.values())


PAUSE = 0.2
"""Seconds before a question is sent again."""
THINKING = 0.02
"""Seconds between an answer and the next question: there is always one on its way, and processor time for restarts."""


class Asking:
    """Analysts who ask one new question after another, and send again whatever got no answer."""

    def __init__(self, tokens: list[str]) -> None:
        self.answers: dict[tuple[str, str], tuple[str, float, float]] = {}
        self._home, self._is_over = "", False
        self._client = httpx.Client(timeout=120)
        self._news = threading.Condition()
        self._threads = [threading.Thread(target=self._work, args=(token,)) for token in tokens]

    def go_on(self, home: str) -> None:
        """With the service at this address."""
        self._home = home
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def wait_for_answer(self, seconds: float) -> None:
        before = len(self.answers)
        with self._news:
            self._news.wait_for(lambda: len(self.answers) > before, seconds)

    def finish(self) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join(600)

    def ask(self, token: str, query: str, key: str) -> tuple[float, float] | None:
        headers = {"authorization": f"Bearer {token}", "idempotency-key": key}
        for _ in range(20_000):
            try:
                where = f"{self._home}/api/v1/tables/people/questions"
                reply = self._client.post(where, json={"query": query}, headers=headers)
            except (httpx.TransportError, httpx.UnsupportedProtocol):
                time.sleep(PAUSE)
                continue
            if reply.status_code == 200:
                return reply.json()["value"], reply.json()["error"]
            if reply.status_code != 503:
                return None
            time.sleep(PAUSE)
        raise AssertionError("no answer in all that time")

    def _work(self, token: str) -> None:
        client = Client("http://127.0.0.1:1", token)
        while not self._is_over:
            query, key = question(client, 0), f"chaos-{client.asked:05}"
            answer = self.ask(token, query, key)
            if answer is None:
                return
            with self._news:
                self.answers[token, key] = (query, *answer)
                self._news.notify_all()
            time.sleep(THINKING)


class Database:
    """A PostgreSQL server that can be killed and comes back."""

    def __init__(self) -> None:
        from tests.support.ledger_postgres import Server

        self._server = Server()
        self.ledger, self.state = self._server.new_database(), self._server.new_database()

    def kill(self, chance: random.Random) -> None:
        """One of its processes, which resets all of them; or the whole server, and start it again."""
        if chance.random() < 0.5:
            self._server.crash()
            self._server.start()
            return
        backends = psutil.Process(self._server.pid).children()
        if backends:
            chance.choice(backends).kill()

    def stop(self) -> None:
        self._server.stop()


@contextmanager
def database_for(with_postgres: bool) -> Iterator[Database | None]:
    database = Database() if with_postgres else None
    try:
        yield database
    finally:
        if database is not None:
            database.stop()


@contextmanager
def service_that_may_die(path: Path) -> Iterator[tuple[psutil.Process, str]]:
    """Started again where it cannot start, as whoever runs it would: its database may be on the way back."""
    command = [sys.executable, "-m", "maquette.cli", "serve", str(path), "--port", "0"]
    for _ in range(50):
        front = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert front.stdout is not None
        found = re.search(r"http://[\d.:]+", front.stdout.readline())
        if found is not None:
            break
        front.wait(60)
    else:
        raise AssertionError("the service does not start")
    family = psutil.Process(front.pid)
    try:
        yield family, found[0]
    finally:
        children = family.children(recursive=True)
        front.kill()
        front.wait(30)
        psutil.wait_procs(children, timeout=60)


def fuzz(examples: int) -> dict[str, Any]:
    """Schemathesis as steward and as analyst, on a table and a release that are there."""
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    figures: dict[str, Any] = {"what": "schemathesis", "examples_per_operation": examples}
    with tempfile.TemporaryDirectory(prefix="mq-fuzz-") as name:
        folder = Path(name)
        path, tokens = prepare(folder, analysts=1)
        (folder / "schemathesis.toml").write_text(
            '[parameters]\n"path.table" = "people"\n"path.name" = "bench"\n'
        )
        with service(path) as (_, home):
            make_release(home, tokens[0])
            for role, token in (("steward", tokens[0]), ("analyst", tokens[1])):
                command = [
                    str(Path(sys.executable).with_name("schemathesis")),
                    "--config-file", str(folder / "schemathesis.toml"),
                    "run", f"{home}/api/v1/openapi.json", "-H", f"Authorization: Bearer {token}",
                    "--max-examples", str(examples), "--phases", "fuzzing", "--checks", checks,
                    "--generation-database", "none",
                    "--exclude-operation-id", "follow_job", "--exclude-operation-id", "start_release",
                ]  # fmt: skip
                done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
                cases = re.search(r"([\d,]+) generated.*", done.stdout)
                figures[role] = {"exit_code": done.returncode, "cases": "" if cases is None else cases[0]}
                if done.returncode:
                    figures[role]["report"] = done.stdout[-3000:]
    return figures


# --- the first answer -----------------------------------------------------------------------------------------------


def install() -> dict[str, Any]:
    """From `pip install` of a wheel in an empty environment to the first answer that a browser gets, by its forms."""
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory(prefix="mq-install-") as name:
        folder = Path(name)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=root, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
        programs = folder / "env" / "bin"
        clock = time.perf_counter()
        figures: dict[str, Any] = {"what": "from pip install to the first answer"}
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        pip = [str(programs / "pip"), "install", "--quiet", "--no-input", f"{wheel}[serve]"]
        subprocess.run(pip, check=True, env=environment)
        figures["seconds_installing"] = round(time.perf_counter() - clock, 1)
        command = [str(programs / "maquette"), "serve", "--demo", "--port", "0", "--no-browser"]
        front = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
        try:
            assert front.stdout is not None
            lines = iter(front.stdout.readline, "")
            home = next(found[0] for line in lines if (found := re.search(r"http://[\d.:]+", line)))
            figures["seconds_to_page"] = round(time.perf_counter() - clock, 1)
            figures |= {"answer": first_answer(home), "load_average": round(os.getloadavg()[0], 1)}
            figures["seconds_to_answer"] = round(time.perf_counter() - clock, 1)
        finally:
            front.terminate()
            front.wait(60)
        return figures


def first_answer(home: str) -> str:
    """One click, the number of records, then a question: price, consent, answer. The share that the page shows."""

    def hidden(text: str) -> dict[str, str]:
        return dict(re.findall(r'<input type="hidden" name="(csrf|key)" value="([^"]+)"', text))

    with httpx.Client(base_url=home, follow_redirects=True, timeout=300) as browser:
        page = browser.post("/demo", data={"role": "analyst"})
        table = re.search(r"/t/([\w.-]+)", page.text)
        assert table is not None
        place = f"/t/{table[1]}/ask"
        question = {"q": "age >= 60"}
        form = browser.get(place, params=question).text
        form = browser.post(f"/t/{table[1]}/size", data=hidden(form) | question).text
        reply = browser.post(place, data=hidden(form) | question)
        answer = re.search(r"([\d.]+\s*%) of the records meet", reply.text)
        assert reply.status_code == 200, reply.status_code
        assert answer is not None
        return answer[1]
