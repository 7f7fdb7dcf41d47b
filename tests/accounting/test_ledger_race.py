"""Many clients in several processes: never overspent, one answer per key, one creator per ledger."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from maquette.accounting.ledger import Ledger
from maquette.errors import LedgerError
from support.ledger_cases import create
from support.ledger_postgres import new_database
from support.ledger_process import Child

CLIENTS, COPIES, COST, PAID = 16, 4, 4, 23
KEYS = [f"key-{number}" for number in range(40)]


def _place(kind: str, tmp_path) -> str:
    return str(tmp_path / "survey.ledger") if kind == "sqlite" else new_database()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_thirty_two_clients_in_two_processes_pay_for_exactly_what_the_budget_covers(tmp_path, kind):
    location = _place(kind, tmp_path)
    create(location, PAID * COST + COST - 1).close()
    with ExitStack() as stack:
        children = [stack.enter_context(Child("clients")) for _ in range(2)]
        for child in children:
            child.tell(location=location, clients=CLIENTS, copies=COPIES, keys=KEYS, cost=COST)
        for child in children:
            assert child.hear() == {"ready": True}
        for child in children:
            child.tell(go=True)
        results = [tuple(result) for child in children for result in child.hear()["results"]]
    with Ledger.open(location) as ledger:
        ledger.verify()
        stored = {e.key: e.payload for e in ledger.entries(kind="answer", payloads=True)}
        reserved = [e.key for e in ledger.entries(kind="reserve")]
        assert len(reserved) == len(set(reserved)) == PAID
        assert ledger.spent_units == PAID * COST
    assert set(reserved) == set(stored)
    assert {key for key, _ in results} == set(KEYS)
    for key, got in results:
        expected = stored[key].hex() if key in stored else "refused"
        assert got == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_of_many_creators_exactly_one_wins(tmp_path, kind):
    location = _place(kind, tmp_path)
    with ExitStack() as stack:
        children = [stack.enter_context(Child("create")) for _ in range(3)]
        for number, child in enumerate(children):
            child.tell(location=location, name=f"creator-{number}")
        for child in children:
            assert child.hear() == {"ready": True}
        for child in children:
            child.tell(go=True)
        answers = [child.hear() for child in children]
    winners = [answer["made"] for answer in answers if "made" in answer]
    assert len(winners) == 1
    assert all("already" in answer["refused"] for answer in answers if "refused" in answer)
    with Ledger.open(location) as ledger:
        assert ledger.name == winners[0]
        ledger.verify()
    if kind == "sqlite":
        assert [p.name for p in tmp_path.iterdir()] == ["survey.ledger"]


def test_creators_in_threads(tmp_path):
    together, outcomes = threading.Barrier(8), []

    def attempt() -> None:
        together.wait()
        try:
            create(tmp_path / "survey.ledger").close()
            outcomes.append("made")
        except LedgerError as error:
            outcomes.append("refused" if "already" in str(error) else str(error))

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made"] + ["refused"] * 7
