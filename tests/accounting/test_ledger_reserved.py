"""What is reserved is told apart from what is spent, is not taken before a refusal, and can be given back."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import BudgetExceeded, LedgerError, MechanismError
from maquette.mechanisms.smalldb import PreparedSmallDb, SmallDb
from maquette.queries import prefixes
from support.cli_files import call, desk, refused
from support.ledger_cases import create, memory, pay

ROWS = 2000
ASKED_FIRST = 27_750
"""What a release by `smalldb` pays for the number of records before the mechanism runs, in millionths of epsilon 1."""
CHARGED = ASKED_FIRST + 95_000
"""With a tenth of what a mechanism has beside a certificate."""


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "people.ledger"


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    domain = Domain((Attribute("age", Kind.ORDINAL, codes=100),))
    return mq.open({"age": rng.integers(0, 100, ROWS).tolist()}, domain=domain)


def kept(path: Path) -> tuple[int, int, int]:
    """Charged, reserved and left, in millionths."""
    with Ledger.open(path) as ledger:
        ledger.verify()
        found = ledger.balance()
        return tuple(x // 10**6 for x in (found.charged_units, found.reserved_units, found.left_units))


def test_reserved_is_what_no_step_was_charged():
    ledger = memory(100)
    pay(ledger, "a", 10)
    pay(ledger, "whole", 50, envelope=True)
    pay(ledger, "inner", 30, parent="whole", envelope=True)
    pay(ledger, "look", 12, parent="inner")
    found = ledger.balance()
    assert (found.spent_units, found.reserved_units, found.charged_units, found.left_units) == (
        60,
        38,
        22,
        40,
    )
    assert [(e.entry.key, e.left.units) for e in ledger.open_envelopes()] == [("whole", 20), ("inner", 18)]
    ledger.settle("inner")
    assert ledger.balance().reserved_units == 38
    ledger.settle("whole")
    found = ledger.balance()
    assert (found.spent_units, found.reserved_units, found.left_units) == (22, 0, 78)


def test_an_envelope_inside_a_settled_one_gives_nothing_back_and_is_not_reserved():
    ledger = memory(100)
    pay(ledger, "whole", 50, envelope=True)
    pay(ledger, "inner", 30, parent="whole", envelope=True)
    ledger.settle("whole")
    found = ledger.balance()
    assert (found.spent_units, found.reserved_units, ledger.open_envelopes()) == (30, 0, [])
    ledger.settle("inner")
    assert ledger.spent_units == 30


def test_a_refusal_names_what_is_reserved():
    ledger = memory(100)
    pay(ledger, "whole", 60, envelope=True)
    with pytest.raises(
        BudgetExceeded, match=r"60\.0 % more is reserved .* maquette ledger settle gives back"
    ):
        pay(ledger, "b", 50)
    ledger.settle("whole")
    with pytest.raises(BudgetExceeded) as caught:
        pay(ledger, "b", 101)
    assert "reserved" not in str(caught.value)


@pytest.mark.slow
def test_settling_races_with_steps_and_never_gives_back_what_one_was_charged(path):
    """Steps and the settling of their envelope from two handles: a step is either charged or refused."""
    for number in range(20):
        place = path.with_name(f"{number}.ledger")
        with create(place, 100) as ledger, Ledger.open(place) as other:
            pay(ledger, "whole", 100, envelope=True)
            charged, together = [], threading.Barrier(2)

            def steps(ledger=ledger, charged=charged, together=together):
                together.wait()
                for step in range(20):
                    try:
                        charged.append(pay(ledger, f"whole/{step}", 1, parent="whole").units)
                    except LedgerError:
                        return

            thread = threading.Thread(target=steps)
            thread.start()
            together.wait()
            other.settle("whole")
            thread.join()
            ledger.verify()
            assert ledger.spent_units == sum(charged)
            with pytest.raises(LedgerError, match="pays for nothing more"):
                pay(ledger, "whole/late", 1, parent="whole")


@pytest.mark.parametrize("alpha", [1e-13, 0.0001])
def test_a_session_with_an_impossible_alpha_keeps_nothing_reserved(table, path, alpha):
    with pytest.raises(MechanismError, match="cannot be guaranteed"):
        mq.session(table, epsilon=1.0, alpha=alpha, ledger=path).ask("age < 30")
    charged, reserved, left = kept(path)
    assert reserved == 0
    assert left == 10**6 - charged
    assert charged in (0, 50_000)  # at most the number of records was bought, which decided it
    assert mq.session(table, epsilon=0.9, alpha=0.3, ledger=path).ask("age < 30").error <= 0.3


def test_where_the_number_of_records_is_public_nothing_is_written_for_it(table, path):
    with pytest.raises(MechanismError, match="can be planned on this table"):
        mq.session(table, epsilon=1.0, alpha=0.0001, relation="replace-one", ledger=path)
    assert kept(path) == (0, 0, 10**6)
    with Ledger.open(path) as ledger:
        assert not list(ledger.entries(kind="reserve"))


def test_a_session_on_another_table_reserves_nothing(table, path):
    mq.session(table, epsilon=0.1, total_epsilon=1.0, ledger=path)
    before = kept(path)
    other = mq.open({"age": [0] * ROWS}, domain=table.domain)
    with pytest.raises(LedgerError, match="another table"):
        mq.session(other, epsilon=0.5, ledger=path, key="other")
    assert kept(path) == before


def test_a_share_that_cannot_hold_its_session_is_not_set_aside(table, path):
    with pytest.raises(BudgetExceeded, match=r"share is 20\.0 %"):
        mq.session(table, epsilon=0.5, total_epsilon=1.0, analyst="ada", share=0.2, ledger=path)
    assert kept(path) == (0, 0, 10**6)


class _Refuses(PreparedSmallDb):
    def _run(self, curator, rng, progress):
        curator.size(price=self.task.price / 10)
        raise MechanismError("it cannot go on")


class Refuses(SmallDb):
    """A mechanism that buys the size and then finds that it cannot go on."""

    prepared_by = _Refuses


def test_a_release_that_is_refused_after_its_first_payment_gives_the_rest_back(table, path):
    with pytest.raises(MechanismError, match="cannot go on"):
        mq.release(table, prefixes(table.domain, "age"), epsilon=1.0, mechanism=Refuses(), ledger=path)
    charged, reserved, left = kept(path)
    assert (reserved, left) == (0, 10**6 - charged)
    assert charged == CHARGED


class _Breaks(PreparedSmallDb):
    def _run(self, curator, rng, progress):
        curator.size(price=self.task.price / 10)
        raise ZeroDivisionError


class Breaks(SmallDb):
    prepared_by = _Breaks


class _GoesOn(PreparedSmallDb):
    def _run(self, curator, rng, progress):
        curator.size(price=self.task.price / 10)
        curator.size(price=self.task.price / 20)


class GoesOn(SmallDb):
    prepared_by = _GoesOn


def test_a_release_that_broke_off_stays_reserved_until_it_is_settled(table, path):
    queries = prefixes(table.domain, "age")
    with pytest.raises(ZeroDivisionError):
        mq.release(table, queries, epsilon=1.0, mechanism=Breaks(), ledger=path, key="mine")
    assert kept(path) == (CHARGED, 10**6 - CHARGED, 0)
    with pytest.raises(BudgetExceeded, match=r"87\.7 % more is reserved"):
        mq.release(table, queries, epsilon=0.5, mechanism="laplace", ledger=path)
    with Ledger.open(path) as ledger:
        ledger.settle("mine")
    assert kept(path) == (CHARGED, 0, 10**6 - CHARGED)
    with pytest.raises(LedgerError, match="under another key"):
        mq.release(table, queries, epsilon=1.0, mechanism=GoesOn(), ledger=path, key="mine")
    release = mq.release(table, queries, epsilon=0.5, mechanism="laplace", ledger=path)
    assert release.account.spent == pytest.approx(0.5 + CHARGED / 10**6)
    assert release.account.reserved == 0


@pytest.mark.slow
def test_the_command_lists_ends_and_gives_back(tmp_path):
    place = desk(tmp_path)
    words = ("--domain", place.domain, "--total-epsilon", 3, "--ledger", place.ledger, "--quiet")
    assert call("ask", place.table, "--epsilon", 1, *words, "TRUE").code == 0
    with Ledger.open(place.ledger) as ledger:
        pay(ledger, "analyst-ada", 10**12, envelope=True)
        pay(ledger, "inner", 10**11, envelope=True, parent="analyst-ada")
        pay(ledger, "inner/0", 10**10, parent="inner")
    shown = call("ledger", "show", place.ledger)
    assert "% reserved" in shown.out
    assert "open, holds" in shown.out
    found = call("ledger", "show", place.ledger, "--json").json
    assert (found["spent"], found["reserved"], found["left"]) == (0.01, pytest.approx(1.99), 1.0)
    listed = call("ledger", "settle", place.ledger)
    assert "session-" in listed.out
    assert "inner" in listed.out
    assert place.spent() == 2.0
    refused(call("ledger", "settle", place.ledger, "nobody"), "no open release or session 'nobody'")
    done = call("ledger", "settle", place.ledger, "analyst-ada", "--json").json
    assert done["settled"] == ["inner", "analyst-ada"]
    assert done["given_back"] == 0.99
    assert call("ledger", "settle", place.ledger, "--all").code == 0
    assert place.spent() == 0.01
    assert "nothing is reserved" in call("ledger", "settle", place.ledger).out
    assert call("ledger", "verify", place.ledger).code == 0


@pytest.mark.slow
def test_a_release_tells_reserved_apart(tmp_path):
    place = desk(tmp_path)
    words = ("--domain", place.domain, "--total-epsilon", 4, "--ledger", place.ledger, "--quiet")
    assert call("ask", place.table, "--epsilon", 1, *words, "TRUE").code == 0
    done = place.release("--mechanism", "laplace")
    assert "25.0 % reserved" in done.out
    account = place.release("--mechanism", "laplace", "--json").json["account"]
    assert (account["total"], account["spent"], account["reserved"]) == (4.0, pytest.approx(1.0), 1.0)
    assert "reserved by others" in (place.place / "report.html").read_text(encoding="utf-8")
    assert mq.load(place.place).account.left == pytest.approx(2.0)
