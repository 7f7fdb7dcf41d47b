"""The command line on its bad days: what was expected, what to do, nothing spent, nothing private told."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from maquette.cli import release
from maquette.results import answer_file, replacing
from support.cli_files import CANARY, Desk, call, desk, lines, refused, write_table


@pytest.fixture
def own(tmp_path: Path) -> Desk:
    return desk(tmp_path)


def untouched(own: Desk) -> None:
    """Neither a ledger nor a release was made."""
    assert not own.ledger.exists()
    assert not own.place.exists()


# tables


def test_a_missing_file(own):
    refused(own.release(table=own.folder / "absent.csv"), "error: ", "absent.csv")
    untouched(own)


def test_a_folder_in_the_place_of_a_file(own):
    refused(own.release(table=own.folder / ".."), "error: ")
    untouched(own)


@pytest.mark.slow
def test_a_wrong_delimiter(own):
    other = own.folder / "semi.csv"
    other.write_text(own.table.read_text().replace(",", ";"))
    refused(own.release(table=other), "semi.csv", "delimiter", ";")
    untouched(own)
    assert own.release("--delimiter", ";", table=other).code == 0


@pytest.mark.slow
def test_a_byte_order_mark_is_no_part_of_the_first_column(own):
    own.table.write_bytes(b"\xef\xbb\xbf" + own.table.read_bytes())
    assert own.release().code == 0


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("age,sex,region,age", ("more than one column 'age'",)),
        ("age,sex,place", ("region",)),
        ("AGE,SEX,REGION", ("age",)),
    ],
)
def test_wrong_columns(own, header, expected):
    own.table.write_text("\n".join([header, *lines()]))
    refused(own.release(), *expected)
    untouched(own)


def test_a_file_without_anything(own):
    own.table.write_text("")
    refused(own.release(), "people.csv", "header")
    untouched(own)


@pytest.mark.slow
def test_a_table_without_rows_is_released_like_any_other(own):
    own.table.write_text("age,sex,region\n")
    ended = own.release()
    assert ended.code == 0, ended


@pytest.mark.slow
def test_odd_numbers_fall_into_declared_cells(own):
    odd = ["nan", "inf", "-inf", "1e400", "-0.0", "007", " 12", CANARY, "9" * 40, "0x10"]
    own.table.write_text("\n".join(["age,sex,region", *(f"{age},Male,north" for age in odd * 40)]))
    assert own.release().code == 0


def test_types_that_cannot_be_meant(own):
    import pyarrow as pa
    import pyarrow.parquet as pq

    nested = pa.table({"age": [[1], [2]], "sex": ["Male", CANARY], "region": ["north", "south"]})
    path = own.folder / "nested.parquet"
    pq.write_table(nested, path)
    refused(own.release(table=path), "age")
    untouched(own)


def test_a_broken_parquet_file(own):
    path = own.folder / "broken.parquet"
    path.write_bytes(b"PAR1" + CANARY.encode() + b"PAR1")
    refused(own.release(table=path), "broken.parquet")
    untouched(own)


# parameters


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf"])
def test_a_bad_epsilon(own, epsilon):
    refused(own.release(epsilon=epsilon), "expected epsilon > 0 and finite")
    untouched(own)


@pytest.mark.parametrize("delta", ["1", "1.5", "-0.1", "nan"])
def test_a_bad_delta(own, delta):
    refused(own.release("--delta", delta), "expected 0 <= delta < 1")
    untouched(own)


@pytest.mark.slow
@pytest.mark.parametrize("beta", ["0", "1", "-0.2", "1.5", "nan"])
def test_a_bad_beta(own, beta):
    refused(own.release("--beta", beta), "expected 0 < beta < 1")
    untouched(own)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (("--certificate", "1"), ("expected 0 <= certificate < 1",)),
        (("--certificate", "-0.1"), ("expected 0 <= certificate < 1",)),
        (("--mechanism", "magic"), ("expected mechanism to be one of", "laplace")),
        (("--relation", "cousins"), ("expected relation to be one of add-remove, replace-one",)),
        (("--post", "wish"), ("expected post to be one of",)),
        (("--rows", "0"), ("expected rows to be a whole number >= 1",)),
        (("--total-epsilon", "-3"), ("expected epsilon > 0",)),
        (("--mechanism", "residual"), ("residual",)),
        (("--marginals", "9"), ("from 0 to 3, got 9",)),
        (("--prefixes", "agee"), ("unknown attribute 'agee'", "age, sex, region")),
        (("--prefixes", "region"), ("region",)),
        (("--where", "age >"), ("error: ",)),
        (("--where", "sex = 'Other'"), ("Female", "Male")),
        (("--workload", "absent.json"), ("absent.json",)),
    ],
)
def test_other_bad_parameters(own, more, expected):
    refused(own.release(*more), *expected)
    untouched(own)


def test_no_queries_at_all(own):
    refused(
        call("release", own.table, "-d", own.domain, "--epsilon", 1), "give at least one of --marginals K"
    )


def test_words_in_the_place_of_numbers_and_missing_options(own):
    assert own.release(epsilon="much").code == 2
    assert call("release", own.table).code == 2
    untouched(own)


# domains


def test_a_missing_or_broken_domain(own):
    own.domain.write_text("{")
    refused(own.release(), "is not JSON")
    own.domain.unlink()
    refused(own.release(), "no domain file at", "maquette domain draft")
    untouched(own)


def test_an_unreviewed_draft(own):
    own.domain.write_text(own.domain.read_text().rstrip().removesuffix("}") + ', "reviewed": false}')
    refused(own.release(), "unreviewed draft", "maquette domain review", '"reviewed": true')
    untouched(own)


# ledgers


@pytest.mark.slow
def test_a_budget_that_is_exhausted(own):
    assert own.release("--total-epsilon", 1.5).code == 0
    spent, answers = own.spent(), (own.place / "answers.parquet").read_bytes()
    ended = own.release("--key", "more")
    refused(ended, "needs 66.7 % of ledger", "33.3 % is left", "epsilon=0.5 fits", code=3)
    assert own.spent() == spent
    assert (own.place / "answers.parquet").read_bytes() == answers


@pytest.mark.slow
def test_a_budget_that_is_exhausted_reads_nothing(own, monkeypatch):
    assert own.release().code == 0

    def look(*_args, **_kwargs):
        raise AssertionError("looked at the table")

    monkeypatch.setattr("maquette.core.curator.Curator.measure", look)
    monkeypatch.setattr("maquette.core.curator.Curator.size", look)
    refused(own.release("--key", "more"), "nothing more fits", code=3)


@pytest.mark.slow
def test_a_ledger_of_another_table(own):
    assert own.release("--total-epsilon", 3).code == 0
    spent = own.spent()
    other = write_table(own.folder, rows=401, name="other.csv")
    refused(own.release(table=other), "another table")
    assert own.spent() == spent


@pytest.mark.slow
def test_a_ledger_of_another_relation(own):
    assert own.release("--total-epsilon", 3).code == 0
    refused(own.release("--relation", "replace-one"), "add-remove neighbours")


@pytest.mark.slow
def test_a_delta_from_a_pure_ledger(own):
    assert own.release("--total-epsilon", 3).code == 0
    refused(own.release("--delta", "1e-9"), "cannot pay for a delta")


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["text", "half", "edited", "foreign"])
def test_a_corrupt_ledger(own, damage):
    assert own.release("--total-epsilon", 3).code == 0
    if damage == "text":
        own.ledger.write_text("my notes")
    elif damage == "half":
        content = own.ledger.read_bytes()
        own.ledger.write_bytes(content[: len(content) // 2])
    elif damage == "foreign":
        own.ledger.unlink()
        with sqlite3.connect(own.ledger) as other:
            other.execute("create table notes (text)")
        other.close()
    else:
        _edit(own.ledger)
        refused(call("ledger", "verify", own.ledger), "error: ")
        return
    for aside in own.folder.glob("people.ledger-*"):
        aside.unlink()
    before = own.ledger.read_bytes()
    refused(own.release("--key", "more"), "people.ledger")
    assert call("ledger", "verify", own.ledger).code == 2
    assert call("ledger", "show", own.ledger).code == 2
    assert own.ledger.read_bytes() == before


def _edit(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        for (name,) in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            connection.execute(f'drop trigger "{name}"')
        connection.execute("update entry set units = units / 2 where kind = 'reserve'")
    connection.close()


@pytest.mark.slow
def test_a_receipt_that_is_not_in_the_ledger(own):
    assert own.release().code == 0
    refused(call("ledger", "verify", own.ledger, "--receipt", f"2:{'0' * 64}"), "error: ")
    refused(call("ledger", "verify", own.ledger, "--receipt", "nonsense"), "expected a receipt such as")


def test_a_missing_ledger(own):
    refused(call("ledger", "show", own.folder / "absent.ledger"), "no ledger at", "maquette ledger create")
    assert call("ledger", "verify", own.folder / "absent.ledger").code == 2


@pytest.mark.slow
def test_a_ledger_that_exists_is_not_made_again(own):
    assert own.release().code == 0
    before = own.ledger.read_bytes()
    assert call("ledger", "create", own.ledger, "-d", own.domain, "--epsilon", 9).code == 2
    assert own.ledger.read_bytes() == before


# disks


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_paid(own):
    blocker = own.folder / "file"
    blocker.write_text("")
    refused(own.release("-o", blocker / "x.maquette"), "cannot write", "nothing was spent")
    untouched(own)
    refused(own.release("-o", blocker), "not a release folder")
    untouched(own)


def test_a_read_only_disk(own, monkeypatch):
    def read_only(*_args, **_kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(replacing.tempfile, "mkdtemp", read_only)
    refused(own.release(), "cannot write", "Read-only file system", "nothing was spent")
    untouched(own)


def test_a_ledger_in_a_folder_that_is_not_there(own):
    refused(own.release("--ledger", own.folder / "absent" / "x.ledger"), "x.ledger")
    untouched(own)


@pytest.mark.slow
def test_a_disk_that_is_full_at_the_end_loses_nothing(own, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(answer_file, "write", full)
    refused(own.release(), "No space left on device", "costs nothing again")
    monkeypatch.undo()
    spent = own.spent()
    assert spent > 0
    assert not own.place.exists()
    assert own.release().code == 0
    assert own.spent() == spent


# releases


@pytest.mark.slow
def test_releases_that_are_not_there_or_not_whole(own):
    refused(call("answer", own.place, "true"), "no release at", "maquette release")
    refused(call("report", own.folder), "not a release folder")
    assert own.release().code == 0
    (own.place / "workload.json").write_text("{}")
    refused(call("answer", own.place, "true"), "workload.json was changed")


@pytest.mark.slow
def test_bad_questions(own):
    assert own.release().code == 0
    refused(call("answer", own.place, "agee > 3"), "unknown attribute 'agee'")
    refused(call("answer", own.place, "sex = 'Male'; drop table x"), "unexpected ';'")


# interruptions and errors of our own


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on_and_goes_on_for_free(own, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("maquette.api.certify", interrupt)
    ended = own.release("--certificate", 0.05)
    refused(ended, "interrupted", "only a question that was being answered is paid again", code=130)
    assert "95.0 % spent, 5.0 % reserved" in ended.err
    monkeypatch.undo()
    assert own.release("--certificate", 0.05).code == 0
    assert own.spent() == pytest.approx(1.0)
    clean = call("ledger", "show", own.ledger, "--json").json["payments"]
    assert len({p["key"] for p in clean}) == len(clean)


def test_an_interrupt_elsewhere_is_clean_too(own, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(release.options, "read_workload", interrupt)
    refused(own.release("--certificate", 0.05), "interrupted", code=130)


@pytest.mark.slow
def test_a_real_interrupt(own):
    code = (
        "import os, signal, sys\n"
        "import maquette.api\n"
        "maquette.api.certify = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT)\n"
        "from maquette.cli import main\n"
        "main()\n"
    )
    words = ["release", own.table, "-d", own.domain, "--marginals", 1, "--epsilon", 1, "--ledger", own.ledger]
    words += ["--certificate", 0.05]
    command = [sys.executable, "-c", code, *map(str, words), "-o", str(own.place)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (130, -signal.SIGINT), done.stderr
    assert "only a question that was being answered" in done.stderr
    assert "Traceback" not in done.stderr
    assert CANARY not in done.stderr


def test_an_unforeseen_error_tells_its_kind_only(own, monkeypatch):
    def fail(*_args, **_kwargs):
        raise ZeroDivisionError(f"row 3: {CANARY}")

    monkeypatch.setattr("maquette.api.certify", fail)
    ended = own.release("--certificate", 0.05)
    refused(
        ended, "internal error (ZeroDivisionError)", "Nothing further was spent", "MAQUETTE_DEBUG=1", code=1
    )


def test_debugging_shows_everything_and_warns(own, monkeypatch):
    from typer.testing import CliRunner

    from maquette.cli.app import app

    def fail(*_args, **_kwargs):
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr(release.options, "read_workload", fail)
    monkeypatch.setenv("MAQUETTE_DEBUG", "1")
    words = ["release", str(own.table), "-d", str(own.domain), "--epsilon", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "do not share it" in done.stderr
    assert "Traceback" in done.stderr
    assert CANARY in done.stderr


def test_the_canary_check_sees_a_canary(own, monkeypatch):
    from maquette.errors import SourceError

    def leak(*_args, **_kwargs):
        raise SourceError(f"row 3 holds {CANARY}")

    monkeypatch.setattr(release.options, "read_workload", leak)
    with pytest.raises(AssertionError):
        own.release()
