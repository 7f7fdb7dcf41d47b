"""Every function of the theory names its theorem, and the page of theorems says what is true."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import maquette as mq
from maquette.theory.sources import THEOREMS, theorem_of
from support.tools import tool

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/theorems.md").read_text(encoding="utf-8")
LISTED = [name for one in THEOREMS for name in one.functions]


def function_of(name: str):
    module, _, inner = name.partition(".")
    return getattr(import_module(f"maquette.theory.{module}"), inner)


def public_functions() -> set[str]:
    found = set()
    for module in dir(mq.theory):
        inner = getattr(mq.theory, module)
        if inspect.ismodule(inner) and module != "sources":
            found |= {
                f"{module}.{name}"
                for name, one in vars(inner).items()
                if not name.startswith("_") and getattr(one, "__module__", "") == inner.__name__
                if inspect.isroutine(inspect.unwrap(one))
            }
    return found


def test_every_function_is_listed_once():
    assert sorted(LISTED) == sorted(set(LISTED))
    assert set(LISTED) == public_functions()


def test_every_function_says_what_it_is():
    for name in LISTED:
        assert inspect.getdoc(function_of(name)), name
        assert theorem_of(name).source


def test_an_unknown_function_has_no_theorem():
    with pytest.raises(KeyError, match="no function of the theory"):
        theorem_of("smalldb.worst")


def test_the_theory_is_at_hand():
    assert "theory" in dir(mq)
    assert {"smalldb", "bounds", "needs", "theorem_of"} <= set(dir(mq.theory))
    assert mq.theory.smalldb.best is function_of("smalldb.best")
    with pytest.raises(AttributeError, match="smalldbb"):
        _ = mq.theory.smalldbb


def test_the_page_lists_every_theorem_and_function():
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == [one.name for one in THEOREMS]
    assert re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE) == LISTED


@pytest.mark.slow
def test_what_the_page_says_of_tests_and_users_is_true():
    page = tool("make_theorem_page")
    tests, code = page.users(ROOT / "tests"), page.users(ROOT / "src/maquette")
    for line in re.findall(r"^\| `.+\|$", PAGE, re.MULTILINE):
        name, held, used = (part.strip() for part in line.strip("|").split(" | "))
        through = re.search(r"\(through `(.+)`\)", held)
        files = re.sub(r" \(through.*", "", held).split(", ")
        tested = tests[through[1] if through else name.strip("` ")]
        assert files != [""], f"no test holds {name}"
        assert {file.split("/")[-1] for file in files} <= {test.split("/")[-1] for test in tested}
        assert set(filter(None, used.split(", "))) <= set(code.get(name.strip("` "), []))
