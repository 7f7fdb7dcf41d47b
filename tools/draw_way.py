"""The way of a release through the code: the calls of `api.release_of` in order, where each is and what it does.

    python tools/draw_way.py            # prints the picture of docs/architecture.md
    python tools/draw_way.py --write    # puts it into the page

A test holds the page to it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from maquette import api

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
BEGIN, END = "<!-- way: written by tools/draw_way.py -->", "<!-- end of way -->"
WIDTH = 118


def steps(function: object = api.release_of, module: ModuleType = api) -> Iterator[tuple[str, str, str]]:
    """Every call of a function of ours, once: its name, its module and the first sentence about it.

    A private function of the module is no step: its own calls stand in its place.
    """
    names: set[str] = set()
    for name, target in _calls(function, module):
        if name not in names:
            names.add(name)
            home = target.__module__.removeprefix("maquette.").replace(".", "/")
            yield name, home, re.split(r"[.:;](?:\s|$)", inspect.getdoc(target) or "")[0]


def _calls(function: object, module: ModuleType) -> Iterator[tuple[str, object]]:
    for node in _in_order(ast.parse(inspect.getsource(function))):  # pyright: ignore[reportArgumentType]
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        target = _target(name, module)
        if name.startswith("_") and target is not None:
            yield from _calls(target, module)
        elif target is not None:
            yield name, target


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one as they are evaluated: what a call is given before the call."""
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
        yield child


def _target(name: str, module: ModuleType) -> object:
    """What a dotted name stands for, if it begins with a name of ours in this module."""
    first, *rest = name.split(".")
    target = vars(module).get(first)
    for part in rest:
        target = None if target is None else vars(target).get(part)
    target = getattr(target, "__func__", target)
    return target if getattr(target, "__module__", "").startswith("maquette") else None


def picture() -> str:
    """One line for a step, with arrows between them."""
    lines = ["    mq.release(table, queries, epsilon=...)"]
    for name, home, sentence in steps():
        place = f"      ▼  {name:<14} {home:<20} "
        lines.append(place + textwrap.shorten(sentence, WIDTH - len(place), placeholder=" ..."))
    return "\n".join([*lines, "      ▼", "    Release"])


def page_with(text: str, way: str) -> str:
    """A page with another picture between its two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{way}\n\n{END}{rest.split(END)[1]}"


def main(words: list[str]) -> int:
    if "--write" in words:
        PAGE.write_text(page_with(PAGE.read_text("utf-8"), picture()), encoding="utf-8")
    else:
        print(picture())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
