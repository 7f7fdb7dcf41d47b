"""Which mistakes in the trusted code do the tests notice? One small change at a time, against the tests that run there.

A *mutant* is one module with one operator, constant, comparison or refusal changed. Mutants are drawn from all that
are possible by a fixed seed, so that nobody chooses the easy ones. Which tests have to notice one is not chosen by
hand either: those that run through its line, which `make coverage` writes down (`tools/reached_by.py`), the quickest
first, as many as `--limit` processor seconds of them allow. Each mutant runs in a process of its own, which loads the
changed source in place of the file, up to the first test that fails; that test must pass without the change.

A mutant that survives is a test that is missing, or a change without meaning: each is listed with its line and judged
in `benchmarks/results/changes.md`. One that takes much longer than its tests take is listed apart. What was found is
kept in `.mutation.jsonl`: the same command goes on where it ended, and writes its figure when the sample is complete.
Written by hand because mutation tools run the whole suite for each mutant, which takes twenty minutes here.

    make coverage                                              # or some of its pieces: make .reached/gate.db
    python -m benchmarks.mutation --only core/ --sample 14     # some of all mutants of a package
    python -m benchmarks.mutation --only core/rows/ --each 1 --seconds 200  # one each; ends after 200 s, goes on
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.abc
import importlib.util
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tools.reached_by import function_of, times_file

from benchmarks.__main__ import append_each
from benchmarks._mutants import ROOT, SOURCE, Mutant, chosen

MAX_WAIT = 900
"""Seconds after which a mutant is given up, whatever processor time it used."""
FOUND = ROOT / ".mutation.jsonl"
"""What mutants were tried, and what came of each."""
REACHED = ROOT / ".reached"
TOO_SLOW = ("tests/vault/test_spark.py",)
"""Files of tests that are not run for a mutant: a cluster takes a minute to start."""

Outcome = Literal["noticed", "survives", "not reached", "out of time"]


class Guards:
    """Which tests run through which lines, and how long they take: from runs under coverage."""

    def __init__(self, folder: Path, *, limit: float) -> None:
        from coverage import CoverageData

        self._limit = limit
        self._lines: dict[str, dict[int, set[str]]] = {}
        self._seconds: dict[str, float] = {}
        files = [
            file for file in sorted(folder.glob("*.db")) if times_file(file).exists()
        ]  # of runs that ended
        if not files:
            raise SystemExit(f"no *.db in {folder}: run make coverage, or its piece for this package, first")
        for file in files:
            self._seconds |= json.loads(times_file(file).read_text("utf-8"))
            data = CoverageData(str(file))
            data.read()
            for measured in data.measured_files():
                lines = self._lines.setdefault(measured.rpartition("/maquette/")[2], {})
                for line, names in data.contexts_by_lineno(measured).items():
                    lines.setdefault(line, set()).update(name for name in names if name)

    def of(self, mutant: Mutant) -> tuple[list[str], float]:
        """The tests that run through a mutant's line, quickest first, and the seconds they take.

        Lines of a class or of a module run before any test, and compiled functions are not traced: their tests are
        all that reach the module.
        """
        lines = self._lines.get(mutant.path, {})
        reached = set[str]().union(*(lines.get(i, ()) for i in range(mutant.line, mutant.end_line + 1)))
        if not reached and not is_traced(mutant):
            reached = set[str]().union(*lines.values())
        tests = self._functions(reached)
        ends = list(itertools.accumulate(self._seconds.get(test, 0.0) for test in tests))
        within = 1 + sum(end <= self._limit for end in ends[1:])
        return tests[:within], sum(self._seconds.get(test, 0.0) for test in tests[:within])

    def _functions(self, contexts: Iterable[str]) -> list[str]:
        """A context is a test function, or the file of a fixture, which stands for all its tests."""
        found: set[str] = set()
        for context in contexts:
            found |= (
                {context} if "::" in context else {t for t in self._seconds if t.startswith(f"{context}::")}
            )
        own = (test for test in found if not test.startswith(TOO_SLOW))
        return sorted(own, key=lambda test: (self._seconds.get(test, 0.0), test))


def is_traced(mutant: Mutant) -> bool:
    """Does a line run under a test's name, if at all? Not outside of functions, nor in a compiled one."""
    around = [
        node
        for node in ast.walk(ast.parse(mutant.source))
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= mutant.line <= (node.end_lineno or 0)
    ]
    return bool(around) and not any("njit" in ast.unparse(d) for node in around for d in node.decorator_list)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
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


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of tests ended."""

    code: int | None
    """That of pytest; None where it was stopped."""
    failed: str | None
    """The first test that failed."""


def run_tests(mutant: Mutant | None, tests: Sequence[str], *, seconds: float, chosen: str = "") -> Ended:
    """Run tests in a process of its own, up to the first failure; None changes nothing. `chosen` is by their marks."""
    said = Path(tempfile.mkdtemp()) / "failed"
    pid = os.fork()
    if pid == 0:
        _run(mutant, tests, said, seconds=seconds, chosen=chosen)
    end = time.monotonic() + MAX_WAIT
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            failed = said.read_text("utf-8") if said.exists() else None
            return Ended(None if code == -signal.SIGXCPU else code, failed)
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return Ended(None, None)


class _FirstFailure:
    """A plugin that writes the name of the first test that failed."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self._place.exists():
            self._place.write_text(function_of(report.nodeid), encoding="utf-8")

    pytest_collectreport = pytest_runtest_logreport  # a file that cannot be loaded


