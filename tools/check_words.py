"""Identifiers in a private dialect: past participles as nouns, and pet names in place of the field's words.

    python tools/check_words.py              # the library, as `make check` does; ends with 1 if a package has too many
    python tools/check_words.py PATH...      # lists every one in files or folders; ends with 1 if there is one

A participle says what happened to a thing, not what it is: `tables`, not `asked`. It is fine as
an adjective before a noun (`drawn_rows`), in a question (`is_known`, `has_drawn`) and at the end of a truth value of
several words (`total_known: bool`). Names that are stored in files or are public keep their word: see ALLOWED.
Tests and benchmarks are not looked at.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PARTICIPLES = frozenset(
    [
        "told",
        "found",
        "held",
        "kept",
        "asked",
        "wanted",
        "known",
        "drawn",
        "given",
        "taken",
        "counted",
        "moved",
        "settled",
        "lent",
        "seen",
        "made",
        "judged",
        "weighed",
        "suited",
        "foreseen",
        "foretold",
        "remembered",
        "fitted",
        "measured",
        "expected",
        "stated",
        "wished",
        "meant",
    ]
)
PET_NAMES = frozenset(
    [
        "foretelling",
        "foretell",
        "grip",
        "desk",
        "shelf",
        "lender",
        "purse",
        "carve",
        "carving",
        "carved",
        "anew",
        "belief",
        "telling",
        "several",
    ]
)
QUESTIONS = ("is", "has", "was", "are", "may", "can", "must", "needs")
ALLOWED: dict[str, str] = {
    "expected": "Forecast.expected, the expected error in plans and their JSON",
    "mechanisms/base.py:expected": "public field of a forecast, a key of what `maquette plan --json` prints",
    "mechanisms/base.py:stated": "public field of a forecast, a key of what `maquette plan --json` prints",
    "queries/predicates.py:given": "public parameter of boxes()",
    "results/statements.py:asked": "a field of the stored release.json",
    "results/release.py:measured": "public property of Release",
    "results/release.py:stated": "public property of Release",
    "web/server.py:connection_made": "a name of asyncio",
    "audit/evaluate.py:asked": "a key of what `maquette evaluate --json` prints",
    "audit/evaluate.py:held": "a key of what `maquette evaluate --json` prints",
    "audit/evaluate.py:stated": "a key of what `maquette evaluate --json` prints",
}
"""Names that stay, each with the reason: `name`, or `package/file.py:name` for one file."""
LEFT: dict[str, int] = {
    "mechanisms": 90,
    "releasing": 3,
    "theory": 22,
}
"""Names that packages still have. A number may fall and not rise; a package that is not here has none."""


def words_of(name: str) -> list[str]:
    """The words of an identifier, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def is_dialect(name: str, file: Path) -> bool:
    """Whether an identifier ends in a participle or holds a pet name."""
    words = words_of(name)
    place = f"{'/'.join(file.parts[-2:])}:{name}"
    if not words or name in ALLOWED or place in ALLOWED or words[0] in QUESTIONS:
        return False
    return words[-1] in PARTICIPLES or not PET_NAMES.isdisjoint(words)


def defined(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names that a module gives: definitions, parameters, variables, attributes; no truth values of several words."""
    questions = {id(node) for node in _truth_values(tree)}
    for node in ast.walk(tree):
        if id(node) in questions:
            continue
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def _truth_values(tree: ast.AST) -> Iterator[ast.AST]:
    """Parameters and fields that are declared as bool and have more than one word."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.Name(id="bool")) if len(words_of(name)) > 1:
                yield node
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="bool")) if (
                len(words_of(name)) > 1
            ):
                yield node.target


def offenders(path: Path) -> list[str]:
    """Names of the dialect in a file or in every module of a folder, with their places."""
    files = [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    lines = []
    for file in files:
        named = sorted(set(defined(ast.parse(file.read_text("utf-8")))))
        lines += [f"{file}:{line}: {name}" for line, name in named if is_dialect(name, file)]
        lines += [f"{file}: {file.stem}"] if is_dialect(file.stem, file) else []
    return lines


def main(paths: list[str]) -> int:
    """Prints the names of the paths, or of the packages of the library that have more than LEFT; 1 if there are any."""
    if paths:
        listed = [line for path in paths for line in offenders(Path(path))]
        print("\n".join([*listed, f"{len(listed)} names"]))
        return bool(listed)
    too_many = 0
    for part in sorted((Path(__file__).parents[1] / "src" / "maquette").iterdir()):
        if part.suffix != ".py" and not (part / "__init__.py").exists():
            continue
        listed = offenders(part)
        if len(listed) > LEFT.get(part.stem, 0):
            too_many += 1
            print("\n".join([*listed, f"{part.stem}: {len(listed)} names, at most {LEFT.get(part.stem, 0)}"]))
    return bool(too_many)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
