"""Chromium walks every page of a service as analyst and as steward, and nothing that anybody typed runs there."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

import maquette as mq
from maquette.domain import Domain
from support.browser import chromium, served, tab
from support.web_service import running, write_config, write_undeclared

pytestmark = pytest.mark.slow

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}",
    "</title><script>alert(1)</script>",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """With a release, so that every page has something to show."""
    with running(write_undeclared(tmp_path_factory.mktemp("service"))) as world:
        with mq.connect(world.home, token=world.token("stella")) as stella:
            stella.release(
                "people", marginals=[1, 2], epsilon=1.0, delta=1e-9, name="first", key="first-release"
            )
            world.job = stella.get("/jobs")["items"][0]["id"]
            stella.post(f"/jobs/{world.job}/publish")
        with mq.connect(world.home, token=world.token("anna")) as anna:
            anna.session("people").buy_size()
            anna.session("people").ask("age >= 60")
        yield world


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


def enter(walk, world, name: str) -> None:
    walk.go("/login")
    walk.page.fill("input[name=token]", world.token(name))
    walk.page.focus("input[name=token]")
    walk.enter()
    assert f"{name}, " in walk.page.inner_text("header")


ANALYST = (
    "/",
    "/t/people",
    "/t/people/ask",
    "/t/people/ask?q=age >= 60",
    "/t/people/ask?q=age >= 30",
    "/t/people/ask?q=height > 3",
    "/t/people/ask?q=select region, count(*) from people group by region",
    "/t/people/history",
    "/releases",
    "/r/first",
    "/r/first/explore?by=age",
    "/r/first/explore?by=age&by=region",
    "/r/first/explore?by=age&by=region&as=small&where=sex = 'male'",
    "/r/first",
    "/r/first/sql?q=select region, count(*) from t group by region",
    "/r/first/answer?q=age >= 60",
    "/t/people/ledger",
)
STEWARD = (
    "/",
    "/t/people",
    "/t/people/plan",
    "/t/people/plan?marginals=1&marginals=2&epsilon=0.5&delta=1e-9&n=4000",
    "/t/people/plan?epsilon=0.5",
    "/t/people/ledger",
    "/t/people/domain?fit=true",
    "/t/drafted/domain",
    "/t/raw/domain",
    "/t/raw/domain?epsilon=0.5&delta=1e-7&k0=number&k1=text&k2=drop",
    "/t/raw/domain?epsilon=x",
    "/jobs",
    "/people",
)


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_every_page_is_for_every_analyst(browser, world, width, scheme):
    with tab(browser, world.home, width=width, scheme=scheme) as walk:
        walk.go("/login")
        walk.check()
        enter(walk, world, "anna")
        for path in ANALYST:
            walk.go(path)
            assert "Sign out" in walk.page.inner_text("header")
            walk.check()


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark")])
def test_every_page_is_for_every_steward(browser, world, width, scheme):
    with tab(browser, world.home, width=width, scheme=scheme) as walk:
        enter(walk, world, "stella")
        for path in (*STEWARD, f"/jobs/{world.job}"):
            walk.go(path)
            assert "Sign out" in walk.page.inner_text("header")
            walk.check()


def test_an_analyst_asks_without_scripts_and_without_a_mouse(browser, world):
    with tab(browser, world.home, scripts=False) as walk:
        enter(walk, world, "anna")
        walk.go("/t/people/ask")
        walk.page.focus("details.builder summary")
        walk.page.keyboard.press("Enter")
        walk.page.check("input[name=c1] >> nth=0")
        walk.page.focus("text=Put into words")
        walk.enter()
        assert walk.page.input_value("input[name=q]") == "sex = 'female'"
        assert "Free, from the release" in walk.page.inner_text("section.card")
        walk.page.focus("form.consent button")
        walk.enter()
        text = walk.page.inner_text("section.card")
        assert "of the records meet" in text
        assert "is left" in text


def test_a_steward_plans_releases_publishes_and_verifies_without_scripts(browser, world):
    with tab(browser, world.home, scripts=False) as walk:
        enter(walk, world, "stella")
        walk.go("/t/people/plan?marginals=1&epsilon=0.2&delta=1e-9&n=4000")
        walk.page.fill("input[name=name]", "second")
        walk.page.focus("text=Pay and release")
        walk.enter()
        walk.page.focus("text=Cancel")
        walk.enter()
        assert "cancelled" in walk.page.inner_text("section.card")
        walk.page.focus("text=Resume")
        walk.enter()
        for _ in range(200):
            if walk.page.locator("text=Open the release").count():
                break
            walk.page.wait_for_timeout(200)
            walk.page.reload()
        walk.page.focus("text=Publish to the analysts")
        walk.enter()
        assert "Keep from analysts" in walk.page.inner_text("main")
        walk.go("/t/people/ledger")
        walk.page.focus("text=Check the whole ledger")
        walk.enter()
        assert "are as they were written" in walk.page.inner_text("main")


def test_a_text_box_completes_columns_and_values_by_keyboard(browser, world):
    with tab(browser, world.home) as walk:
        enter(walk, world, "anna")
        walk.go("/t/people/ask")
        walk.page.focus("input[name=q]")
        walk.page.keyboard.type("age >= 60 and sex")
        assert walk.page.get_attribute("input[name=q]", "aria-expanded") == "true"
        walk.check()  # also with the list open
        for key in ("ArrowDown", "ArrowDown", "Enter"):
            walk.page.keyboard.press(key)
        assert walk.page.input_value("input[name=q]") == "age >= 60 and sex = 'male'"
        assert walk.page.get_attribute("input[name=q]", "aria-expanded") == "false"
        walk.page.keyboard.type(" or ")
        walk.page.keyboard.press("Escape")
        assert walk.page.locator("ul.completion").is_hidden()
        walk.page.keyboard.type("work = 'retired'")
        walk.enter()
        assert "A paid answer" in walk.page.inner_text("#result")


def test_the_price_is_there_while_somebody_types(browser, world):
    with tab(browser, world.home) as walk:
        enter(walk, world, "anna")
        walk.go("/t/people/ask")
        before = world.service.links["people"].call("ledger")["receipt"]
        walk.page.focus("input[name=q]")
        walk.page.keyboard.type("work = 'studying'")
        walk.page.wait_for_selector("text=A paid answer")
        walk.check()
        walk.page.keyboard.type(" and")  # not a condition any more: its price is gone
        walk.page.wait_for_function("document.getElementById('result').textContent.trim() === ''")
        assert world.service.links["people"].call("ledger")["receipt"] == before
        assert walk.page.url.endswith("/t/people/ask")


def test_charts_are_explored_by_links_and_follow_the_choices(browser, world):
    """Figures, errors and what lies behind a bar need no pointer and no script; htmx spares a new page for choices."""
    with tab(browser, world.home) as walk:
        enter(walk, world, "anna")
        walk.go("/r/first/explore?by=age")
        assert "±" in walk.page.inner_text("table.bars tbody tr >> nth=0")
        walk.page.focus("table.bars tbody a >> nth=6")
        walk.enter()
        assert "age 60 to 69" in walk.page.inner_text("#view")
        assert "age >= 60 AND age < 70" in walk.page.inner_text("#view")
        walk.check()
        walk.page.focus("text=remove")
        walk.enter()
        assert "Only records where" not in walk.page.inner_text("#view")
        walk.go("/r/first/explore?by=age")
        walk.page.evaluate("window.is_same_page = true")
        walk.page.focus("details.builder summary")
        walk.page.keyboard.press("Enter")
        walk.page.select_option("select[name=by] >> nth=1", "region")
        walk.page.wait_for_selector("table.heat td >> nth=39")
        assert walk.page.evaluate("window.is_same_page")
        assert "by=region" in walk.page.url
        walk.page.fill("input[name=where]", "height > 3")
        walk.page.keyboard.press("Tab")
        walk.page.wait_for_selector("text=unknown attribute 'height'")
        walk.check()


def test_without_scripts_charts_are_explored_as_well(browser, world):
    with tab(browser, world.home, scripts=False) as walk:
        enter(walk, world, "anna")
        walk.go("/r/first")
        walk.page.focus("section h3 a >> nth=0")
        walk.enter()
        walk.page.focus("ul.begin a >> nth=0")
        walk.enter()
        walk.page.focus("text=small charts")
        walk.enter()
        assert walk.page.locator("div.small table.bars").count() > 1


def test_a_part_of_a_page_that_needs_a_sign_in_leads_there(browser, world):
    with tab(browser, world.home) as walk:
        enter(walk, world, "anna")
        walk.go("/t/people/ask")
        walk.page.context.clear_cookies()
        with walk.page.expect_navigation(url="**/login"):
            walk.page.fill("input[name=q]", "age >= 20")


def test_the_slider_chooses_a_budget_and_says_its_errors(browser, world):
    with tab(browser, world.home) as walk:
        enter(walk, world, "stella")
        walk.go("/t/people/plan?marginals=1&epsilon=0.5&delta=1e-9&n=4000")
        before = walk.page.inner_text("#slider-says")
        assert before.startswith("epsilon 0.5: expected error")
        walk.page.focus("#slider input")
        walk.page.keyboard.press("ArrowRight")
        said = walk.page.inner_text("#slider-says")
        chosen = walk.page.input_value("input[name=epsilon]:checked")
        assert float(chosen) > 0.5
        assert said.startswith(f"epsilon {chosen}: expected error")
        assert walk.page.get_attribute("#slider input", "aria-valuetext") == said
        walk.check()


def test_a_steward_reviews_a_column_without_scripts(browser, world):
    with tab(browser, world.home, scripts=False) as walk:
        enter(walk, world, "stella")
        walk.go("/t/drafted/domain")
        walk.page.fill("section.card input[name=why] >> nth=0", "the questionnaire")
        walk.page.focus("section.card button >> nth=0")
        walk.enter()
        assert "stella, " in walk.page.inner_text("section.card >> nth=0")
        assert "1 of 8 columns are confirmed" in walk.page.inner_text("main")


def test_a_domain_is_found_and_looked_at_before_it_is_used(browser, world):
    with tab(browser, world.home, width=400, scheme="dark") as walk:
        enter(walk, world, "stella")
        walk.go(
            "/t/raw/domain?epsilon=0.5&delta=1e-7&k0=number&k1=text&k2=text&k3=drop&k4=drop&k5=drop&k6=drop&k7=drop"
        )
        walk.page.focus("text=Pay and discover")
        walk.enter()
        assert "Discovery" in walk.page.inner_text("h1")
        walk.page.wait_for_selector("text=Look at the domain", timeout=90_000)
        walk.check()
        walk.page.focus("text=Look at the domain")
        walk.enter()
        assert "Use this domain and open the table" in walk.page.inner_text("main")
        assert "female" in walk.page.inner_text("main table")
        walk.check()


def test_the_page_of_a_running_job_follows_by_itself(browser, world):
    with tab(browser, world.home) as walk:
        enter(walk, world, "stella")
        walk.go("/t/people/plan?marginals=1&epsilon=0.1&delta=1e-9&n=4000")
        walk.page.focus("text=Pay and release")
        walk.enter()
        walk.page.wait_for_selector("text=Open the release", timeout=90_000)
        assert (walk.strangers, walk.complaints) == ([], [])


def test_nothing_that_a_column_a_value_or_a_person_says_runs(browser, tmp_path):
    """Column and category names come from the owner's domain, conditions and labels from whoever types them."""
    folder = tmp_path / "hostile"
    path = write_config(folder)
    columns = [
        {"name": PAYLOADS[0], "kind": "categorical", "categories": list(PAYLOADS)},
        {"name": PAYLOADS[1], "kind": "boolean", "categories": ["a", PAYLOADS[2]]},
    ]
    Domain.from_dict({"attributes": columns}).save(folder / "people.domain.json")
    rows = [f"{json.dumps(PAYLOADS[i % 6]).replace(chr(92) + chr(34), chr(34) * 2)},a" for i in range(200)]
    head = ",".join('"' + name.replace('"', '""') + '"' for name in PAYLOADS[:2])
    (folder / "people.csv").write_text("\n".join([head, *rows]) + "\n")
    with running(path) as world, tab(browser, world.home) as walk:
        enter(walk, world, "anna")
        for page in ("/t/people", "/t/people/ask", "/t/people/ask?build=yes&c0=0&c0=1"):
            walk.go(page)
        walk.page.focus("input[name=q]")
        walk.page.keyboard.press("ArrowDown")  # names and values in the list of completions
        assert walk.page.locator("ul.completion li").count() > 3
        for text in PAYLOADS:
            walk.go(f"/t/people/ask?q={text}".replace("#", "%23"))
            walk.go(f"/login?to={text}")
        with mq.connect(world.home, token=world.token("stella")) as stella:
            wish = {"marginals": [1, 2], "epsilon": 1.0, "delta": 1e-9, "mechanism": "gaussian"}
            made = stella.release("people", name=PAYLOADS[0], key="hostile-release", **wish)
            job = stella.get("/jobs")["items"][0]["id"]
        enter(walk, world, "stella")
        walk.go("/t/people/domain")
        walk.page.fill("input[name=why]", PAYLOADS[1])
        walk.page.focus("main form button")
        walk.enter()
        assert PAYLOADS[1] in walk.page.inner_text("main table")
        for page in (
            "/releases",
            f"/r/{made.name}",
            f"/r/{made.name}/explore?by={PAYLOADS[0]}&by={quote(PAYLOADS[1])}",
            f"/r/{made.name}/sql?q={PAYLOADS[0]}",
            f"/r/{made.name}/answer?q={PAYLOADS[1]}",
            f"/jobs/{job}",
            "/jobs",
            "/t/people/plan?marginals=1&epsilon=1&delta=1e-9&n=200&where=" + PAYLOADS[1],
            "/people",
            "/t/people/ledger",
        ):
            walk.go(page)
        walk.page.wait_for_timeout(100)
        assert walk.dialogs == []
        assert walk.strangers == []


def test_a_demonstration_is_one_click(browser, world, tmp_path):
    from dataclasses import replace

    from maquette.web.app import service_site

    service = world.service
    before, service.config = service.config, replace(service.config, is_demo=True)
    try:
        with served(service_site(service)) as home, tab(browser, home) as walk:
            walk.go("/login")
            walk.check()
            walk.page.focus("text=Enter as an analyst")
            walk.enter()
            assert "anna, analyst" in walk.page.inner_text("header")
    finally:
        service.config = before
