"""The page of what the founding texts contain: all 112 items, and every name, page and test that it gives is there."""

from __future__ import annotations

import json
import re
from functools import reduce
from pathlib import Path

import pytest
from typer.main import get_command

import maquette as mq
from maquette.cli.app import app
from maquette.mechanisms.base import MECHANISMS

ROOT = Path(__file__).parents[2]
ITEMS = json.loads((Path(__file__).parent / "texts.json").read_text("utf-8"))
"""What the texts say, in their order: the item, and the numbers of the texts that say it."""
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in (ROOT / "docs" / "texts.md").read_text("utf-8").splitlines()
    if re.match(r"\| \d+ \| .* \| .* \| .* \| ", line)
]
COMMANDS = get_command(app)


def names(cell: str) -> list[tuple[str, str]]:
    """What a cell says to call, each with its kind: mechanism, command, option or name in Python."""
    found = [("mechanism", name) for name in re.findall(r"mechanism `([\w-]+)`", cell)]
    for name in re.findall(r"`([^`]+)`", re.sub(r"mechanism `[\w-]+`", "", cell)):
        if name.startswith("maquette "):
            found.append(("command", name.split()[1]))
        elif re.match(r"(mq|theory|lessons)\.", name):
            found.append(("python", name))
    return found


def options(cell: str) -> list[tuple[str, str]]:
    """Options that a cell names after a command: "`maquette bound` with `--alpha`"."""
    named = r"`maquette ([\w-]+)` with `(--[\w-]+)"
    return [(command, option) for command, option in re.findall(named, cell)]


def is_there(kind: str, name: str) -> bool:
    if kind == "mechanism":
        return name in MECHANISMS
    if kind == "command":
        return name in getattr(COMMANDS, "commands", {})
    parts = name.removeprefix("mq.").split(".")
    return reduce(lambda thing, part: getattr(thing, part, None), parts, mq) is not None


def takes(command: str, option: str) -> bool:
    parameters = getattr(COMMANDS, "commands", {})[command].params
    return any(option in parameter.opts for parameter in parameters)


def heading_of(anchor: str, page: str) -> bool:
    """Is there a heading that this anchor leads to?"""
    headings = re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}
    return anchor in slugs


def is_test(name: str) -> bool:
    file, _, function = name.partition("::")
    place = ROOT / "tests" / file
    return place.is_file() and f"\ndef {function}(" in place.read_text("utf-8")


def test_the_items_are_those_of_the_texts_in_their_order():
    assert len(ITEMS) == len(ROWS) == 112
    for number, (row, (item, texts)) in enumerate(zip(ROWS, ITEMS, strict=True), start=1):
        assert int(row[0]) == number
        assert re.sub(r"\\([|*])", r"\1", row[1]) == item
        assert row[2] == texts


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_an_item_names_is_there_and_its_tests_speak_of_it(row):
    _, _, _, here, page, test = row
    called = names(here)
    assert called
    assert [one for one in called if not is_there(*one)] == []
    assert [one for one in options(here) if not takes(*one)] == []
    (link,) = re.findall(r"\]\(([^)]+)\)", page)
    target, _, anchor = link.partition("#")
    text = (ROOT / "docs" / target).read_text("utf-8")
    assert not anchor or heading_of(anchor, text), link
    tests = re.findall(r"`([^`]+)`", test)
    assert tests
    assert [one for one in tests if not is_test(one)] == []
    spoken = "".join(_with_support(ROOT / "tests" / one.partition("::")[0]) for one in tests)
    assert any(_speaks_of(spoken, name.split(".")[-1]) for _, name in called), (
        f"{test} names none of {called}"
    )


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
    assert options("`maquette bound` with `--alpha`") == [("bound", "--alpha")]
    assert not takes("bound", "--alpa")
    assert not heading_of("nowhere", "# Somewhere")
    assert not is_test("theory/test_lower.py::test_nothing")
    assert not _speaks_of("def test_x(): pass", "laplace")
