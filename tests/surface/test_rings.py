"""The rings of trust: every file is in one, the page lists them, and lower rings do not lean on ring 3."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tools import tool

count_rings = tool("count_rings")
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
MODULES = sorted(count_rings.modules())
CORE = [module for module in MODULES if module.startswith("core/")]
CORE_README = (count_rings.SOURCE / "core" / "README.md").read_text("utf-8")
ROW = re.compile(r"^\| `([\w/]+\.py)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
"""A file of the core, what it is for, and the tests that fail if it is wrong."""


PUBLIC_BELOW = ("queries/", "_version", "errors")
"""Public words that lower rings use: a draw names its class of queries."""


def ring_of(module: str) -> int:
    ((ring, _),) = count_rings.homes(module)
    return ring


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules of the library that a file imports, as paths; what only the type checker sees is left out."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.startswith("maquette."))
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == "maquette":
                yield from (f"{module}.{name.name}" for name in names)
            case _:
                yield from imports(node)


def file_of(dotted: str) -> str | None:
    """The file that an imported name leads to; None for the package itself."""
    path = dotted.removeprefix("maquette.").replace(".", "/")
    while path and path != "maquette":
        for name in (f"{path}.py", f"{path}/__init__.py"):
            if name in MODULES:
                return name
        path = path.rpartition("/")[0]
    return None


def test_every_file_is_in_exactly_one_ring():
    assert [module for module in MODULES if len(count_rings.homes(module)) != 1] == []
    assert len(MODULES) > 150


def test_every_name_of_the_rings_is_a_file_or_a_package():
    found = {part.name for part in count_rings.parts()}
    names = {name for ring in count_rings.RINGS.values() for name in ring}
    assert names == found


def test_a_file_that_nobody_placed_is_noticed():
    assert count_rings.homes("newcomer.py") == []
    assert count_rings.homes("cores.py") == []
    assert count_rings.homes("core/newcomer.py") == [(0, "core")]


def test_the_page_has_the_files_and_lines_of_today():
    """Files of rings 0 to 2 by name, lines of every package within the tolerance."""
    stated = dict(
        re.findall(r"^\| `([\w/]+)` \| ([\d,]+) \|", PAGE.split(count_rings.BEGIN)[1], re.MULTILINE)
    )
    for part in count_rings.parts():
        assert part.name in stated, f"{part.name} is not on the page: python tools/count_rings.py --write"
        lines = int(stated.pop(part.name).replace(",", ""))
        most = max(20, count_rings.TOLERANCE * lines)
        assert abs(part.lines - lines) <= most, (
            f"{part.name} has {part.lines} lines, the page says {lines}: decide, then count_rings.py --write"
        )
        if part.ring < 3:
            row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{part.name}` |"))
            for module, length in part.files:
                name = module.removeprefix(f"{part.name}/").removesuffix(".py")
                assert length <= 1 or re.search(rf"[ |]{re.escape(name)} \d", row), (
                    f"{module} is not on the page"
                )
    assert stated == {}


def test_the_readme_says_how_much_code_must_be_right():
    (stated,) = re.findall(r"the core, ([\d,]+) lines", README)
    core = sum(part.lines for part in count_rings.parts() if part.ring == 0)
    assert abs(core - int(stated.replace(",", ""))) <= count_rings.TOLERANCE / 2 * core
    whole = sum(part.lines for part in count_rings.parts())
    assert whole / 6 < core < whole / 4, "README says: a fifth"


def test_the_readme_of_the_core_names_every_file_and_tests_that_exist():
    named = [path for path, _, _ in ROW.findall(CORE_README)]
    assert sorted(f"core/{path}" for path in named) == [m for m in CORE if not m.endswith("__init__.py")]
    for path, says, tests in ROW.findall(CORE_README):
        assert says.strip(), path
        places = re.findall(r"`([\w/]+\.py)`", tests)
        assert places, f"no test fails if {path} is wrong"
        assert [place for place in places if not (ROOT / "tests" / place).exists()] == []


def test_the_readme_of_the_core_has_its_true_length():
    (stated,) = re.findall(r"([\d,]+) lines in ", CORE_README)
    lines = sum(part.lines for part in count_rings.parts() if part.ring == 0)
    assert abs(lines - int(stated.replace(",", ""))) <= 0.02 * lines


@pytest.mark.parametrize("module", CORE)
def test_the_core_imports_nothing_of_ours_outside_itself(module):
    """Nor for the type checker: whoever reads it has no other file to open."""
    tree = ast.parse((count_rings.SOURCE / module).read_text("utf-8"))
    named = [
        node.module if isinstance(node, ast.ImportFrom) else name.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    ]
    assert [name for name in named if re.match(r"maquette(?!\.core\b)", name or "maquette")] == []


@pytest.mark.parametrize("module", [m for m in MODULES if ring_of(m) < 3])
def test_lower_rings_import_nothing_of_ring_3(module):
    tree = ast.parse((count_rings.SOURCE / module).read_text("utf-8"))
    targets = {file for name in imports(tree) if (file := file_of(name)) is not None}
    above = {file for file in targets if ring_of(file) == 3 and not file.startswith(PUBLIC_BELOW)}
    assert above == set()


def test_the_look_at_imports_sees_through_functions_and_names():
    tree = ast.parse(
        "from maquette.models import dense\nif TYPE_CHECKING:\n    import maquette.api\n"
        "def f():\n    from maquette.theory.smalldb import best\n"
    )
    assert [file_of(name) for name in imports(tree)] == ["models/dense.py", "theory/smalldb.py"]


def test_the_contract_names_the_packages_of_the_rings():
    """Whoever adds a package to a ring adds it to the contract too."""
    contract = (
        (ROOT / ".importlinter").read_text("utf-8").split("[importlinter:contract:rings]")[1].split("\n[")[0]
    )
    lower, upper = contract.split("forbidden_modules =")
    packages = {m.split("/")[0] for m in MODULES if "/" in m}
    for package in packages:
        rings = {ring_of(m) for m in MODULES if m.startswith(f"{package}/")}
        place = lower if 3 not in rings else upper
        if package == "queries":
            continue
        assert re.search(rf"^    maquette\.{package}$", place, re.MULTILINE), package


def test_the_type_checker_is_strict_about_the_lower_rings():
    strict = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]["strict"]
    assert all((ROOT / path).exists() for path in strict)
    places = tuple(path.removeprefix("src/maquette/") for path in strict)
    assert [m for m in MODULES if ring_of(m) < 3 and not m.startswith(places)] == []


def test_writing_the_page_changes_the_tables_alone():
    written = count_rings.page_with(PAGE, "| tables |")
    assert written.split(count_rings.BEGIN)[0] == PAGE.split(count_rings.BEGIN)[0]
    assert written.split(count_rings.END)[1] == PAGE.split(count_rings.END)[1]
    assert count_rings.page_with(written, count_rings.table()).count("**Ring ") == 4
