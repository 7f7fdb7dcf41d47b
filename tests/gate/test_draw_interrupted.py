"""Ctrl-C in the middle of a draw: exit code 130, the price stays charged and the message says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import maquette as mq
from maquette.cli.app import app
from maquette.core.curator import STAYS_CHARGED
from maquette.domain import Attribute, Domain, Kind

DOMAIN = Domain((Attribute("age", Kind.ORDINAL, codes=16),))


@pytest.fixture
def command(tmp_path):
    DOMAIN.save(tmp_path / "d.json")
    values = np.random.default_rng(0).integers(0, 16, 40)
    (tmp_path / "t.csv").write_text("age\n" + "\n".join(map(str, values)) + "\n")
    return [
        *("release", str(tmp_path / "t.csv"), "--domain", str(tmp_path / "d.json"), "--prefixes", "age"),
        *("--mechanism", "smalldb", "--epsilon", "1", "--rows", "4", "--ledger", str(tmp_path / "l.ledger")),
        *("-o", str(tmp_path / "out.maquette")),
    ]


def spent(tmp_path) -> float:
    with mq.Ledger.open(tmp_path / "l.ledger") as book:
        return book.spent_units


@pytest.mark.slow
def test_an_interrupted_draw_stays_charged_says_so_and_is_charged_again(command, tmp_path, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("maquette.samplers.draw.run", interrupt)
    stopped = CliRunner().invoke(app, command)
    assert stopped.exit_code == 130
    assert STAYS_CHARGED in stopped.output
    assert not (tmp_path / "out.maquette").exists()
    before = spent(tmp_path)
    assert before > 0
    monkeypatch.undo()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 3, again.output  # the ledger holds one such release and no more
    assert "looking again is charged once more" in " ".join(again.output.split())
    assert spent(tmp_path) == before


@pytest.mark.slow
def test_a_real_signal(command):
    code = (
        "import os, signal\n"
        "from maquette.samplers import draw\n"
        "draw.run = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT)\n"
        "from maquette.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode in (130, -signal.SIGINT), done.stderr
    assert "the price stays charged" in done.stderr
    assert "Traceback" not in done.stderr
