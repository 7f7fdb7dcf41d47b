"""The steward's pages about a domain: reviewed column by column, or found privately and paid for."""

from __future__ import annotations

import json
import re
import time

import pytest

import maquette as mq
from maquette.domain import Domain
from support.web_service import running, write_undeclared

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    path = write_undeclared(folder)
    with running(path) as world:
        world.folder = folder
        yield world


def test_a_table_without_a_domain_is_there_and_not_open(world):
    stella, dora = world.browser("stella"), world.browser("dora")
    assert "Prepare it" in stella.get("/").text
    assert "not open yet" in dora.get("/").text
    assert dora.get("/t/raw/ask?q=age > 3").status_code in (400, 404)
    assert dora.get("/t/raw/domain").status_code == 403
    with mq.connect(world.home, token=world.token("dora")) as client:
        assert client.tables() == []
        with pytest.raises(mq.ReleaseError, match="not open yet"):
            client.session("raw")


def test_a_draft_is_reviewed_column_by_column_and_then_the_table_opens(world):
    stella = world.browser("stella")
    file = world.folder / "drafted.domain.json"
    names = Domain.load(file).names
    assert "This domain is a draft" in stella.get("/t/drafted/domain").text
    empty = stella.post("/t/drafted/domain/confirm", column=names[0], why=" ")
    assert empty.status_code == 400
    assert "why its values are public knowledge" in empty.text
    broken = stella.post("/t/drafted/domain/edit", column="sex", entry="{")
    assert (broken.status_code, "not JSON" in broken.text) == (400, True)
    entry = json.dumps({"name": "sex", "kind": "boolean", "categories": ["female", "male"]})
    assert stella.post("/t/drafted/domain/edit", column="sex", entry=entry).status_code == 303
    assert stella.post("/t/drafted/domain/drop", column="household").status_code == 303
    for name in Domain.load(file).names:
        assert (
            stella.post("/t/drafted/domain/confirm", column=name, why="the form says so").status_code == 303
        )
    domain = Domain.load(file)
    assert domain.reviewed
    assert "household" not in domain.names
    assert domain.notes["reviews"]["sex"]["by"] == "stella"
    assert "Overview" in stella.get("/t/drafted/domain").text
    assert world.browser("dora").get("/t/drafted/ask").status_code == 200
    log = world.script("stella").get("/api/v1/tables/drafted/audit?limit=100").json()["items"]
    assert [one["action"] for one in log if one["action"] == "dropped a column"]
    assert world.script("stella").post("/api/v1/tables/drafted/ledger/verify").status_code == 200


def test_an_open_domain_takes_reviews_and_nothing_else(world):
    stella = world.browser("stella")
    before = Domain.load(world.folder / "people.domain.json")
    assert stella.post("/t/people/domain/confirm", column="age", why="a law").status_code == 303
    after = Domain.load(world.folder / "people.domain.json")
    assert after.fingerprint == before.fingerprint
    assert after.notes["reviews"]["age"]["why"] == "a law"
    assert "a law" in stella.get("/t/people/domain").text
    assert stella.post("/t/people/domain/drop", column="age").status_code == 400
    assert Domain.load(world.folder / "people.domain.json").names == before.names


def test_the_fit_report_is_shown_where_the_configuration_allows_it(world):
    stella = world.browser("stella")
    assert "4,000 records" in stella.get("/t/people/domain?fit=true").text
    assert stella.get("/t/drafted/domain?fit=true").status_code == 400


def test_a_domain_is_found_after_forecast_and_consent_as_a_job(world):
    stella = world.browser("stella")
    shown = stella.get("/t/raw/domain").text
    numbers = {name: i for i, name in enumerate(re.findall(r"<label>(\w+)<select name=\"k", shown))}
    kinds = {f"k{numbers[name]}": "drop" for name in numbers if name not in ("age", "sex", "region")}
    kinds[f"k{numbers['sex']}"] = "text"
    wish = {"epsilon": "0.5", "delta": "1e-7"} | kinds
    query = "&".join(f"{name}={value}" for name, value in wish.items())
    forecast = stella.get(f"/t/raw/domain?{query}").text
    assert "of the whole ledger" in forecast
    assert re.search(r"sex</th><td>text: its bounds or list are found</td>.*?± [\d.]+ records", forecast)
    assert not (world.folder / "raw.ledger").exists()  # a forecast spends nothing
    assert stella.get("/t/raw/domain?epsilon=0.5&delta=0&" + f"k{numbers['sex']}=text").status_code == 400
    job = stella.post("/t/raw/discover", key="find-it-once", **wish).headers["location"]
    assert stella.post("/t/raw/discover", key="find-it-once", **wish).headers["location"] == job
    for _ in range(200):
        if "Look at the domain" in stella.get(job).text:
            break
        time.sleep(0.2)
    found = stella.get("/t/raw/domain").text
    assert "female" in found
    assert "Use this domain" in found
    assert stella.post(f"{job}/publish").status_code == 400
    assert world.browser("dora").post("/t/raw/domain/accept").status_code == 403
    assert stella.post("/t/raw/domain/accept").status_code == 303
    domain = Domain.load(world.folder / "raw.domain.json")
    assert domain.names == ("age", "sex", "region")
    with mq.connect(world.home, token=world.token("dora")) as client:
        session = client.session("raw")
        session.buy_size()
        assert session.ask("sex = 'female'").error < 0.5
    ledger = world.script("stella").get("/api/v1/tables/raw/ledger").json()
    assert ledger["spent"] > 0
    assert world.script("stella").post("/api/v1/tables/raw/ledger/verify").status_code == 200
