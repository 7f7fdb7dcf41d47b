"""The page on extending: its files are taken from it, registered by its lines, and used."""

from __future__ import annotations

import itertools
import json
import re
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.core.budget import Unit
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.mechanisms.base import MECHANISMS, Mechanism, Prepared, Registry, Task
from maquette.queries import Sensitivity, canonical_hash, forms, from_json, to_json
from maquette.vault import readers
from support.privacy_replay import SOURCES, SURVEY, check_replay, neighbours_of, release, table
from support.query_cases import SCALE, plain_distinct, plain_sensitivity

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")
FILES = re.findall(
    r"^`src/(maquette/[\w/]+)\.py`:\n\n<!-- .*? -->\n\n```python\n(.*?)^```", PAGE, re.M | re.S
)
LINES = re.findall(r"^    (\S+): (\S+),$", PAGE, re.M)


DOMAIN = Domain((Attribute("a", Kind.ORDINAL, codes=5), Attribute("b", Kind.CATEGORICAL, codes=2)))


@pytest.fixture
def files(monkeypatch) -> dict[str, ModuleType]:
    """The modules of the page, importable under the names that they would have."""
    modules = {}
    for path, code in FILES:
        name = path.replace("/", ".")
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(code, path, "exec", dont_inherit=True), module.__dict__)
        modules[name.rpartition(".")[2]] = module
    return modules


def test_the_page_has_a_file_and_a_line_of_each_kind(files):
    assert list(files) == ["plain", "residues", "json_lines"]
    assert [name for name, _ in LINES] == ['"plain"', "Residues", '".jsonl"']


# --- the mechanism ---


@pytest.fixture
def plain(files, monkeypatch) -> Mechanism:
    """Registered by the line of the page."""
    name, place = (json.loads(part) for part in LINES[0])
    monkeypatch.setitem(MECHANISMS, name, Registry({name: place})[name])
    return MECHANISMS["plain"]


@pytest.mark.parametrize("relation", list(Relation))
def test_the_mechanism_plans_and_runs(plain, relation):
    queries = mq.marginals(DOMAIN, k=1)
    options = {"epsilon": 5.0, "relation": relation, "certificate": 0.0}
    (forecast,) = mq.plan(queries, n=60, mechanisms=["plain"], **options).forecasts
    assert forecast.refusal is None
    assert 0 < forecast.expected < forecast.guaranteed < 1
    people = mq.open({"a": [i % 5 for i in range(60)], "b": [i % 2 for i in range(60)]}, domain=DOMAIN)
    made = mq.release(people, queries, mechanism="plain", ledger="memory", typical_rows=60, **options)
    assert made.mechanism == "plain"
    assert made.answers.fractions.shape == (queries.count,)
    if relation is Relation.REPLACE_ONE:
        assert made.guarantee.alpha == pytest.approx(forecast.guaranteed, rel=1e-3)


def task(post: str = "auto") -> Task:
    price = Fraction(1)
    return Task(mq.marginals(DOMAIN, k=1), Relation.ADD_REMOVE, Unit.EPSILON, price, beta=0.05, post=post)


def test_the_mechanism_prepares_once_and_refuses_in_words(plain):
    prepared = plain.prepare(task(post="lp"))
    assert isinstance(prepared, Prepared)
    assert "post='auto'" in prepared.refusal
    assert prepared.forecast.refusal == prepared.refusal
    whole = plain.prepare(task())
    assert whole._parts is whole._parts


@pytest.mark.privacy
@pytest.mark.parametrize("relation", list(Relation))
def test_the_mechanism_replays_on_neighbours(plain, relation, tmp_path):
    """Same questions, same prices, same public results on one tape; only the private inputs differ."""
    rng = np.random.default_rng(3)
    rows = table(rng, 60)
    options = {"mechanism": "plain", "epsilon": 1.0}
    queries, make = mq.marginals(SURVEY, k=1), SOURCES["csv"]
    first = release(make(rows, tmp_path / "first"), queries, relation, None, **options)
    for number, other in enumerate(neighbours_of(rows, rng, relation, 3)):
        source = make(other, tmp_path / str(number))
        check_replay(first, release(source, queries, relation, first.run.calls, **options), "epsilon")


