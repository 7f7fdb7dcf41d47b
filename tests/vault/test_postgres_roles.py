"""PostgreSQL under a role that can only read, on a real server: rights, passwords, releases, persons."""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import maquette as mq
from maquette.cli.app import app
from maquette.domain import Attribute, Domain, Kind, Persons
from maquette.errors import SourceError
from maquette.vault.readers import open_engine
from support.hostile_tables import all_looks
from support.pages import ROOT

pytestmark = pytest.mark.server

DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=5), Attribute("b", Kind.ORDINAL, codes=5)))
PASSWORD = "hunter2-swordfish"


def role_of_the_page(url: str, database: str) -> str:
    """The SQL that docs/sources.md gives, run on this server; the address of the role that it makes."""
    page = (ROOT / "docs" / "sources.md").read_text("utf-8")
    (script,) = re.findall(r"^```sql\n(CREATE ROLE.*?)^```$", page, re.DOTALL | re.MULTILINE)
    script = script.replace("hospital", database).replace("'...'", f"'{PASSWORD}'")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY maquette_reader" if _has_role(connection) else "SELECT 1")
        connection.execute("DROP ROLE IF EXISTS maquette_reader")
        connection.execute(script)
    return url.replace("postgres@", f"maquette_reader:{PASSWORD}@")


def _has_role(connection: Any) -> bool:
    return (
        connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'maquette_reader'").fetchone() is not None
    )


@pytest.fixture
def reader(url: str, owner: Any) -> str:
    (database,) = owner.execute("SELECT current_database()").fetchone()
    return role_of_the_page(url, database)


WRITES = [
    "INSERT INTO people VALUES (1, 1)",
    "UPDATE people SET a = 1",
    "DELETE FROM people",
    "TRUNCATE people",
    "CREATE TABLE public.x (i int)",
    "CREATE TEMP TABLE y (i int)",
    "SELECT * FROM pg_authid",
    "SELECT pg_read_file('/etc/passwd')",
    "COPY people TO '/dev/null'",
]


def test_the_role_of_the_page_can_only_read(url: str, reader: str, owner: Any):
    assert open_engine(reader, DOMAIN, table="public.people").size() == 3000
    assert mq.open(reader, domain=DOMAIN, table="public.people").name.endswith(":public.people")
    for address, allowed in ((reader, False), (url, True)):
        for statement in WRITES:
            with psycopg.connect(address) as connection:
                connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
                connection.commit()
                try:
                    connection.execute(statement)
                except psycopg.errors.InsufficientPrivilege:
                    assert not allowed, statement
                else:
                    assert allowed, statement
                connection.rollback()
    with psycopg.connect(reader) as connection:
        assert connection.execute("SHOW transaction_read_only").fetchone() == ("on",)


def check(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["source", "check", *arguments])


def test_source_check_warns_of_a_role_that_could_write(url: str, reader: str, owner: Any):
    quiet = check(reader, "--table", "public.people")
    assert (quiet.exit_code, quiet.output.splitlines()[1:]) == (0, ["no warnings"])
    found = json.loads(check(url, "--table", "people", "--json").output)
    assert found["columns"] == 2
    words = " ".join(found["warnings"])
    for part in (
        "superuser",
        "owns the table",
        "may write to the table",
        "may create",
        "temporary",
        "read-only",
    ):
        assert part in words
    for grant, warning in {
        "GRANT INSERT (a) ON people TO maquette_reader": "may write to the table",
        "CREATE TABLE IF NOT EXISTS other (i int); GRANT DELETE ON other TO maquette_reader": "1 other table",
        "GRANT CREATE ON SCHEMA public TO maquette_reader": "may create",
        "GRANT pg_write_all_data TO maquette_reader": "pg_write_all_data",
        "ALTER ROLE maquette_reader RESET default_transaction_read_only": "read-only",
    }.items():
        owner.execute(grant)
        assert warning in check(reader, "--table", "people").output
    files = check("people.csv")
    assert files.exit_code == 2


