"""Attacks on a running service. The numbers are those of the list in docs/institution.md."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import httpx
import pytest

from maquette.accounting.ledger import Ledger
from support.web_service import Browser, running, write_config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with running(write_config(tmp_path_factory.mktemp("service"))) as world:
        for who in ("anna", "bert"):
            world.service.links["people"].call("buy_size", who=who, role="analyst")
        yield world


@pytest.fixture(scope="module")
def anna(world):
    return world.browser("anna")


def book(world) -> Ledger:
    return Ledger.open(world.service.config.ledger("people"))


# --- A7, A8: races, retries, replays --------------------------------------------------------------------------------


def test_copies_of_a_question_that_race_are_one_question(world):
    """A7, A8: 12 questions, 4 copies of each key, 16 threads: one answer for each key, each charged once."""
    questions = [f"age < {10 * i} and sex = '{sex}'" for i in range(1, 7) for sex in ("female", "male")]
    answers: list[tuple[int, int, str]] = []
    mutex = threading.Lock()

    def ask(numbers: list[int]) -> None:
        with world.script("anna") as client:
            for number in numbers:
                body, headers = {"query": questions[number]}, {"idempotency-key": f"race-{number:04}"}
                reply = client.post("/api/v1/tables/people/questions", json=body, headers=headers)
                with mutex:
                    fields = reply.json()
                    answers.append(
                        (number, reply.status_code, f"{fields.get('value')} {fields.get('error')}")
                    )

    work = [list(range(i % 12, 12)) + list(range(i % 12)) for i in range(4)]
    threads = [threading.Thread(target=ask, args=(part,)) for part in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 48
    assert {status for _, status, _ in answers} == {200}
    assert len({(number, value) for number, _, value in answers}) == 12
    with book(world) as ledger:
        ledger.verify()
        assert ledger.spent_units <= ledger.total_units
        keys = [entry.key for entry in ledger.entries(kind="reserve")]
        assert len(keys) == len(set(keys))


def test_a_key_with_another_question_is_refused_and_answers_nothing(world):
    client = world.script("anna")
    path, headers = "/api/v1/tables/people/questions", {"idempotency-key": "one-key-only"}
    assert client.post(path, json={"query": "age < 20"}, headers=headers).status_code == 200
    reply = client.post(path, json={"query": "age < 30"}, headers=headers)
    assert reply.status_code == 422
    assert "value" not in reply.json()
    other = world.script("bert").post(path, json={"query": "age < 30"}, headers=headers)
    assert other.status_code == 200  # keys of two people have nothing to do with each other


# --- A7b: refusals are decided before the table is looked at --------------------------------------------------------


def test_what_is_refused_for_its_price_leaves_no_trace(world):
    client = world.script("anna")
    with book(world) as ledger:
        before = ledger.receipt()
    for i in range(5):
        body = {"query": f"income >= {10000 * (i % 3 + 1)} and household = {i % 4 + 1}", "at_most": 0.0}
        reply = client.post(
            "/api/v1/tables/people/questions", json=body, headers={"idempotency-key": f"refused-{i}"}
        )
        assert reply.status_code == 402
        assert reply.json()["needed"] > 0
    with book(world) as ledger:
        assert ledger.receipt() == before


# --- A16: only conditions reach the table ---------------------------------------------------------------------------

INJECTIONS = (
    "1; DROP TABLE people",
    "age > (SELECT max(age) FROM people)",
    "age IN (SELECT age FROM people)",
    "EXISTS (SELECT 1)",
    "read_csv('/etc/passwd') IS NULL",
    "age > random()",
    "CAST(age AS TEXT) = '3'",
    "sex LIKE '%'",
    "sex = 'a' UNION SELECT 1",
    "age > 3 -- comment",
    "age > 3 /* comment */",
    "__import__('os').system('id')",
    "{{ 7 * 7 }}",
    "${jndi:ldap://x}",
    "age >\x00 3",
    "ａｇｅ > 3",
    "(" * 400 + "age > 3" + ")" * 400,
    " AND ".join(["age > 3"] * 900),
    "age IN (" + ",".join("1" for _ in range(1900)) + ")",
    "NOT " * 900 + "age > 3",
    "CASE WHEN age > 3 THEN 1 END = 1",
    "age > 1e999",
    "age > NaN",
    "\ud800",
)


@pytest.mark.parametrize("text", INJECTIONS, ids=range(len(INJECTIONS)))
def test_what_is_no_condition_is_refused_in_words(world, text):
    """A few mean a plain condition (a comment is dropped); none is a failure, and nothing is paid by a forecast."""
    client = world.script("anna")
    left = world.service.links["people"].call("standing", who="anna")["left"]
    content = '{"query": ' + __import__("json").dumps(text) + "}"
    headers = {"content-type": "application/json"}
    reply = client.post("/api/v1/tables/people/forecast", content=content, headers=headers)
    assert reply.status_code in (200, 400, 422)
    assert "Traceback" not in reply.text
    assert world.service.links["people"].call("standing", who="anna")["left"] == left


# --- A19: one cannot stop the others --------------------------------------------------------------------------------


def test_a_flood_of_one_is_slowed_down_and_others_are_served(tmp_path):
    path = write_config(tmp_path, text=LIMITED)
    with running(path) as world:
        loud, quiet = world.script("anna"), world.script("bert")
        statuses = [loud.get("/api/v1/tables").status_code for _ in range(12)]
        assert statuses[:5] == [200] * 5
        assert 429 in statuses
        refused = loud.get("/api/v1/tables")
        assert int(refused.headers["retry-after"]) >= 1
        assert quiet.get("/api/v1/tables").status_code == 200
        # steps of the ledger are counted apart, in its transaction
        link = world.service.links["people"]
        link.call("buy_size", who="bert", role="analyst")
        replies = []
        for i in range(1, 8):
            body, headers = {"query": f"age < {10 * i}"}, {"idempotency-key": f"step-{i:05}"}
            replies.append(quiet.post("/api/v1/tables/people/questions", json=body, headers=headers))
        reply = replies[-1]
        assert reply.status_code == 429
        detail = reply.json()["detail"]
        assert "new steps" in detail
        (seconds,) = re.findall(r"ask again in (\d+) s$", detail)  # whole: tenths would date the last look
        assert reply.headers["retry-after"] == seconds
        with book(world) as ledger:
            before = ledger.receipt()
        for i in range(20):  # polling: nothing is read, stored or answered, and nobody else is stopped
            body, headers = {"query": f"age < {i + 41}"}, {"idempotency-key": f"poll-{i:05}"}
            assert (
                quiet.post("/api/v1/tables/people/questions", json=body, headers=headers).status_code == 429
            )
        with book(world) as ledger:
            assert ledger.receipt() == before
        with book(world) as ledger:
            ledger.verify()


LIMITED = """\
state = "state"
tick_milliseconds = 0
[tables.people]
source = "people.csv"
domain = "people.domain.json"
epsilon = 4.0
delta = 1e-9
[people.anna]
requests_per_minute = 6
[people.anna.tables.people]
epsilon = 1.0
[people.bert.tables.people]
epsilon = 1.0
steps_per_minute = 5
"""


# --- A20: every operation and every role ----------------------------------------------------------------------------

FOR_STEWARDS = {
    "start_release", "list_jobs", "get_ledger", "list_entries", "list_audit", "verify_ledger",
}  # fmt: skip
FOR_NOBODY_HERE = {"get_job", "follow_job", "change_job", "get_release", "answer_release", "table_of_release",
                   "sql_of_release", "rows_of_release", "folder_of_release"}  # fmt: skip
FOR_ANALYSTS = {"forecast", "ask", "session_sql", "buy_size", "session_rows", "history"}
BODIES = {
    "start_release": {"epsilon": 0.1, "delta": 1e-9, "marginals": [0]},
    "forecast": {"query": "age < 30"},
    "ask": {"query": "age < 30"},
    "session_sql": {"statement": "select count(*) from people where age < 30"},
}


def test_every_operation_is_for_its_role(world):
    """The whole matrix: analyst with a budget, analyst without one, steward, nobody."""
    operations = httpx.get(f"{world.home}/api/v1/openapi.json").json()["paths"]
    people = {name: world.script(name) for name in ("anna", "carl", "stella")}
    people["nobody"] = httpx.Client(base_url=world.home)
    seen = set()
    for path, methods in operations.items():
        for method, operation in methods.items():
            name = operation["operationId"]
            seen.add(name)
            address = path.format(table="people", name="nothing", job="00ff", action="cancel")
            params = {"q": "age < 30"} if name in ("answer_release", "sql_of_release") else {}
            headers = {"idempotency-key": f"matrix-{name}"}
            statuses = {
                who: client.request(
                    method, address, params=params, json=BODIES.get(name), headers=headers
                ).status_code
                for who, client in people.items()
            }
            assert statuses.pop("nobody") == 401, name
            assert statuses == expected(name), name
    assert seen >= FOR_STEWARDS | FOR_NOBODY_HERE | FOR_ANALYSTS


def expected(name: str) -> dict[str, int]:
    if name in FOR_NOBODY_HERE:
        return dict.fromkeys(("anna", "carl", "stella"), 404)
    if name == "list_jobs":
        return {"anna": 403, "carl": 403, "stella": 200}
    if name in FOR_STEWARDS:  # the release of the steward asks for no queries, and is refused for that
        return {"anna": 403, "carl": 404, "stella": 400 if name == "start_release" else 200}
    if name in FOR_ANALYSTS:
        return {"anna": 200, "carl": 404, "stella": 403}
    return {"anna": 200, "carl": 404 if name == "get_table" else 200, "stella": 200}


# --- A21 and browsers: forms, sessions, hosts, paths ----------------------------------------------------------------


def test_forms_of_other_sites_and_sessions_are_refused(world, anna):
    form = {"q": "age < 30", "key": "forged-form"}
    bert = world.browser("bert")
    assert anna.client.post("/t/people/ask", data=form).status_code == 403
    assert anna.client.post("/t/people/ask", data=form | {"csrf": "x"}).status_code == 403
    assert anna.client.post("/t/people/ask", data=form | {"csrf": bert.csrf()}).status_code == 403
    good = form | {"csrf": anna.csrf()}
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}, {"origin": "null"}):
        assert anna.client.post("/t/people/ask", data=good, headers=headers).status_code == 403
    login = {"token": world.token("bert")}
    assert (
        httpx.post(f"{world.home}/login", data=login, headers={"origin": "https://evil.example"}).status_code
        == 403
    )


def test_no_form_of_anybody_works_without_its_token(world):
    """Every address that takes a form, by the routes themselves, so that none that is added is forgotten."""
    from maquette.web import access, asking, domains, site, steward

    stella = world.browser("stella")
    values = {"table": "people", "job": "00ff", "action": "cancel", "token": "00ff"}
    form = {
        "q": "age < 30", "key": "forged-form", "name": "anna", "column": "age", "why": "x", "entry": "{}",
        "epsilon": "0.1", "marginals": "1",
    }  # fmt: skip
    addresses = [
        route.path.format(**values)
        for part in (access, asking, steward, domains, site)
        for route in part.router.routes
        if "POST" in route.methods and route.path not in ("/login", "/demo")
    ]
    assert len(addresses) >= 14
    for address in addresses:
        for csrf in ({}, {"csrf": ""}, {"csrf": "x" * 32}, {"csrf": world.browser("anna").csrf()}):
            assert stella.client.post(address, data=form | csrf).status_code == 403, address
        outsider = httpx.post(f"{world.home}{address}", data=form)
        assert (outsider.status_code, outsider.headers["location"]) == (303, "/login"), address


def test_a_cookie_that_was_copied_ends_with_its_session(world):
    """Replayed after signing out, and after its token was revoked."""
    browser = world.browser("bert")
    copy = dict(browser.client.cookies)
    assert httpx.get(f"{world.home}/", cookies=copy).status_code == 200
    browser.post("/logout")
    assert httpx.get(f"{world.home}/", cookies=copy).status_code == 303
    token = world.service.door.new_token("bert")
    second = Browser(httpx.Client(base_url=world.home))
    second.client.post("/login", data={"token": token})
    copy = dict(second.client.cookies)
    world.service.door.revoke(token.split("_")[1])
    assert httpx.get(f"{world.home}/", cookies=copy).status_code == 303
    headers = {"authorization": f"Bearer {token}"}
    assert httpx.get(f"{world.home}/api/v1/tables", headers=headers).status_code == 401


def test_a_session_cannot_be_fixed_beforehand(world):
    browser = Browser(httpx.Client(base_url=world.home, cookies={"maquette": "chosen-by-an-attacker"}))
    reply = browser.client.post("/login", data={"token": world.token("anna")})
    assert "chosen-by-an-attacker" not in reply.headers["set-cookie"]
    attacker = httpx.get(f"{world.home}/", cookies={"maquette": "chosen-by-an-attacker"})
    assert attacker.status_code == 303


@pytest.mark.parametrize(
    "to", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "\n/x"]
)
def test_signing_in_leads_to_this_site(world, to):
    reply = httpx.post(f"{world.home}/login", data={"token": world.token("anna"), "to": to})
    assert reply.headers["location"] == "/"


def test_other_hosts_are_refused(world):
    assert httpx.get(f"{world.home}/", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    "path",
    [
        "/t/..%2f..%2fetc%2fpasswd",
        "/t/people%2f..%2f..%2fx/ask",
        "/r/..%2f..%2fstate",
        "/r/%2e%2e/files/rows.csv",
        "/jobs/..%2f..%2fservice.db",
        "/static/..%2f..%2fconfig.py",
        "/static/%2e%2e%2fapp.py",
        "/api/v1/tables/..%2fpeople",
        "/api/v1/releases/..%2f..%2fx",
    ],
)
def test_no_path_leaves_its_place(world, anna, path):
    replies = (anna.get(path), world.script("stella").get(path))
    for reply in replies:
        assert reply.status_code in (303, 404, 422)
        assert "root:" not in reply.text


# --- colluding analysts ---------------------------------------------------------------------------------------------


def test_two_who_collude_get_no_more_than_both_shares(tmp_path):
    """Each spends all they have; what both know was paid by the ledger, and the ledger is not overspent."""
    text = LIMITED.replace("requests_per_minute = 6", "requests_per_minute = 100000").replace(
        "steps_per_minute = 5", "steps_per_minute = 100000"
    )
    text = text.replace("epsilon = 1.0", "epsilon = 1.0\nquestions = 8\nalpha = 0.05")
    with running(write_config(tmp_path, text=text)) as world:
        link = world.service.links["people"]
        refusals = 0
        for who in ("anna", "bert"):
            client = world.script(who)
            for i in range(24):
                body = {
                    "query": f"age < {10 * (i % 9 + 1)} and household = {i % 4 + 1}",
                    "allow_useless": True,
                }
                reply = client.post(
                    "/api/v1/tables/people/questions",
                    json=body,
                    headers={"idempotency-key": f"collude-{i:03}"},
                )
                refusals += reply.status_code == 402
        assert refusals > 0
        with book(world) as ledger:
            ledger.verify()
            held = sum(one["spent"] + one["held"] for one in link.call("ledger")["holders"])
            assert held * 10**12 <= ledger.total_units * 1.000001
            assert ledger.spent_units <= ledger.total_units


# --- A11, A15: old ledgers, and what is said ------------------------------------------------------------------------


def test_logs_and_errors_of_neighbouring_tables_are_the_same(tmp_path):
    """A15: before anything is paid, all that a table makes the service say is the same with one record less."""
    from maquette.errors import MaquetteError
    from maquette.web import config as configs
    from maquette.web.holder import Holder

    def said(folder: Path, drop: int) -> list[str]:
        path = write_config(folder)
        lines = (folder / "people.csv").read_text().splitlines()
        (folder / "people.csv").write_text("\n".join(lines[: len(lines) - drop]) + "\n")
        holder = Holder(configs.load(path), "people")
        calls = [
            ("describe", {}),
            ("standing", {"who": "anna"}),
            ("forecast", {"who": "anna", "query": "age < 20"}),
            ("forecast", {"who": "anna", "query": "height < 20"}),
            ("ask", {"who": "anna", "role": "analyst", "query": "age <"}),
            ("ask", {"who": "anna", "role": "analyst", "query": "age < 30", "at_most": 0.0}),
            ("ask", {"who": "nobody", "role": "analyst", "query": "age < 30"}),
            ("fit", {"who": "stella"}),
            ("nothing", {}),
        ]
        words: list[str] = []
        for name, arguments in calls:
            try:
                words.append(repr(holder.call(name, arguments)))
            except MaquetteError as error:
                words.append(f"{type(error).__name__}: {error}")
        words += [str((line["action"], line["detail"])) for line in holder.call("audit", {})["items"]]
        holder.close()
        return words

    assert said(tmp_path / "a", 0) == said(tmp_path / "b", 1)
