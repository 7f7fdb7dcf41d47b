"""The page on queries: its examples run, and its table of words is the one that the parser knows."""

from __future__ import annotations

import re
from pathlib import Path

import maquette.queries as mq
from maquette.queries.forms import EXAMPLES

PAGE = (Path(__file__).parents[2] / "docs" / "queries.md").read_text(encoding="utf-8")


def test_the_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/queries.md", "exec"), names)
    assert isinstance(names["workload"], mq.Workload)


def test_every_class_and_word_is_on_the_page():
    for name in (
        "marginals",
        "points",
        "prefixes",
        "thresholds",
        "ranges",
        "boxes",
        "conjunctions",
        "halfspaces",
    ):
        assert f"`{name}" in PAGE
    for name in ("weights", "where", "predicates", "union"):
        assert f"`{name}(" in PAGE
    for word in re.findall(r"(\w+):", EXAMPLES):
        assert f"`{word}:" in PAGE
