"""How much code three usual jobs run through, and the processor time of the small commands.

A walk counts the files of the package and the functions in them that a job calls, on its second run so that imports and
first compilations are over. Comprehensions belong to the function they stand in; compiled loops are not seen.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
from pyarrow import csv

import maquette as mq

PACKAGE = str(Path(mq.__file__).parent)
ROUNDS = 3
RECORDS = 5_000
INSIDE = ("<module>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Code objects that are no function with a name."""


def run(data: Path | None) -> list[dict[str, Any]]:
    """One figure: the walks, and the times of commands beside an import of pandas in turns."""
    del data
    with tempfile.TemporaryDirectory(prefix="mq-walks-") as name:
        folder = Path(name)
        table = _write(folder)
        walks = {
            "sculpt release of all three-way marginals": _walk(lambda i: _sculpt(folder, table, i)),
            "smalldb release of thresholds": _walk(lambda i: _smalldb(folder, table, i)),
            "one question of an open session": _walk(_asking(folder, table)),
        }
        seconds = _seconds(folder)
    return [
        {
            "what": "files and functions of the package that a job calls; processor seconds of commands, best of three",
            "source_files": len(list(Path(PACKAGE).rglob("*.py"))),
            "walks": walks,
            "cpu_seconds": seconds,
        }
    ]


# --- walks ----------------------------------------------------------------------------------------------------------


def _walk(job: Callable[[int], Any]) -> dict[str, int]:
    """Distinct files and functions of the second run of a job, given the number of the run."""
    job(0)
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        job(1)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # pyright: ignore[reportArgumentType]
    named = {(file, name) for file, name in seen if name.rpartition(".")[2] not in INSIDE}
    code = {(file, name) for file, name in seen if name != "<module>"}
    return {
        "files": len({file for file, _ in code}),
        "functions": len(named),
        "with_comprehensions": len(code),
    }


def _sculpt(folder: Path, table: mq.Table, turn: int) -> None:
    queries = mq.marginals(table.domain, k=3)
    place = folder / f"sculpt{turn}.ledger"
    own = table.for_another_ledger()
    mq.release(own, queries, epsilon=1.0, delta=1e-9, mechanism="sculpt", ledger=place)


def _smalldb(folder: Path, table: mq.Table, turn: int) -> None:
    queries = mq.thresholds(table.domain, "age")
    own = table.for_another_ledger()
    mq.release(own, queries, epsilon=1.0, mechanism="smalldb", ledger=folder / f"smalldb{turn}.ledger")


def _asking(folder: Path, table: mq.Table) -> Callable[[int], Any]:
    """One new question at a time; the one before it buys the number of records."""
    session = mq.session(table.for_another_ledger(), epsilon=1.0, ledger=folder / "session.ledger")
    texts = ("sex = 'female' and age < 30", "region = 'Hills' and age >= 40")
    return lambda turn: session.ask(texts[turn])


# --- processor time -------------------------------------------------------------------------------------------------


def _seconds(folder: Path) -> dict[str, float]:
    """User and system time of child processes, the best of a few, taken in turns."""
    on = ["--domain", str(folder / "people.domain.json")]
    ledger, made = str(folder / "people.ledger"), str(folder / "made")
    command = [sys.executable, "-m", "maquette.cli"]
    first = [
        *on,
        "--marginals",
        "2",
        "--epsilon",
        "1",
        "--delta",
        "1e-9",
        "--ledger",
        ledger,
        "-o",
        made,
        "-q",
    ]
    _child([*command, "release", str(folder / "people.csv"), *first])
    lines = {
        "maquette answer": [*command, "answer", made, "age >= 40"],
        "maquette ledger show": [*command, "ledger", "show", ledger],
        "maquette plan": [*command, "plan", *on, "--marginals", "3", "--n", "20000", "--epsilon", "1"],
        "import maquette": [sys.executable, "-c", "import maquette"],
        "peer_import_pandas": [sys.executable, "-c", "import pandas"],
    }
    turns = [{name: _child(line) for name, line in lines.items()} for _ in range(ROUNDS)]
    return {name: round(min(turn[name] for turn in turns), 2) for name in lines}


def _child(line: list[str]) -> float:
    """With bytecode, as where the package is installed, and as pandas has it."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- the table ------------------------------------------------------------------------------------------------------


def _write(folder: Path) -> mq.Table:
    """A table by arithmetic, its domain file, and the table opened from the disk."""
    regions, work = ("Coast", "Hills", "Plain"), ("employed", "studying", "retired", "at home")
    domain = mq.Domain.from_dict(
        {
            "attributes": [
                {"name": "age", "kind": "numeric", "bounds": [0, 100], "bins": 10, "integer": True},
                {"name": "sex", "kind": "boolean", "categories": ["female", "male"]},
                {"name": "region", "kind": "categorical", "categories": list(regions)},
                {"name": "work", "kind": "categorical", "categories": list(work)},
                {"name": "household", "kind": "ordinal", "categories": [1, 2, 3, 4], "nullable": True},
            ]
        }
    )
    index = range(RECORDS)
    ages = [(i * i // 7 + 3 * i) % 97 for i in index]
    columns = {
        "age": ages,
        "sex": ["female" if (i + age) % 5 < 2 else "male" for i, age in zip(index, ages, strict=True)],
        "region": [regions[(i // 11 + i * i) % 3] for i in index],
        "work": [work[min(age // 25, 3) if i % 3 else i % 4] for i, age in zip(index, ages, strict=True)],
        "household": [1 + (i // 3 + i // 17) % 4 for i in index],
    }
    domain.save(folder / "people.domain.json")
    csv.write_csv(pa.table(columns), folder / "people.csv")
    return mq.open(folder / "people.csv", domain=domain)
