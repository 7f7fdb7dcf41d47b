"""The gate's draw: paid before it looks, kept in the ledger, exact for huge universes, refused without budget."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import maquette as mq
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget, Cost, Unit
from maquette.core.curator import Curator
from maquette.core.drawing import join_words, split_words
from maquette.core.events import PureEvent
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import BudgetExceeded, ParameterError
from maquette.queries import prefixes, where
from maquette.samplers.draw import EXACT_DRAWS
from maquette.samplers.structures import Candidates, Draw, Listed, Thresholds

HUGE = Domain((Attribute("key", Kind.ORDINAL, codes=2**64),))
SMALL = Domain(
    (Attribute("age", Kind.ORDINAL, codes=5, nullable=True), Attribute("sex", Kind.BOOLEAN, codes=2))
)


def table_of(domain: Domain, n: int = 40) -> mq.Table:
    rng = np.random.default_rng(5)
    columns = {a.name: [str(v) for v in rng.integers(0, min(a.cells, 2**62), n)] for a in domain}
    return mq.open(columns, domain=domain)


def curator_for(table: mq.Table, *, epsilon: float = 1.0, delta: float = 0.0, relation=Relation.ADD_REMOVE):
    budget = Budget(epsilon, delta)
    ledger = Ledger.memory(
        budget=budget, relation=relation, domain_fingerprint=table.domain.fingerprint, name="test"
    )
    cost = Cost(budget.total_units, budget.slack_units)
    ledger.reserve("r", request="0" * 64, tag="release", cost=cost, body={}, envelope=True)
    return Curator(table, ledger, key="r", budget=budget, draws=EXACT_DRAWS), ledger


def test_a_draw_over_2_to_the_64_cells_gives_codes_of_that_size():
    curator, _ = curator_for(table_of(HUGE))
    drawn = curator.draw(Draw(Thresholds("key"), "tree", 8), price=Fraction(1))
    codes = drawn.columns(np.random.default_rng(0))["key"]
    assert len(codes) == 8
    assert all(0 <= int(c) < 2**64 for c in codes)
    assert drawn.epsilon == 1
    assert curator.left == 0


@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Relation))
def test_each_structure_gives_rows_inside_the_domain(relation):
    queries = prefixes(SMALL, "age") + where(SMALL, "sex = 1")
    rows = {"age": np.arange(12).reshape(4, 3) % 5, "sex": np.zeros((4, 3), dtype=int)}
    asked = [
        Draw(Thresholds("age"), "tree", 6),
        Draw(Thresholds("age"), "flat", 6, 2),
        Draw(Listed(queries), "flat", 3),
        Draw(Listed(queries), "sequence", 3),
        Draw(Candidates(queries, rows), "flat", 3),
    ]
    curator, ledger = curator_for(table_of(SMALL), relation=relation)
    for draw in asked:
        columns = curator.draw(draw, price=Fraction(1, 8)).columns(np.random.default_rng(0))
        assert set(columns) <= {"age", "sex"}
        for name, codes in columns.items():
            assert len(codes) == draw.m
            assert all(0 <= c < SMALL[name].size for c in codes)
    entries = list(ledger.entries(kind="reserve", parent="r"))
    assert [e.tag for e in entries] == ["pure"] * len(asked)
    assert "tree base, m=6" in str(entries[0].body)


def test_the_same_step_again_returns_the_stored_rows_at_no_cost():
    table = table_of(HUGE)
    curator, ledger = curator_for(table)
    draw = Draw(Thresholds("key"), "tree", 8)
    first = curator.draw(draw, price=Fraction(1)).values[0]
    spent = ledger.balance().spent_units
    again = (
        Curator(table, ledger, key="r", budget=Budget(1.0), draws=EXACT_DRAWS)
        .draw(draw, price=Fraction(1))
        .values[0]
    )
    assert first.tolist() == again.tolist()
    assert ledger.balance().spent_units == spent


def test_a_ledger_in_rho_is_charged_for_bounded_range():
    curator, ledger = curator_for(table_of(HUGE), epsilon=1.0, delta=1e-6)
    curator.draw(Draw(Thresholds("key"), "tree", 4), price=Fraction(1, 200))
    (entry,) = ledger.entries(kind="reserve", parent="r")
    assert entry.tag == "selection"
    assert entry.units <= 10**12 // 200
    assert entry.units > PureEvent(Fraction(1, 200), "x").cost(Unit.RHO).units


class Untouchable:
    """An engine that fails when asked."""

    domain = HUGE

    def __getattr__(self, name: str):
        raise AssertionError(f"looked at the table: {name}")

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        return "0" * 64


def test_a_draw_that_cannot_be_paid_reads_nothing():
    curator, _ = curator_for(mq.Table(Untouchable(), name="x", source="x"), epsilon=0.5)  # type: ignore[arg-type]
    with pytest.raises(BudgetExceeded):
        curator.draw(Draw(Thresholds("key"), "tree", 4), price=Fraction(1))


def test_an_interrupted_draw_stays_charged_and_says_so(monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    table = table_of(HUGE)
    curator, ledger = curator_for(table)
    monkeypatch.setattr("maquette.samplers.draw.Slices", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stays charged"):
        curator.draw(Draw(Thresholds("key"), "tree", 4), price=Fraction(1))
    assert [e.units for e in ledger.entries(kind="reserve", parent="r")] == [10**12]
    monkeypatch.undo()
    again = Curator(table, ledger, key="r", budget=Budget(1.0), draws=EXACT_DRAWS)
    with pytest.raises(BudgetExceeded, match=r"looking again is charged once more.*0\.0 % is left"):
        again.draw(Draw(Thresholds("key"), "tree", 4), price=Fraction(1))


def test_the_holder_of_the_table_follows_a_draw_level_by_level():
    table, seen = table_of(HUGE), list[int]()
    _, ledger = curator_for(table)
    watched = Curator(table, ledger, key="r", budget=Budget(1.0), draws=EXACT_DRAWS, watch=seen.append)
    watched.draw(Draw(Thresholds("key"), "tree", 4), price=Fraction(1))
    assert seen == list(range(1, len(seen) + 1))
    assert seen


@pytest.mark.parametrize("code", [0, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_codes_of_every_size_come_back_from_the_ledger(code):
    (back,) = join_words(split_words([np.array([code, 1], dtype=np.uint64)]))
    assert back.tolist() == [code, 1]


def test_descriptions_are_checked():
    with pytest.raises(ParameterError, match="base"):
        Draw(Listed(prefixes(SMALL, "age")), "tree", 3)
    with pytest.raises(ParameterError, match="m="):
        Draw(Thresholds("key"), "tree", 0)
    with pytest.raises(ParameterError, match="shape"):
        Candidates(prefixes(SMALL, "age"), {"age": np.zeros(3, dtype=int)})
    with pytest.raises(ParameterError, match="no codes for age"):
        Candidates(prefixes(SMALL, "age"), {"sex": np.zeros((2, 3), dtype=int)})
