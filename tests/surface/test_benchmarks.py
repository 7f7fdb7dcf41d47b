"""The benchmark command: finds its modules, says where and with what a figure was measured, appends it."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from benchmarks import __main__ as command


def test_the_benchmarks_of_the_issue_are_found():
    assert {"counting", "imports", "ledger"} <= set(command.names())


@pytest.fixture
def fake(monkeypatch, tmp_path):
    module = ModuleType("benchmarks.fake")
    module.run = lambda data: [{"what": "seconds", "ours": 1.0, "data": data is not None}]  # pyright: ignore
    monkeypatch.setitem(sys.modules, "benchmarks.fake", module)
    monkeypatch.setattr(command, "names", lambda: ["fake"])
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    return tmp_path


def test_figures_are_printed_and_appended(fake, capsys):
    command.main(["fake"])
    command.main(["fake", "--data", str(fake)])
    lines = (fake / "results" / "fake.jsonl").read_text().splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first["figures"] == {"what": "seconds", "ours": 1.0, "data": False}
    assert second["figures"]["data"] is True
    assert first["command"] == "python -m benchmarks fake"
    assert second["command"] == "python -m benchmarks fake --data DIR"
    assert first["machine"]["cores"] >= 1
    assert first["machine"]["cpu"]
    assert first["versions"]["numpy"]
    assert str(fake) not in lines[1]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_dry_run_appends_nothing(fake, capsys):
    command.main(["all", "--dry"])
    assert json.loads(capsys.readouterr().out)["benchmark"] == "fake"
    assert not (fake / "results").exists()


@pytest.mark.parametrize("words", [["absent"], ["fake", "--data", "absent"], []])
def test_bad_words_end_with_two(fake, words, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_installed_sizes():
    from benchmarks.imports import _sizes

    figures = _sizes()
    assert 0.1 < figures["maquette"] < 20
    assert figures["with_dependencies"] > figures["maquette"]
    assert "numpy" in figures["largest"]
