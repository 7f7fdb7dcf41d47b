"""Borders of a ledger that usual work rarely touches: a forked process, a read-only medium, a server that refuses."""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget, Unit
from maquette.core.ledger import create, reading, receipts, store
from maquette.core.ledger.create import BEFORE_DOMAIN
from maquette.core.ledger.decide import MAX_ENVELOPE_KEY
from maquette.core.ledger.entry import Record, canonical, to_entry
from maquette.core.ledger.receipts import ChainState
from maquette.domain import Persons
from maquette.errors import LedgerError, ParameterError
from support import ledger_cases as cases
from support.ledger_tampering import tamper


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "survey.ledger"


def as_in_a_child(ledger: Ledger) -> None:
    """The ledger of a forked process remembers another process."""
    ledger._pid = -1


def test_a_body_has_one_text_whatever_its_order_and_letters():
    assert canonical({"b": "é", "a": [1, None]}) == '{"a":[1,null],"b":"\\u00e9"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})


# --- a forked process -----------------------------------------------------------------------------------------------


def test_a_child_opens_connections_of_its_own(path):
    with cases.create(path) as ledger:
        cases.pay(ledger, "a", 20)
        before = ledger._store.engine
        as_in_a_child(ledger)
        assert ledger.spent_units == 20
        assert ledger._store.engine is not before
        cases.pay(ledger, "b", 30)
        assert (ledger.spent_units, ledger._pid) == (50, os.getpid())


def test_a_child_that_never_used_a_ledger_leaves_no_connection(path):
    with cases.create(path) as ledger:
        ledger._store.close()
        as_in_a_child(ledger)
        assert ledger.spent_units == 0


def test_a_child_does_not_close_what_its_parent_uses(path):
    with cases.create(path) as ledger:
        before = ledger._store.engine
        as_in_a_child(ledger)
        ledger.close()
        assert ledger._store.engine is before
        ledger._pid = os.getpid()


def test_a_ledger_in_memory_is_not_shared_with_a_child():
    ledger = cases.memory()
    as_in_a_child(ledger)
    with pytest.raises(LedgerError, match="cannot be shared with a forked process"):
        cases.pay(ledger, "a")
    ledger._pid = os.getpid()
    assert ledger.spent_units == 0


# --- a place that cannot be written or read -------------------------------------------------------------------------


@pytest.mark.parametrize("with_log", [False, True])
def test_a_medium_without_writing_is_read_with_all_its_entries(path, with_log, monkeypatch):
    ledger = cases.create(path)
    cases.pay(ledger, "a", 20)
    if not with_log:
        ledger.close()
    assert Path(f"{path}-wal").exists() == with_log
    connect, places = store._connect, []

    def refuse_in_place(address: str) -> sqlite3.Connection:
        places.append(address)
        if len(places) == 1:  # as SQLite does where it may not make its log
            raise sqlite3.OperationalError("unable to open database file")
        return connect(address)

    monkeypatch.setattr(store, "_connect", refuse_in_place)
    monkeypatch.setattr(store.SqliteStore, "writable", property(lambda self: False))
    with Ledger.open(path) as again:
        assert again.spent_units == 20
        assert ("immutable" in places[1]) != with_log
        assert isinstance(again._store, store.SqliteStore)
        copy = again._store._copy
    assert (copy is not None) == with_log
    assert copy is None or not Path(copy.name).exists()
    ledger.close()


def test_a_path_through_a_file_is_refused(path):
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="Not a directory"):
        Ledger.open(path / "inside.ledger")


def test_a_file_that_may_not_be_read_is_refused(path, monkeypatch):
    cases.create(path).close()
    monkeypatch.setattr(store.os, "access", lambda place, mode: mode != os.R_OK)
    with pytest.raises(LedgerError, match="Permission denied"):
        Ledger.open(path)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, "cannot reach .* no connection"),
        ("53100", "no room"),
        ("58030", "cannot reach its disk"),
        ("25006", "read-only for this user"),
        ("42501", "read-only for this user"),
        ("28P01", "refused the user"),
        ("3D000", "no such database"),
        ("40001", "answered with SQLSTATE 40001; nothing was returned"),
    ],
)
def test_a_server_that_refuses_is_explained_without_its_text(state, words):
    server = store.locate("postgresql://reader:secret@127.0.0.1/survey")
    assert isinstance(server, store.PostgresStore)
    error = Exception("a text with a secret")
    error.orig = SimpleNamespace(sqlstate=state)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(LedgerError, match=words) as caught:
        raise LedgerError(server._explain(error))
    assert "secret" not in str(caught.value)


# --- taking turns ---------------------------------------------------------------------------------------------------


def test_a_queue_that_was_replaced_is_opened_again(path):
    path.touch()
    place = receipts.Turn(path)
    with place.acquired():
        assert place._handles is not None
    path.with_name(path.name + ".queue").unlink()
    with place.acquired() as handle:
        assert os.fstat(handle).st_nlink == 1
        assert place._handles is not None
        assert all(os.fstat(h).st_nlink for h in place._handles)
    place.forget()


def test_a_lock_that_fails_while_waiting_is_said_and_its_files_are_closed(path, monkeypatch):
    path.touch()
    place = receipts.Turn(path)

    def flock(handle: int, mode: int) -> None:
        if mode & receipts.fcntl.LOCK_NB:
            raise BlockingIOError
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(receipts.fcntl, "flock", flock)
    opened: list[tuple[int, int]] = []
    monkeypatch.setattr(receipts.Turn, "_opened", _noting(receipts.Turn._opened, opened))
    with pytest.raises(LedgerError, match="ENOLCK"), place.acquired():
        pass
    for handle in opened[0]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handle)


