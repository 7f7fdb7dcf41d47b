"""The page of what the texts contain: every name is there, and every test speaks of what it is said to hold."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

import pytest
from typer.main import get_command

import maquette as mq
from maquette.cli.app import app
from maquette.mechanisms.base import MECHANISMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "texts.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
]
COMMANDS = set(getattr(get_command(app), "commands", {}))


def names(cell: str) -> list[tuple[str, str]]:
    """What a cell says to call, each with its kind: mechanism, command or name in Python."""
    found = [("mechanism", name) for name in re.findall(r"mechanism `([\w-]+)`", cell)]
    for name in re.findall(r"`([^`]+)`", re.sub(r"mechanism `[\w-]+`", "", cell)):
        found.append(("command", name.split()[1]) if name.startswith("maquette ") else ("python", name))
    return found


def is_there(kind: str, name: str) -> bool:
    if kind == "mechanism":
        return name in MECHANISMS
    if kind == "command":
        return name in COMMANDS
    parts = name.removeprefix("mq.").split(".")
    return reduce(lambda thing, part: getattr(thing, part, None), parts, mq) is not None


def test_the_items_are_numbered_without_gaps():
    assert [int(row[0]) for row in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) == 92


@pytest.mark.parametrize("row", ROWS, ids=[row[1][:40] for row in ROWS])
def test_an_item_is_where_the_page_says_and_its_test_speaks_of_it(row):
    _, _, here, test = row
    called = names(here)
    assert called
    assert [one for one in called if not is_there(*one)] == []
    tests = [ROOT / place for place in re.findall(r"`([^`]+)`", test)]
    assert tests
    assert all("def test_" in place.read_text("utf-8") for place in tests)
    text = "".join(_with_support(place) for place in tests)
    assert any(_speaks_of(text, name.split(".")[-1]) for _, name in called), f"{test} names none of {called}"


def _with_support(place: Path) -> str:
    """A test and what it imports from the folder of cases and doubles."""
    text = place.read_text("utf-8")
    modules = re.findall(r"^from support\.(\w+) import|^from support import (\w+)", text, flags=re.MULTILINE)
    helpers = [ROOT / "tests" / "support" / f"{one or other}.py" for one, other in modules]
    return text + "".join(helper.read_text("utf-8") for helper in helpers if helper.is_file())


def _speaks_of(text: str, name: str) -> bool:
    return re.search(rf"(?<![a-z]){re.escape(name)}(?![a-z])", text, flags=re.IGNORECASE) is not None


def test_the_checks_can_fail():
    assert not is_there("mechanism", "smalldbs")
    assert not is_there("command", "bounds")
    assert not is_there("python", "theory.smalldb.beste")
    assert not _speaks_of("def test_x(): pass", "laplace")
