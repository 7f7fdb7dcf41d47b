"""The prompt helps: columns and values are completed, and a question that cannot be read gets a hint."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import maquette as mq
from maquette.cli.prompt import COMMANDS, HELP, LineEditor, completions
from maquette.domain import Domain
from maquette.errors import WorkloadError
from support.cli_files import call, refused, write_domain, write_table

DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "age", "kind": "numeric", "bounds": [0, 90], "bins": 9, "integer": True},
            {"name": "sex", "kind": "boolean", "categories": ["Female", "Male"]},
            {"name": "region", "kind": "categorical", "categories": ["north", "south", "o'brien street"]},
            {"name": "class", "kind": "ordinal", "categories": [1, 2, 3]},
            {"name": "native-country", "kind": "categorical", "categories": ["here", "there"]},
        ]
    }
)


@pytest.mark.parametrize(
    ("before", "start", "choices"),
    [
        ("se", 0, ["sex"]),
        ("SE", 0, ["sex"]),
        ("age > 3 and re", 12, ["region"]),
        ("sex = ", 6, ["'Female'", "'Male'"]),
        ("sex = 'F", 6, ["'Female'"]),
        ("sex <> 'm", 7, ["'Male'"]),
        ("region in ('north', 's", 20, ["'south'"]),
        ("region = 'o''b", 9, ["'o''brien street'"]),
        ("class = ", 8, ["1", "2", "3"]),
        ("nat", 0, []),
        ('"nat', 0, ['"native-country"']),
        ("sex = 'Male' a", 13, ["age", "AND"]),
        (":co", 0, [":columns"]),
        (":forecast re", 10, ["region"]),
    ],
)
def test_words_are_completed(before, start, choices):
    assert completions(DOMAIN, COMMANDS, before) == (start, choices)


def test_every_command_of_the_prompt_is_in_its_help():
    assert all(f":{name}" in HELP for name in COMMANDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sx = 'Male'", "did you mean 'sex'?"),
        ("sex = Male", "put text in quotes: sex = 'Male'"),
        ('"native-country" = here', "put text in quotes: \"native-country\" = 'here'"),
        ("region in (north, south)", "put text in quotes: region = 'north'"),
        ("sex = 'Mal'", "did you mean 'Male'?"),
        ("region = 'sotuh'", "did you mean 'south'?"),
        ("zzzzz = 3", None),
        ("age >", None),
    ],
)
def test_a_question_that_cannot_be_read_gets_a_hint(text, expected):
    with pytest.raises(WorkloadError) as error:
        mq.where(DOMAIN, text)
    assert str(error.value).endswith(expected or str(error.value))
    assert expected is not None or "did you mean" not in str(error.value)


def test_the_command_gives_the_hint_too(tmp_path):
    table, domain = write_table(tmp_path, rows=50), write_domain(tmp_path)
    words = ("ask", table, "--domain", domain, "--epsilon", 1, "--ledger", tmp_path / "l", "-q")
    refused(call(*words, "sex = Male"), "put text in quotes: sex = 'Male'")
    questions = tmp_path / "questions.txt"
    questions.write_text("sx = 'Male'\n")
    refused(call(*words, "--file", questions), "line 1 of", "did you mean 'sex'?")


def test_readline_gets_history_and_completions(monkeypatch):
    line = "region = 'o''brien s"
    fake = SimpleNamespace(
        history=[],
        get_begidx=lambda: line.rindex(" ") + 1,
        get_endidx=lambda: len(line),
        get_line_buffer=lambda: line,
        set_completer_delims=lambda _: None,
        set_completer=lambda _: None,
        parse_and_bind=lambda _: None,
    )
    fake.add_history = fake.history.append
    monkeypatch.setitem(sys.modules, "readline", fake)
    editor = LineEditor(DOMAIN, COMMANDS, ["sex = 'Male'"])
    assert fake.history == ["sex = 'Male'"]
    assert editor.complete("s", 0) == "street'"  # readline has the words before it already
    assert editor.complete("s", 1) is None


def test_a_platform_without_readline_still_asks(monkeypatch):
    monkeypatch.setitem(sys.modules, "readline", None)
    LineEditor(DOMAIN, COMMANDS, ["sex = 'Male'"])
