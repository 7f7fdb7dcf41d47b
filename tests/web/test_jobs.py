"""What workers and jobs say besides answers is stored or shown: nothing of it may depend on the table."""

from __future__ import annotations

import io
import json
import queue
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.domain import Attribute, Domain, Kind
from maquette.sessions.question import Past
from maquette.web import jobs
from maquette.web.holder import Holder
from maquette.web.link import Link
from maquette.web.worker import Server
from support.web_service import write_config

DOMAIN = Domain((Attribute("x", Kind.ORDINAL, codes=16),))


def released(codes: list[int], progress) -> None:
    table = mq.open({"x": np.array(codes)}, domain=DOMAIN, name="people", allow_unreviewed=True)
    queries = mq.prefixes(DOMAIN, "x")
    mq.release(table, queries, epsilon=1.0, mechanism="smalldb", ledger="memory", progress=progress)


@pytest.mark.parametrize("codes", [[0] * 40, list(range(16)) * 2])
def test_the_levels_of_a_draw_are_for_the_holder_and_not_for_the_service(codes, capsys):
    released(codes, jobs._Stages())
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    drawing = [one for one in said if one["stage"] != "measuring the largest error"]
    assert drawing == [{"stage": "drawing a small database", "share": share} for share in (0, 1000)]
    heard: list[str] = []
    released(codes, lambda what, share: heard.append(what))
    assert any("levels counted" in what for what in heard)  # who holds the table follows the draw


def test_a_history_says_no_time_that_is_finer_than_the_tick(monkeypatch):
    """A step is dated after its look: milliseconds would say how long the look took."""
    past = [
        Past(number, f"2026-11-17T18:59:{second}+00:00", "age < 3", 0.5, 0.1, "paid", 0.1)
        for number, second in ((7, "05.123"), (8, "05.999"), (9, "06.001"))
    ]
    holder = Holder.__new__(Holder)
    monkeypatch.setattr(holder, "_session", lambda who: SimpleNamespace(history=lambda: past), raising=False)
    page = holder.history("anna", after=7)
    assert [one["when"] for one in page["items"]] == [
        f"2026-11-17T18:59:{second}+00:00" for second in ("05", "06")
    ]


# --- watchers and reasons -------------------------------------------------------------------------------------------


class Process:
    """A job that says what the test lets it say, and ends when the test says so."""

    def __init__(self) -> None:
        self.stdin, self._lines = io.BytesIO(), queue.SimpleQueue[bytes | None]()
        self.stdout = iter(self._lines.get, None)
        self.is_over = threading.Event()

    def say(self, **words: object) -> None:
        self._lines.put(json.dumps(words).encode())

    def end(self) -> None:
        self._lines.put(None)
        self.is_over.set()

    def wait(self, timeout: float | None = None) -> int:
        assert self.is_over.wait(30 if timeout is None else timeout)
        return -9

    def terminate(self) -> None:
        """It takes its time."""

    kill = terminate


@pytest.fixture
def started(tmp_path, monkeypatch):
    """The jobs of a table, and the processes that they started."""
    processes: list[Process] = []

    def start(*_: object, **__: object) -> Process:
        processes.append(Process())
        return processes[-1]

    monkeypatch.setattr(jobs.subprocess, "Popen", start)
    yield jobs.Jobs(SimpleNamespace(path=tmp_path), "people"), processes  # type: ignore[arg-type]
    for process in processes:
        process.end()


def seen(table: Any, state: str, *, why: str = "") -> dict[str, Any]:
    """The status of the job once it is as expected; the last one if it never is."""
    status: dict[str, Any] = {}
    for _ in range(500):
        status = table.status("one")
        if (status["state"], status["why"]) == (state, why):
            break
        time.sleep(0.01)
    return status


