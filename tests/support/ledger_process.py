"""The test's side of `ledger_child` and `online_child`: start such a process, talk with it, read what it saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import maquette

TESTS = Path(__file__).parent.parent
SOURCE = str(Path(maquette.__file__).parent.parent)
"""Where the package under test lies, which may not be the one that is installed."""


def environment() -> dict[str, str]:
    """Of a process that uses the package under test and these tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), SOURCE])}


class Child:
    """A process that runs a script of this directory."""

    def __init__(self, *roles: str, script: str = "ledger_child.py") -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(TESTS / "support" / script), *roles],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def tell(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the child ended with {self._process.wait()}"
        return json.loads(line)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()


def seen_by_clients(journal: Path) -> list[tuple[str, str]]:
    """Whole lines only: the last one may have been cut by the kill."""
    if not journal.exists():
        return []
    return [(line.split()[0], line.split()[1]) for line in journal.read_text().split("\n")[:-1]]


def wait_for_lines(journal: Path, lines: int) -> None:
    for _ in range(60_000):
        if len(seen_by_clients(journal)) >= lines:
            return
        time.sleep(0.001)
    raise AssertionError("the worker does not get on")
