"""The command line on its good days: the whole way of the data, in words and in JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from typer.main import get_command

import maquette as mq
from maquette.accounting.ledger import Ledger, Receipt
from maquette.cli.app import app, leave_only
from maquette.cli.console import bar
from maquette.core.ledger.verify import Replay
from support.cli_files import CANARY, Desk, call, desk, write_table

COMMANDS = (
    ("plan",),
    ("release",),
    ("answer",),
    ("ask",),
    ("report",),
    ("evaluate",),
    ("bound",),
    ("dimension",),
    ("audit", "reconstruct"),
    ("demo",),
    ("version",),
    ("domain", "draft"),
    ("domain", "check"),
    ("ledger", "create"),
    ("ledger", "show"),
    ("ledger", "verify"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk on which one release was made."""
    own = desk(tmp_path_factory.mktemp("made"))
    ended = own.release("--total-epsilon", 3, "--groups", "--certificate", 0.4)
    assert ended.code == 0, ended
    return own


def _names() -> list[tuple[str, ...]]:
    """Every command there is, groups taken apart."""
    found: list[tuple[str, ...]] = []
    for name, command in get_command(app).commands.items():  # pyright: ignore[reportAttributeAccessIssue]
        inner = getattr(command, "commands", None)
        found += [(name, sub) for sub in inner] if inner else [(name,)]
    return found


NAMES = _names()


def test_the_promised_commands_are_there():
    assert set(COMMANDS) <= set(NAMES)


@pytest.mark.parametrize("word", ["answer", "domain"])
def test_a_process_builds_only_the_command_that_it_runs(monkeypatch, word):
    for kind in ("registered_commands", "registered_groups"):
        monkeypatch.setattr(app, kind, getattr(app, kind))
    for other in ([], ["--help"], ["no such command"]):
        leave_only(other)
        assert _names() == NAMES
    leave_only([word])
    assert _names() == [words for words in NAMES if words[0] == word]


@pytest.mark.parametrize("words", NAMES, ids=" ".join)
def test_every_command_helps_with_an_example(words):
    ended = call(*words, "--help")
    assert ended.code == 0
    assert "\n  Example:\n    maquette " in ended.out  # on lines of its own, not run into a paragraph
    assert f"maquette {' '.join(words)}" in ended.out.split("Example:")[1]


@pytest.mark.slow
def test_versions(made):
    assert call("version").out == call("--version").out == "maquette 0.1.0\n"


@pytest.mark.slow
def test_a_release_tells_what_it_made(made):
    ended = made.release("--total-epsilon", 3, "--groups", "--certificate", 0.4)
    assert ended.code == 0
    assert "of the truth, except with probability 5 %" in ended.out
    assert "the ledger: " in ended.out
    assert "one more release could have up to epsilon = " in ended.out
    assert ended.err == ""
    assert {"release.json", "answers.parquet", "report.html"} <= {p.name for p in made.place.iterdir()}


@pytest.mark.slow
def test_the_same_release_again_is_free_and_the_same(made):
    before, answers = made.spent(), (made.place / "answers.parquet").read_bytes()
    time.sleep(1)  # of times the ledger keeps the seconds
    again = made.release("--total-epsilon", 3, "--groups", "--certificate", 0.4)
    assert again.code == 0
    assert again.out.startswith("Paid for before, on ")
    assert "this repeat was free." in again.out.splitlines()[0]
    assert made.spent() == before
    assert (made.place / "answers.parquet").read_bytes() == answers


@pytest.mark.slow
def test_a_new_key_pays_anew(tmp_path):
    own = desk(tmp_path)
    assert own.release("--total-epsilon", 3).code == 0
    first = own.spent()
    assert own.release("--key", "again").code == 0
    assert own.spent() == pytest.approx(2 * first)


@pytest.mark.slow
def test_release_json(made):
    data = made.release("--total-epsilon", 3, "--groups", "--certificate", 0.4, "--json").json
    assert data["format"] == 1
    assert data["certificate"]["alpha"] < 1
    assert [g["name"] for g in data["certificate"]["groups"]] == ["1-way marginals", "2-way marginals"]
    assert data["folder"] == str(made.place)


def test_answers(made):
    ended = call("answer", made.place, "sex = 'Male'", "age >= 60")
    assert ended.code == 0
    assert ended.out.count("confidence") == 2
    data = call("answer", made.place, "sex = 'Male'", "--json").json
    assert abs(data[0]["value"] - 0.4) <= data[0]["error"] + 0.2
    assert data[0]["confidence"] == pytest.approx(0.95)


