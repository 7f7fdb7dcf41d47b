"""What is decided before a job or a statement is begun, and what is written for it: payment, keys, modes of files."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Any, cast

import pytest

from maquette.errors import (
    BudgetExceeded,
    KeyReused,
    MechanismError,
    ParameterError,
    PureCostWarning,
    WorkloadError,
)
from maquette.web import config as configs
from maquette.web import service as services
from maquette.web import state
from maquette.web.auth import Person
from maquette.web.config import Config, parse
from maquette.web.holder import Holder
from maquette.web.ledger import backup
from maquette.web.requests import DiscoveryRequest, ReleaseRequest
from maquette.web.service import Service
from maquette.web.state import State
from maquette.web.undeclared import UndeclaredTable
from support.web_service import running, write_config, write_undeclared

DATA = {
    "state": "state",
    "tables": {"people": {"source": "a.csv", "domain": "a.json", "epsilon": 1.0}},
    "people": {"anna": {"tables": {"people": {"epsilon": 0.5}}}, "stella": {"role": "steward"}},
}


class Worker:
    """A worker that notes what it is asked, and knows one job's status."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.status: dict[str, Any] | None = {
            "state": "failed", "stage": "", "share": 0, "why": "why the first run failed",
        }  # fmt: skip
        self.seen: Any = lambda: None

    def call(self, name: str, **_: Any) -> Any:
        self.calls.append(name)
        self.seen()
        return {"job": self.status, "start_job": {}, "sql": {"cost": 0.0}}.get(name)

    def is_ready(self) -> bool:
        return True


@pytest.fixture
def front(tmp_path, monkeypatch):
    """A front whose watcher of jobs moves when the test says so."""
    monkeypatch.setattr(services, "POLL_SECONDS", 1e6)
    worker = Worker()
    service = Service(Config(parse(DATA, "x"), tmp_path), cast("Any", {"people": worker}))
    yield service, worker
    service._stop.set()
    service.stop()


def person(service: Service, name: str) -> Person:
    settings = service.config.settings.people[name]
    return Person(name, settings.role, settings)


WISH = ReleaseRequest(marginals=[1], epsilon=0.1)

# --- jobs -----------------------------------------------------------------------------------------------------------


def test_what_is_refused_leaves_no_job_behind(front, monkeypatch):
    service, worker = front

    def refuse(name: str, **_: Any) -> None:
        worker.calls.append(name)
        raise BudgetExceeded("too much", unit="rho", needed=2.0, left=1.0)

    monkeypatch.setattr(worker, "call", refuse)
    with pytest.raises(BudgetExceeded):
        service.start_job(person(service, "stella"), "people", WISH, key="a-key-of-tests")
    assert (service.store.rows(state.job), worker.calls) == ([], ["check_job"])


def test_a_key_finds_its_job_without_asking_whether_it_could_be_paid_again(front):
    service, worker = front
    stella = person(service, "stella")
    first = service.start_job(stella, "people", WISH, key="a-key-of-tests")
    worker.calls.clear()
    assert service.start_job(stella, "people", WISH, key="a-key-of-tests")["id"] == first["id"]
    assert worker.calls == []
    with pytest.raises(KeyReused):
        service.start_job(stella, "people", WISH.model_copy(update={"epsilon": 0.2}), key="a-key-of-tests")


def test_the_reason_of_a_job_is_that_of_its_own_run(front):
    """The watcher read the row of the first run, and writes after the second one was begun."""
    service, worker = front
    stella = person(service, "stella")
    job = service.start_job(stella, "people", WISH, key="a-key-of-tests")["id"]
    row_of_first = service.job(stella, job)
    service._follow(row_of_first)
    assert service.job(stella, job)["why"] == "why the first run failed"
    states: list[str] = []
    worker.seen = lambda: states.append(service.job(stella, job)["state"])
    service.resume(stella, job)
    assert states == ["failed", "failed"]  # no watcher looks at it before the worker knows of the second run
    worker.seen = lambda: None
    service._follow(row_of_first)
    assert (service.job(stella, job)["state"], service.job(stella, job)["why"]) == ("running", "")
    worker.status = {"state": "failed", "stage": "", "share": 0, "why": "why the second run failed"}
    service._follow(service.job(stella, job))
    assert service.job(stella, job)["why"] == "why the second run failed"


