"""Size and shape of the source: lines, cycles, names of two meanings, parameters, imports inside functions.

Nothing is run: all of it is read from the syntax trees and from the graph of imports.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp

import maquette

ROOT = Path(maquette.__file__).parent
MANY_PARAMETERS = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


def run(data: Path | None) -> list[dict[str, Any]]:
    """One figure: everything that is counted."""
    del data
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in trees}
    return [
        {
            "what": "lines, cycles between modules, class names defined twice, long lists of parameters, constants",
            "files": len(trees),
            "lines": sum(lines.values()),
            "lines_by_package": _by_package(lines),
            "cycles": [len(cycle) for cycle in cycles()],
            "classes_defined_twice": sorted(_twice(trees)),
            "functions_of_eight_parameters_or_more": sum(_parameters(tree) for tree in trees.values()),
            "module_constants": sum(_constants(tree) for tree in trees.values()),
            "imports_of_ours_inside_functions": sum(_inside(tree) for tree in trees.values()),
            "tests": _lines_below(ROOT.parents[1] / "tests"),
            "tests_support": _lines_below(ROOT.parents[1] / "tests" / "support"),
        }
    ]


def cycles() -> list[list[str]]:
    """Sets of modules that import each other, largest first; imports inside functions count, type-only ones do not."""
    return circles_of(grimp.build_graph("maquette", exclude_type_checking_imports=True, cache_dir=None))


def circles_of(graph: grimp.ImportGraph) -> list[list[str]]:
    """The strongly connected components of two modules or more, largest first."""
    left = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    found: list[list[str]] = []
    for module in sorted(left):
        if any(module in cycle for cycle in found):
            continue
        back = {other for other in _reached(left, module) if module in _reached(left, other)}
        if len(back) > 1:
            found.append(sorted(back))
    return sorted(found, key=len, reverse=True)


def _reached(imports: dict[str, set[str]], start: str) -> set[str]:
    """The modules that one leads to, itself only if it comes back."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for module in imports[waiting.pop()] - reached:
            reached.add(module)
            waiting.append(module)
    return reached


def _by_package(lines: dict[Path, int]) -> dict[str, int]:
    """Lines below each folder of the package, and of its single files together."""
    packages: Counter[str] = Counter()
    for path, count in lines.items():
        place = path.relative_to(ROOT)
        packages[place.parts[0] if len(place.parts) > 1 else "top"] += count
    return dict(sorted(packages.items()))


def _twice(trees: dict[Path, ast.Module]) -> set[str]:
    """Names of classes, private ones included, that two modules define."""
    names = Counter(
        node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)
    )
    return {name for name, count in names.items() if count > 1}


def _parameters(tree: ast.Module) -> int:
    def count(arguments: ast.arguments) -> int:
        named = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        return len([name for name in named if name not in ("self", "cls")])

    return sum(count(function.args) >= MANY_PARAMETERS for function in _functions(tree))


def _constants(tree: ast.Module) -> int:
    """Names in capitals that a module assigns."""
    names = [
        target.id
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for whole in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for target in (whole.elts if isinstance(whole, ast.Tuple) else [whole])
        if isinstance(target, ast.Name)
    ]
    return sum(name.strip("_").isupper() for name in names)


def _inside(tree: ast.Module) -> int:
    """Imports of the package inside functions."""
    inside = {id(node) for function in _functions(tree) for node in ast.walk(function)}
    return sum(
        (node.module or "").startswith("maquette") and id(node) in inside
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    )


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _lines_below(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))
