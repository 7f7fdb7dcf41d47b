"""Signing in, asking with a forecast before consent, budgets and roles, over real workers."""

from __future__ import annotations

import re

import httpx
import pytest

from maquette.accounting.ledger import Ledger
from support.web_service import running, write_config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with running(write_config(tmp_path_factory.mktemp("service"))) as world:
        yield world


@pytest.fixture(scope="module")
def anna(world):
    return world.browser("anna")


@pytest.fixture(scope="module")
def stella(world):
    return world.browser("stella")


def test_nobody_sees_anything_without_signing_in(world):
    stranger = world.browser()
    for path in ("/", "/t/people", "/t/people/ask", "/releases", "/jobs", "/people", "/t/people/ledger"):
        reply = stranger.get(path)
        assert reply.status_code == 303
        assert reply.headers["location"].startswith("/login")
    assert stranger.client.post("/t/people/ask", data={"q": "age < 3", "key": "x" * 9}).status_code == 303


def test_the_cookie_is_for_this_site_alone(world):
    reply = httpx.post(f"{world.home}/login", data={"token": world.token("anna")})
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie


def test_tables_say_what_is_left_and_not_how_many_records(world, anna):
    text = anna.get("/").text
    assert re.search(r"100(\.0+)? % of your budget is left", text)
    assert "4,000" not in text
    assert "hours_per_week" in anna.get("/t/people").text


def test_the_builder_puts_choices_into_words(anna):
    reply = anna.get("/t/people/ask?build=yes&c1=0&c0=3&c0=4&c0=5")
    assert reply.status_code == 303
    where = httpx.URL(reply.headers["location"]).params["q"]
    assert where == "age >= 30 AND age < 60 AND sex = 'female'"


def test_price_and_error_come_before_consent(world, anna):
    """The whole way: the number of records, the forecast, the answer as a sentence, then the same for free."""
    first = anna.get("/t/people/ask?q=age >= 60").text
    assert "Buy the number of records" in first
    assert anna.post("/t/people/size", q="age >= 60").status_code == 303
    forecast = anna.get("/t/people/ask?q=age >= 60").text
    assert "at most" in forecast
    assert "within" in forecast
    assert "of the records meet" not in forecast
    (limit,) = re.findall(r'name="at_most" value="([^"]+)"', forecast)
    before = world.service.links["people"].call("standing", who="anna")["left"]
    answer = anna.ask("age >= 60", key="key-of-the-first", at_most=limit)
    assert answer.status_code == 200
    assert "of the records meet" in answer.text
    assert "points" in answer.text
    left = world.service.links["people"].call("standing", who="anna")["left"]
    assert before - float(limit) - 1e-12 <= left < before
    again = anna.ask("60 <= age", key="another-key-1")
    assert 'class="badge free"' in again.text
    assert world.service.links["people"].call("standing", who="anna")["left"] == left
    assert "age &gt;= 60" in anna.get("/t/people/history").text
    assert '"sequence","when","what"' in anna.get("/t/people/history.csv").text


def test_what_one_paid_for_is_free_for_the_other(world, anna):
    """As long as its error is one that the other's session may state: anna's budget is the larger one."""
    assert 'class="badge paid"' in anna.ask("sex = 'male'", key="shared-answer").text
    bert = world.service.links["people"]
    bert.call("buy_size", who="bert", role="analyst")
    left = bert.call("standing", who="bert")["left"]
    answer = bert.call("ask", who="bert", role="analyst", query="sex = 'female'")
    assert answer["kind"] in ("free", "cached")
    assert answer["cost"] == 0
    assert bert.call("standing", who="bert")["left"] == left


def test_refusals_are_in_words_and_cost_nothing(world, anna):
    left = world.service.links["people"].call("standing", who="anna")["left"]
    assert anna.ask("height > 3", key="key-height").status_code == 400
    assert anna.ask("age > 3; drop table people", key="key-drop-it").status_code == 400
    assert anna.ask("region = 'Coast' and age < 30", key="key-at-most", at_most="0").status_code == 402
    assert world.service.links["people"].call("standing", who="anna")["left"] == left