def _noting(method, seen):
    def noted(self):
        seen.append(method(self))
        return seen[-1]

    return noted


@pytest.mark.parametrize(("number", "raised"), [(errno.EROFS, LedgerError), (errno.EIO, OSError)])
def test_a_file_beside_the_ledger_that_cannot_be_made(path, monkeypatch, number, raised):
    path.touch()

    def no_file(*_arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(receipts.os, "open", no_file)
    with pytest.raises(raised):
        receipts._open_beside(path, ".queue")
    assert receipts.locks_fail(path) is None


# --- what was stored and is not whole -------------------------------------------------------------------------------


def test_a_slot_with_a_right_hash_and_wrong_contents_holds_nothing():
    text = b'{"opened": "x", "end": "no receipt"}'
    mark = ChainState.pack.__globals__["_MARK"]
    slot = mark + hashlib.sha256(text).hexdigest().encode() + b"\n" + text
    assert ChainState.unpack(slot) is None
    assert ChainState.unpack(slot[:-1]) is None


@pytest.mark.parametrize("body", ["[1]", "{", None])
def test_an_entry_whose_body_is_no_dictionary_cannot_be_read(body):
    row = dict.fromkeys(
        ("kind", "key", "parent", "tag", "request", "envelope", "payload_sha256", "prev", "head", "created"),
        "x",
    )
    with pytest.raises(LedgerError, match="entry 7 of the ledger was edited"):
        to_entry({**row, "seq": 7, "units": 1, "slack": 0, "body": body})


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE account SET name = x'00'", "its account cannot be read"),
        ("UPDATE account SET spent = 'many'", "its account cannot be read"),
        ("UPDATE entry SET units = 500 WHERE parent IS NOT NULL", "paid for more than it holds|broken"),
        ("UPDATE entry SET units = 'many' WHERE seq = (SELECT max(seq) FROM entry)", "broken|edited"),
    ],
)
def test_an_edited_ledger_pays_for_nothing(path, statement, words):
    with cases.create(path) as ledger:
        cases.pay(ledger, "part", 50, envelope=True)
        cases.pay(ledger, "a", 10, parent="part")
    tamper(path, statement)
    with pytest.raises(LedgerError, match=words), Ledger.open(path) as again:
        cases.pay(again, "b", 10, parent="part")


# --- what a ledger is made for --------------------------------------------------------------------------------------


def test_a_ledger_of_single_records_is_not_one_of_persons(path):
    ledger = cases.memory()
    with pytest.raises(LedgerError, match="protects single records"):
        ledger.require(
            relation=ledger.relation, domain_fingerprint=ledger.domain_fingerprint, persons=Persons("who", 2)
        )


def test_a_ledger_before_its_domain_is_bound_to_raw_columns_once(path):
    with cases.create(path, domain_fingerprint=BEFORE_DOMAIN) as ledger:
        assert (ledger.raw_table, ledger.awaits_domain) == (((), None), True)
        ledger.bind_raw(["age", "sex"], "c1")
        ledger.bind_raw(["age", "sex"], "c1")
        assert ledger.raw_table == (("age", "sex"), "c1")
        with pytest.raises(LedgerError):
            ledger.bind_raw(["age", "sex"], "c2")
        ledger.declare("f1")
        with pytest.raises(LedgerError, match="has another domain already"):
            ledger.declare("f2")
        assert (ledger.domain_fingerprint, ledger.awaits_domain) == ("f1", False)


def test_a_ledger_of_a_declared_domain_pays_for_no_discovery():
    ledger = cases.memory()
    assert ledger.raw_table == ((), None)
    with pytest.raises(LedgerError, match="made for a declared domain"):
        ledger.declare("f")


def test_an_envelope_leaves_room_for_the_keys_of_its_parts():
    ledger = cases.memory()
    cases.pay(ledger, "k" * MAX_ENVELOPE_KEY, envelope=True)
    with pytest.raises(ParameterError, match="leaves room"):
        cases.pay(ledger, "k" * (MAX_ENVELOPE_KEY + 1), envelope=True)
    assert ledger.spent_units == 1


def test_many_parts_are_read_page_by_page():
    ledger = cases.memory(2 * reading._PAGE)
    cases.pay(ledger, "all", 2 * reading._PAGE, envelope=True)
    parts = [f"part {i}" for i in range(reading._PAGE + 3)]
    ledger.record_all([Record(key, cases.digest(key), "pure", {}, b"") for key in parts], parent="all")
    assert [entry.key for entry in ledger.children("all")] == parts


def test_a_store_of_an_unknown_kind_makes_no_ledger():
    with pytest.raises(TypeError, match="str"):
        create.create("survey.ledger", None)  # pyright: ignore[reportArgumentType]


def test_a_budget_too_small_for_many_records_per_person():
    assert Budget(1.0).row_units(2) == Budget(0.5).total_units
    with pytest.raises(ParameterError, match="too small for"):
        Budget(1e-9, 0.0).row_units(10**6)


def test_thresholds_are_counted_by_zcdp_only():
    with pytest.raises(ParameterError, match="needs the accounting 'zcdp'"):
        Budget(1.0, 1e-9, "gaussian", thresholds=True)


def test_a_delta_that_publishes_records_is_named():
    assert Budget(1.0, 1e-9).weaknesses == ()
    (note,) = Budget(1.0, 0.01).weaknesses
    assert "one record in 100" in note


def test_a_unit_shows_its_word():
    assert repr(Unit.EPSILON) == "'epsilon'"
