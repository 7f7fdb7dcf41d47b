"""Edits, cuts, reordering and forks, made with the database's own tools, are all found by verify."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from maquette.accounting import Cost
from maquette.accounting.ledger import Ledger, Receipt
from maquette.core.ledger import entry, schema
from maquette.errors import LedgerError
from support.ledger_cases import create, pay
from support.ledger_postgres import new_database
from support.ledger_tampering import tamper

ENTRY_COLUMNS = list(schema.entry.c.keys())
ACCOUNT_COLUMNS = list(schema.account.c.keys())
LENGTH = 11


def write_history(ledger: Ledger) -> None:
    """One entry of every kind, with envelopes, children and answers."""
    ledger.bind("c" * 64)
    pay(ledger, "a", 10)
    ledger.answer("a", b"first")
    pay(ledger, "whole", 50, envelope=True)
    pay(ledger, "part", 20, parent="whole")
    ledger.answer("part", b"second")
    pay(ledger, "inner", 10, parent="whole", envelope=True)
    ledger.settle("inner")
    ledger.settle("whole")
    pay(ledger, "b", 5)


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("original") / "survey.ledger"
    with create(path, 100) as ledger:
        write_history(ledger)
        assert ledger.receipt().seq == LENGTH
    return path


@pytest.fixture
def copy(original, tmp_path) -> Path:
    return Path(shutil.copy(original, tmp_path / "survey.ledger"))


def value_at(path: Path, table: str, column: str, where: str = "TRUE") -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone()[0]


def changed(value: object) -> object:
    match value:
        case None:
            return "x"
        case int():
            return value + 1
        case bytes():
            return bytes([value[0] ^ 1]) + value[1:]
        case _:
            text = str(value)
            return text[:-1] + ("0" if text[-1:] != "0" else "1") if text else "x"


def open_and_verify(path: Path, receipt: Receipt | None = None) -> Receipt:
    with Ledger.open(path) as ledger:
        return ledger.verify(receipt)


def test_an_untouched_copy_verifies(copy):
    assert open_and_verify(copy).seq == LENGTH


@pytest.mark.slow
@pytest.mark.parametrize("seq", range(1, LENGTH + 1))
@pytest.mark.parametrize("column", [c for c in ENTRY_COLUMNS if c != "seq"])
def test_an_edit_of_any_field_of_any_entry_is_found_there(copy, seq, column):
    old = value_at(copy, "entry", column, f"seq = {seq}")
    tamper(copy, f"UPDATE entry SET {column} = ? WHERE seq = {seq}", parameters=(changed(old),))
    with pytest.raises(LedgerError, match=rf"entry {seq}\b"):
        open_and_verify(copy)


@pytest.mark.parametrize("column", ["units", "slack", "envelope", "body", "tag"])
def test_values_of_another_type_are_found(copy, column):
    tamper(copy, f"UPDATE entry SET {column} = ? WHERE seq = 3", parameters=(b"\xff\x00",))
    with pytest.raises(LedgerError, match="entry 3: "):
        open_and_verify(copy)


@pytest.mark.parametrize("column", ACCOUNT_COLUMNS)
def test_an_edit_of_any_field_of_the_account_is_found(copy, column):
    old = value_at(copy, "account", column)
    tamper(copy, f"UPDATE account SET {column} = ?", parameters=(changed(old),))
    with pytest.raises(LedgerError):
        open_and_verify(copy)


@pytest.mark.parametrize("seq", range(1, LENGTH + 1))
def test_a_missing_entry_is_found(copy, seq):
    tamper(copy, f"DELETE FROM entry WHERE seq = {seq}")
    with pytest.raises(LedgerError, match=rf"entry {seq}\b|end of the ledger's chain is broken"):
        open_and_verify(copy)


@pytest.mark.parametrize("seq", range(2, LENGTH))
def test_two_entries_in_exchanged_places_are_found(copy, seq):
    tamper(
        copy,
        f"UPDATE entry SET seq = 1000 WHERE seq = {seq}",
        f"UPDATE entry SET seq = {seq} WHERE seq = {seq + 1}",
        f"UPDATE entry SET seq = {seq + 1} WHERE seq = 1000",
    )
    with pytest.raises(LedgerError, match=rf"entry {seq}\b|end of the ledger's chain is broken"):
        open_and_verify(copy)


def test_an_inserted_entry_is_found(copy):
    columns = ", ".join(c for c in ENTRY_COLUMNS if c not in ("seq", "key"))
    tamper(
        copy,
        f"INSERT INTO entry (seq, key, {columns}) SELECT {LENGTH + 1}, 'z', {columns} FROM entry WHERE seq = 3",
    )
    with pytest.raises(LedgerError, match="end of the ledger's chain is broken"):
        open_and_verify(copy)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payload SET data = x'00' WHERE key = 'a'",
        "UPDATE payload SET data = (SELECT data FROM payload WHERE key = 'part') WHERE key = 'a'",
        "DELETE FROM payload WHERE key = 'a'",
        "UPDATE payload SET key = 'z' WHERE key = 'a'",
    ],
)
def test_a_changed_or_lost_answer_is_found_and_not_returned(copy, statement):
    tamper(copy, statement)
    with pytest.raises(LedgerError, match="entry 4: its stored answer is lost or changed"):
        open_and_verify(copy)
    with (
        Ledger.open(copy) as ledger,
        pytest.raises(LedgerError, match="stored answer of key 'a' is lost or changed"),
    ):
        pay(ledger, "a", 10)


def test_an_answer_that_nobody_reserved_is_found(copy):
    tamper(copy, "INSERT INTO payload VALUES ('z', x'00')")
    with pytest.raises(LedgerError, match="stored answers that no entry"):
        open_and_verify(copy)


def cut_back(path: Path, seq: int) -> None:
    """A clean cut: the account is set back to match, as an older backup would be."""
    entries = f"FROM entry WHERE seq = {seq}"
    tamper(
        path,
        f"DELETE FROM payload WHERE key IN (SELECT key FROM entry WHERE kind = 'answer' AND seq > {seq})",
        f"DELETE FROM entry WHERE seq > {seq}",
        f"UPDATE account SET seq = {seq}, head = (SELECT head {entries})",
        "UPDATE account SET spent = "
        "(SELECT coalesce(sum(units), 0) FROM entry WHERE kind = 'reserve' AND parent IS NULL)"
        " - (SELECT coalesce(sum(units), 0) FROM entry WHERE kind = 'settle' AND key = 'whole')",
        f"UPDATE account SET commitment = NULL WHERE {seq} < 2",
    )


@pytest.mark.parametrize("seq", range(1, LENGTH))
def test_a_clean_cut_is_found_by_whoever_holds_a_later_receipt(copy, seq):
    with Ledger.open(copy) as ledger:
        kept, earlier = ledger.receipt(), Receipt(1, next(ledger.entries()).head)
    cut_back(copy, seq)
    assert open_and_verify(copy, earlier).seq == seq  # in itself it is a whole, older ledger
    with pytest.raises(LedgerError, match=f"no entry in the place of the receipt's entry {LENGTH}"):
        open_and_verify(copy, kept)


@pytest.mark.parametrize("seq", range(2, LENGTH))
def test_a_fork_is_found_by_whoever_holds_a_receipt_of_the_other_branch(copy, seq):
    with Ledger.open(copy) as ledger:
        kept = ledger.receipt()
    cut_back(copy, seq)
    with Ledger.open(copy) as ledger:
        for number in range(LENGTH - seq + 2):
            pay(ledger, f"another-{number}", 1)
        assert ledger.verify().seq > LENGTH
        with pytest.raises(LedgerError, match="another entry in the place of the receipt's"):
            ledger.verify(kept)


@pytest.mark.parametrize("seq", range(1, LENGTH))
def test_a_history_rewritten_with_new_hashes_is_found_by_a_receipt(copy, seq):
    with Ledger.open(copy) as ledger:
        kept = ledger.receipt()
    with closing(sqlite3.connect(copy)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM entry ORDER BY seq")]
    prev = entry.GENESIS
    for row in rows:
        row["prev"] = prev
        if row["seq"] == seq:
            row["created"] = "2000-01-01T00:00:00.000+00:00"
        row["head"] = prev = entry.head_of(row)
        tamper(
            copy,
            f"UPDATE entry SET prev = ?, head = ?, created = ? WHERE seq = {row['seq']}",
            parameters=(row["prev"], row["head"], row["created"]),
        )
    tamper(copy, "UPDATE account SET head = ?", parameters=(prev,))
    assert open_and_verify(copy).head == prev
    with pytest.raises(LedgerError, match="another entry in the place of the receipt's"):
        open_and_verify(copy, kept)


@pytest.mark.parametrize(
    ("seq", "change", "reason"),
    [
        (3, {"units": 101}, "overspends the budget"),
        (6, {"units": 51}, "overspends its parent"),
        (6, {"parent": "a"}, "its parent is not open"),
        (6, {"parent": "nobody"}, "its parent is not open"),
        (4, {"key": "nobody"}, "answers nothing that was reserved"),
        (10, {"units": 99}, "gives back the wrong amount"),
        (10, {"key": "a"}, "settles no open envelope"),
        (11, {"key": "a"}, "its key is reserved twice"),
        (11, {"kind": "open"}, "does not begin with its opening"),
        (11, {"kind": "bind", "body": '{"commitment":"x"}'}, "bound twice"),
        (1, {"units": 1000}, "differs from the one that was opened"),
        (2, {"body": "{}"}, "its contents cannot be read"),
    ],
)
def test_a_rewritten_history_must_still_follow_the_rules(copy, seq, change, reason, monkeypatch):
    """New hashes do not help where the entries themselves break a rule."""
    monkeypatch.setattr(
        "maquette.core.ledger.create.check_schema", lambda *_, **__: None
    )  # what comes after it is tested here
    with closing(sqlite3.connect(copy)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM entry ORDER BY seq")]
    tamper(copy, "DELETE FROM entry", "DROP INDEX entry_parent")
    tamper(
        copy,
        "CREATE TABLE other AS SELECT * FROM entry",
        "DROP TABLE entry",
        "ALTER TABLE other RENAME TO entry",
    )
    prev = entry.GENESIS
    for row in rows:
        row |= change if row["seq"] == seq else {}
        row["prev"] = prev
        row["head"] = prev = entry.head_of(row)
        marks = ", ".join("?" for _ in row)
        tamper(copy, f"INSERT INTO entry ({', '.join(row)}) VALUES ({marks})", parameters=tuple(row.values()))
    tamper(copy, "UPDATE account SET head = ?", parameters=(prev,))
    with pytest.raises(LedgerError, match=f"entry {seq}: .*{reason}"):
        open_and_verify(copy)


def test_an_index_that_hides_a_reservation_is_found(copy, monkeypatch):
    """Whoever damages the index by which keys are found could have a key charged twice."""
    monkeypatch.setattr(
        "maquette.core.ledger.create.check_schema", lambda *_, **__: None
    )  # it would see the other table
    tamper(
        copy,
        "CREATE TABLE other AS SELECT * FROM entry",
        "CREATE UNIQUE INDEX other_once ON other (key, kind)",
    )
    pages = dict(_pages(copy))
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("DELETE FROM other WHERE key = 'a'")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET rootpage = ? WHERE name = 'sqlite_autoindex_entry_1'",
            (pages["other_once"],),
        )
    with pytest.raises(LedgerError, match="the database finds its tables or indexes broken"):
        open_and_verify(copy)


def _pages(path: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT name, rootpage FROM sqlite_master").fetchall()


def test_an_edited_end_stops_the_ledger_from_paying(copy):
    with Ledger.open(copy) as ledger:
        tamper(copy, f"UPDATE entry SET units = 0 WHERE seq = {LENGTH}")
        with pytest.raises(LedgerError, match="end of the ledger's chain is broken"):
            pay(ledger, "z", 1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET units = 0",
        "DELETE FROM entry",
        "UPDATE payload SET data = x'00'",
        "DELETE FROM payload",
        "DELETE FROM account",
        "UPDATE account SET total = 1000000",
        "UPDATE account SET salt = x'00'",
        "UPDATE account SET spent = -1",
        "UPDATE account SET spent = total + 1",
    ],
)
def test_the_database_itself_refuses_to_forget(copy, statement):
    with closing(sqlite3.connect(copy)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)


@pytest.mark.server
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET units = 0",
        "DELETE FROM entry",
        "TRUNCATE entry",
        "UPDATE payload SET data = ''",
        "DELETE FROM payload",
        "TRUNCATE payload",
        "DELETE FROM account",
        "TRUNCATE account",
        "UPDATE account SET total = 1000000",
        "UPDATE account SET spent = -1",
        "UPDATE account SET spent = total + 1",
    ],
)
def test_postgresql_refuses_to_forget(postgres_history, statement):
    import psycopg

    with (
        psycopg.connect(postgres_history.replace("+psycopg", "")) as connection,
        pytest.raises(psycopg.Error),
    ):
        connection.execute(statement.encode())


@pytest.mark.server
@pytest.mark.parametrize("column", ["units", "body", "created", "head", "key"])
def test_an_edit_in_postgresql_is_found(postgres_history, column):
    import psycopg

    ledger = Ledger.open(postgres_history)
    edit = {"units": "units + 1"}.get(column, f"{column} || ' '")
    with psycopg.connect(postgres_history.replace("+psycopg", "")) as connection:
        for change, raises in ((edit, True), (None, False)):
            if change is not None:
                connection.execute("ALTER TABLE entry DISABLE TRIGGER USER")
                old = connection.execute(f"SELECT {column} FROM entry WHERE seq = 5".encode()).fetchone()
                connection.execute(f"UPDATE entry SET {column} = {change} WHERE seq = 5".encode())
            else:
                connection.execute(f"UPDATE entry SET {column} = %s WHERE seq = 5".encode(), old)
                connection.execute("ALTER TABLE entry ENABLE TRIGGER USER")
            connection.commit()
            if raises:
                with pytest.raises(LedgerError, match="entry 5: "):
                    ledger.verify()
            else:
                ledger.verify()
    ledger.close()


@pytest.fixture(scope="module")
def postgres_history() -> str:
    location = new_database()
    with create(location, 100) as ledger:
        write_history(ledger)
        assert ledger.balance().left_units == 100 - 10 - 20 - 5
        assert Cost(35).units == ledger.spent_units
    return location


@pytest.mark.server
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER foreign_one AFTER INSERT ON entry FOR EACH ROW EXECUTE FUNCTION ledger_refuse()",
        "ALTER TABLE account DISABLE TRIGGER account_fixed",
        "ALTER TABLE account DROP CONSTRAINT account_never_overspent",
        "ALTER TABLE entry ADD COLUMN more TEXT",
        "CREATE RULE quiet AS ON UPDATE TO account DO INSTEAD NOTHING",
        "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    ],
)
def test_a_changed_schema_in_postgresql_is_refused(statement):
    import psycopg

    location = new_database()
    create(location, 5).close()
    Ledger.open(location).close()
    with psycopg.connect(location.replace("+psycopg", "")) as connection:
        connection.execute(statement.encode())
    with pytest.raises(LedgerError, match=r"(lacks|has a foreign|has another) .*: its database was changed"):
        Ledger.open(location)
