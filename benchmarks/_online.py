"""What the benchmarks of online answering share: tables, questions, sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette.domain import Attribute, Kind
from maquette.queries import boxes, where

N, ASKED = 50_000, 20_000


def made(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[mq.Table, np.ndarray]:
    """A table of clumped records, and its histogram."""
    domain = mq.Domain(tuple(Attribute(f"a{i}", Kind.CATEGORICAL, codes=s) for i, s in enumerate(shape)))
    cells = rng.choice(domain.size, size=N, p=rng.dirichlet(np.full(domain.size, 0.1)))
    codes = np.unravel_index(cells, shape)
    import pandas as pd

    frame = pd.DataFrame(dict(zip(domain.names, codes, strict=True)))
    return mq.open(frame, domain=domain), np.bincount(cells, minlength=domain.size).reshape(shape)


def conjunction(domain: mq.Domain, rng: np.random.Generator) -> Any:
    """Some attributes, a random set of cells of each."""
    width = int(rng.integers(1, len(domain.names) + 1))
    parts: list[str] = []
    for place in rng.choice(len(domain.names), size=width, replace=False):
        size = domain.shape[place]
        chosen = rng.choice(size, size=int(rng.integers(1, size)), replace=False)
        parts.append(f"{domain.names[place]} in ({', '.join(str(c) for c in sorted(chosen))})")
    return where(domain, " and ".join(parts))


def ledger_for(table: mq.Table, budget: mq.Budget, location: Path | None = None) -> mq.Ledger:
    facts: dict[str, Any] = {
        "budget": budget,
        "relation": mq.Relation.REPLACE_ONE,
        "domain_fingerprint": table.domain.fingerprint,
        "name": "benchmark",
    }
    return mq.Ledger.memory(**facts) if location is None else mq.Ledger.create(location, **facts)


def open_session(
    table: mq.Table,
    budget: mq.Budget,
    *,
    ledger: mq.Ledger | None = None,
    count: int = ASKED,
    **options: Any,
) -> Any:
    return mq.session(
        table if ledger is not None else table.for_another_ledger(),
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation="replace-one",
        ledger=ledger or ledger_for(table, budget),
        queries=count,
        **options,
    )


def real_question(domain: mq.Domain, rng: np.random.Generator) -> Any:
    """Three attributes: one value of a categorical one, a range of an ordered one."""
    box: dict[str, tuple[int, int]] = {}
    for place in rng.choice(len(domain.names), size=3, replace=False):
        attribute = domain[domain.names[place]]
        first = int(rng.integers(attribute.size))
        ordered = attribute.kind in (Kind.ORDINAL, Kind.NUMERIC)
        last = int(rng.integers(first, attribute.size)) if ordered else first
        box[attribute.name] = (first, last)
    return boxes(domain, [box])
