"""A text that is forecast and then asked is read once; what cannot be read is refused every time."""

from __future__ import annotations

import pytest

from maquette import demo
from maquette.domain import Domain
from maquette.errors import MaquetteError
from maquette.queries import where
from maquette.sessions import question
from maquette.sessions.question import QuestionReader


def test_a_text_is_read_once_and_means_the_same(tmp_path, monkeypatch):
    demo.write(tmp_path, rows=10)
    domain, texts = Domain.load(tmp_path / "people.domain.json"), list[str]()

    def counted(domain: Domain, text: str):
        texts.append(text)
        return where(domain, text)

    monkeypatch.setattr(question, "where", counted)
    reader, narrow = QuestionReader(domain), QuestionReader(domain, ("sex",))
    first, again, other = reader.read("age < 30"), reader.read("age < 30"), reader.read("age < 40")
    assert first is again
    assert (first.meaning == other.meaning, texts) == (False, ["age < 30", "age < 40"])
    for _ in range(2):
        with pytest.raises(MaquetteError, match="questions about sex"):
            narrow.read("age < 30")
        with pytest.raises(MaquetteError):
            reader.read("height < 30")
    monkeypatch.setattr(question, "READ_TEXTS", 2)
    small = QuestionReader(domain)
    for number in (10, 20, 30, 10):
        small.read(f"age < {number}")
    assert texts[-4:] == ["age < 10", "age < 20", "age < 30", "age < 10"]
