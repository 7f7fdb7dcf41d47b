"""The demonstration's table: the same everywhere, inside its domain, with the features that a tour should show."""

from __future__ import annotations

import csv
import hashlib

import pytest

from maquette import demo
from maquette.domain import Domain
from maquette.errors import SourceError


def test_it_is_the_same_every_time(tmp_path):
    first, declared = demo.write(tmp_path / "a", rows=500)
    second, _ = demo.write(tmp_path / "b", rows=500)
    assert first.read_bytes() == second.read_bytes()
    assert Domain.load(declared) == demo.domain()
    with first.open(newline="") as stream:
        lines = list(csv.reader(stream))
    assert lines[0] == list(demo.domain().names)
    assert len(lines) == 501


def test_every_value_is_declared_and_some_are_missing():
    columns = demo.table(2000)
    for attribute in demo.domain():
        values = [v for v in columns[attribute.name] if v is not None]
        assert (len(values) < 2000) == attribute.nullable
        if attribute.categories is not None:
            assert set(values) == set(attribute.categories)
        else:
            assert attribute.edge(0) <= min(values)
            assert max(values) <= attribute.edge(attribute.cells)


def test_people_make_sense():
    columns = demo.table(5000)
    pairs = list(zip(columns["age"], columns["work"], strict=True))
    assert all(work in ("studying", "at home") for age, work in pairs if age < 16)
    old = [work for age, work in pairs if age > 64]
    assert old.count("retired") > len(old) / 2


def test_chance_is_uniform_and_follows_its_weights():
    chance = demo.Chance(40_000)
    assert abs(chance.uniform().mean() - 0.5) < 0.01
    normal = chance.normal()
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    picked = chance.pick([1, 0, 3])
    assert abs((picked == 2).mean() - 0.75) < 0.01
    assert not (picked == 1).any()
    assert hashlib.sha256(chance.uniform()).digest() != hashlib.sha256(chance.uniform()).digest()


def test_every_question_of_the_tour_can_be_asked():
    for question in demo.QUESTIONS:
        assert 0.01 < demo.truth(question) < 0.9


def test_the_truth_is_the_tables():
    columns = demo.table()
    assert demo.truth("income is null") == columns["income"].count(None) / demo.ROWS
    assert demo.truth("age >= 60") == sum(age >= 60 for age in columns["age"]) / demo.ROWS


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="choose another folder with -o"):
        demo.write(tmp_path / "file" / "inside")
