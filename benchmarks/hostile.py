"""Every public function and every command with hostile values in the place of each argument: what escapes.

The whole of what `tests/surface/test_hostile_arguments.py` and `tests/cli/test_hostile_words.py` make a part of.
`python -m benchmarks hostile --part words` makes one half of it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.__main__ import append_each

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support import hostile_calls, hostile_commands  # pyright: ignore[reportMissingImports]


def run(data: Path | None = None) -> list[dict[str, Any]]:
    """All calls, in a folder of their own."""
    del data
    return [part(name) for name in PARTS]


def part(name: str) -> dict[str, Any]:
    """All calls of functions, or of commands."""
    started, found, here = time.process_time(), hostile_calls.Found(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            figure = PARTS[name](Path(folder), found)
        finally:
            os.chdir(here)
    return figure | {
        "calls": found.calls,
        "accepted": found.accepted,
        "escaped": len(found.wrong),
        "examples": found.wrong[:5],
        "cpu_seconds": round(time.process_time() - started),
        "goal": "0 escaped",
    }


def _arguments(folder: Path, found: Any) -> dict[str, Any]:
    stage, count = hostile_calls.Stage(folder), 0
    for one in hostile_calls.targets(stage):
        count += 1
        hostile_calls.attack(one, found)
    what = "hostile arguments: calls, and how many ended in anything but an error of the package"
    return {"figure": what, "functions": count}


def _words(folder: Path, found: Any) -> dict[str, Any]:
    desk, commands = hostile_commands.Desk(folder), hostile_commands.commands()
    for one in commands:
        hostile_commands.attack(desk, one, found)
    what = "hostile words: calls of commands, and how many ended in anything but exit code 0, 2 or 3 in bounded words"
    return {
        "figure": what,
        "commands": len(commands),
        "parameters": sum(len(one.parameters) for one in commands),
    }


PARTS: dict[str, Callable[[Path, Any], dict[str, Any]]] = {"arguments": _arguments, "words": _words}


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks hostile")
    parser.add_argument("--part", choices=PARTS, required=True)
    name = parser.parse_args(words).part
    append_each("hostile", [part(name) | {"command": f"python -m benchmarks hostile --part {name}"}])
