"""The independent verifier accepts what the library writes, and is what it says it is."""

from __future__ import annotations

import ast
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import maquette as mq
from maquette import verify
from maquette.verify import covered, verdict

KINDS = ("pure", "zcdp", "gaussian", "replace", "persons", "discovery")

SOURCE = Path(verify.__file__)
OLD = Path(__file__).parent.parent / "support" / "ledger_format_1.sql"


@pytest.mark.parametrize("kind", KINDS)
def test_releases_and_their_ledgers_fit(made, kind):
    code, text = verdict([str(made / f"{kind}.ledger"), str(made / f"{kind}.release")])
    assert (code, text.count(" fits: ")) == (0, 2), text


@pytest.mark.parametrize("kind", ["session-pure", "session-zcdp"])
def test_sessions_with_epochs_and_open_envelopes_fit(made, kind):
    code, text = verdict([str(made / f"{kind}.ledger")])
    assert code == 0, text


def test_a_release_of_another_ledger_does_not_fit(made):
    assert verdict([str(made / "pure.ledger"), str(made / "zcdp.release")])[0] == 1


def test_a_stored_ledger_whose_amounts_are_not_those_of_its_events_is_refused(tmp_path):
    """Its envelope has the tag of an event and no event in its body; the chain itself is not reached."""
    path = tmp_path / "old.ledger"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD.read_text("utf-8"))
    assert verdict([str(path)]) == (
        1,
        "Does not fit: entry 3 does not fit: its tag 'composed' has another form.",
    )


def test_it_is_short_and_imports_the_standard_library_alone():
    text = SOURCE.read_text("utf-8")
    names = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add((node.module or "").split(".")[0])
    assert names <= set(sys.stdlib_module_names)
    assert len(text.splitlines()) <= LINES


LINES = 505


def test_the_command_says_it_in_a_sentence_and_an_exit_code(copy):
    ledger = copy("pure")

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", str(SOURCE), *map(str, words)]  # alone, without the library
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    fine = run(ledger, ledger.with_suffix(".release"))
    assert (fine.returncode, fine.stderr) == (0, "")
    ledger.with_name("pure.ledger.receipt").write_bytes(b"\n" * 16384)
    broken = run(ledger)
    assert (broken.returncode, broken.stdout) == (1, "")
    assert broken.stderr == "Does not fit: the receipt beside the ledger is damaged in both halves.\n"
    assert run().returncode == run("--help").returncode == run(ledger, "a", "b").returncode == 2


def test_nothing_is_written_beside_the_ledger_not_even_with_a_log(copy):
    ledger = copy("pure")
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("ANALYZE")  # its tables are allowed, and in the log
        before = {file: file.read_bytes() for file in ledger.parent.iterdir() if file.is_file()}
        assert any(file.name.endswith("-wal") and data for file, data in before.items())
        assert verdict([str(ledger)])[0] == 0
        assert {file: file.read_bytes() for file in ledger.parent.iterdir() if file.is_file()} == before


def test_what_cannot_be_read_ends_with_2(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("no database " * 1000)
    for name in ("pipe", "text", "missing", "."):
        code, text = verdict([str(tmp_path / name)])
        assert code == 2, text


def test_flipped_bytes_end_without_a_traceback(copy):
    ledger = copy("zcdp")
    whole, rng = ledger.read_bytes(), random.Random(5)
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(20):
            data[rng.randrange(100, len(data))] ^= 1 << rng.randrange(8)
        ledger.write_bytes(data)
        assert verdict([str(ledger)])[0] in (0, 1, 2)


def _real(unit: str, epsilon: float, delta: float, folder: Path) -> tuple[int, int]:
    budget = mq.Budget(epsilon, delta, "gaussian" if unit == "mu^2/2" else "zcdp")
    ledger = mq.Ledger.create(
        folder / "x.ledger", budget=budget, relation="add-remove", domain_fingerprint="d" * 64, name="x"
    )
    totals = ledger.total_units, ledger.slack_total
    ledger.close()
    return totals


@pytest.mark.parametrize("unit", ["epsilon", "rho", "mu^2/2"])
@pytest.mark.parametrize("seed", range(12))
def test_the_real_total_is_covered_and_a_millionth_more_is_not(unit, seed, tmp_path):
    rng = random.Random(seed)
    epsilon = float(f"{10 ** rng.uniform(-1.5, 1.2):.3g}")
    delta = 0.0 if unit == "epsilon" else float(f"{10 ** rng.uniform(-12, -2):.3g}")
    total, slack = _real(unit, epsilon, delta, tmp_path)
    terms = (unit, Fraction(Decimal(repr(epsilon))), Fraction(Decimal(repr(delta))))
    assert covered(*terms, total, slack, before=False)
    assert not covered(*terms, total + total // 10**6 + 1, slack, before=False)
    more = slack + slack // 10**6 + 1
    assert not covered(*terms, total, more, before=False)
