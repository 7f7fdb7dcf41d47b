"""`maquette start`: five steps from a table to a release, each by the plain command that it shows."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path

import pytest

from maquette import demo
from maquette.cli import start
from maquette.domain import Domain
from support.cli_files import call, refused

COLUMNS = ("age", "sex", "household")
REVIEW = "Ann\ny\nc\nanswers of the form\nc\n\n"
"""Who reviews; ages are ages; two lists, for the same reason."""
REST = "\n1\n\ny\nsex = 'male'\n\n"
"""About how many records; epsilon; total; consent; a question; no other."""


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    """A folder with a table of three columns."""
    monkeypatch.chdir(tmp_path)
    table = demo.table(3000)
    lines = zip(*(table[name] for name in COLUMNS), strict=True)
    Path("people.csv").write_text(
        "\n".join([",".join(COLUMNS), *(",".join(map(str, line)) for line in lines)]) + "\n"
    )
    return tmp_path


def begin(*words: object, text: str = ""):
    return call("start", "people.csv", "--no-browser", *words, text=text)


def shown(out: str) -> list[list[str]]:
    """The plain commands that were shown."""
    return [shlex.split(line) for line in re.findall(r"^  \$ maquette (.*)$", out, re.M)]


@pytest.mark.slow
def test_it_leads_from_a_table_to_answers_and_shows_the_plain_commands(desk):
    ended = begin(text=REVIEW + REST)
    assert ended.code == 0, ended
    assert [int(step) for step in re.findall(r"^Step (\d) of 5", ended.out, re.M)] == [1, 2, 3, 4, 5]
    assert Domain.load("people.domain.json").reviewed
    assert not Path("people.start.json").exists()
    commands = shown(ended.out)
    assert [words[0] for words in commands] == [
        *("domain", "domain", "plan", "release", "answer", "table", "export", "ledger"),
    ]
    made = commands[3]
    assert made[made.index("--epsilon") + 1] == "1"
    assert made[made.index("--total-epsilon") + 1] == "2"
    time.sleep(1.1)  # a ledger knows seconds, and a repeat by a later one
    again = call(*made, "--quiet")  # the command that was shown is the one that ran: it is free now
    assert again.code == 0, again
    assert "this repeat was free" in again.out
    for words in (commands[2], *commands[4:]):
        assert call(*words).code == 0, words
    reasons = {name: note["why"] for name, note in Domain.load("people.domain.json").notes["reviews"].items()}
    assert reasons == {
        "age": "ages, with bounds that everybody knows",
        "sex": "answers of the form",
        "household": "answers of the form",
    }


@pytest.mark.slow
def test_it_goes_on_where_it_was_left(desk):
    ended = begin(text="Ann\ny\nq\nn\n")  # the review, left after one answer
    assert ended.code == 0, ended
    assert "The same command goes on" in ended.out
    ended = begin(text="Ann\nc\nanswers of the form\nc\n\n\n1\n\nn\n")  # no consent
    assert ended.code == 0, ended
    assert "Step 1 of 5" not in ended.out
    assert "Nothing was paid" in ended.out
    assert not Path("people.csv.ledger").exists()
    ended = begin(text="\n1\n\ny\n\n")
    assert ended.code == 0, ended
    assert "Step 2 of 5" not in ended.out
    spent = call("ledger", "show", "people.csv.ledger", "--json").json
    again = begin(text="age >= 60\n\n")
    assert again.code == 0, again
    assert "Step" not in again.out
    assert "± " in again.out
    assert call("ledger", "show", "people.csv.ledger", "--json").json == spent


@pytest.mark.slow
def test_an_agreement_that_was_interrupted_stands(desk, monkeypatch):
    from maquette import api

    with monkeypatch.context() as patch:

        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(api, "release_of", stop)
        ended = begin(text=REVIEW + REST)
    assert ended.code == 130
    assert json.loads(Path("people.start.json").read_text())["epsilon"] == 1
    ended = begin(text="\n")
    assert ended.code == 0, ended
    assert "You agreed to epsilon 1 before" in ended.out
    assert "consent" not in ended.out
    assert not Path("people.start.json").exists()


def test_the_columns_that_nobody_confirms_may_stay_outside(desk):
    ended = begin(text="Ann\ny\ns\ns\ny\n")
    assert ended.code == 130
    assert Domain.load("people.domain.json").names == ("age",)
    assert ["domain", "review", "people.domain.json", "--drop", "sex", "--drop", "household"] in shown(
        ended.out
    )


def test_the_end_of_the_input_stops_it_and_nothing_is_paid(desk):
    for typed in ("", "Ann\n", "Ann\ny\n", REVIEW, REVIEW + "\n", REVIEW + "\n1\n", REVIEW + "\n1\n\n"):
        ended = begin(text=typed)
        assert ended.code == 130, typed
        assert "Nothing is lost" in ended.err or "continues with the rest" in ended.err
        Path("people.domain.json").unlink()
    assert not Path("people.csv.ledger").exists()


def test_answers_that_say_nothing_are_asked_again_and_not_for_ever(desk):
    ended = begin(text=REVIEW + "many\n-1\n3,000\nhalf\n-1\nnan\n0.5\n0.1\n1\nn\n")
    assert ended.code == 0, ended
    assert ended.out.count("please type a whole number") == 2
    assert ended.out.count("please type a number above 0") == 3
    assert ended.out.count("please type 0.5 or more") == 1
    assert shown(ended.out)[-1][-3:] == ["1", "-o", "people.maquette"]
    ended = begin(text="x\n" * 10_000)
    assert ended.code == 130
    assert len(ended.out) < 20_000


@pytest.mark.slow
def test_scripts_are_asked_nothing(desk):
    refused(begin("--yes", "--n", 3000), "needs a reviewed domain file at people.domain.json")
    begin(text=REVIEW)
    refused(begin("--yes"), "needs --n")
    ended = begin("--yes", "--n", 3000, "--epsilon", 2, "--marginals", 1, "--total-epsilon", 3)
    assert ended.code == 0, ended
    assert "[" not in re.sub(r"^  .*$", "", ended.out, flags=re.M)
    assert call("ledger", "show", "people.csv.ledger", "--json").json["epsilon"] == 3


def test_what_is_wrong_with_a_table_is_said_before_anything_is_made(desk):
    odd = {
        "": "header row",
        "age;sex\n1;2\n": "separated by ';'",
        "1,2\n3,4\n": "its first line seems to be a record",
        "a,a\n1,2\n": "several columns of one name",
        "a,b\n": "no column of the table could be drafted",
    }
    for text, why in odd.items():
        Path("odd.csv").write_text(text)
        ended = call("start", "odd.csv", "--no-browser", text="Ann\n")
        assert (ended.code, why in ended.err) == (2, True), (text, ended)
    assert "nowhere.csv" in call("start", "nowhere.csv").err
    assert [path.name for path in desk.glob("odd*")] == ["odd.csv"]
    Path("odd.csv").write_text("age;sex\n1;2\n")
    assert "age: " in call("start", "odd.csv", "--delimiter", ";", text="").out


def test_a_round_number_is_near_by_ratio():
    assert [start._rounded(n) for n in (1, 3, 4, 1306, 30_000, 48_842, 80_000, 10**6)] == [
        *(1, 2, 5, 1000, 20_000, 50_000, 100_000, 10**6),
    ]


def test_the_smallest_epsilon_that_is_good_enough_is_recommended():
    assert start._recommended({0.1: 0.019, 0.3: 0.01, 1.0: 0.005, 3.0: 0.001}) == 0.1
    assert start._recommended({0.1: 0.2, 0.3: 0.02, 1.0: 0.005, 3.0: 0.001}) == 0.3
    assert start._recommended({0.1: 1.0, 0.3: 0.5, 1.0: 0.2, 3.0: 0.015}) == 1.0


def test_a_command_is_shown_as_a_shell_reads_it():
    for word in ("a b", "sex = 'male'", "it's $5", 'a "b"', "plain"):
        assert shlex.split(start._quoted(word)) == [word]
