"""The HTTP interface and the client of the package, over real workers."""

from __future__ import annotations

import hashlib
import json
import shutil

import httpx
import jsonschema
import pytest

import maquette as mq
from maquette.sessions.question import SessionAnswer
from maquette.web.client import ServiceError
from support.web_service import running, write_config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with running(write_config(tmp_path_factory.mktemp("service"))) as world:
        yield world


@pytest.fixture(scope="module")
def anna(world):
    with mq.connect(world.home, token=world.token("anna")) as service:
        yield service


@pytest.fixture(scope="module")
def released(world):
    """A release that the steward made through the interface and published."""
    with mq.connect(world.home, token=world.token("stella")) as stella:
        stages: list[str] = []
        release = stella.release(
            "people",
            marginals=[1, 2],
            epsilon=1.0,
            delta=1e-9,
            name="first",
            key="first-release",
            progress=lambda stage, share: stages.append(stage),
        )
        assert stages
        job = stella.get("/jobs")["items"][0]
        stella.post(f"/jobs/{job['id']}/publish")
        yield release


def test_a_session_feels_like_a_local_one(world, anna):
    session = anna.session("people")
    assert anna.tables() == ["people"]
    assert session.domain["age"].size == 10
    assert session.forecast("age >= 60").kind == "size"
    session.buy_size()
    forecast = session.forecast("age >= 60")
    assert forecast.refusal is None
    answer = session.ask("age >= 60", at_most=forecast.cost)
    assert isinstance(answer, SessionAnswer)
    assert 0 <= answer.low <= answer.value <= answer.high <= 1
    assert answer.error <= forecast.error
    assert session.ask("60 <= age").kind == "cached"
    assert session.left < session.total
    assert session.history()[-1].what == "60 <= age"


def test_the_same_key_is_the_same_answer(anna):
    session = anna.session("people")
    first = session.ask("sex = 'female'", key="a-question-1")
    assert session.ask("sex = 'female'", key="a-question-1").value == first.value
    with pytest.raises(mq.KeyReused):
        session.ask("sex = 'male' and age < 30", key="a-question-1")


def test_a_select_is_forecast_answered_once_and_free_from_then_on(anna):
    session = anna.session("people")
    session.buy_size()
    statement = "select region, count(*) from people group by region"
    forecast = session.forecast(statement)
    assert (forecast.questions, forecast.new_questions) == (4, 4)
    with pytest.raises(mq.BudgetExceeded):
        session.sql("select sex, work, share() from people group by sex, work", at_most=0.0)
    table = session.sql(statement, at_most=forecast.cost, key="a-select-1")
    assert table.column_names[:2] == ["region", "count(*)"]
    assert table.cost <= forecast.cost
    assert len(table.answers) == forecast.questions
    assert all(isinstance(one, SessionAnswer) for one in table.answers)
    again = session.sql(statement, key="a-select-1")
    assert (again.cost, again.to_pylist()) == (
        0.0,
        [row | {"known_by": "answered before"} for row in table.to_pylist()],
    )
    assert session.forecast(statement).new_questions == 0
    with pytest.raises(mq.KeyReused):
        session.sql("select work, count(*) from people group by work", key="a-select-1")
    with pytest.raises(mq.WorkloadError, match="MAX is not supported"):
        session.sql("select max(age) from people")
    median = session.sql("select median(age) from people", allow_useless=True).to_pylist()[0]
    assert median["median(age) lower"] <= median["median(age)"] <= median["median(age) upper"]


def test_rows_of_a_session_are_free(anna):
    session = anna.session("people")
    session.ask("age >= 60")
    left = session.left
    rows = session.synthetic(50)
    assert rows.num_rows == 50
    assert "age" in rows.column_names
    assert session.left == left
    assert session.size > 0


def test_many_questions_are_answered_or_refused_one_by_one(anna):
    session = anna.session("people")
    session.ask("age >= 60")
    answers = session.ask_many(["age >= 60", "age < 60"])
    assert [one.kind for one in answers] == ["cached", "cached"]
    assert answers[0].value + answers[1].value == pytest.approx(1)


def test_the_history_has_the_keys_of_the_caller(anna):
    session = anna.session("people")
    session.ask("age < 30", key="a-key-of-mine")
    assert session.history()[-1].key == "a-key-of-mine"


def test_refusals_are_the_errors_of_the_library(world, anna):
    session = anna.session("people")
    with pytest.raises(mq.WorkloadError, match="height"):
        session.ask("height > 3")
    with pytest.raises(mq.BudgetExceeded):
        session.ask("region = 'Hills' and work = 'retired'", at_most=0.0)
    with pytest.raises(ServiceError, match="steward"):
        anna.release("people", epsilon=1.0, marginals=[1])
    with pytest.raises(ServiceError, match="token"):
        mq.connect(world.home, token="mq_no_token")
    with pytest.raises(mq.ReleaseError):
        anna.load("nothing")
    with pytest.raises(mq.ParameterError, match="https"):
        mq.connect("http://census.example", token="x")


def test_a_release_feels_like_a_local_one(anna, released, tmp_path):
    release = anna.load("first")
    assert anna.releases() == ["first"]
    assert release.answer("age >= 60").error is not None
    table = release.table("sex")
    assert table.column_names[:2] == ["sex", "value"]
    assert len(release.sql("select region, count(*) from t group by region")) == 4
    assert release.rows.num_rows > 0
    assert "points" in release.headline
    assert release.domain["age"].size == 10
    assert "checked against the ledger" in release.facts()["ledger"]
    local = mq.load(release.save(tmp_path / "taken.maquette"))
    assert local.headline == release.headline
    assert local.answer("age >= 60").value == pytest.approx(release.answer("age >= 60").value)
    with pytest.raises(mq.ReleaseError, match="exists"):
        release.save(tmp_path / "taken.maquette")
    with pytest.raises(mq.WorkloadError):
        release.sql("select * from t")


