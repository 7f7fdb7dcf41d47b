"""Conditions that cut cells, all the way of the command line: release, answer, evaluate, ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import maquette as mq
from maquette.domain import Domain
from support.cli_files import Ended, call

AGES = [float((7 * i) % 90) for i in range(2000)]
CUT = "Age <= 30 cuts the cell [30, 40)"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut")
    (folder / "people.csv").write_text("\n".join(["Age", *map(str, AGES)]) + "\n")
    attribute = {"name": "Age", "kind": "numeric", "bounds": [0, 90], "bins": 9, "nullable": True}
    (folder / "people.domain.json").write_text(json.dumps({"attributes": [attribute]}))
    return folder


def made(place: Path, name: str, *words: str) -> Ended:
    usual = [
        place / "people.csv",
        "--domain",
        place / "people.domain.json",
        "--ledger",
        place / "people.ledger",
    ]
    budget = ["--epsilon", 2, "--total-epsilon", 20, "-o", place / name, "--quiet", "--mechanism", "laplace"]
    return call("release", *usual, *budget, *words)


def test_answers_cover_what_the_cut_cells_hold(place):
    assert made(place, "tables", "--marginals", "1").code == 0
    truth = sum(age <= 30 for age in AGES) / len(AGES)
    (answer,) = call("answer", place / "tables", "Age <= 30", "--json").json
    assert abs(answer["value"] - truth) <= answer["error"]
    assert answer["error"] >= 0.05  # half of what the cell holds
    assert answer["notes"][0] == CUT
    said = call("answer", place / "tables", "Age <= 30").out
    assert f"note: {CUT}" in said
    assert "the error covers both" in said


def test_a_condition_is_asked_from_both_sides(place):
    ended = made(place, "both", "--where", "Age <= 30")
    assert ended.code == 0
    assert f"note: {CUT}; it is asked as two queries, one for each side" in ended.err
    release = mq.load(place / "both")
    assert [release.workload.text(i) for i in range(release.workload.count)] == ["Age < 30", "Age < 40"]
    (answer,) = call("answer", place / "both", "Age <= 30", "--json").json
    assert answer["error"] is not None
    assert answer["notes"][0] == CUT


def test_a_single_query_on_cells_says_how_it_was_read(place):
    domain = Domain.load(place / "people.domain.json")
    table = mq.open(place / "people.csv", domain=domain)
    workload = mq.queries.where(domain, "Age <= 30")
    release = mq.release(table, workload, epsilon=1.0, ledger=place / "single.ledger", mechanism="laplace")
    said = "Age <= 30 was read as Age < 30, as it cuts the cell [30, 40)"
    assert said in release.notes
    found = mq.evaluate(release, table)
    assert found.notes == (said,)
    assert f"note: {said}" in str(found)
    assert release.answer("Age <= 30").error is None


def test_a_question_to_a_session_is_asked_from_both_sides(place):
    words = [
        place / "people.csv",
        "--domain",
        place / "people.domain.json",
        "--ledger",
        place / "session.ledger",
    ]
    ended = call("ask", *words, "--epsilon", 5, "--queries", 10, "--json", "Age <= 30")
    assert ended.code == 0, ended
    (answer,) = ended.json["answers"]
    truth = sum(age <= 30 for age in AGES) / len(AGES)
    assert abs(answer["value"] - truth) <= answer["error"]
    assert answer["notes"][0] == CUT
