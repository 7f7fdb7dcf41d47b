"""The picture of a release in `docs/architecture.md` is what the code does."""

from __future__ import annotations

from support.tools import tool

way = tool("draw_way")


def test_the_page_has_the_calls_of_today():
    page = way.PAGE.read_text("utf-8")
    assert way.page_with(page, way.picture()) == page, "python tools/draw_way.py --write"


def test_a_release_is_planned_then_paid_then_run_then_stated():
    names = [name for name, _, _ in way.steps()]
    order = ["Request.of", "find_payer", "plan_of", "Curator", "pay", "run", "finish", "bind"]
    assert [name for name in names if name in order] == order
