"""The glossary leads to the code: every file it names is there, and says the word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "maquette"
PAGE = (ROOT / "docs" / "glossary.md").read_text("utf-8")
ROWS = [
    line
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| symbol", "| word"))
]
PLACES = sorted(
    {(word, file) for row in ROWS for word, file in re.findall(r"`(\w+)` in `([\w/]+\.py)`", row)}
)
LETTERS = ("n", "m", "k", "d", "epsilon", "delta", "rho", "mu", "alpha", "beta", "D", "T", "eta")


@pytest.mark.parametrize(("word", "file"), PLACES)
def test_a_place_of_the_glossary_is_there(word, file):
    assert re.search(rf"\b{word}\b", (SOURCE / file).read_text("utf-8"))


def test_files_without_a_word_are_there():
    files = re.findall(r"`([\w/]+\.py)`", PAGE)
    assert len(files) > 50
    assert [file for file in files if not (SOURCE / file).exists()] == []


def test_every_letter_of_the_theory_has_a_row():
    symbols = [row.split("|")[1].strip() for row in ROWS]
    assert [letter for letter in LETTERS if letter not in symbols] == []


def test_words_come_in_their_order_and_once():
    words = [
        row.split("|")[1].strip().lower()
        for row in ROWS[ROWS.index(next(r for r in ROWS if "accounting" in r.split("|")[1])) :]
    ]
    assert words == sorted(set(words))
