"""Small files for the command line: a table with a canary in it, its domain, and a way to call commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer import testing
from typer.testing import CliRunner

from maquette.cli.app import app
from support.made_release import toy_domain

testing._get_command = cache(testing._get_command)
"""Commands are built from their functions once, not for every call: that takes longer than most of them do."""

CANARY = "CANARY7f3a"
"""Stands in the rows as an odd value; no output may ever contain it."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def call(*words: object, text: str | None = None) -> Ended:
    """Run one command in this process, with `text` typed; the canary must not show, whatever happens."""
    done = CliRunner().invoke(app, [str(word) for word in words], input=text, prog_name="maquette")
    ended = Ended(done.exit_code, done.stdout, done.stderr)
    assert CANARY not in ended.out + ended.err
    assert "Traceback" not in ended.out + ended.err
    return ended


def call_process(*words: object) -> Ended:
    """The same in a process of its own, which closes every file when it ends."""
    command = [sys.executable, "-m", "maquette", *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert CANARY not in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def refused(ended: Ended, *expected: str, code: int = 2) -> None:
    """One clean message on stderr that says all of this, and nothing on stdout."""
    assert ended.code == code, ended
    assert ended.out == ""
    for text in expected:
        assert text in ended.err, ended.err


def lines(rows: int = 400) -> list[str]:
    """CSV records of the toy domain, some of them odd."""
    found = []
    for i in range(rows):
        age = "" if i % 17 == 0 else str((i * 7) % 95)
        region = CANARY if i % 50 == 3 else ("north", "south", "west")[i % 3]
        found.append(f"{age},{'Male' if i % 5 < 2 else 'Female'},{region}")
    return found


def write_table(folder: Path, rows: int = 400, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(["age,sex,region", *lines(rows)]) + "\n")
    return path


def write_domain(folder: Path) -> Path:
    path = folder / "people.domain.json"
    toy_domain().save(path)
    return path


@dataclass(frozen=True)
class Desk:
    """A folder with a table and its domain, and the usual command."""

    folder: Path
    table: Path
    domain: Path

    @property
    def ledger(self) -> Path:
        return self.folder / "people.ledger"

    @property
    def place(self) -> Path:
        return self.folder / "people.maquette"

    def release(
        self,
        *more: object,
        table: Path | None = None,
        epsilon: object = 1,
        by: Callable[..., Ended] = call,
        replace: bool = True,
    ) -> Ended:
        usual = [table or self.table, "--domain", self.domain, "--marginals", 1, "--marginals", 2]
        budget = ["--epsilon", epsilon, "--ledger", self.ledger, "-o", self.place, "--quiet"]
        return by("release", *usual, *budget, *more, *(["--replace"] if replace else []))

    def spent(self) -> float:
        """What the ledger says was spent or reserved; nothing if there is none."""
        if not self.ledger.exists():
            return 0.0
        found = call("ledger", "show", self.ledger, "--json").json
        return found["spent"] + found["reserved"]


def desk(folder: Path) -> Desk:
    return Desk(folder, write_table(folder), write_domain(folder))
