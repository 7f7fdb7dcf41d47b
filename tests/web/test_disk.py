"""A disk that is full under a service: nothing is answered that is not stored, and everything goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from maquette.errors import LedgerError
from maquette.web import config as configs
from maquette.web.holder import Holder
from maquette.web.pages import status_of, words_of
from support.small_disk import fill, small_disk
from support.web_service import write_config

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes, where this user may mount one."""
    with small_disk(tmp_path / "disk", megabytes=2) as place:
        yield place


def test_a_full_disk_answers_nothing_that_is_not_stored_and_goes_on_when_there_is_room(tmp_path, disk):
    """A12: ledger and audit log on the disk that is full."""
    path = write_config(tmp_path / "service", table=f'ledger = "{disk / "people.ledger"}"')
    text = path.read_text("utf-8").replace('state = "state"', f'state = "{disk / "state"}"')
    path.write_text(text, encoding="utf-8")
    holder = Holder(configs.load(path), "people")

    def ask(number: int) -> dict:
        query = f"age < {10 * number}"
        return holder.call("ask", {"who": "anna", "role": "analyst", "query": query, "key": f"web:k{number}"})

    first = ask(3)
    spent = holder.call("ledger", {})["spent"]
    fill(disk)
    for number in (4, 5, 4, 5):
        with pytest.raises(LedgerError) as refusal:
            ask(number)
        assert status_of(refusal.value) == 503
        assert str(disk) not in words_of(refusal.value)
    (disk / "ballast").unlink()
    again = [ask(4), ask(5)]
    assert [ask(number)["value"] for number in (3, 4, 5)] == [
        first["value"],
        *(one["value"] for one in again),
    ]
    holder.call("verify", {})
    ledger = holder.call("ledger", {})
    assert ledger["spent"] <= spent + 2 * first["cost"] * 1.000001
    holder.close()