def test_an_answer_that_cannot_be_given_is_refused_in_its_place(made):
    ended = call("answer", made.place, "sex = 'Male'", "hight > 3", "select count(*) from t", "age >= 60")
    assert ended.code == 2
    assert ended.out.count("confidence") == 2
    assert "'hight > 3': refused: " in ended.err
    assert "maquette sql" in ended.err
    data = call("answer", made.place, "hight > 3", "sex = 'Male'", "--json")
    assert data.code == 2
    assert len(data.json) == 1


@pytest.mark.slow
def test_report(made, tmp_path):
    target = tmp_path / "r.html"
    assert call("report", made.place, "-o", target).code == 0
    assert target.read_text().startswith("<!DOCTYPE html>")
    (made.place / "report.html").unlink()
    assert call("report", made.place).code == 0
    assert (made.place / "report.html").exists()


def test_nothing_in_the_folder_names_a_private_value(made):
    for file in made.place.iterdir():
        assert CANARY.encode() not in file.read_bytes(), file.name


def test_ledger_show_and_verify(made):
    ended = call("ledger", "show", made.ledger)
    assert ended.code == 0
    assert "█" in ended.out
    assert "% spent, 0.0 % reserved, " in ended.out
    assert "one more release could have up to epsilon = " in ended.out
    assert "release" in ended.out
    for jargon in ("rho", "mu^2", "(laplace)", "smoothed"):
        assert jargon not in ended.out
    detailed = call("ledger", "show", made.ledger, "--details").out
    assert "counted in " in detailed
    assert " of 3" in detailed
    data = call("ledger", "show", made.ledger, "--json").json
    leaves = [p for p in data["payments"] if p["parent"]]
    assert sum(p["amount"] for p in leaves) == pytest.approx(data["spent"])
    assert {p["state"] for p in leaves} == {"answered"}
    assert data["left"] == pytest.approx(data["total"] - data["spent"])
    ended = call("ledger", "verify", made.ledger, "--release", made.place, "--receipt", data["receipt"])
    assert ended.code == 0
    assert "the ledger is complete and unchanged" in ended.out
    assert call("ledger", "verify", made.ledger, "--json").json["whole"] is True


def test_verifying_a_release_reads_the_chain_once_and_looks_each_receipt_up_once(made, monkeypatch):
    read, looked_up = [], Counter()
    take, holds = Replay.take, Ledger.holds
    monkeypatch.setattr(Replay, "take", lambda replay, row: (read.append(row["seq"]), take(replay, row))[1])
    monkeypatch.setattr(Ledger, "holds", lambda book, one: (looked_up.update([one]), holds(book, one))[1])
    done = call("ledger", "verify", made.ledger, "--release", made.place, "--json").json
    receipts = [Receipt(one.sequence, one.head) for one in mq.load(made.place).receipts]
    assert done["receipts"] == len(receipts) > 1
    assert read == list(range(1, done["sequence"] + 1))
    newest = max(receipts, key=lambda one: one.seq)
    assert looked_up == Counter(receipts) + Counter({newest: done["folders"]})  # folders show their newest


def test_ledger_create(made, tmp_path):
    place = tmp_path / "new.ledger"
    ended = call("ledger", "create", place, "--domain", made.domain, "--epsilon", 2, "--delta", 1e-9)
    assert ended.code == 0
    assert "made ledger 'new' with epsilon=2, delta=1e-09" in ended.out
    assert "nothing was paid yet" in call("ledger", "show", place).out
    data = call("ledger", "create", tmp_path / "b", "--domain", made.domain, "--epsilon", 2, "--json").json
    assert (data["unit"], data["total"], data["spent"]) == ("epsilon", 2.0, 0.0)


@pytest.mark.slow
def test_plan_opens_no_table(made):
    words = ("plan", "--domain", made.domain, "--marginals", 2, "--n", 400, "--epsilon", 1)
    ended = call(*words)
    assert ended.code == 0
    assert "laplace" in ended.out
    assert "laplace" in json.dumps(call(*words, "--json").json)


@pytest.mark.slow
def test_plan_backwards(made):
    words = ("plan", "--domain", made.domain, "--marginals", 1, "--alpha", 0.01)
    assert call(*words, "--epsilon", 1).code == 0
    assert call(*words, "--n", 100_000, "--json").code == 0


@pytest.mark.slow
def test_all_kinds_of_queries_in_one_release(tmp_path):
    from maquette.queries import prefixes, save
    from maquette.results.loading import load

    own = desk(tmp_path)
    save(prefixes(load_domain(own), "age"), tmp_path / "w.json")
    more = ("--prefixes", "age", "--ranges", "age", "--where", "sex = 'Male'", "--where", "age is null")
    ended = own.release(*more, "--workload", tmp_path / "w.json")
    assert ended.code == 0, ended
    assert load(own.place).workload.count == 84 + 9 + 45 + 2 + 9


