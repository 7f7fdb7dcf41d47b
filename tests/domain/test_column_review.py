"""A drafted domain is confirmed column by column, in the file and in the terminal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from maquette.cli.app import app
from maquette.cli.review import review_columns
from maquette.domain import Attribute, Domain, Kind, Never, review
from maquette.domain.file import to_text
from maquette.errors import DomainError


def drafted() -> Domain:
    return Domain(
        (
            Attribute("age", Kind.NUMERIC, bounds=(0, 100), bins=10),
            Attribute("city", Kind.CATEGORICAL, categories=("Bern", "Zürich"), overflow=True),
        ),
        reviewed=False,
        notes={
            "draft": "a draft",
            "columns": {"city": {"from": "the table", "risk": "rare values"}},
            "source": "x",
        },
    )


def test_the_domain_is_reviewed_when_every_column_is():
    domain = review.confirm(drafted(), "age", by="Ann", why="ages")
    assert not domain.reviewed
    assert review.remaining(domain) == ("city",)
    domain = review.confirm(domain, "city", by="Ann", why="list of the statistics office")
    assert domain.reviewed
    assert review.remaining(domain) == ()
    assert domain.notes["source"] == "x"
    assert "draft" not in domain.notes
    assert domain.notes["reviews"]["city"]["why"] == "list of the statistics office"
    assert domain.fingerprint == Domain(drafted().attributes).fingerprint


def test_a_column_that_is_edited_is_to_be_confirmed_again():
    domain = review.confirm(drafted(), "age", by="Ann", why="ages")
    changed = review.edit(domain, "age", Attribute("age", Kind.NUMERIC, bounds=(0, 120), bins=12))
    assert changed["age"].bounds == (0, 120)
    assert review.remaining(changed) == ("age", "city")


def test_dropping_the_last_open_column_ends_the_review():
    domain = review.drop(review.confirm(drafted(), "age", by="Ann", why="ages"), "city")
    assert domain.names == ("age",)
    assert domain.reviewed


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda d: review.confirm(d, "agee", by="Ann", why="x"), "unknown attribute 'agee'"),
        (lambda d: review.confirm(d, "age", by=" ", why="x"), "who confirms it"),
        (lambda d: review.confirm(d, "age", by="Ann", why=""), "why its values are public"),
        (lambda d: review.drop(review.drop(d, "age"), "city"), "the only column"),
        (lambda d: review.edit(d, "age", Attribute("old", Kind.BOOLEAN, codes=2)), "renaming"),
    ],
)
def test_what_cannot_be_done_is_refused(act, message):
    with pytest.raises(DomainError, match=message):
        act(drafted())


def test_a_column_of_a_constraint_is_not_dropped():
    domain = Domain(
        drafted().attributes, constraints=(Never({"city": ["Bern"], "age": ["[0, 10)"]}),), reviewed=False
    )
    with pytest.raises(DomainError, match="1 constraints"):
        review.drop(domain, "city")


def test_the_file_has_a_line_for_every_column(tmp_path):
    text = to_text(drafted())
    assert Domain.from_dict(json.loads(text)) == drafted()
    assert Domain.from_dict(json.loads(text)).notes == drafted().notes
    assert len([line for line in text.splitlines() if '"name"' in line]) == 2


def run(file, *words, typed=""):
    ended = CliRunner().invoke(app, ["domain", "review", str(file), *words], input=typed)
    return ended.exit_code, ended.output


@pytest.fixture
def file(tmp_path):
    drafted().save(tmp_path / "d.json")
    return tmp_path / "d.json"


def test_answers_in_the_terminal_are_written_at_once(file):
    code, out = run(file, "--by", "Ann", typed="c\nages of people\nq\n")
    assert code == 0
    assert "risk: rare values" in out
    assert "still to be confirmed: city" in out
    assert review.remaining(Domain.load(file)) == ("city",)
    entry = {
        "name": "city",
        "kind": "categorical",
        "categories": ["Bern", "Genf", "Zürich"],
        "overflow": True,
    }
    code, out = run(file, "--by", "Ann", typed=f"x\ne\n{json.dumps(entry)}\ne\n[\nc\nlist of the office\n")
    assert code == 0
    assert "please answer with one letter" in out
    assert "not done: that is not JSON" in out
    domain = Domain.load(file)
    assert domain.reviewed
    assert domain["city"].categories == ("Bern", "Genf", "Zürich")
    assert "nothing is left to confirm" in run(file)[1]


def test_what_was_left_out_of_a_draft_is_told_with_its_risk(file):
    draft = Domain.load(file)
    left_out = {"note": {"why": "more than 100 different texts", "risk": "that was seen in the rows"}}
    replace(draft, notes=draft.notes | {"left_out": left_out}).save(file)
    code, out = run(file, "--by", "Ann", typed="q\n")
    assert code == 0
    assert (
        "left out of the draft: note: more than 100 different texts\n  risk: that was seen in the rows" in out
    )


@pytest.mark.parametrize(
    "notes", [{"left_out": {"x": "no values"}}, {"left_out": 3, "columns": [1]}, {"columns": {"age": 3}}]
)
def test_notes_of_another_hand_are_no_error(file, notes):
    replace(Domain.load(file), notes=notes).save(file)
    assert run(file, "--by", "Ann", typed="c\nages\nc\nlist\n")[0] == 0
    assert Domain.load(file).reviewed


def test_columns_are_confirmed_without_being_asked(file):
    code, _ = run(file, "--by", "Ann", "--accept", "age=ages", "--drop", "city")
    assert code == 0
    assert Domain.load(file).reviewed
    before = file.read_text()
    for words in (["--accept", "age"], ["--by", "Ann", "--accept", "nobody=x"], ["--accept", "age=x"]):
        assert run(file, *words)[0] != 0
    assert file.read_text() == before


def test_an_interrupted_review_says_what_is_written(file):
    """The end of the input stops it as the interrupt key does; no ledger is in play."""
    code, out = run(file, typed="Ann\n")
    assert code == 130
    assert "What was answered is in" in out
    assert "paid" not in out


def test_a_question_mark_explains_the_answers(file):
    code, out = run(file, "--by", "Ann", typed="?\nq\n")
    assert code == 0
    assert "d  drop: take the column out" in out
    assert "please answer" not in out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], ""),
        (["--by", "Ann"], "x"),
        (["--by", " "], "c"),
        (["--by", "Ann"], "?"),
        (["--by", "Ann"], "e\n"),
    ],
)
def test_an_input_that_answers_nothing_ends_the_review(file, words, line):
    """An endless one was asked for ever, at the full speed of a processor."""
    code, out = run(file, *words, typed=f"{line}\n" * 10_000)
    assert code == 130
    assert "What was answered is in" in out
    assert len(out) < 80_000


@pytest.mark.parametrize(
    "failure", [EOFError, OSError(5, "input"), RuntimeError("lost sys.stdin"), ValueError]
)
def test_an_input_that_is_gone_ends_the_review(file, failure, monkeypatch):
    def gone(*_: object, **__: object) -> str:
        raise typer.Abort if failure is EOFError else failure

    monkeypatch.setattr(typer, "prompt", gone)
    with pytest.raises(typer.Exit) as ended:
        review_columns(file, by="Ann")
    assert ended.value.exit_code == 130


def sheet(file, **notes):
    """Four columns of a draft, each with something that can be typed."""
    columns = (
        Attribute("codes", Kind.ORDINAL, categories=(0, 1, 2), nullable=True, overflow=True),
        Attribute("fare", Kind.NUMERIC, bounds=(0, 530), bins=50, nullable=True),
        Attribute("years", Kind.NUMERIC, bounds=(1990, 2024), bins=34, integer=True),
        Attribute("sex", Kind.BOOLEAN, categories=("f", "m"), overflow=True),
    )
    Domain(columns, reviewed=False, notes=notes).save(file)
    return file


def test_bounds_and_lists_are_typed_without_json(tmp_path):
    file = sheet(tmp_path / "d.json")
    typed = "b\n0 x\nb\n0 20\nc\nform\nb\n0, 600\nc\n\nb\n1950 2050\nc\n\nb\nv\nf, m , x\nc\n\n"
    code, out = run(file, "--by", "Ann", typed=typed)
    assert code == 0, out
    assert "not done: please type two numbers" in out
    assert "not done: 'sex' has no bounds" in out
    domain = Domain.load(file)
    codes = domain["codes"]
    assert (codes.bounds, codes.bins, codes.integer, codes.nullable) == ((-0.5, 20.5), 21, True, True)
    assert [codes.label(i) for i in (0, 20)] == ["0", "20"]
    assert (domain["fare"].bounds, domain["fare"].bins) == ((0, 600), 50)
    assert (domain["years"].bounds, domain["years"].bins) == ((1950, 2050), 100)
    assert (domain["sex"].categories, domain["sex"].kind) == (("f", "m", "x"), Kind.CATEGORICAL)
    assert domain.notes["reviews"]["sex"]["why"] == "form"


def test_columns_of_usual_kinds_are_one_question(tmp_path):
    notes = {"columns": {"fare": {"from": "x", "usual": "fares"}, "years": {"from": "y", "usual": "years"}}}
    file = sheet(tmp_path / "d.json", **notes)
    code, out = run(file, "--by", "Ann", "--usual", typed="n\nq\n")
    assert (code, Domain.load(file).notes.get("reviews")) == (0, None)
    code, out = run(file, "--by", "Ann", "--usual", typed="y\ns\nc\nform\n")
    assert code == 0, out
    assert "1 column is still to be confirmed: codes" in out
    why = {name: note["why"] for name, note in Domain.load(file).notes["reviews"].items()}
    assert why == {"fare": "fares", "years": "years", "sex": "form"}
    assert "Why is it public knowledge:" in out  # the reason of a usual kind is not proposed for others
