"""Typical errors are those of brute force, and one record moves each of them by at most 1."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maquette.core import typical
from maquette.core.budget import Budget
from maquette.core.combinations import ReleasedRows, axes_of
from maquette.core.curator import Curator
from maquette.core.rows import engine as vault
from maquette.core.rows.engine import MemoryEngine
from maquette.core.typical import Conjunctions, Distance, Quantile, TypicalQuestion
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import MaquetteError, MechanismError
from support.privacy_doubles import ledger_for, set_aside, table_of

DOMAIN = Domain(
    (
        Attribute("a", Kind.ORDINAL, codes=3),
        Attribute("b", Kind.CATEGORICAL, codes=2, nullable=True),
        Attribute("c", Kind.BOOLEAN, codes=2),
    )
)
NAMES = DOMAIN.names
SIZES = tuple(DOMAIN[name].size for name in NAMES)
MARGINS = [margin for k in (1, 2, 3) for margin in itertools.combinations(NAMES, k)]


def codes(rng, n):
    return np.stack([np.minimum(*rng.integers(size, size=(2, n))) for size in SIZES], axis=1).astype(
        np.uint16
    )


def questions(rng, number=9, places=2):
    columns = rng.integers(3, size=(number, places))
    ends = np.sort(rng.integers(np.array(SIZES)[columns], size=(2, number, places)), axis=0)
    return Conjunctions(*(one.astype(np.uint16) for one in (columns, *ends)))


def statistics(rng):
    asked = questions(rng)
    return [
        *(Quantile(asked, rank) for rank in (1, 5, 9)),
        Distance(tuple(MARGINS[:3])),
        Distance(tuple(MARGINS[3:6])),
        Distance((NAMES,)),
    ]


def measured(records, question):
    columns = {name: records[:, i] for i, name in enumerate(NAMES)}
    return vault.typical_errors(MemoryEngine(DOMAIN, columns), question).tolist()


def brute(records, rows, one):
    """By the words of the statistic, in fractions."""
    n, m = len(records), len(rows)
    if isinstance(one, Quantile):
        errors = []
        for columns, low, high in zip(
            one.questions.columns, one.questions.low, one.questions.high, strict=True
        ):
            met = [
                sum(
                    all(lo <= r[c] <= hi for c, lo, hi in zip(columns, low, high, strict=True))
                    for r in some.tolist()
                )
                for some in (records, rows)
            ]
            errors.append(abs(met[0] - Fraction(n * met[1], m)))
        return -(-sorted(errors)[one.rank - 1] // 1)
    total = Fraction(0)
    for margin in one.margins:
        places = [NAMES.index(name) for name in margin]
        for cell in itertools.product(*(range(SIZES[i]) for i in places)):
            met = [int((some[:, places] == cell).all(axis=1).sum()) for some in (records, rows)]
            total += abs(met[0] - Fraction(n * met[1], m)) / 2
    return -(-total / len(one.margins) // 1)


@pytest.mark.parametrize("seed", range(40))
def test_they_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    records, rows = codes(rng, int(rng.integers(0, 30))), codes(rng, int(rng.integers(1, 20)))
    asked = statistics(rng)
    question = TypicalQuestion.of(DOMAIN, ReleasedRows(NAMES, rows), asked)
    assert measured(records, question) == [brute(records, rows, one) for one in asked]


def farthest(seed, n=6):
    """How far any one record moves each statistic, over all records that may come, go or be exchanged."""
    rng = np.random.default_rng(seed)
    records, rows = codes(rng, n), codes(rng, 4)
    question = TypicalQuestion.of(DOMAIN, ReleasedRows(NAMES, rows), statistics(rng))
    every = [np.array([cell], dtype=np.uint16) for cell in itertools.product(*map(range, SIZES))]
    base = np.array(measured(records, question))
    added = [measured(np.concatenate([records, one]), question) for one in every]
    replaced = [measured(np.concatenate([records[1:], one]), question) for one in every]
    return np.abs(np.array(added) - base).max(axis=0), np.abs(np.array(replaced) - base).max(axis=0)


@pytest.mark.parametrize("seed", range(12))
def test_one_record_moves_every_statistic_by_at_most_one(seed):
    for moved in farthest(seed):
        assert moved.max() <= 1


def test_some_record_moves_every_statistic_but_the_smallest():
    moved = np.max([np.max(farthest(seed), axis=0) for seed in range(4)], axis=0)
    assert moved[1:].tolist() == [1] * 5


def whole_distance(released, margins, tables, domain):
    """Planted: without the half, an exchanged record moves two cells by 1."""
    return 2 * HONEST_DISTANCE(released, margins, tables, domain)


def sum_of_errors(one, rows, records, times):
    """Planted: the sum of the errors up to the rank."""
    return sum(HONEST_QUANTILE(replace(one, rank=k), rows, records, times) for k in range(1, one.rank + 1))


def of_other_n(one, rows, records, times):
    """Planted: shares of the distinct records, so that an exchanged record changes their number."""
    distinct, counts = np.unique(records, axis=0, return_counts=True)
    return HONEST_QUANTILE(one, rows, distinct, np.ones(len(counts), dtype=np.int64) * 3)


HONEST_DISTANCE, HONEST_QUANTILE = typical._mean_distance, typical._quantile


@pytest.mark.parametrize(
    ("place", "fault"),
    [("_mean_distance", whole_distance), ("_quantile", sum_of_errors), ("_quantile", of_other_n)],
)
def test_planted_faults_are_noticed(monkeypatch, place, fault):
    monkeypatch.setattr(typical, place, fault)
    assert max(max(map(max, farthest(seed))) for seed in range(6)) > 1


def test_memory_and_distinct_records_agree():
    rng = np.random.default_rng(5)
    records = codes(rng, 200)
    question = TypicalQuestion.of(DOMAIN, ReleasedRows(NAMES, codes(rng, 50)), statistics(rng))
    assert measured(records, question) == measured(records[::-1], question)


@pytest.mark.parametrize(
    "change",
    [
        lambda q: [],
        lambda q: ["nine in ten"],
        lambda q: [Quantile(q, 0)],
        lambda q: [Quantile(q, 10)],
        lambda q: [Quantile(q, True)],
        lambda q: [Quantile(None, 1)],
        lambda q: [Quantile(replace(q, columns=q.columns + np.uint16(3)), 1)],
        lambda q: [Quantile(replace(q, low=q.low[:-1]), 1)],
        lambda q: [Quantile(replace(q, low=q.low.astype(np.int64)), 1)],
        lambda q: [Quantile(replace(q, high=q.high.ravel()), 1)],
        lambda q: [Quantile(Conjunctions(*[np.zeros((0, 1), dtype=np.uint16)] * 3), 1)],
        lambda q: [Distance(())],
        lambda q: [Distance((("a",), ("a",)))],
        lambda q: [Distance(((),))],
        lambda q: [Distance((("b", "a"),))],
        lambda q: [Distance((("nobody",),))],
        lambda q: [Distance([("a",)])],
    ],
)
def test_what_has_no_sensitivity_of_one_is_refused_unpaid(change):
    ledger = ledger_for(DOMAIN, budget=Budget(1.0), relation=Relation.ADD_REMOVE)
    set_aside(ledger, "one", Budget(1.0))
    curator = Curator(table_of(DOMAIN, (1,) * DOMAIN.size), ledger, key="one", budget=Budget(1.0))
    rows = ReleasedRows(NAMES, codes(np.random.default_rng(0), 5))
    before = curator.left, len(list(ledger.entries()))
    with pytest.raises(MaquetteError):
        curator.typical_errors(rows, change(questions(np.random.default_rng(1))), price=Fraction(1, 10))
    assert (curator.left, len(list(ledger.entries()))) == before


def test_a_table_elsewhere_is_refused_unpaid(monkeypatch):
    ledger = ledger_for(DOMAIN, budget=Budget(1.0), relation=Relation.ADD_REMOVE)
    set_aside(ledger, "one", Budget(1.0))
    curator = Curator(table_of(DOMAIN, (1,) * DOMAIN.size), ledger, key="one", budget=Budget(1.0))
    monkeypatch.setattr(MemoryEngine, "lists_records", False)
    rows = ReleasedRows(NAMES, codes(np.random.default_rng(0), 5))
    with pytest.raises(MechanismError, match="Nothing was paid"):
        curator.typical_errors(rows, [Distance((("a",),))], price=Fraction(1, 10))
    assert not list(ledger.entries(kind="answer"))


def test_axes_are_those_of_the_rows():
    rows = ReleasedRows(NAMES, codes(np.random.default_rng(0), 5))
    assert list(rows.check(DOMAIN)) == axes_of(DOMAIN, NAMES)
