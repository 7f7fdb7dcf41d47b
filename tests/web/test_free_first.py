"""What is published comes before what is paid; questions are kept, shared and taken along."""

from __future__ import annotations

import html
import json
import re

import pytest

import maquette as mq
from support.web_service import running, write_config


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with running(write_config(tmp_path_factory.mktemp("service"))) as world:
        with mq.connect(world.home, token=world.token("stella")) as stella:
            stella.release("people", marginals=[1, 2], epsilon=1.0, delta=1e-9, name="first", key="a-release")
            world.job = stella.get("/jobs")["items"][0]["id"]
        yield world


def test_what_is_not_published_is_not_used(world):
    text = world.browser("anna").get("/t/people/ask?q=age >= 60").text
    assert "Free, from the release" not in text
    assert "Buy the number of records" in text


def test_a_published_release_answers_first_and_its_number_of_records_is_not_sold(world):
    with mq.connect(world.home, token=world.token("stella")) as stella:
        stella.post(f"/jobs/{world.job}/publish")
    release = world.service.catalog.release("first")
    anna = world.browser("anna")
    text = html.unescape(anna.get("/t/people/ask?q=age >= 60").text)
    assert text.index("Free, from the release") < text.index("A paid answer")
    assert "Buy the number of records" not in text
    assert f"{100 * release.answer('age >= 60').value:.1f} %" in text
    with mq.connect(world.home, token=world.token("anna")) as script:
        session = script.session("people")
        assert session.size == release.size.value
        fields = script.post("/tables/people/forecast", {"query": "age >= 60"})
        (published,) = fields["published"]
        assert (published["release"], published["value"]) == ("first", release.answer("age >= 60").value)
        before = session.left
        session.buy_size()
        assert session.left == before
        session.ask("age >= 60")
        first, *_ = session.history()
        assert (first.kind, first.cost, first.value) == ("size", 0.0, float(release.size.value))
    plan = world.browser("stella").get("/t/people/plan?marginals=1&epsilon=0.5").text
    assert f'name="n" type="number" min="1" value="{release.size.value}"' in plan
    answered = html.unescape(anna.get("/t/people/ask?q=age >= 60").text)
    assert "Answered before" in answered
    assert "The same in the release" in answered


def test_a_select_shows_the_table_of_the_release_first(world):
    text = (
        world.browser("anna").get("/t/people/ask?q=select region, count(*) from people group by region").text
    )
    assert text.index("Free, from the release") < text.index("A paid answer")


def test_a_question_is_kept_shared_and_forgotten(world):
    anna, query = world.browser("anna"), "age >= 30 and sex = 'male'"
    assert anna.post("/t/people/saved", q=query).status_code == 303
    anna.post("/t/people/saved", q=query)
    page = html.unescape(anna.get("/t/people/history").text)
    assert page.count("/t/people/ask?q=age%20%3E%3D%2030%20and%20sex%20%3D%20%27male%27") == 1
    assert query not in html.unescape(world.browser("bert").get("/t/people/history").text)
    anna.post("/t/people/saved", q=query, action="forget")
    assert query not in html.unescape(anna.get("/t/people/history").text)
    assert world.browser("carl").post("/t/people/saved", q=query).status_code in (403, 404)
    reply = anna.client.post("/t/people/saved", data={"q": query})
    assert reply.status_code == 403  # without the token of its form


def test_what_is_copied_as_python_runs(world, monkeypatch):
    text = html.unescape(world.browser("anna").get("/t/people/ask?q=age >= 60").text)
    code = re.search(r'aria-label="Python">(.*?)</pre>', text, re.DOTALL)[1]
    monkeypatch.setenv("MAQUETTE_TOKEN", world.token("anna"))
    names: dict = {}
    exec(code, names)  # the page says that it can be
    assert names["service"].session("people").ask("age >= 60").kind == "cached"


def test_a_history_is_a_notebook_that_asks_again(world, monkeypatch):
    reply = world.browser("anna").get("/t/people/history.ipynb")
    cells = json.loads(reply.text)["cells"]
    assert any("± " in cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    monkeypatch.setenv("MAQUETTE_TOKEN", world.token("anna"))
    names: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(cell["source"], names)
    assert names["session"].ask("age >= 60").cost == 0


def test_next_steps_lead_to_questions_that_can_be_asked(world):
    anna = world.browser("anna")
    text = html.unescape(anna.get("/t/people/ask?q=age >= 60 and sex = 'male'").text)
    steps = re.findall(r'<a href="(/t/people/ask\?q=[^"]+)">((?:compare|break down) by \w+)</a>', text)
    assert {words.split(" by ")[0] for _, words in steps} == {"compare", "break down"}
    for address, _ in steps:
        assert "A paid answer" in anna.get(address).text
