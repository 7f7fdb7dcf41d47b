"""Small tables and sessions for tests of online answering."""

from __future__ import annotations

from typing import Any

import numpy as np

from maquette.accounting.ledger import Ledger
from maquette.core.budget import Budget
from maquette.core.curator import OnlineCurator
from maquette.core.rows.engine import MemoryEngine
from maquette.domain import Attribute, Domain, Kind, Relation
from maquette.owner import Table
from maquette.queries import where
from maquette.sessions import Session, opening
from support.seeded import SeededNoise

PEOPLE = Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=8),
        Attribute("sex", Kind.CATEGORICAL, codes=2),
        Attribute("job", Kind.CATEGORICAL, codes=4),
    )
)


def columns(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    age = np.minimum(rng.poisson(2.5, n), 7)
    job = (age // 2 + rng.integers(0, 2, n)) % 4
    drawn = {"age": age, "sex": rng.random(n) < 0.3, "job": job}
    return {name: np.asarray(codes, dtype=np.uint8) for name, codes in drawn.items()}


def people(n: int = 20_000, seed: int = 0, *, engine: Any = MemoryEngine) -> Table:
    return Table(engine(PEOPLE, columns(n, seed)), name="people", source="test")


def truth(table: Table, text: str) -> float:
    engine = table._engine
    return int(engine.answer(where(PEOPLE, text).to_forms())[0]) / max(engine.size(), 1)


def book(
    budget: Budget | None = None, location: Any = None, relation: Relation = Relation.ADD_REMOVE
) -> Ledger:
    facts: dict[str, Any] = {
        "budget": budget or Budget(1.0),
        "relation": relation,
        "domain_fingerprint": PEOPLE.fingerprint,
        "name": "people",
    }
    return Ledger.memory(**facts) if location is None else Ledger.create(location, **facts)


class SeededOnline(OnlineCurator):
    """The production curator with reproducible noise."""

    seed = 0

    def _source(self) -> Any:
        return SeededNoise(type(self).seed)


def seeded(seed: int) -> type[SeededOnline]:
    return type("Seeded", (SeededOnline,), {"seed": seed})


def seeded_session(monkeypatch: Any, seed: int, table: Table, **options: Any) -> Session:
    """`session()` with reproducible noise and nothing else changed."""
    monkeypatch.setattr(opening, "OnlineCurator", seeded(seed))
    return opening.session(table, **options)
