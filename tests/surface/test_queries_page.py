"""The page on queries: its table of words is the one that the parser knows; test_pages runs its examples."""

from __future__ import annotations

import re
from pathlib import Path

from maquette.queries.forms import EXAMPLES

PAGE = (Path(__file__).parents[2] / "docs" / "queries.md").read_text(encoding="utf-8")


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
    for word in re.findall(r"(?:^|, )(\w+):", EXAMPLES):
        assert f"`{word}:" in PAGE
