"""Every command with hostile words: exit code 0, 2 or 3, bounded messages, no hang, nothing outside of its folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import typer

from maquette.cli import console
from support import hostile_commands
from support.cli_files import call, refused
from support.hostile_calls import Found
from support.hostile_commands import Desk

EVERY = 53
"""One call in so many is made here, of each command others; `benchmarks/hostile.py` makes all of them."""
SLOW = ("claim", "demo")
"""Commands whose every call takes seconds: the benchmark alone tries them."""
LONG = ("claim",)
"""A draw on each of its grids takes about as long as a call may: `audit/test_claim.py` calls it."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("hostile"))


@pytest.mark.slow
def test_hostile_words_end_in_a_message(desk):
    found = Found()
    for place, command in enumerate(hostile_commands.commands()):
        if command.name not in SLOW:
            hostile_commands.attack(desk, command, found, every=EVERY, offset=place)
    assert not found.wrong, "\n".join(found.wrong)
    assert found.calls > 400
    assert 0 < found.accepted < found.calls / 2


@pytest.mark.slow
def test_the_working_commands_work(desk):
    """Else the calls above would be refused for other reasons than they mean to be."""
    refused_calls = {
        one.name
        for one in hostile_commands.commands()
        if one.name not in LONG and hostile_commands.problem(desk, one.words()) != (0, None)
    }
    assert refused_calls == hostile_commands.BROKEN


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (lambda _: 1 / 0, "exit code 1"),
        (lambda _: sys.exit(7), "exit code 7"),
        (lambda _: typer.echo("x" * 10_000, err=True), "messages of 10,001 characters"),
        (lambda _: typer.echo("Traceback", err=True), "a traceback"),
        (lambda _: sys.exit(2), "refused without a word"),
        (lambda outer: (outer / "there").write_text("x"), "Outside"),
        (lambda outer: (outer / "there").mkdir(), "Outside"),
        (lambda outer: os.rename("empty", outer / "there"), "Outside"),
        (lambda _: _spin(), "TooLong"),
    ],
)
def test_what_goes_wrong_is_found(desk, monkeypatch, action, said):
    monkeypatch.setattr(console, "say", lambda _: action(desk.root))
    assert said in str(hostile_commands.problem(desk, ["version"], seconds=0.2)[1])
    assert not (desk.root / "there").exists()


def _spin() -> None:
    while True:
        pass


# --- what it found --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["zebra" * 10**5], ["--" + "zebra" * 10**5], ["version", *["x"] * 10**5]])
def test_the_parsers_own_messages_are_bounded(words):
    ended = call(*words)
    assert ended.code == 2
    assert len(ended.err) < 4000


def test_bytes_that_are_no_text_are_refused_before_anything_is_done():
    refused(call("answer", "made", "\udcff"), "has characters that no file can hold")


@pytest.mark.parametrize("place", ["x" * 300, "a/" * 3000, "words.txt/x"])
def test_a_place_that_cannot_be_is_said(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text("x")
    Path("people.csv").write_text("age\n3\n")
    ended = call("domain", "draft", "people.csv", "-o", place)
    assert ended.code == 2
    assert "internal" not in ended.err


def test_an_error_about_a_place_that_nobody_named_stays_unsaid(monkeypatch):
    """Its name could be private; one that was typed is not."""

    def fail(_: str) -> None:
        raise OSError(36, "File name too long", "secret-name")

    monkeypatch.setattr(console, "say", fail)
    ended = call("version")
    assert ended.code == 1
    assert "secret-name" not in ended.err


def test_a_tour_goes_on_where_nobody_answers():
    assert call("learn", "exponential", "--ask", text="9\n" + "9" * 5000 + "\n").code == 0


def test_a_backup_over_a_file_is_refused(tmp_path):
    from support.web_service import write_config

    (tmp_path / "there").write_text("x")
    ended = call("backup", write_config(tmp_path), "-o", tmp_path / "there")
    refused(ended, "is a file or not empty")
