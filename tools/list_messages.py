"""Every text that a user of maquette can read, with its place, for reading from top to bottom.

    python tools/list_messages.py [paths ...]      # src/maquette by default

By the syntax tree: texts of errors and warnings, of help and of commands' docstrings, of what commands print, of
notes, refusals, remarks and labels, and the words of the page templates. Values that are put into a text show as {}.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SAYING = frozenset(
    ["say", "complain", "echo", "tell", "warn", "facts", "table", "Option", "Argument", "Typer", "print"]
)
"""Functions whose texts are shown, besides every class of errors and warnings."""
NAMES = re.compile(
    r"note|notes|warning|refus|remark|label|text|help|message|hint|why|reason|caveat|headline|words|title",
    re.IGNORECASE,
)
"""Variables, parameters, fields and functions that hold or return texts for readers."""
ERRORS = re.compile(r"(Error|Warning|Exceeded|Reused|Answer|Refusal|Exit)$")


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts in an expression, the longest whole ones first; values in them show as {}."""
    match node:
        case ast.Constant(value=str(text)):
            yield node.lineno, text
        case ast.JoinedStr(values=values):
            whole = "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in values)
            yield node.lineno, whole
            for value in values:
                if isinstance(value, ast.FormattedValue):
                    yield from texts(value.value)
        case ast.Call(func=func, args=args, keywords=keywords):
            yield from texts(func)
            for inner in [*args, *(k.value for k in keywords)]:
                yield from texts(inner)
        case ast.AST():
            for child in ast.iter_child_nodes(node):
                yield from texts(child)


def name_of(node: ast.AST) -> str:
    """The last part of a name, an attribute or a called function."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=func):
            return name_of(func)
    return ""


def shown(tree: ast.Module, *, commands: bool) -> Iterator[tuple[int, str]]:
    """Texts of a module that a user can see; `commands` says whether docstrings of functions are help texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=func) if name_of(func) in SAYING or ERRORS.search(name_of(func)):
                yield from texts(node)
            case ast.Assign(targets=[target]) if NAMES.search(name_of(target)) or name_of(target).isupper():
                yield from texts(node.value)
            case ast.AnnAssign(target=target, value=ast.AST() as value) if NAMES.search(name_of(target)):
                yield from texts(value)
            case ast.keyword(arg=str(name), value=value) if NAMES.search(name):
                yield from texts(value)
            case ast.Raise(exc=ast.AST() as exc):
                yield from texts(exc)
            case ast.FunctionDef(returns=ast.AST() as returns) if "str" in ast.unparse(returns):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return) and inner.value is not None:
                        yield from texts(inner.value)
        if commands and isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            help_text = ast.get_docstring(node)
            if help_text is not None and any(isinstance(a.annotation, ast.AST) for a in node.args.args):
                yield node.lineno, help_text


def of_template(text: str) -> Iterator[tuple[int, str]]:
    """The words of a page template, line by line."""
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.sub(r"\{%.*?%\}|\{#.*?#\}|<[^>]*>", " ", re.sub(r"\{\{.*?\}\}", "{}", line)).strip()
        if re.search(r"[A-Za-z]{3}", words):
            yield number, words


def is_sentence(text: str) -> bool:
    """Two words at least: names of columns, keys and formats are not read as sentences."""
    return bool(re.search(r"[A-Za-z]{2,} +(\{\}|[A-Za-z'])", text)) and not text.startswith(
        ("select ", "SELECT ")
    )


def messages(file: Path) -> list[tuple[int, str]]:
    """The texts of one file in the order of its lines, each once."""
    content = file.read_text(encoding="utf-8")
    if file.suffix == ".j2":
        return list(of_template(content))
    seen = shown(ast.parse(content), commands=file.parent.name == "cli")
    return sorted({(line, " ".join(text.split())) for line, text in seen if is_sentence(text)})


def main(paths: list[str]) -> int:
    """Prints every text with its place."""
    files = sorted(
        file
        for path in map(Path, paths)
        for file in ([path] if path.is_file() else [*path.rglob("*.py"), *path.rglob("*.j2")])
    )
    for file in files:
        for line, text in messages(file):
            print(f"{file}:{line}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["src/maquette"]))
