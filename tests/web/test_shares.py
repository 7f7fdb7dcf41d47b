"""What a share of the budget buys where the configuration names no error."""

from __future__ import annotations

import pytest

from maquette import demo
from maquette.web import config as configs
from maquette.web.holder import Holder

TEXT = """
state = "state"
[tables.people]
source = "people.csv"
domain = "people.domain.json"
epsilon = 4.0
delta = 1e-9
[people.anna.tables.people]
epsilon = 1.0
"""


@pytest.fixture
def config(tmp_path):
    demo.write(tmp_path, rows=20_000)
    (tmp_path / "serve.toml").write_text(TEXT, encoding="utf-8")
    return configs.load(tmp_path / "serve.toml")


def stated(holder: Holder) -> tuple[float, float]:
    """The error and the part of the budget that a question takes."""
    holder.call("buy_size", {"who": "anna", "role": "analyst"})
    forecast = holder.call("forecast", {"who": "anna", "query": "age >= 60"})
    return forecast["error"], forecast["cost"] / forecast["total"]


def test_few_questions_get_an_equal_part_of_the_budget_each(config):
    holder = Holder(config, "people")
    error, part = stated(holder)
    assert error < 0.02
    assert part == pytest.approx(0.95 / 100, rel=0.06)  # the rest is for the number of records
    holder.close()


def test_where_equal_parts_would_say_less_a_session_may_guess(tmp_path):
    demo.write(tmp_path, rows=20_000)
    (tmp_path / "serve.toml").write_text(TEXT + "questions = 10_000\n", encoding="utf-8")
    holder = Holder(configs.load(tmp_path / "serve.toml"), "people")
    error, _ = stated(holder)
    assert error > 0.02
    holder.close()