@pytest.mark.slow
def test_every_kind_of_job_is_paid_for_or_refused_before_it_is_begun(tmp_path):
    """By what the ledger has left, which is less than its total after a first one; at any mechanism."""
    config = configs.load(write_undeclared(tmp_path))
    holder = Holder(config, "people")
    try:
        check = lambda **wish: holder.check_job("00ff", ReleaseRequest(**wish).model_dump())  # noqa: E731
        check(marginals=[1], epsilon=0.5, delta=1e-9)
        for mechanism in ("auto", "gaussian", "laplace", "sculpt", "residual"):
            delta = 0.0 if mechanism == "laplace" else 1e-9
            with pytest.raises(BudgetExceeded, match="is left"):
                check(marginals=[1], epsilon=50.0, delta=delta, mechanism=mechanism)
        holder.call("standing", {"who": "anna"})  # sets a share aside
        with pytest.raises(BudgetExceeded):
            check(marginals=[1], epsilon=3.9, delta=1e-9)
        with pytest.raises(ParameterError, match="mechanism"):
            check(marginals=[1], epsilon=0.5, mechanism="magic")
        with pytest.raises(MechanismError):
            check(marginals=[1], epsilon=0.5, delta=0.0, mechanism="gaussian")
        with pytest.raises(WorkloadError):
            check(epsilon=0.5)
        with pytest.raises(ParameterError, match="nothing has to be discovered"):
            holder.check_job("00ff", DiscoveryRequest(epsilon=0.5).model_dump())
        assert holder._jobs._statuses == {}
    finally:
        holder.close()
    raw = UndeclaredTable(config, "raw")
    try:
        raw.check_job("00ff", DiscoveryRequest(epsilon=0.5, delta=1e-7).model_dump())
        with pytest.raises(BudgetExceeded, match="this discovery needs"):
            raw.check_job("00ff", DiscoveryRequest(epsilon=9.0, delta=1e-7).model_dump())
        assert not Path(config.ledger("raw")).exists()
    finally:
        raw.close()


def test_what_a_pure_budget_takes_is_said_before_a_job_is_begun(tmp_path):
    config = configs.load(write_undeclared(tmp_path))
    holder, raw = Holder(config, "people"), UndeclaredTable(config, "raw")
    words = r"a pure epsilon=0.2 takes up to .* of a total of epsilon=4, delta=1e-\d+.* takes up to"
    try:
        pure = ReleaseRequest(marginals=[1], epsilon=0.2, mechanism="laplace").model_dump()
        with pytest.warns(PureCostWarning):
            said = holder.check_job("00ff", pure)
        assert re.match(words, said or "")
        other = ReleaseRequest(marginals=[1], epsilon=0.2, delta=1e-9).model_dump()
        assert holder.check_job("00ff", other) is None
        found = DiscoveryRequest(epsilon=0.2, columns=dict.fromkeys(raw._header, "number")).model_dump()
        with pytest.warns(PureCostWarning):
            said = raw.check_job("00ff", found)
        assert re.match(words, said or "")
        assert said == raw.forecast_discovery(found)["note"]
    finally:
        holder.close()
        raw.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    mask = os.umask(0o022)
    try:
        with running(write_config(tmp_path_factory.mktemp("service"))) as world:
            yield world
    finally:
        os.umask(mask)


@pytest.mark.slow
def test_auto_is_refused_before_202(world):
    stella = world.script("stella")
    path = "/api/v1/tables/people/releases"
    wish = {"marginals": [1], "epsilon": 40.0, "delta": 1e-9}
    reply = stella.post(path, json=wish, headers={"idempotency-key": "too-expensive"})
    assert reply.status_code == 402
    assert reply.json()["needed"] > reply.json()["left"]
    assert stella.get("/api/v1/jobs").json()["items"] == []
    form = world.browser("stella").post("/t/people/release", key="too-expensive", epsilon="40", marginals="1")
    assert form.status_code == 402