def load_domain(own: Desk):
    from maquette.domain import Domain

    return Domain.load(own.domain)


def test_domain_draft_then_check(tmp_path):
    table = write_table(tmp_path)
    target = tmp_path / "draft.json"
    ended = call("domain", "draft", table, "-o", target)
    assert ended.code == 0
    assert "unreviewed draft" in ended.out
    assert json.loads(target.read_text())["reviewed"] is False
    again = call("domain", "draft", table, "-o", target)
    assert again.code == 2
    assert "exists" in again.err


def test_domain_check(made):
    ended = call("domain", "check", made.domain, "--table", made.table)
    assert ended.code == 0, ended
    assert "|X| = 80" in ended.out
    assert "NOT PRIVATE" in ended.out
    assert "NOT PRIVATE" not in call("domain", "check", made.domain).out
    data = call("domain", "check", made.domain, "--json").json
    assert (data["attributes"], data["size"], data["reviewed"]) == (3, "80", True)


@pytest.mark.slow
def test_progress_goes_to_stderr_and_can_be_silenced(tmp_path):
    own = desk(tmp_path)
    words = [
        "release",
        own.table,
        "--domain",
        own.domain,
        "--marginals",
        1,
        "--epsilon",
        1,
        "--ledger",
        own.ledger,
    ]
    ended = call(*words, "-o", own.place)
    assert ended.code == 0
    assert "..." in ended.err
    assert "..." not in ended.out
    assert call(*words, "-o", own.place, "--quiet").err == ""


def test_the_folder_has_the_tables_name_by_default(tmp_path, monkeypatch):
    own = desk(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert call("release", "people.csv", "-d", own.domain, "--marginals", 1, "--epsilon", 1, "-q").code == 0
    assert (tmp_path / "people.maquette" / "release.json").exists()


@pytest.mark.slow
def test_as_a_real_process(tmp_path):
    own = desk(tmp_path)
    words = ["release", own.table, "--domain", own.domain, "--marginals", "1", "--epsilon", "1", "--json"]
    command = [
        sys.executable,
        "-m",
        "maquette.cli",
        *map(str, words),
        "--ledger",
        str(own.ledger),
        "-o",
        str(own.place),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["headline"].endswith("5 %.")
    assert CANARY not in done.stdout + done.stderr
    missing = subprocess.run(
        [*command[:4], str(tmp_path / "none.csv"), *command[5:]], capture_output=True, text=True
    )
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: ")
    assert missing.stdout == ""


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error_message(made):
    code = f"{sys.executable} -m maquette.cli ledger show {made.ledger} --json | head -c 1"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    assert done.stdout == "{"
    assert "Traceback" not in done.stderr


def test_a_bar_is_as_full_as_its_share():
    assert bar(0.0) == "░" * 40
    assert bar(1.5) == "█" * 40
    assert bar(0.5, width=4) == "██░░"


@pytest.mark.slow
def test_the_demo(tmp_path: Path):
    ended = call("demo", "-o", tmp_path / "out", "--quiet")
    assert ended.code == 0, ended
    assert "of the truth, except with probability 5 %" in ended.out
    assert ended.out.count("confidence") >= 3
    assert (tmp_path / "out/people.maquette/report.html").exists()
    again = call("demo", "-o", tmp_path / "out", "--quiet")
    assert again.out == ended.out


def loaded_by(*words: object) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = (
        "import sys, json\nfrom maquette.cli import main\n"
        f"sys.argv = ['maquette', *{[str(word) for word in words]!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nprint(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


SLOW_TO_LOAD = {"duckdb", "jinja2", "numba", "opendp", "pandas", "polars", "rich", "scipy", "vl_convert"}


@pytest.mark.slow
def test_an_answer_and_the_ledger_load_only_what_they_need(made, tmp_path):
    answering = loaded_by("answer", made.place, "age >= 40")
    assert {"pyarrow", "sqlalchemy", "sqlglot"} <= answering
    assert not answering & SLOW_TO_LOAD - {
        "scipy"
    }  # quantiles: a certificate is restated for its part of beta
    other = desk(tmp_path)
    assert other.release("--delta", 1e-9, "--mechanism", "residual").code == 0
    assert not loaded_by("answer", other.place, "age >= 40") & SLOW_TO_LOAD - {"scipy"}
    showing = loaded_by("ledger", "show", made.ledger)
    assert "sqlalchemy" in showing
    assert not showing & (SLOW_TO_LOAD | {"pyarrow", "sqlglot", "maquette.results.release"})
