"""The reference of names: as the docstrings are today, every public name in it, with an example that uses it."""

from __future__ import annotations

import re

import maquette
from support.tools import tool

page = tool("make_reference_page")
TROUBLES = page.troubles()


def test_the_page_is_what_would_be_written():
    assert page.PAGE.read_text("utf-8") == page.written(), "python tools/make_reference_page.py"


def test_every_public_name_is_there_once():
    named = [name for names, _ in page.parts() for name in names]
    assert sorted([*named, *TROUBLES]) == sorted(maquette.__all__)


def test_every_example_uses_its_names():
    for names, code in page.parts():
        assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []


def test_every_name_says_something_of_itself():
    for name in maquette.__all__:
        thing = getattr(maquette, name)
        assert isinstance(thing, str) or page.told(thing), name


def test_signatures_are_as_python_has_them():
    def called(first: int, *others: str, last: str = "a") -> bool:
        return bool(first or others or last)

    assert page.signature("called", called) == (
        "```text\nmq.called(first: int, *others: str, last: str = 'a') -> bool\n```"
    )