def test_a_key_belongs_to_one_question(anna):
    assert anna.ask("work = 'retired'", key="key-of-work").status_code == 200
    first = anna.ask("work = 'retired'", key="key-of-work").text
    second = anna.ask("work = 'retired'", key="key-of-work").text
    value = r"<strong>|([\d.]+ %) of the records"
    assert re.findall(value, first) == re.findall(value, second)
    assert anna.ask("work = 'studying'", key="key-of-work").status_code == 422


ROLES = {
    "/t/people/ledger": (403, 200),
    "/t/people/plan": (403, 200),
    "/t/people/domain": (403, 200),
    "/jobs": (403, 200),
    "/jobs/0123": (404, 404),
    "/people": (403, 200),
    "/t/people/ask": (200, 403),
    "/t/people/history": (200, 403),
    "/t/nothing": (404, 404),
}


@pytest.mark.parametrize("path", ROLES)
def test_every_page_is_for_its_role(anna, stella, path):
    assert (anna.get(path).status_code, stella.get(path).status_code) == ROLES[path]


def test_a_plan_says_what_a_pure_budget_takes_of_a_ledger_with_a_delta(stella):
    words = "Note: a pure epsilon=0.5 takes up to "
    assert words in stella.get("/t/people/plan?marginals=1&epsilon=0.5&delta=0").text
    assert "Note: a pure" not in stella.get("/t/people/plan?marginals=1&epsilon=0.5&delta=1e-9").text


def test_somebody_without_a_budget_sees_no_table(world):
    carl = world.browser("carl")
    assert "gives you no table" in carl.get("/").text
    assert carl.get("/t/people").status_code == 404
    assert carl.get("/t/people/ask").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/t/people/verify",
        "/t/people/settle",
        "/t/people/release",
        "/t/people/discover",
        "/t/people/domain/confirm",
        "/t/people/domain/drop",
        "/t/people/domain/edit",
        "/t/people/domain/accept",
        "/people/tokens",
        "/people/tokens/x/revoke",
        "/jobs/x/cancel",
    ],
)
def test_an_analyst_does_nothing_of_the_steward(anna, path):
    reply = anna.post(
        path, key="service-key", name="anna", epsilon="1", marginals="1", column="age", why="x", entry="{}"
    )
    assert reply.status_code in (403, 404)


def test_tokens_are_shown_once_expire_and_end(world, stella):
    page = stella.post("/people/tokens", name="bert", label="laptop", days="3").text
    (token,) = re.findall(r"mq_[0-9a-f]{12}_[\w-]{43}", page)
    assert token not in stella.get("/people").text
    bert = httpx.Client(base_url=world.home)
    assert bert.post("/login", data={"token": token}).status_code == 303
    assert bert.get("/").status_code == 200
    assert stella.post(f"/people/tokens/{token.split('_')[1]}/revoke").status_code == 303
    assert bert.get("/").status_code == 303
    assert bert.post("/login", data={"token": token}).status_code == 401
    assert bert.post("/login", data={"token": token[:-1] + "x"}).status_code == 401
    assert bert.post("/login", data={"token": "mq_x_y"}).status_code == 401


def test_no_token_and_no_cookie_is_stored(world):
    token = world.token("anna")
    browser = world.browser("anna")
    stored = b"".join(path.read_bytes() for path in world.service.config.state.glob("service.db*"))
    assert token.split("_", 2)[2].encode() not in stored
    assert browser.client.cookies["maquette"].encode() not in stored


def test_the_ledger_page_has_everything_and_verifies(world, stella):
    text = stella.get("/t/people/ledger").text
    assert "anna" in text
    assert "bert" in text
    assert "are as they were written" in stella.post("/t/people/verify").text
    with Ledger.open(world.service.config.ledger("people")) as ledger:
        assert ledger.spent_units <= ledger.total_units
        ledger.verify()


def test_signing_out_ends_the_session(world):
    browser = world.browser("bert")
    cookie = browser.client.cookies["maquette"]
    assert browser.post("/logout").status_code == 303
    assert httpx.get(f"{world.home}/", cookies={"maquette": cookie}).status_code == 303