def test_no_password_is_shown_or_stored(reader: str, owner: Any, monkeypatch: pytest.MonkeyPatch):
    """In messages, names, ledgers, folders, reports and evaluations; also where it stands as a parameter."""
    domain = {
        "attributes": [
            {"name": "a", "kind": "ordinal", "size": 5},
            {"name": "b", "kind": "ordinal", "size": 5},
        ]
    }
    beside = reader.replace(f":{PASSWORD}", "") + f"&password={PASSWORD}"
    with tempfile.TemporaryDirectory() as place:
        monkeypatch.chdir(place)
        Path("d.json").write_text(json.dumps(domain))
        said = ""
        for i, address in enumerate((reader, beside)):
            chosen = ["-d", "d.json", "--epsilon", "1", "--table", "public.people", "--marginals", "1"]
            done = run("release", address, *chosen, "--ledger", f"{i}.ledger", "-o", f"r{i}")
            again = run("evaluate", f"r{i}", address, "--table", "public.people")
            assert (done.exit_code, again.exit_code) == (0, 0), done.output + again.output
            asked = run(
                "ask",
                address,
                "a = 1",
                "--epsilon",
                "1",
                "-d",
                "d.json",
                "--table",
                "public.people",
                "--ledger",
                f"s{i}.ledger",
            )
            assert asked.exit_code in (0, 3), asked.output
            drafted = run("domain", "draft", address, "--table", "public.people")
            fit = run("domain", "check", "d.json", "--table", address, "--name", "public.people")
            assert (drafted.exit_code, fit.exit_code) == (0, 0)
            said += done.output + again.output + asked.output + drafted.output + fit.output
            wrong = [
                "--table",
                "nobody",
                "-d",
                "d.json",
                "--epsilon",
                "1",
                "--marginals",
                "1",
                "--ledger",
                "w.ledger",
            ]
            for bad in (
                address,
                address.replace("/ledger", "/none/"),
                address.replace("postgresql", "mysql"),
                address.replace("maquette_reader", "stranger"),
                address.replace("hunter2", "%zz-hunter2"),
            ):
                refused = run("release", bad, *wrong)
                assert refused.exit_code == 2, refused.output
                said += refused.output + repr(refused.exception)
        no_ledger = run(
            "release",
            reader,
            "-d",
            "d.json",
            "--epsilon",
            "1",
            "--table",
            "public.people",
            "--marginals",
            "1",
        )
        assert no_ledger.exit_code == 2
        said += no_ledger.output
        files = [path for path in Path(place).rglob("*") if path.is_file()]
        names = " ".join(str(path) for path in Path(place).rglob("*"))
        stored = b" ".join(path.read_bytes() for path in files)
        assert len(files) > 10
    for part in ("hunter2", "swordfish"):
        assert part not in said + names
        assert part.encode() not in stored
    assert re.search(r"public\.people", said)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_a_release_is_repeated_and_a_changed_table_is_another(reader: str, owner: Any, tmp_path: Path):
    """A ledger that lies on the same server, under its owner's role."""
    table = mq.open(reader, domain=DOMAIN, table="people", memory_limit=0)
    ledger = tmp_path / "l.ledger"
    workload = mq.marginals(DOMAIN, k=2)
    first = mq.release(table, workload, epsilon=1.0, ledger=ledger, mechanism="sculpt")
    owner.execute("INSERT INTO people VALUES (4, 4)")
    again = mq.release(table, workload, epsilon=1.0, ledger=ledger, mechanism="sculpt")
    assert again.answers.numerators.tolist() == first.answers.numerators.tolist()
    late = mq.open(reader, domain=DOMAIN, table="people", memory_limit=0)
    with pytest.raises(mq.LedgerError, match="another table"):
        mq.release(late, workload, epsilon=1.0, ledger=ledger, mechanism="sculpt")


def test_a_release_that_lost_its_snapshot_goes_on_with_a_new_handle(reader: str, owner: Any, tmp_path: Path):
    """What was answered stays paid and is not asked again; a look that was lost is charged again, to the total."""
    ledger, asked = tmp_path / "l.ledger", mq.marginals(DOMAIN, k=2)
    ask: Any = {"epsilon": 1.0, "delta": 1e-9, "ledger": ledger, "mechanism": "residual"}
    ask |= {"total_epsilon": 4.0, "total_delta": 1e-8}
    table = mq.open(reader, domain=DOMAIN, table="people", memory_limit=0)
    source: Any = table._engine._source

    def end(_what: str, _share: float) -> None:
        owner.execute("SELECT pg_terminate_backend(%s)", (source._snapshot[0],))

    for _ in range(2):  # the handle stays lost
        with pytest.raises(SourceError, match="snapshot that was opened is lost"):
            mq.release(table, asked, progress=end, **ask)
    with mq.Ledger.open(ledger) as book:
        before = book.balance()
        assert before.reserved_units > 0
    again = mq.open(reader, domain=DOMAIN, table="people", memory_limit=0)
    made = mq.release(again, asked, **ask)
    with mq.Ledger.open(ledger) as book:
        after = book.balance()
        again_units = sum(one.units for one in book.entries(kind="reserve") if "/again/" in one.key)
    assert after.reserved_units == 0
    assert again_units > 0
    assert before.charged_units < after.charged_units
    assert after.charged_units <= before.charged_units + before.reserved_units + again_units
    assert len(made.answers.fractions) == asked.count