# --- keys of statements ---------------------------------------------------------------------------------------------


def test_a_key_of_a_statement_outlives_the_front_and_the_worker(front, tmp_path):
    service, _ = front
    anna, one, other = person(service, "anna"), "select count(*) from t", "select count(*) from t where a = 1"
    service.sql(anna, "people", one, key="a-key-of-tests")
    again = Service(service.config, cast("Any", {"people": Worker()}))  # both were started anew
    try:
        again.sql(anna, "people", one, key="a-key-of-tests")
        with pytest.raises(KeyReused, match="another statement"):
            again.sql(anna, "people", other, key="a-key-of-tests")
        assert cast("Any", again.links["people"]).calls == ["sql"]
        again.sql(anna, "people", other, key=None)
    finally:
        again._stop.set()
        again.stop()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").glob("service.db*"))
    assert one.encode() not in stored


@pytest.mark.slow
def test_a_key_of_a_statement_is_kept_over_http_when_the_worker_is_started_again(world):
    anna, path = world.script("anna"), "/api/v1/tables/people/sql"
    world.service.links["people"].call("buy_size", who="anna", role="analyst")

    def ask(condition: str) -> int:
        body = {"statement": f"select count(*) from people where {condition}"}
        for _ in range(100):
            reply = anna.post(path, json=body, headers={"idempotency-key": "one-statement"})
            if reply.status_code != 503:
                return reply.status_code
            time.sleep(0.1)
        raise AssertionError("no answer")

    assert ask("age < 30") == 200
    os.kill(world.service.keepers["people"].pid, 9)
    assert ask("age < 50") == 422
    assert ask("age < 30") == 200


# --- files ----------------------------------------------------------------------------------------------------------


def test_the_state_of_an_earlier_version_becomes_its_owner_s_alone(tmp_path):
    State.at(tmp_path).close()
    (tmp_path / "service.db").chmod(0o644)
    store = State.at(tmp_path)
    store.add(state.statement, person="a", table="b", key="c", digest="d", created=1)
    assert modes(tmp_path) == {0o600}
    store.close()


@pytest.mark.slow
def test_every_file_that_the_service_writes_is_its_owner_s_alone(world, tmp_path):
    """Whatever the umask is: state, log, ledger and receipt, releases, reviews, copies."""
    folder = world.service.config.folder
    before = {"people.csv", "people.domain.json", "serve.toml"}  # written by the test
    stella = world.script("stella")
    wish = {"marginals": [1], "epsilon": 0.2, "delta": 1e-9, "name": "modes"}
    headers = {"idempotency-key": "a-small-release"}
    job = stella.post("/api/v1/tables/people/releases", json=wish, headers=headers).json()["id"]
    while (row := stella.get(f"/api/v1/jobs/{job}").json())["state"] == "running":
        time.sleep(0.05)
    assert row["state"] == "done", row
    column = json.loads((folder / "people.domain.json").read_text())["attributes"][0]["name"]
    link = world.service.links["people"]
    link.call("confirm", name=column, who="stella", why="a public list")
    written = {path for path in folder.rglob("*") if path.is_file() and path.name not in before}
    assert {path.name for path in written} >= {"service.db", "people.jsonl", "people.ledger", "release.json"}
    assert modes(*written, folder / "people.domain.json") == {0o600}
    assert stat.S_IMODE((folder / "state").stat().st_mode) == 0o700
    copy = tmp_path / "copy"
    backup(world.service.config, copy)
    assert modes(copy) == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (copy, *copy.rglob("*/"))} == {0o700}


def modes(*places: Path) -> set[int]:
    files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    assert files
    return {stat.S_IMODE(path.stat().st_mode) for path in files}