# --- the class of queries ---


@pytest.fixture
def residues(files, monkeypatch) -> Any:
    """Registered by the line of the page."""
    kind = files["residues"].Residues
    assert LINES[1] == (kind.__name__, f"{kind.__name__}.from_spec")
    monkeypatch.setitem(forms.READERS, kind, kind.from_spec)
    return kind


@pytest.mark.law
@pytest.mark.parametrize("step", [2, 3, 5])
def test_the_class_agrees_with_its_definition(residues, step):
    queries = residues(DOMAIN, "a", step)
    cells = list(itertools.product(range(5), range(2)))
    matrix = np.array([[SCALE * (a % step == r) for a, _ in cells] for r in range(step)])
    rng = np.random.default_rng(step)
    picks = rng.integers(0, len(cells), 40)
    rows = {name: np.array([cells[p][i] for p in picks], dtype=np.uint8) for i, name in enumerate("ab")}
    histogram = np.bincount(picks, minlength=len(cells)).reshape(DOMAIN.shape)
    for answers in (queries.on_rows(rows), queries.on_histogram(histogram)):
        assert answers.dtype == np.int64
        assert (answers * SCALE == matrix @ histogram.ravel()).all()
    assert queries.distinct() == plain_distinct(matrix)
    for relation in Relation:
        assert queries.sensitivity(relation) == plain_sensitivity(matrix, relation)
    again = from_json(DOMAIN, to_json(queries))
    assert again == queries
    assert canonical_hash(again) == canonical_hash(queries)


OPTIONS = {"epsilon": 50.0, "mechanism": "laplace", "relation": "replace-one", "ledger": "memory"}


def test_the_class_is_answered_through_the_gate(residues):
    queries = residues(DOMAIN, "a", 2)
    made = mq.release(mq.open({"a": [0, 1, 2, 2], "b": [0, 1, 1, 0]}, domain=DOMAIN), queries, **OPTIONS)
    assert made.answers.fractions == pytest.approx([0.75, 0.25], abs=0.3)


@pytest.mark.privacy
def test_a_class_that_understates_its_sensitivity_is_charged_what_its_weights_show(
    residues, monkeypatch, tmp_path
):
    queries = residues(DOMAIN, "a", 2)
    honest = queries.sensitivity(Relation.REPLACE_ONE)
    nothing = Sensitivity(honest.l1 / 1000, honest.l2_squared / 1000, honest.linf / 1000)
    monkeypatch.setattr(residues, "sensitivity", lambda self, relation: nothing)
    place = tmp_path / "people.ledger"
    table = mq.open({"a": [0, 1, 2, 2], "b": [0, 1, 1, 0]}, domain=DOMAIN)
    mq.release(table, queries, **OPTIONS | {"ledger": place})
    with mq.Ledger.open(place) as ledger:
        (paid,) = [one for one in ledger.entries(kind="reserve") if one.body.get("ask") == "measure"]
    assert Fraction(paid.body["l1"]) == honest.l1


# --- the source ---


def test_the_source_is_opened_and_released_from(files, monkeypatch, tmp_path):
    kind = files["json_lines"].JsonLines
    assert LINES[2] == ('".jsonl"', kind.__name__)
    monkeypatch.setitem(readers.FILES, ".jsonl", kind)
    place = tmp_path / "people.jsonl"
    people = [{"a": i % 5, "b": i % 2} for i in range(40)]
    place.write_text("".join(json.dumps(person) + "\n" for person in people))
    opened = mq.open(place, domain=DOMAIN)
    made = mq.release(
        opened, mq.marginals(DOMAIN, k=1), epsilon=50.0, mechanism="laplace", relation="replace-one"
    )
    assert made.size.value == 40
    assert made.answers.fractions[:5] == pytest.approx([0.2] * 5, abs=0.1)