def test_a_wrong_password_is_refused_in_words_without_it(url: str, owner: Any):
    """With a server that asks for one; the rules of the others stay as they are."""
    (name,) = owner.execute("SHOW hba_file").fetchone()
    rules, file = Path(name).read_text(), Path(name)
    owner.execute("DROP ROLE IF EXISTS locked")
    owner.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
    address = url.replace("postgres@", "locked:mistaken@")
    try:
        file.write_text("local all locked scram-sha-256\n" + rules)
        owner.execute("SELECT pg_reload_conf()")
        for _ in range(400):  # it reads them when it comes to it
            try:
                psycopg.connect(url.replace("postgres@", "locked@")).close()
            except psycopg.OperationalError:
                break
            time.sleep(0.05)
        with pytest.raises(SourceError, match="refused the role or its password") as refused:
            open_engine(address, DOMAIN, table="people")
        assert refused.value.__cause__ is None
        checked = run("source", "check", address, "--table", "people")
        assert checked.exit_code == 2
        assert "mistaken" not in f"{refused.value}{checked.output}"
    finally:
        file.write_text(rules)
        owner.execute("SELECT pg_reload_conf()")
        owner.execute("DROP ROLE locked")


@pytest.fixture
def visits(owner: Any, reader: str):
    """People with their visits, in two tables and a view that joins them; the role may read the view alone."""
    for name in ("people_seen", "visits"):
        owner.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
    owner.execute("CREATE TABLE people_seen AS SELECT i AS id, i % 5 AS a FROM generate_series(1, 400) i")
    owner.execute(
        "CREATE TABLE visits AS SELECT 1 + (i * i) % 401 AS who, i % 5 AS b FROM generate_series(1, 3000) i"
    )
    owner.execute(
        "CREATE VIEW seen AS SELECT p.id, p.a, v.b FROM people_seen p JOIN visits v ON v.who = p.id"
    )
    owner.execute("GRANT SELECT ON seen TO maquette_reader")
    return reader


@pytest.mark.parametrize("limit", [None, 0])
def test_two_tables_by_a_view_with_persons(visits: str, url: str, limit: Any):
    """At most three visits of each person, the same as the local reader chooses."""
    joined = "SELECT p.id, p.a, v.b FROM people_seen p JOIN visits v ON v.who = p.id ORDER BY v.b"
    with psycopg.connect(url) as connection:
        rows = connection.execute(joined.encode()).fetchall()
    local = pa.table({name: [row[i] for row in rows] for i, name in enumerate(("id", "a", "b"))})
    persons = Persons("id", 3)
    engine = open_engine(visits, DOMAIN, table="seen", persons=persons, memory_limit=limit)
    assert all_looks(engine) == all_looks(open_engine(local, DOMAIN, persons=persons))
    assert 0 < engine.size() < len(rows)


def test_a_person_less_changes_at_most_that_persons_records(visits: str, owner: Any, tmp_path: Path):
    """Through the view and the command: the ledger protects persons, and one person less moves a table by k at most."""
    DOMAIN.save(tmp_path / "d.json")
    place = str(tmp_path / "seen.ledger")
    words = [
        "-d",
        str(tmp_path / "d.json"),
        "--epsilon",
        "1",
        "--marginals",
        "2",
        "--ledger",
        place,
        "--json",
    ]
    whose = ["--table", "seen", "--person", "id", "--rows-per-person", "3"]
    done = run("release", visits, *whose, *words, "-o", str(tmp_path / "r"))
    assert done.exit_code == 0, done.output
    with mq.Ledger.open(place) as book:
        assert book.persons == Persons("id", 3)
    before = open_engine(visits, DOMAIN, table="seen", persons=Persons("id", 3)).margins([("a", "b")])
    owner.execute("DELETE FROM people_seen WHERE id = 2")
    after = open_engine(visits, DOMAIN, table="seen", persons=Persons("id", 3)).margins([("a", "b")])
    assert 0 < abs(before["a", "b"] - after["a", "b"]).sum() <= 3
    refused = run("release", visits, *whose, *words, "-o", str(tmp_path / "s"))
    assert refused.exit_code == 2
    assert "another table" in refused.output