def _run(mutant: Mutant | None, tests: Sequence[str], said: Path, *, seconds: float, chosen: str) -> None:
    os.setpgid(0, 0)
    code = 1
    try:
        most = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        log = os.open(said.with_name("log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(ROOT)
        if mutant is not None:
            sys.meta_path.insert(0, Changed(mutant))
            if "numba" in mutant.source:  # compiled loops are kept by the file's name and time
                os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
        import pytest

        options = [
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *(["-m", chosen] if chosen else []),
        ]
        code = int(pytest.main([*options, *tests], plugins=[_FirstFailure(said)]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Trial:
    """Tries mutants; remembers what was found, also of earlier runs."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self._passing: set[str] = set()
        lines = FOUND.read_text("utf-8").splitlines() if FOUND.exists() else []
        self._found: dict[str, dict[str, Any]] = {one["digest"]: one for one in map(json.loads, lines)}

    def known(self, mutant: Mutant) -> Outcome | None:
        """What is known already. Who survived is tried again where the tests of its line changed."""
        before = self._found.get(mutant.digest)
        if before is None:
            return None
        tests, _ = self._guards.of(mutant)
        is_final = before["outcome"] == "noticed" or before["tests"] == _digest_of(tests)
        return before["outcome"] if is_final else None

    def of(self, mutant: Mutant) -> Outcome:
        tests, seconds = self._guards.of(mutant)
        outcome, by = self._try(mutant, tests, seconds)
        found = {
            "digest": mutant.digest,
            "mutant": str(mutant),
            "outcome": outcome,
            "by": by,
            "tests": _digest_of(tests),
            "count": len(tests),
        }
        self._found[mutant.digest] = found
        with FOUND.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(found) + "\n")
        return outcome

    def _try(self, mutant: Mutant, tests: list[str], seconds: float) -> tuple[Outcome, str | None]:
        if not tests:
            return "not reached", None
        ended = run_tests(mutant, tests, seconds=60 + 4 * seconds)
        if ended.code == 0:
            return "survives", None
        if ended.code is None:
            return "out of time", None
        self._check_passes(ended.failed or tests[0])
        return "noticed", ended.failed

    def _check_passes(self, test: str) -> None:
        """A test that fails without any change notices nothing."""
        if test not in self._passing:
            if run_tests(None, [test], seconds=600).code != 0:
                raise RuntimeError(f"{test} fails without any change")
            self._passing.add(test)


def _digest_of(tests: Sequence[str]) -> str:
    """Of tests, and of the files that they are in."""
    hasher = hashlib.sha256(repr(sorted(tests)).encode())
    for file in sorted({test.partition("::")[0] for test in tests}):
        hasher.update((ROOT / file).read_bytes())
    return hasher.hexdigest()[:16]


def warm_up() -> None:
    """What every process needs, and no module of the package."""
    import duckdb  # noqa: F401
    import numpy  # noqa: F401
    import opendp.measurements  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import sqlalchemy  # noqa: F401

    assert not any(name.partition(".")[0] == "maquette" for name in sys.modules)


def used() -> float:
    """Processor seconds of all mutants so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def figures(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One figure: how many mutants were noticed, and those that were not. None before the sample is complete."""
    warm_up()
    trial = Trial(Guards(options.reached, limit=options.limit))
    group = chosen(only=options.only, each=options.each, sample=options.sample)
    outcomes: dict[str, Outcome] = {}
    begin = used()
    for number, mutant in enumerate(group, start=1):
        outcome = trial.known(mutant)
        if outcome is None:
            if options.seconds is not None and used() - begin > options.seconds:
                print(f"{number - 1} of {len(group)} are done; the same command goes on", file=sys.stderr)
                return
            outcome = trial.of(mutant)
            print(
                f"{number}/{len(group)} {mutant}: {outcome} ({used() - begin:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
        outcomes[str(mutant)] = outcome
    by_outcome = {
        kind: [m for m, one in outcomes.items() if one == kind] for kind in sorted(set(outcomes.values()))
    }
    yield {
        "package": options.only,
        "mutants": len(group),
        "noticed": len(by_outcome.pop("noticed", [])),
        **by_outcome,
        "command": " ".join(
            ["python -m benchmarks.mutation"]
            + [
                f"--{name} {value}"
                for name in ("only", "each", "sample", "limit")
                if (value := getattr(options, name))
            ]
        ),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__)
    parser.add_argument("--only", default=None, help="modules whose path begins with this")
    parser.add_argument("--each", type=int, default=None, help="mutants per module")
    parser.add_argument("--sample", type=int, default=None, help="mutants of all these modules together")
    parser.add_argument("--limit", type=float, default=20.0, help="processor seconds of tests for a mutant")
    parser.add_argument("--seconds", type=float, default=None, help="processor seconds after which to end")
    parser.add_argument("--reached", type=Path, default=REACHED, help="a folder of runs under coverage")
    parser.add_argument("--list", action="store_true", help="only show the mutants")
    options = parser.parse_args(arguments)
    if options.list:
        print(*chosen(only=options.only, each=options.each, sample=options.sample), sep="\n")
        return
    append_each("mutation", figures(options))


if __name__ == "__main__":
    main()
