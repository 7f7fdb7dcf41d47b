"""Mutants of the trusted code: one module each, with one operator, constant, comparison or refusal changed."""

from __future__ import annotations

import ast
import bisect
import hashlib
import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.count_rings import homes, modules

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "maquette"
SEED = 20_261_116
PUBLIC = 3
"""The ring of what works on released values alone."""

_COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Pow: "*"}
_NAMED = {"ceil": "floor", "floor": "ceil", "max": "min", "min": "max", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place of one module."""

    path: str
    line: int
    end_line: int
    before: str
    after: str
    source: str
    """The whole changed module."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.before!r} -> {self.after!r}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.path} {self.source}".encode()).hexdigest()[:16]


def trusted() -> list[Path]:
    """Every module of the trusted part: `core/` and `samplers/` where the gate is in the core, else rings 0 to 2."""
    if (SOURCE / "core" / "curator.py").exists():
        names = [
            p.relative_to(SOURCE).as_posix()
            for part in ("core", "samplers")
            for p in (SOURCE / part).rglob("*.py")
        ]
    else:
        names = [name for name in modules() if homes(name)[0][0] < PUBLIC]
    return _with_code(names)


def others() -> list[Path]:
    """Every other module: whatever is wrong there, privacy must not notice."""
    inside = set(trusted())
    return [path for path in _with_code(modules()) if path not in inside]


def _with_code(names: Iterable[str]) -> list[Path]:
    return [
        SOURCE / name for name in sorted(names) if name.endswith(".py") and not name.endswith("__init__.py")
    ]


def mutants(path: Path) -> list[Mutant]:
    """Everything that can be changed in a module, in the order of its lines."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = text.encode()

    def place(node: Any) -> tuple[int, int]:
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    all_mutants: list[Mutant] = []
    for begin, end, new in _changes(ast.parse(text), place, data):
        changed = data[:begin] + new.encode() + data[end:]
        line, end_line = (data[:place].count(b"\n") + 1 for place in (begin, end))
        shown = data[begin:end].decode(), new
        name = path.relative_to(SOURCE).as_posix()
        all_mutants.append(
            Mutant(name, line, end_line, *(re.sub(r"\s+", " ", one)[:80] for one in shown), changed.decode())
        )
    return all_mutants


def _changes(tree: ast.Module, place: Any, data: bytes) -> Iterator[tuple[int, int, str]]:
    """Places and what to write there; nothing in annotations, texts or what is shown to people."""
    for node in _walk(tree):
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in _COMPARED:
                begin, end = place(left)[1], place(right)[0]
                middle = data[begin:end].decode()  # with the brackets around either side
                yield begin, end, re.sub("[<>=!]+", _COMPARED[type(op)], middle, count=1)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _COMPUTED:
                middle = data[place(left)[1] : place(right)[0]].decode()
                if "(" not in middle and ")" not in middle:
                    yield place(left)[1], place(right)[0], f" {_COMPUTED[type(op)]} "
            case ast.BoolOp(op=op, values=[first, second, *_]):
                middle = data[place(first)[1] : place(second)[0]].decode()
                if "(" not in middle and ")" not in middle:
                    yield place(first)[1], place(second)[0], " or " if isinstance(op, ast.And) else " and "
            case ast.UnaryOp(op=ast.Not()):
                yield place(node)[0], place(node)[0] + len("not"), ""
            case ast.Constant(value=bool() as value):
                yield *place(node), str(not value)
            case ast.Constant(value=int() as value):
                yield *place(node), str(value + 1)
            case ast.Call(func=ast.Name(id=name) as func) if name in _NAMED:
                yield *place(func), _NAMED[name]
            case ast.Call(func=ast.Attribute(attr=name) as func) if name in ("ceil", "floor"):
                begin, end = place(func)
                yield end - len(name), end, _NAMED[name]
            case ast.If(body=[ast.Raise() as refusal]):
                yield *place(refusal), "pass"
            case _:
                pass


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list") or isinstance(node, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.FunctionDef) and child.name in ("__repr__", "__str__", "describe"):
                continue
            if isinstance(child, ast.AST) and not isinstance(child, (ast.Import, ast.ImportFrom)):
                yield child
                yield from _walk(child)


def drawn(paths: Sequence[Path], count: int, *, key: str) -> list[Mutant]:
    """So many of all mutants of these modules, the same ones for the same key and source, in random order.

    Two passes, because the texts of all changed modules do not fit into memory together.
    """
    sizes = [len(mutants(path)) for path in paths]
    numbers = random.Random(f"{SEED} {key}").sample(range(sum(sizes)), min(count, sum(sizes)))
    ends = list(itertools.accumulate(sizes))
    wanted: dict[int, list[tuple[int, int]]] = {}
    for place, number in enumerate(numbers):
        file = bisect.bisect_right(ends, number)
        wanted.setdefault(file, []).append((place, number - (ends[file] - sizes[file])))
    found: dict[int, Mutant] = {}
    for file, places in wanted.items():
        possible = mutants(paths[file])
        found |= {place: possible[number] for place, number in places}
    return [found[place] for place in range(len(numbers))]


def chosen(*, only: str | None, each: int | None = None, sample: int | None = None) -> list[Mutant]:
    """A few mutants of every module, or of all of them together: the same ones for the same seed and source."""
    selection: list[Mutant] = []
    for path in trusted():
        if only is not None and not path.relative_to(SOURCE).as_posix().startswith(only):
            continue
        possible = mutants(path)
        if each is not None:
            possible = random.Random(f"{SEED} {path.name}").sample(possible, min(each, len(possible)))
        selection += sorted(possible, key=lambda mutant: mutant.line)
    if sample is not None:
        selection = random.Random(f"{SEED} {only}").sample(selection, min(sample, len(selection)))
    return selection
