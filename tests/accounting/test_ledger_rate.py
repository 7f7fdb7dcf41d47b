"""How often an envelope may be drawn on: counted in the transaction that writes, over all threads and objects."""

from __future__ import annotations

import re
import threading
from datetime import timedelta

import pytest

from maquette.accounting import Cost
from maquette.accounting.ledger import Ledger, Rate, Record
from maquette.errors import ParameterError, RateExceeded
from support.ledger_cases import create, digest, memory, pay
from support.ledger_clock import stop_the_clock


def opened(ledger: Ledger, key: str = "anna", units: int = 50) -> None:
    pay(ledger, key, units, envelope=True)


def record(ledger: Ledger, key: str, parent: str = "anna") -> None:
    ledger.record(
        key, request=digest(key), tag="pure", cost=Cost(0), body={}, payload=b"value", parent=parent
    )


def test_what_is_above_the_rate_is_refused_and_leaves_no_trace():
    ledger = memory()
    opened(ledger)
    ledger.limit("anna", Rate(3, 3600))
    for i in range(3):
        pay(ledger, f"anna/{i}", 2, parent="anna")
    before = ledger.balance()
    with pytest.raises(RateExceeded, match="at most 3 new steps in 3,600 s") as refusal:
        pay(ledger, "anna/3", 2, parent="anna")
    assert 3590 < refusal.value.seconds <= 3600
    assert ledger.balance() == before
    assert ledger.find("anna/3") is None
    ledger.verify()


def test_a_repeat_is_no_new_step():
    ledger = memory()
    opened(ledger)
    ledger.limit("anna", Rate(1, 3600))
    first = pay(ledger, "anna/0", parent="anna")
    again = pay(ledger, "anna/0", parent="anna")
    assert (again.seq, again.fresh) == (first.seq, False)


def test_values_that_cost_nothing_count_too():
    ledger = memory()
    opened(ledger)
    ledger.limit("anna", Rate(2, 3600))
    record(ledger, "anna/0")
    record(ledger, "anna/1")
    with pytest.raises(RateExceeded):
        record(ledger, "anna/2")


def test_of_several_values_all_are_written_or_none():
    ledger = memory()
    opened(ledger)
    ledger.limit("anna", Rate(2, 3600))
    records = [Record(f"anna/{i}", digest(str(i)), "pure", {}, b"x") for i in range(3)]
    with pytest.raises(RateExceeded):
        ledger.record_all(records, parent="anna")
    assert ledger.find("anna/0") is None
    assert len(ledger.record_all(records[:1], parent="anna")) == 1  # the refusal counts as one step


def test_refusals_count_and_the_seconds_are_whole_and_enough(monkeypatch):
    ahead, ledger = stop_the_clock(monkeypatch), memory()
    opened(ledger)
    ledger.limit("anna", Rate(3, 60))
    for i in range(3):
        ahead[0] = timedelta(seconds=2.3 * i)
        pay(ledger, f"anna/{i}", parent="anna")
    ahead[0] = timedelta(seconds=10.5)
    entries = len(list(ledger.entries()))
    with pytest.raises(RateExceeded) as refusal:
        pay(ledger, "anna/3", parent="anna")
    seconds = refusal.value.seconds
    assert (
        seconds == int(seconds) == 52
    )  # until the second is 60 s old: the first gives its room to this refusal
    assert re.search(r"ask again in 52 s$", str(refusal.value))
    ahead[0] += timedelta(seconds=51)
    ledger.limit("anna", Rate(3, 60))  # the same again changes nothing
    with pytest.raises(RateExceeded):
        pay(ledger, "anna/3", parent="anna")
    assert len(list(ledger.entries())) == entries, "a refusal is no entry"
    ahead[0] += timedelta(seconds=refusal.value.seconds)
    pay(ledger, "anna/3", parent="anna")
    pay(ledger, "anna/4", parent="anna")
    for _ in range(10):
        with pytest.raises(RateExceeded):
            pay(ledger, "anna/5", parent="anna")
    ahead[0] += timedelta(seconds=61)
    for i in range(5, 8):  # no more than the rate is remembered, and all of it passes
        pay(ledger, f"anna/{i}", parent="anna")


def test_room_is_what_fits_and_more_at_once_than_ever_fits_is_said():
    ledger = memory()
    opened(ledger)
    assert ledger.room("anna") is None
    ledger.limit("anna", Rate(3, 3600))
    record(ledger, "anna/0")
    assert ledger.room("anna") == 2
    records = [Record(f"anna/{i}", digest(str(i)), "pure", {}) for i in range(1, 5)]
    with pytest.raises(RateExceeded, match="this request has 4: ask fewer at once"):
        ledger.begin_all(records, parent="anna")
    assert ledger.room("anna") == 1


def test_others_are_not_held_up_and_the_limit_can_be_lifted():
    ledger = memory()
    opened(ledger, "anna", 20)
    opened(ledger, "bert", 20)
    ledger.limit("anna", Rate(1, 3600))
    pay(ledger, "anna/0", parent="anna")
    with pytest.raises(RateExceeded):
        pay(ledger, "anna/1", parent="anna")
    pay(ledger, "bert/0", parent="bert")
    pay(ledger, "top")
    ledger.limit("anna", None)
    pay(ledger, "anna/1", parent="anna")


def test_time_gives_back(monkeypatch):
    ahead, ledger = stop_the_clock(monkeypatch), memory()
    opened(ledger)
    ledger.limit("anna", Rate(1, 60))
    pay(ledger, "anna/0", parent="anna")
    ahead[0] = timedelta(seconds=61)
    pay(ledger, "anna/1", parent="anna")


def test_entries_of_another_object_on_the_file_count(tmp_path):
    ledger = create(tmp_path / "a.ledger")
    opened(ledger)
    pay(Ledger.open(tmp_path / "a.ledger"), "anna/0", parent="anna")
    ledger.limit("anna", Rate(1, 3600))
    with pytest.raises(RateExceeded):
        pay(ledger, "anna/1", parent="anna")


def test_threads_that_share_a_commit_share_the_rate(tmp_path):
    ledger = create(tmp_path / "a.ledger")
    opened(ledger, units=90)
    ledger.limit("anna", Rate(10, 3600))
    refusals: list[RateExceeded] = []

    def ask(i: int) -> None:
        try:
            pay(ledger, f"anna/{i}", parent="anna")
        except RateExceeded as error:
            refusals.append(error)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refusals) == 22
    assert len(list(ledger.entries(parent="anna"))) == 10
    ledger.verify()


@pytest.mark.parametrize("numbers", [(0, 60), (1, 0), (1.5, 60)])
def test_a_rate_is_two_whole_numbers(numbers):
    with pytest.raises(ParameterError):
        Rate(*numbers)
