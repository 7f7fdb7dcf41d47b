"""A mean that would state no error is refused before its sum is paid: the counts, which are answered first, tell."""

from __future__ import annotations

import numpy as np
import pytest

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.errors import UselessAnswer
from maquette.owner import Table
from maquette.sessions import Session
from support.online_cases import seeded_session

DOMAIN = Domain(
    (
        Attribute("income", Kind.NUMERIC, bounds=(0.0, 100.0), bins=100, integer=True),
        Attribute("region", Kind.CATEGORICAL, categories=("north", "south", "isle")),
    )
)
ALL = "select region, avg(income) from t group by region"


def opened(monkeypatch, **options) -> Session:
    """Two regions with thousands of records each, and one with four."""
    rng = np.random.default_rng(0)
    region = np.r_[rng.integers(0, 2, 9_996), [2] * 4]
    columns = {"income": rng.integers(0, 100, 10_000), "region": region}
    codes = {name: np.asarray(column, dtype=np.uint8) for name, column in columns.items()}
    table = Table(MemoryEngine(DOMAIN, codes), name="people", source="test")
    ledger = Ledger.memory(
        budget=Budget(1.0), relation=Relation.ADD_REMOVE, domain_fingerprint=DOMAIN.fingerprint, name="people"
    )
    return seeded_session(monkeypatch, 1, table, ledger=ledger, epsilon=1.0, queries=20, **options)


@pytest.mark.parametrize("statement", [ALL, "select avg(income) from t where region = 'isle'"])
def test_only_the_counts_are_paid(monkeypatch, statement):
    session = opened(monkeypatch)
    with pytest.raises(
        UselessAnswer, match=r"may have no record.*Nothing was charged for the mean"
    ) as refused:
        session.sql(statement)
    assert "isle" in str(refused.value)
    paid = [past.what for past in session.history() if past.kind == "paid"]
    assert paid
    assert not any("mean of" in what for what in paid)
    # now it is known beforehand, from what was released
    left = session.left
    assert session.forecast(statement).refusal == "error"
    with pytest.raises(UselessAnswer):
        session.sql(statement)
    assert session.left == left
    assert session.forecast(statement, allow_useless=True).refusal is None


def test_a_group_that_has_records_keeps_its_mean(monkeypatch):
    session = opened(monkeypatch)
    found = session.sql("select region, avg(income) from t where region <> 'isle' group by region")
    errors = next(name for name in found.arrow.column_names if name.endswith("error"))
    assert all(row[errors] < 5 for row in found.arrow.to_pylist() if row["region"] in ("north", "south"))


def test_who_allows_it_pays_for_it_and_gets_it_again(monkeypatch):
    session = opened(monkeypatch)
    first = session.sql(ALL, allow_useless=True)
    again = session.sql(ALL)  # everything is answered: nothing is left to refuse
    assert again.cost == 0
    assert len(again) == len(first) == 3
