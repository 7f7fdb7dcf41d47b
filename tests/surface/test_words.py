"""The check of words: what it finds, and what it leaves alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.tools import ROOT, tool

check_words = tool("check_words")


def names(source: str) -> list[str]:
    return [
        name
        for _, name in check_words.defined(ast.parse(source))
        if check_words.is_dialect(name, Path("package/file.py"))
    ]


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "class Drawn: ...",
        "def f(asked): ...",
        "self.wanted = 2",
        "def foretelling(): ...",
        "MOST_COUNTED = 3",
    ],
)
def test_it_finds_participles_as_nouns_and_pet_names(source):
    assert len(names(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "drawn_rows = 1",
        "is_known = True",
        "def has_drawn(): ...",
        "def f(*, total_known: bool): ...",
        "class A:\n    size_known: bool = True",
        "release.expected",
        "measurements = tables = 1",
    ],
)
def test_it_leaves_adjectives_questions_and_truth_values_alone(source):
    assert names(source) == []


def test_a_truth_value_of_one_word_is_still_a_participle():
    assert names("def f(known: bool): ...") == ["known"]


@pytest.mark.slow
def test_no_package_has_more_than_it_may(capsys):
    assert check_words.main([]) == 0, capsys.readouterr().out


def test_what_is_left_is_in_packages_that_are_there():
    packages = {path.stem for path in (ROOT / "src" / "maquette").iterdir()}
    assert set(check_words.LEFT) <= packages
    assert all(most > 0 for most in check_words.LEFT.values())


def test_paths_are_listed_in_full(tmp_path, capsys):
    (tmp_path / "grip.py").write_text("held = 1\n")
    assert check_words.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 names"
