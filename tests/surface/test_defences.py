"""The page of attacks names tests that exist, for every attack of the list."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "attacks.md"
ATTACKS = {f"A{i}" for i in range(1, 22)} | {"A7b"}


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def lines() -> list[tuple[str, list[tuple[str, str]]]]:
    rows = [
        line.strip("|").split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")
    ]
    tests = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row[-1]) for row in rows]
    return [(row[0].strip(), found) for row, found in zip(rows, tests, strict=True)][1:]


def missing(table: list[tuple[str, list[tuple[str, str]]]]) -> list[str]:
    lost = [f"{path}::{name}" for _, tests in table for path, name in tests if name not in names_in(path)]
    return lost + [attack for attack, tests in table if not tests]


def test_every_attack_has_tests_that_are_there():
    table = lines()
    assert {attack.split()[0] for attack, _ in table} >= ATTACKS
    assert not missing(table)


def test_a_test_that_is_gone_is_noticed():
    assert missing([("A1", [("tests/surface/test_defences.py", "test_nothing")]), ("A2", [])]) == [
        "tests/surface/test_defences.py::test_nothing",
        "A2",
    ]
