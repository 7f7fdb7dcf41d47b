"""Mistakes everywhere: of random mutants outside the trusted part none may show in a check of privacy, inside all.

Which modules are inside follows from the rings (`benchmarks/_mutants.py`). A mutant is one module with one operator,
constant, comparison or refusal changed, drawn from all that are possible by a fixed seed. Every mutant runs in a
process of its own through the checks of `tests/support/privacy_battery.py` that run through its line, as a run under
coverage knows them: neighbouring tables with the same draws, exact losses against charges, hostile classes and readers,
observables in worlds that refuse and fail, whole releases.

- *Outside*: a leak found by any check is a failure of the principle. A package that no longer runs is none: its
  neighbours fail alike.
- *Inside*: a mutant is run through the unit tests of its module first, those that `core/README.md` names for its file
  before others that name it, up to `--limit` processor seconds; then through as many seconds of checks, where it is
  known which run through its line. What survives, or has not come to their end, is listed.

What was found is kept in `.mutants.jsonl`, and the same command goes on where it ended.

    python -m benchmarks mutants --where reach             # which check runs through which line: once
    python -m benchmarks mutants --where outside --count 200
    python -m benchmarks mutants --where inside --count 200 --minutes 30
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.__main__ import append_each
from benchmarks._mutants import ROOT, Mutant, drawn, others, trusted
from benchmarks.mutation import Changed, is_traced, run_tests, warm_up

COUNT = 200
FOUND = ROOT / ".mutants.jsonl"
REACHED = ROOT / ".reached" / "battery.db"
TESTS = ROOT / "tests"
CORE = ROOT / "src" / "maquette" / "core" / "README.md"
MAX_FILES = 4
"""Files of unit tests that a mutant is run through."""
NOT_RUN = ("vault/test_spark.py", "web/", "lessons/", "surface/test_wheel.py", "surface/test_repository.py")


class Battery:
    """Which checks run through which lines."""

    def __init__(self, place: Path) -> None:
        from coverage import CoverageData

        if not place.exists():
            raise SystemExit(f"no {place}: run python -m benchmarks mutants --where reach first")
        data = CoverageData(str(place))
        data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}
        for file in data.measured_files():
            self._lines[file.rpartition("/maquette/")[2]] = data.contexts_by_lineno(file)

    def of(self, mutant: Mutant) -> list[str]:
        """The checks that run through a line; outside of functions, or in a compiled one, those through its file."""
        lines = self._lines.get(mutant.path, {})
        places = range(mutant.line, mutant.end_line + 1) if is_traced(mutant) else lines
        return sorted({name for place in places for name in lines.get(place, ()) if name})


def reach(place: Path) -> None:
    """Run every check once under coverage, in its own context."""
    import coverage

    place.parent.mkdir(exist_ok=True)
    cov = coverage.Coverage(data_file=str(place), source_pkgs=["maquette"], config_file=False)
    cov.erase()
    cov.start()
    sys.path.insert(0, str(TESTS))
    from support import privacy_battery as battery  # pyright: ignore[reportMissingImports]

    for name, check in battery.checks():
        cov.switch_context(name)
        how, words = battery.ended(check)
        cov.switch_context("")
        if how != "holds":
            raise SystemExit(f"{name} does not hold without any change: {words}")
    cov.stop()
    cov.save()


def try_checks(mutant: Mutant, names: Sequence[str], *, seconds: float) -> dict[str, Any]:
    """Run some checks on a mutant in a process of its own; what each found that did not hold."""
    said = Path(tempfile.mkdtemp()) / "found.json"
    pid = os.fork()
    if pid == 0:
        _child(mutant, names, said, seconds)
    _, status = os.waitpid(pid, 0)
    if said.exists():
        return json.loads(said.read_text("utf-8"))
    late = os.waitstatus_to_exitcode(status) in (-signal.SIGXCPU, -signal.SIGKILL)
    return {"process": ["out of time" if late else "broken", f"ended with {status}"]}


def _child(mutant: Mutant, names: Sequence[str], said: Path, seconds: float) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        log = os.open(said.with_name("log"), os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        warnings.simplefilter("ignore")
        sys.meta_path.insert(0, Changed(mutant))
        if "numba" in mutant.source:
            os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
        sys.path.insert(0, str(TESTS))
        from support import privacy_battery as battery  # pyright: ignore[reportMissingImports]

        found = battery.run(names)
        said.write_text(json.dumps({n: f for n, f in found.items() if f[0] != "holds"}), encoding="utf-8")
    except BaseException as error:  # the mutant cannot even be loaded
        said.write_text(
            json.dumps({"loading": ["broken", f"{type(error).__name__}: {error}"[:300]]}), encoding="utf-8"
        )
    finally:
        os._exit(0)


def named_tests(mutant: Mutant) -> list[str]:
    """The files of tests that the README of the core names for a module."""
    rows = re.findall(r"^\| `([\w/]+\.py)` \| [^|]+ \| ([^|]+) \|$", CORE.read_text("utf-8"), re.MULTILINE)
    tests = {f"core/{path}": re.findall(r"`([\w/]+\.py)`", words) for path, words in rows}
    return [f"tests/{test}" for test in tests.get(mutant.path, ()) if (TESTS / test).exists()]


def unit_tests(mutant: Mutant) -> list[str]:
    """Files of tests of a module: named for it, called after it, naming it, or of its folder and naming its names."""
    module = Path(mutant.path).with_suffix("").as_posix()
    package, _, name = module.rpartition("/")
    dotted = f"maquette.{package.replace('/', '.')}" if package else "maquette"
    named = re.compile(rf"{re.escape(dotted)}\.{name}\b|from {re.escape(dotted)} import [^\n]*\b{name}\b")
    words = set(re.findall(r"^(?:def|class) (\w+)", mutant.source, re.MULTILINE))
    texts = {
        path: path.read_text("utf-8")
        for path in sorted(TESTS.rglob("test_*.py"))
        if not path.relative_to(TESTS).as_posix().startswith(NOT_RUN)
    }

    def order(path: Path) -> tuple[bool, bool, bool, int]:
        folder = path.relative_to(TESTS).parts[0]
        used = len(words & set(re.findall(r"\w+", texts[path])))
        called = path.stem.startswith(f"test_{name.lstrip('_')}")
        return (
            not called,
            not named.search(texts[path]),
            folder != (package.split("/")[0] or "surface"),
            -used,
        )

    others = [path.relative_to(ROOT).as_posix() for path in sorted(texts, key=order)]
    return list(dict.fromkeys([*named_tests(mutant), *others]))[:MAX_FILES]


class Trial:
    """Tries mutants; remembers what was found, also of earlier runs."""

    def __init__(self, battery: Battery | None, *, limit: float) -> None:
        """Without a battery mutants are run through unit tests alone."""
        self._battery, self._limit = battery, limit
        self._passing, self._failing = set[str](), set[str]()
        lines = FOUND.read_text("utf-8").splitlines() if FOUND.exists() else []
        self._found: dict[str, dict[str, Any]] = {one["digest"]: one for one in map(json.loads, lines)}

    def of(self, mutant: Mutant, *, inside: bool) -> dict[str, Any]:
        key = f"{mutant.digest} {inside}"
        known = self._found.get(key)
        if known is None or (known["outcome"] == UNDECIDED and known["limit"] < self._limit):
            again = None if known is None else self._try_units(mutant) | {"checks": known["checks"]}
            found = {"digest": key, "mutant": str(mutant)} | (again or self._try(mutant, inside=inside))
            self._found[key] = found
            with FOUND.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(found) + "\n")
        return self._found[key]

    def _try(self, mutant: Mutant, *, inside: bool) -> dict[str, Any]:
        units = self._try_units(mutant) if inside else None
        if units is not None and units["outcome"] == UNIT_TESTS:
            return units | {"checks": 0}
        names = [] if self._battery is None else self._battery.of(mutant)
        found = try_checks(mutant, names, seconds=self._limit if inside else 120) if names else {}
        for how in ("leak", "broken") if inside else ("leak", "out of time", "broken"):
            for name, (ended, words) in found.items():
                if ended == how:
                    return {"outcome": how, "by": name, "words": words, "checks": len(names)}
        if units is not None:
            return (
                units
                | {"checks": len(names)}
                | ({"outcome": UNDECIDED, "limit": self._limit} if found else {})
            )
        return {"outcome": "holds" if names else "not reached", "checks": len(names)}

    def _try_units(self, mutant: Mutant) -> dict[str, Any]:
        """Up to the first test that fails, and would not without the change."""
        if not self._limit:
            return {"outcome": UNDECIDED, "by": "checks of privacy alone", "limit": 0}
        tests = unit_tests(mutant)
        while True:
            left = [*tests, *(f"--deselect={test}" for test in self._failing)]
            ended = run_tests(mutant, left, seconds=self._limit, chosen="not slow and not server")
            if ended.code is None:
                return {"outcome": UNDECIDED, "by": f"{len(tests)} files cut off", "limit": self._limit}
            if ended.failed is None:  # all passed, none was there, or pytest itself could not run
                how = "survives" if ended.code in (0, 5) else UNIT_TESTS
                return {"outcome": how, "by": f"{len(tests)} files, code {ended.code}"}
            if self._passes(ended.failed):
                return {"outcome": UNIT_TESTS, "by": ended.failed}

    def _passes(self, test: str) -> bool:
        """Does a test (or a file, when it is loaded) pass without any change?"""
        if test in self._passing:
            return True
        options = [] if "::" in test else ["--collect-only"]
        if run_tests(None, [test, *options], seconds=600).code == 0:
            self._passing.add(test)
            return True
        self._failing.add(test)
        return False


UNIT_TESTS = "unit tests"
UNDECIDED = "undecided"
"""Not noticed by a check of privacy, nor by as many unit tests as there was time for."""
NOTICED = ("leak", "broken", UNIT_TESTS)
"""Outcomes of a mutant inside that is caught."""


def measure(where: str, count: int, *, minutes: float, limit: float) -> dict[str, Any]:
    """Mutants of one side, as many as the minutes allow: how each ended."""
    warm_up()
    inside = where == "inside"
    trial = Trial(Battery(REACHED) if REACHED.exists() or not inside else None, limit=limit)
    group = drawn(trusted() if inside else others(), count, key=where)
    begin, outcomes = time.monotonic(), list[dict[str, Any]]()
    for number, mutant in enumerate(group, start=1):
        if time.monotonic() - begin > 60 * minutes:
            break
        outcomes.append(trial.of(mutant, inside=inside))
        print(f"{number}/{len(group)} {outcomes[-1]}", file=sys.stderr, flush=True)
    kinds = Counter(one["outcome"] for one in outcomes)
    wrong = ("survives", UNDECIDED) if inside else ("leak",)
    bad = [one for one in outcomes if one["outcome"] in wrong]
    return {
        "figure": f"mutants {where} of the trusted part, and how a check of privacy ended",
        "where": where,
        "mutants": len(outcomes),
        "modules": len(trusted() if inside else others()),
        "outcomes": dict(kinds.most_common()),
        "checks": sum(one["checks"] for one in outcomes),
        **({"noticed": sum(kinds[kind] for kind in NOTICED)} if inside else {"leaks": kinds["leak"]}),
        "listed": [f"{one['mutant']}: {one.get('by', '')}" for one in bad],
        "goal": "at least 95 % noticed" if inside else "no leak",
    }


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """Both sides in one run."""
    del data
    if not REACHED.exists():
        _alone(["--where", "reach"])
    return [json.loads(_alone(["--where", where, "--print"])) for where in ("outside", "inside")]


def _alone(words: list[str]) -> str:
    """Run this module in a process that has not loaded the package: mutants are loaded in its stead."""
    command = [sys.executable, "-m", "benchmarks.mutants", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout.decode()


def main(words: list[str]) -> None:
    """In a process of its own, where this one has loaded the package already."""
    if "maquette" in sys.modules:
        sys.stdout.write(_alone(words))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks mutants")
    parser.add_argument("--where", choices=["reach", "outside", "inside"], required=True)
    parser.add_argument("--count", type=int, default=COUNT, help="mutants")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which no further one is begun")
    parser.add_argument(
        "--limit", type=float, default=20.0, help="processor seconds of unit tests, inside; 0 for none"
    )
    parser.add_argument("--print", action="store_true", help="print the figure, append nothing")
    options = parser.parse_args(words)
    if options.where == "reach":
        reach(REACHED)
        return
    command = f"python -m benchmarks mutants --where {options.where} --count {options.count}"
    command += f" --limit {options.limit:g}"
    figure = measure(options.where, options.count, minutes=options.minutes, limit=options.limit)
    if options.print:
        print(json.dumps(figure))
    else:
        append_each("mutants", [figure | {"command": command}])


if __name__ == "__main__":
    main(sys.argv[1:])
