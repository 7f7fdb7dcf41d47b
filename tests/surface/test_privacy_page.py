"""The page on privacy is kept current: what it names exists, and what exists it names."""

import re
from pathlib import Path

import pytest

from maquette.mechanisms.base import MECHANISMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", PAGE)))


def test_it_names_enough_to_be_worth_checking():
    assert len(PATHS) > 30


@pytest.mark.parametrize("path", PATHS)
def test_every_file_it_names_exists(path):
    assert (ROOT / path).exists()


def test_every_mechanism_has_a_section():
    headings = " ".join(line for line in PAGE.splitlines() if line.startswith("### "))
    assert [name for name in MECHANISMS if f"`{name}`" not in headings] == []


def test_its_figures_are_those_of_the_tests():
    files = (ROOT / "tests/gate" / f"test_seeded_bugs{end}.py" for end in ("", "_order"))
    bugs = sum(file.read_text(encoding="utf-8").count("\n@bug(") for file in files)
    assert f"plant {bugs} privacy bugs" in PAGE
    assert "14,196 ordered pairs" in PAGE
    assert "200 pairs per mechanism" in PAGE
