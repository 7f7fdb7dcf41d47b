"""Identifiers in a private dialect: past participles as nouns, and pet names in place of the field's words.

    python tools/check_words.py [paths ...]      # prints each and ends with 1 if there is one

A participle says what happened to a thing, not what it is: `tables`, not `asked`. It is fine as
an adjective before a noun (`drawn_rows`) and in a question (`is_known`, `has_drawn`). Names that are stored in files or
are public keep their word: they are listed in ALLOWED. An old public name whose docstring begins with "Deprecated" may
stay too.
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
    "queries/predicates.py:given": "public parameter of boxes()",
    "results/statements.py:asked": "a field of the stored release.json",
    "results/release.py:measured": "public property of Release",
    "results/release.py:stated": "public property of Release",
    "results/evaluation.py:asked": "a key of what `maquette evaluate --json` prints",
    "results/evaluation.py:held": "a key of what `maquette evaluate --json` prints",
    "results/evaluation.py:stated": "a key of what `maquette evaluate --json` prints",
}
"""Names that stay, each with the reason: `name`, or `package/file.py:name` for one file."""


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
    """Every name that a module gives: definitions, parameters, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() if (ast.get_docstring(node) or "").startswith("Deprecated"):
                continue
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def main(paths: list[str]) -> int:
    """Prints what was found in files and folders; 1 if there is anything."""
    files = sorted(
        file
        for path in paths
        for file in ([Path(path)] if path.endswith(".py") else Path(path).rglob("*.py"))
    )
    total = 0
    for file in files:
        for line, name in sorted(set(defined(ast.parse(file.read_text("utf-8"))))):
            if is_dialect(name, file):
                total += 1
                print(f"{file}:{line}: {name}")
        if is_dialect(file.stem, file):
            total += 1
            print(f"{file}: {file.stem}")
    print(f"{total} names in {len(files)} files")
    return bool(total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["src"]))
