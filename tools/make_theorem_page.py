"""Writes docs/theorems.md: which function states a theorem, which tests hold it, what uses it.

python tools/make_theorem_page.py           # writes
python tools/make_theorem_page.py --check   # ends with 1 if the page is not what would be written
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from maquette.theory.sources import THEOREMS, Theorem

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/theorems.md"
HEAD = """# Theorems

Written by `python tools/make_theorem_page.py` from the table in `maquette.theory.sources` and from the code. In Python:
`maquette.theory.theorem_of("smalldb.best")`. *Used in* names the packages and commands that state the bound; a
function that nothing uses is there for readers ([offered, not called](bounds.md#offered-not-called)).
"""

Name = tuple[str, str]


def uses(path: Path, known: set[Name]) -> Iterator[tuple[str | None, Name]]:
    """The functions of the theory that a file names, each with the function around it; its own body aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules: dict[str, str] = {}
    functions: dict[str, Name] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "maquette.theory":
            modules |= {name.asname or name.name: name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maquette.theory."):
            home = str(node.module).rsplit(".", 1)[1]
            functions |= {name.asname or name.name: (home, name.name) for name in node.names}
    if path.parent.name == "theory" and "src" in path.parts:
        functions |= {name: (home, name) for home, name in known if home == path.stem}
    for top in tree.body:
        inside = top.name if isinstance(top, ast.FunctionDef) else None
        for node in ast.walk(top):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id in modules:
                    yield inside, (modules[node.value.id], node.attr)
            elif isinstance(node, ast.Name) and node.id in functions and node.id != inside:
                yield inside, functions[node.id]


KNOWN = {(home, name) for one in THEOREMS for home, name in (f.split(".") for f in one.functions)}


def users(folder: Path) -> dict[str, list[str]]:
    """For every function the files of a folder that name it."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.rglob("*.py")):
        for _, (home, name) in uses(path, KNOWN):
            places[f"{home}.{name}"].add(path.relative_to(folder).with_suffix("").as_posix())
    return {name: sorted(files) for name, files in places.items()}


def callers() -> dict[str, list[str]]:
    """For every function of the theory those, private ones too, that call it."""
    private = {
        (p.stem, n.name)
        for p in THEORY
        for n in ast.parse(p.read_text()).body
        if isinstance(n, ast.FunctionDef)
    }
    found: dict[str, set[str]] = defaultdict(set)
    for path in THEORY:
        for inside, (home, name) in uses(path, KNOWN | private):
            found[f"{home}.{name}"].add(f"{path.stem}.{inside}")
    return {name: sorted(places) for name, places in found.items()}


THEORY = sorted((ROOT / "src/maquette/theory").glob("*.py"))


def held_by(name: str, tests: dict[str, list[str]], called: dict[str, list[str]]) -> tuple[str, list[str]]:
    """The nearest function with tests, among a function and those that call it, and its tests."""
    seen, front = {name}, [name]
    while front:
        for one in front:
            if tests.get(one):
                return one, tests[one]
        front = [up for one in front for up in called.get(one, []) if up not in seen]
        seen |= set(front)
    return name, []


def rows(theorem: Theorem, tests: dict[str, list[str]], code: dict[str, list[str]]) -> Iterator[str]:
    """A line per function of a theorem."""
    called = callers()
    for name in theorem.functions:
        through, files = held_by(name, tests, called)
        held = ", ".join(test.removeprefix("theory/") for test in files[:3])
        held += "" if through == name else f" (through `{through}`)"
        inner = [place for place in code.get(name, []) if not place.startswith("theory/sources")]
        yield f"| `{name}` | {held} | {', '.join(inner[:5])} |"


def written() -> str:
    """The page of today."""
    tests, code = users(ROOT / "tests"), users(ROOT / "src/maquette")
    parts = [HEAD.rstrip()]
    for theorem in THEOREMS:
        table = ["| function | tests | used in |", "|---|---|---|", *rows(theorem, tests, code)]
        parts.append("\n".join([f"## {theorem.name}", "", f"{theorem.source}.", "", *table]))
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the page, or checks it."""
    if "--check" in arguments:
        return int(PAGE.read_text(encoding="utf-8") != written())
    PAGE.write_text(written(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