def test_the_watcher_of_an_earlier_run_says_nothing_about_the_next(started):
    """A job that failed is resumed while the process of its first run is still ending, and says a last word."""
    table, processes = started
    table.start("one", {})
    processes[0].say(state="failed", why="the budget is not enough")
    assert seen(table, "failed", why="the budget is not enough")["state"] == "failed"
    table.start("one", {})
    processes[0].say(stage="a stage of the first run")
    processes[0].say(state="done", share=1000)
    processes[0].end()
    processes[1].say(stage="a stage of the second run")
    assert seen(table, "running")["stage"] != "a stage of the first run"
    processes[1].say(state="failed", why="the disk is full")
    assert seen(table, "failed", why="the disk is full")["share"] == 0
    processes[1].end()
    for _ in range(500):
        if not table._processes:
            break
        time.sleep(0.01)
    assert (table._processes, table.status("one")["why"]) == ({}, "the disk is full")


def test_a_cancelled_job_stays_cancelled_whatever_its_process_says_last(started, monkeypatch):
    table, processes = started
    monkeypatch.setattr(Process, "wait", lambda self, timeout=None: 0)
    table.start("one", {})
    table.cancel("one")
    processes[0].say(state="done", share=1000, stage="done")
    processes[0].end()
    time.sleep(0.1)
    assert (table.status("one")["state"], table.status("one")["share"]) == ("cancelled", 0)


ENDS = {
    "killed": "os.kill(os.getpid(), 9)",
    "ended": "os.kill(os.getpid(), 15)",
    "no memory": "raise MemoryError",
    "an error": "raise ZeroDivisionError('age 42')",
    "an exit": "os._exit(5)",
}


@pytest.mark.slow
def test_a_job_that_ends_says_the_same_whatever_ended_it(tmp_path, monkeypatch, caplog):
    """Whether a machine kills it, or it has no memory left, may depend on the records."""
    words: dict[str, tuple[str, str]] = {}
    real = jobs.subprocess.Popen
    for name, code in ENDS.items():
        program = (
            "import json, os, sys\n"
            "from maquette.web import jobs\n"
            f"def run(order):\n    jobs.say(stage='looking')\n    {code}\n"
            "jobs.run = run\nsys.exit(jobs.main())\n"
        )
        command = [sys.executable, "-c", program]
        monkeypatch.setattr(
            jobs.subprocess, "Popen", lambda _, command=command, **options: real(command, **options)
        )
        table = jobs.Jobs(SimpleNamespace(path=tmp_path), "people")  # type: ignore[arg-type]
        table.start("one", {})
        status = seen(table, "failed", why=jobs.UNFINISHED)
        words[name] = (status["state"], status["why"])
    assert set(words.values()) == {("failed", jobs.UNFINISHED)}, words
    assert not any(word in jobs.UNFINISHED for word in ("signal", "memory", "internal", "9"))
    assert "ZeroDivisionError" in caplog.text
    assert "42" not in caplog.text


# --- files and pipes ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("what", ["ready", "failed"])
def test_a_worker_whose_front_has_gone_ends_without_a_traceback(tmp_path, what):
    """Its first word is written into a pipe that nobody reads any more."""
    path = write_config(tmp_path)
    if what == "failed":
        (tmp_path / "people.csv").unlink()
    command = [sys.executable, "-m", "maquette.web.worker", str(path), "people", str(tmp_path / "socket")]
    pipe = subprocess.PIPE
    worker: Any = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    worker.stdout.close()
    worker.stdin.close()
    said = worker.stderr.read().decode()
    worker.stderr.close()
    assert (worker.wait(60), said) == (0 if what == "ready" else 2, "")


@pytest.mark.slow
def test_a_connection_that_breaks_leaves_its_kind_and_no_traceback(tmp_path, caplog, capfd):
    server = Server(str(tmp_path / "socket"), SimpleNamespace(call=lambda name, values: {"a": object()}))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        assert Link("people", tmp_path / "socket")._exchange({"call": "x"}) is None
        time.sleep(0.1)
    finally:
        server.shutdown()
        server.server_close()
    assert "TypeError" in caplog.text
    assert capfd.readouterr().err == ""
