"""Which mistakes in the trusted code do the tests notice? One small change at a time, against the tests of its package.

A *mutant* is one module with one operator, constant, comparison or refusal changed. Mutants are drawn from all that
are possible by a fixed seed, a few for each module, so that nobody chooses the easy ones. Each runs in a process of
its own, which loads the changed source in place of the file and runs the tests named for its package, up to the
first failure. Mutants that survive are listed with their line: each is a test that is missing, or a change without
meaning. Written by hand because mutation tools run the whole suite for each mutant, which takes twenty minutes here.

    python -m benchmarks.mutation --each 4                     # all trusted modules
    python -m benchmarks.mutation --each 20 --only questions/sparse # one of them, closer
    python -m benchmarks.mutation --each 9 --only gate/ --seconds 120 # as many as two minutes of a processor allow
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.__main__ import append_each

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "maquette"
SEED = 20_261_116
MAX_SECONDS = 1200
"""Seconds after which a mutant counts as noticed: it hangs, or makes something very slow."""

GUARDS: dict[str, tuple[str, ...]] = {
    "samplers/noise": (
        "tests/samplers/test_noise.py",
        "tests/samplers/test_noise_table.py",
        "tests/samplers/test_noise_sources.py",
        "tests/samplers/test_laws.py",
    ),
    "samplers": (
        "tests/samplers/test_float_bounds.py",
        "tests/samplers/test_second_tries.py",
        "tests/gate/test_draws.py",
        "tests/samplers/test_draw_against_brute_force.py",
        "tests/samplers/test_real_weights.py",
        "tests/gate/test_bounds.py",
    ),
    "gate": (
        "tests/gate/test_payloads_are_released.py",
        "tests/gate/test_gate_borders.py",
        "tests/gate/test_curator_pays_first.py",
        "tests/gate/test_curator_keeps_secrets.py",
        "tests/questions/test_scores.py",
        "tests/questions/test_payload.py",
        "tests/gate/test_bounds.py",
        "tests/gate/test_prices.py",
        "tests/gate/test_handle.py",
        "tests/gate/test_sparse.py",
        "tests/gate/test_ledger_of_a_table.py",
        "tests/gate/test_gate_fuzz.py",
    ),
    "accounting/ledger": (
        "tests/accounting/test_ledger_rules.py",
        "tests/accounting/test_ledger_borders.py",
        "tests/accounting/test_ledger_files.py",
        "tests/accounting/test_ledger_record_all.py",
        "tests/accounting/test_ledger_writer.py",
        "tests/accounting/test_ledger_rate.py",
        "tests/accounting/test_ledger_reserved.py",
        "tests/accounting/test_ledger_receipts.py",
        "tests/formats/test_ledger_format.py",
        "tests/accounting/test_ledger_tamper.py",
        "tests/accounting/test_ledger_machine.py",
    ),
    "accounting": (
        "tests/accounting/test_budget.py",
        "tests/accounting/test_events.py",
        "tests/accounting/test_affordable.py",
        "tests/accounting/test_conversions.py",
        "tests/accounting/test_gaussian_events.py",
        "tests/accounting/test_gaussian_cap.py",
        "tests/questions/test_refused_questions.py",
        "tests/accounting/test_conversions_accountant.py",
        "tests/accounting/test_gaussian_prices.py",
    ),
    "vault": (
        "tests/vault/test_coding.py",
        "tests/vault/test_engine.py",
        "tests/vault/test_draft.py",
        "tests/gate/test_handle.py",
        "tests/vault/test_commitment.py",
        "tests/vault/test_readers.py",
        "tests/vault/test_same_records.py",
        "tests/vault/test_fit_report.py",
        "tests/vault/test_coding_records.py",
        "tests/vault/test_bad_files.py",
        "tests/vault/test_normal_form.py",
    ),
    "queries": (
        "tests/queries/test_classes.py",
        "tests/queries/test_class_borders.py",
        "tests/queries/test_counting.py",
        "tests/queries/test_residual_sensitivity.py",
        "tests/queries/test_sensitivity_brute_force.py",
        "tests/queries/test_queries_agree.py",
    ),
}
"""The tests of a package, quick ones first; the longest name that a file's path begins with counts."""
SENSITIVITIES = (
    "base",
    "conjunctions",
    "counting",
    "halfspaces",
    "marginals",
    "predicates",
    "ranges",
    "sensitivity",
    "weights",
    "workload",
)
"""The modules of `queries` that state a sensitivity or count records."""

_COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
_COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*", ast.FloorDiv: "*", ast.Pow: "*"}
_NAMED = {"ceil": "floor", "floor": "ceil", "max": "min", "min": "max", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place of one module."""

    path: str
    line: int
    before: str
    after: str
    source: str
    """The whole changed module."""


def trusted() -> list[Path]:
    """Every module of the gate, the samplers, the vault and the accounting, and the sensitivities."""
    paths = [
        p
        for part in ("gate", "samplers", "vault", "accounting")
        for p in sorted((SOURCE / part).rglob("*.py"))
    ]
    paths += [SOURCE / "queries" / f"{name}.py" for name in SENSITIVITIES]
    return [path for path in paths if path.name != "__init__.py"]


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
        line = data[:begin].count(b"\n") + 1
        shown = data[begin:end].decode(), new
        name = path.relative_to(SOURCE).as_posix()
        all_mutants.append(
            Mutant(name, line, *(re.sub(r"\s+", " ", one)[:80] for one in shown), changed.decode())
        )
    return all_mutants


def _changes(tree: ast.Module, place: Any, data: bytes) -> Iterator[tuple[int, int, str]]:
    """Places and what to write there; nothing in annotations, texts or what is shown to people."""
    for node in _walk(tree):
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in _COMPARED:
                begin, end = place(left)[1], place(right)[0]
                yield begin, end, f" {_COMPARED[type(op)]} "
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _COMPUTED:
                middle = data[place(left)[1] : place(right)[0]].decode()
                if "(" not in middle and ")" not in middle:
                    yield place(left)[1], place(right)[0], f" {_COMPUTED[type(op)]} "
            case ast.BoolOp(op=op, values=[first, second, *_]):
                middle = data[place(first)[1] : place(second)[0]].decode()
                if "(" not in middle and ")" not in middle:
                    yield place(first)[1], place(second)[0], " or " if isinstance(op, ast.And) else " and "
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield place(node)[0], place(operand)[0], ""
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


def chosen(*, each: int, only: str | None) -> list[Mutant]:
    """A few mutants of every module, the same ones for the same seed and source."""
    selection: list[Mutant] = []
    for path in trusted():
        if only is not None and only not in path.relative_to(SOURCE).as_posix():
            continue
        possible = mutants(path)
        sample = random.Random(f"{SEED} {path.name}").sample(possible, min(each, len(possible)))
        selection += sorted(sample, key=lambda mutant: mutant.line)
    return selection


def guards(path: str) -> tuple[str, ...]:
    """The tests that should notice a mistake in a module."""
    return GUARDS[max((name for name in GUARDS if path.startswith(name)), key=len)]


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Loads one module from a changed text, everything else as usual."""

    def __init__(self, mutant: Mutant) -> None:
        parts = Path(mutant.path).with_suffix("").parts
        self._name = ".".join(("maquette", *parts))
        self._path = str(SOURCE / mutant.path)
        self._source = mutant.source.encode()

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self, origin=self._path) if name == self._name else None

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        if path != self._path:
            raise OSError(path)
        return self._source

    def path_stats(self, path: str) -> Any:
        raise OSError(path)  # no compiled file of the unchanged module


def survives(mutant: Mutant | None, tests: Sequence[str], log: Path) -> bool:
    """Do the tests pass in a process of its own? None changes nothing."""
    pid = os.fork()
    if pid == 0:
        _run(mutant, tests, log)
    end = time.monotonic() + MAX_SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def _run(mutant: Mutant | None, tests: Sequence[str], log: Path) -> None:
    os.setpgid(0, 0)
    code = 1
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.chdir(ROOT)
        if mutant is not None:
            sys.meta_path.insert(0, _Changed(mutant))
            if "numba" in mutant.source:  # compiled loops are kept by the file's name and time
                os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
        import pytest

        options = [
            "-q",
            "-x",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "--hypothesis-seed=1",
            "-m",
            "not slow",
        ]
        code = int(pytest.main([*options, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def warm_up() -> None:
    """What every process needs, and no module of the package."""
    import duckdb  # noqa: F401
    import numpy  # noqa: F401
    import opendp.measurements  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401
    import sqlalchemy  # noqa: F401

    assert not any(name.partition(".")[0] == "maquette" for name in sys.modules)


def used() -> float:
    """Processor seconds of all mutants so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def figures(*, each: int, only: str | None, seconds: float | None = None) -> Iterator[dict[str, Any]]:
    """One figure per package: how many mutants were noticed, and those that were not.

    With `seconds` the mutants of a package run in random order until they have used that much processor time.
    """
    warm_up()
    log = Path(tempfile.mkdtemp()) / "mutant.log"
    groups: dict[tuple[str, ...], list[Mutant]] = {}
    for mutant in chosen(each=each, only=only):
        groups.setdefault(guards(mutant.path), []).append(mutant)
    for tests, group in groups.items():
        if not survives(None, tests, log):
            raise RuntimeError(f"the tests fail without any change: {log.read_text()[-2000:]}")
        left: list[Mutant] = []
        if seconds is not None:
            random.Random(SEED).shuffle(group)
        tried, begin = 0, used()
        for number, mutant in enumerate(group, start=1):
            if seconds is not None and used() - begin > seconds:
                break
            tried = number
            if survives(mutant, tests, log):
                left.append(mutant)
            print(
                f"{number}/{len(group)} {mutant.path}:{mutant.line} {mutant.before!r} -> {mutant.after!r}: "
                f"{'SURVIVES' if mutant in left else 'noticed'}",
                file=sys.stderr,
                flush=True,
            )
        name = next(name for name, guard in GUARDS.items() if guard == tests)
        yield {
            "package": name,
            "mutants": tried,
            "drawn": len(group),
            "noticed": tried - len(left),
            "survivors": [f"{m.path}:{m.line} {m.before!r} -> {m.after!r}" for m in left],
            "command": " ".join(
                ["python -m benchmarks.mutation", f"--each {each}"]
                + ([f"--only {only}"] if only else [])
                + ([f"--seconds {seconds:g}"] if seconds is not None else [])
            ),
        }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__)
    parser.add_argument("--each", type=int, default=4, help="mutants per module")
    parser.add_argument("--only", default=None, help="modules whose path contains this")
    parser.add_argument("--seconds", type=float, default=None, help="processor seconds per package")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    options = parser.parse_args(arguments)
    if options.list:
        for mutant in chosen(each=options.each, only=options.only):
            print(f"{mutant.path}:{mutant.line} {mutant.before!r} -> {mutant.after!r}")
        return
    append_each("mutation", figures(each=options.each, only=options.only, seconds=options.seconds))


if __name__ == "__main__":
    main()
