"""Run benchmarks by name and append what they measured to benchmarks/results/NAME.jsonl.

A benchmark is a module of this package with `run(data: Path | None) -> list[dict]`; every dict is one figure. A figure
that can be measured by itself names the `command` for that; the others carry the command of the whole run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import benchmarks

RESULTS = Path(__file__).parent / "results"
VERSIONS = ("maquette-dp", "numpy", "numba", "duckdb", "pyarrow", "pandas", "sqlalchemy", "opendp")


def names() -> list[str]:
    """Every module here that can run."""
    found = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_")]
    return [n for n in sorted(found) if hasattr(importlib.import_module(f"benchmarks.{n}"), "run")]


def surroundings() -> dict[str, Any]:
    """Where and with what a figure was measured."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.platform(terse=True)},
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in VERSIONS},
    }


def measure(name: str, data: Path | None) -> list[dict[str, Any]]:
    """Run one benchmark; each figure carries the command that repeats it."""
    figures = importlib.import_module(f"benchmarks.{name}").run(data)
    whole = f"python -m benchmarks {name}" + ("" if data is None else " --data DIR")
    around = surroundings()
    return [_record(name, figure, around, whole) for figure in figures]


def append_each(name: str, figures: Iterable[dict[str, Any]], *, place: Path | None = None) -> None:
    """Print and keep every figure as it comes, for benchmarks whose parts can be run on their own."""
    around = surroundings()
    for figure in figures:
        line = json.dumps(_record(name, figure, around))
        print(line, flush=True)
        with (place or RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=[*names(), "all"], help="which benchmark")
    parser.add_argument("--data", type=Path, default=None, help="a folder of tables, such as adult.csv")
    parser.add_argument("--dry", action="store_true", help="print only, append nothing")
    chosen, words = parser.parse_known_args(arguments)
    if chosen.data is not None and not chosen.data.is_dir():
        parser.error(f"no folder at {chosen.data}")
    if words:
        _run_part(parser, chosen, words)
        return
    for name in names() if chosen.name == "all" else [chosen.name]:
        lines = [json.dumps(figure) for figure in measure(name, chosen.data)]
        print(*lines, sep="\n")
        if not chosen.dry:
            RESULTS.mkdir(exist_ok=True)
            with (RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as stream:
                stream.writelines(line + "\n" for line in lines)


def _run_part(parser: argparse.ArgumentParser, chosen: argparse.Namespace, words: list[str]) -> None:
    """Hand words that only one benchmark knows to its own `main`, which appends what it measures."""
    own = (
        None
        if chosen.name == "all"
        else getattr(importlib.import_module(f"benchmarks.{chosen.name}"), "main", None)
    )
    if own is None or chosen.dry:
        parser.error(f"unrecognized arguments: {' '.join(words)}")
    own(words if chosen.data is None else [*words, "--data", str(chosen.data)])


def _record(
    name: str, figure: dict[str, Any], around: dict[str, Any], whole: str | None = None
) -> dict[str, Any]:
    """One line of the results. A part of a benchmark has to name its own command."""
    command = figure.get("command", whole)
    if command is None:
        raise ValueError(f"a figure of {name} that was measured by itself has to name its command")
    told = {key: value for key, value in figure.items() if key != "command"}
    return {"benchmark": name, "command": command} | around | {"figures": told}


def _cpu() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
