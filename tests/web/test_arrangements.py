"""Other arrangements: a worker that somebody else starts, and tokens, jobs and ledger in PostgreSQL."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys

import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.domain import Domain, Relation
from maquette.web import state
from maquette.web.state import State
from support.ledger_postgres import Server
from support.web_service import running, write_config

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.stop()


def test_a_worker_that_somebody_else_started_is_asked_and_left_alone(tmp_path):
    place = tmp_path / "worker.socket"
    path = write_config(tmp_path / "service", table=f'socket = "{place}"\nfolder = "{tmp_path / "own"}"')
    command = [sys.executable, "-m", "maquette.web.worker", str(path), "people", str(place), "--alone"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert "ready" in worker.stdout.readline()
        assert stat.S_IMODE(place.stat().st_mode) == 0o660
        with running(path) as world:
            assert world.service.keepers == {}
            with mq.connect(world.home, token=world.token("anna")) as anna:
                anna.session("people").buy_size()
                assert anna.session("people").ask("age >= 60").kind == "paid"
        assert worker.poll() is None
        assert (tmp_path / "own" / "audit" / "people.jsonl").exists()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
        assert not place.exists()
    finally:
        worker.kill()


def test_a_table_that_cannot_be_opened_is_said_in_words(tmp_path):
    path = write_config(tmp_path)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(mq.ParameterError, match=r"table 'people': .*people\.csv"), running(path):
        pass


def test_tokens_jobs_and_ledger_in_postgresql(tmp_path, server):
    ledger, database = server.new_database(), server.new_database()
    path = write_config(tmp_path, table=f'ledger = "{ledger}"')
    path.write_text(f'database = "{database}"\n' + path.read_text())
    domain = Domain.load(tmp_path / "people.domain.json")
    Ledger.create(
        ledger,
        budget=Budget(4.0, 1e-9),
        relation=Relation.ADD_REMOVE,
        domain_fingerprint=domain.fingerprint,
        name="people",
    ).close()
    with running(path) as world:
        with mq.connect(world.home, token=world.token("anna")) as anna:
            session = anna.session("people")
            session.buy_size()
            answer = session.ask("age >= 60", key="in-postgres")
            assert session.ask("age >= 60", key="in-postgres").value == answer.value
        other = State.at(tmp_path, database)
        assert [row["person"] for row in other.rows(state.token)] == ["anna"]
        other.close()
        assert not (tmp_path / "state" / "service.db").exists()
