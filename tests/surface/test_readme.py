"""The README: its block runs as printed, prints what stands under it, and comes early."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import ROOT, blocks_of

TEXT = (ROOT / "README.md").read_text("utf-8")
(BLOCK,) = (block for block in blocks_of(TEXT, "README.md") if block.language == "python")
(SHOWN,) = re.findall(r"^```text\n(.*?)^```$", TEXT, re.S | re.M)
SCREEN = 45
"""Lines of a page that one sees at once."""


def shape(text: str) -> list[str]:
    """What is printed, without its figures and the width of its columns; of a table's rows only what they are about."""
    lines = [" ".join(re.sub(r"[\d,.]*\d", "#", line).split()) for line in text.splitlines() if line]
    return [line.split()[0] if re.search(r" # #", line) else line.partition(":")[0] for line in lines]


@pytest.mark.slow
def test_the_block_prints_what_stands_under_it(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCK.text, "README.md", "exec"), {"__name__": "__page__"})
    assert shape(capsys.readouterr().out)[:7] == shape(SHOWN)[:7]
    assert (tmp_path / "people.maquette" / "report.html").is_file()


def test_figures_are_masked_and_words_are_not():
    assert shape("within 0.58 points") == shape("within  1 points") != shape("within 1 records")
    assert shape("Coast  5,827  5,827  x") == ["Coast"]


def test_the_first_result_is_within_two_screens():
    lines = TEXT[: TEXT.index(SHOWN)].splitlines()
    assert len(lines) <= 2 * SCREEN
    assert TEXT.count("\n> ") == 1  # one number
    assert len(re.findall(r"^!\[", TEXT, re.M)) == 1  # one picture
    assert "make demo" in TEXT
    assert "make test" in TEXT
