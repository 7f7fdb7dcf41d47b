"""Theorems that are tested are used: a function of `maquette.theory` has a caller, or is offered as it is.

A bound that a mechanism adds up by hand, with the tested function beside it, can be wrong without a test noticing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "maquette"
PAGE = Path(__file__).parents[2] / "docs" / "bounds.md"


def defined() -> set[tuple[str, str]]:
    """Every public function of the theory, by module and name."""
    found = set()
    for path in (SOURCE / "theory").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found.add((path.stem, node.name))
    return found


def used_in(path: Path, known: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The functions of the theory that a file names, a function's own body aside."""
    tree = ast.parse(path.read_text())
    modules: dict[str, str] = {}
    functions: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "maquette.theory":
            modules |= {name.asname or name.name: name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maquette.theory."):
            home = str(node.module).rsplit(".", 1)[1]
            functions |= {name.asname or name.name: (home, name.name) for name in node.names}
    if path.parent.name == "theory":
        functions |= {name: (home, name) for home, name in known if home == path.stem}
    for top in tree.body:
        inside = top.name if isinstance(top, ast.FunctionDef) else None
        for node in ast.walk(top):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id in modules:
                    yield modules[node.value.id], node.attr
            elif isinstance(node, ast.Name) and node.id in functions and node.id != inside:
                yield functions[node.id]


def offered() -> set[tuple[str, str]]:
    """Those that the page on bounds lists as offered to readers and called by nothing."""
    section = PAGE.read_text().split("## Offered, not called", 1)[1].split("\n## ", 1)[0]
    words = section.split("`")[1::2]
    return {(home, name) for home, name in (word.split(".") for word in words)}


def unused(known: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return known - {use for path in SOURCE.rglob("*.py") for use in used_in(path, known)}


@pytest.mark.slow
def test_every_theorem_is_called_or_offered_on_the_page():
    assert unused(defined()) == offered()


@pytest.mark.slow
def test_the_check_sees_a_function_that_nothing_calls():
    assert ("multiplicative", "mw_half") in unused(defined() | {("multiplicative", "mw_half")})
    assert ("multiplicative", "mw_pure") not in unused(defined())