def test_a_release_that_was_edited_is_refused(world, released):
    """Also by whoever renews the hashes in the folder: the ledger knows what it paid for."""
    link = world.service.links["people"]
    job = world.service.catalog.folder("first").name.removesuffix(".maquette")
    assert link.call("check_release", job=job) == "bound"
    copy = world.service.catalog.folder("first").with_name("00ff.maquette")
    shutil.copytree(world.service.catalog.folder("first"), copy)
    text = (copy / "domain.json").read_text().replace("Coast", "Toast")
    (copy / "domain.json").write_text(text)
    with pytest.raises(mq.MaquetteError):
        link.call("check_release", job="00ff")
    manifest = json.loads((copy / "release.json").read_text())
    manifest["files"]["domain.json"] = hashlib.sha256(text.encode()).hexdigest()
    (copy / "release.json").write_text(json.dumps(manifest))
    with pytest.raises(mq.MaquetteError, match="ledger"):
        link.call("check_release", job="00ff")
    with pytest.raises(mq.ParameterError):
        link.call("check_release", job="../secret")


def test_the_same_key_is_the_same_release(world, released):
    with mq.connect(world.home, token=world.token("stella")) as stella:
        before = stella.get("/tables/people/ledger")["spent"]
        again = stella.release(
            "people", marginals=[1, 2], epsilon=1.0, delta=1e-9, name="first", key="first-release"
        )
        assert again.name == released.name
        assert stella.get("/tables/people/ledger")["spent"] == before
        with pytest.raises(mq.KeyReused):
            stella.release("people", marginals=[1], epsilon=1.0, delta=1e-9, key="first-release")


def test_refusals_are_problem_json(world):
    client = httpx.Client(base_url=f"{world.home}/api/v1")
    reply = client.get("/tables")
    assert reply.status_code == 401
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.headers["www-authenticate"] == "Bearer"
    anna = world.script("anna")
    assert anna.get("/api/v1/nowhere").json()["status"] == 404
    missing = anna.post("/api/v1/tables/people/questions", json={"query": "age < 3"})
    assert missing.status_code == 422
    assert "dempotency" in missing.json()["detail"]
    extra = anna.post("/api/v1/tables/people/forecast", json={"query": "age < 3", "as": "stella"})
    assert extra.status_code == 422


def test_a_cookie_is_no_token(world):
    browser = world.browser("anna")
    assert browser.get("/api/v1/tables").status_code == 401
    assert world.script("anna").get("/").status_code == 303


def test_pages_of_the_chain_and_the_log(world, released):
    stella = world.script("stella")
    first = stella.get("/api/v1/tables/people/ledger/entries?limit=3").json()
    second = stella.get(f"/api/v1/tables/people/ledger/entries?limit=3&after={first['next']}").json()
    assert [one["sequence"] for one in first["items"] + second["items"]] == [1, 2, 3, 4, 5, 6]
    log = stella.get("/api/v1/tables/people/audit?limit=2").json()
    assert log["items"][0]["number"] == log["items"][1]["number"] + 1
    assert stella.post("/api/v1/tables/people/ledger/verify").json()["audit_lines"] > 2


def test_events_of_a_job_end(world, released):
    stella = world.script("stella")
    job = stella.get("/api/v1/jobs").json()["items"][0]["id"]
    text = stella.get(f"/api/v1/jobs/{job}/events").text
    assert "event: end" in text
    assert json.loads(text.split("data: ")[1].splitlines()[0])["state"] == "done"


def test_metrics_are_for_the_steward_and_tell_nothing_of_the_table(world):
    assert world.script("anna").get("/metrics").status_code == 403
    text = world.script("stella").get("/metrics").text
    assert 'maquette_worker_up{table="people"} 1' in text
    assert "4000" not in text
    assert httpx.get(f"{world.home}/healthz").json() == {"status": "alive"}
    assert httpx.get(f"{world.home}/readyz").json() == {"status": "ready"}


def test_the_description_names_every_operation_and_its_refusals(world):
    description = httpx.get(f"{world.home}/api/v1/openapi.json").json()
    operations = [one for path in description["paths"].values() for one in path.values()]
    assert len(operations) >= 20
    assert all("401" in one["responses"] and "422" in one["responses"] for one in operations)
    assert len({one["operationId"] for one in operations}) == len(operations)


def test_what_an_event_of_a_job_holds_is_described_and_so(world, released):
    description = httpx.get(f"{world.home}/api/v1/openapi.json").json()
    content = description["paths"]["/api/v1/jobs/{job}/events"]["get"]["responses"]["200"]["content"]
    event = content["text/event-stream"]["itemSchema"]
    stella = world.script("stella")
    job = stella.get("/api/v1/jobs").json()["items"][-1]["id"]
    sent = stella.get(f"/api/v1/jobs/{job}/events").text.strip().split("\n\n")
    assert sent
    for text in sent:
        fields = dict(line.split(": ", 1) for line in text.splitlines())
        jsonschema.validate(fields, event)
        jsonschema.validate(json.loads(fields["data"]), event["properties"]["data"]["contentSchema"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"state": "running"}, event["properties"]["data"]["contentSchema"])


def test_no_reply_is_described_as_a_mere_string(world):
    """Of every operation: values by their fields, files as binary."""
    description = httpx.get(f"{world.home}/api/v1/openapi.json").json()
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            for status, reply in operation["responses"].items():
                for kind, content in reply.get("content", {}).items():
                    schema = content.get("schema") or content.get("itemSchema")
                    assert schema, (path, method, status, kind)
                    assert schema.get("type") != "string" or schema.get("format") == "binary", (path, kind)
