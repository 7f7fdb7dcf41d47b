"""What a session does whose caller gives no alpha: the error that it states, and how many questions it answers.

    python -m benchmarks online_default --data DIR

Random conjunctions of up to three of a few attributes, ranges of ordered ones, 20,000 records, epsilon 1, asked until
the first refusal or 2,000 questions. In pure epsilon and with a delta, replace-one.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks._online import ledger_for
from maquette.domain import Kind
from maquette.errors import BudgetExceeded
from maquette.queries import boxes

RECORDS, ASKED = 20_000, 2_000
TABLES = {
    "adult": ("sex", "race", "education-num", "marital-status", "workclass"),
    "diamonds": ("cut", "color", "clarity", "depth"),
}
BUDGETS = (mq.Budget(1.0), mq.Budget(1.0, 1e-9))


def run(data: Path | None) -> list[dict[str, Any]]:
    if data is None:
        return []
    return [_until_refused(data, name, budget) for name in TABLES for budget in BUDGETS]


def _until_refused(data: Path, name: str, budget: mq.Budget) -> dict[str, Any]:
    import pandas as pd

    domain = mq.Domain.load(data / f"{name}.domain.json")
    frame = pd.read_csv(data / f"{name}.csv").sample(RECORDS, random_state=3)
    table = mq.open(frame, domain=domain)
    session = mq.session(
        table,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation="replace-one",
        ledger=ledger_for(table, budget),
        attributes=TABLES[name],
    )
    rng, kinds, true, stated = np.random.default_rng(11), [], [0.0], [0.0]
    started = time.process_time()
    for _ in range(ASKED):
        question = _question(domain, TABLES[name], rng)
        try:
            answer = session.ask(question)
        except BudgetExceeded:
            break
        kinds.append(answer.kind)
        stated.append(answer.error)
        true.append(abs(answer.value - int(table._engine.answer(question)[0]) / RECORDS))
    return {
        "what": "no alpha",
        "table": name,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "largest stated error": round(max(stated), 4),
        "median stated error": round(float(np.median(stated[1:])), 4),
        "answered": len(kinds),
        "of": ASKED,
        "paid": kinds.count("paid"),
        "outside of the stated error": sum(t > s for t, s in zip(true, stated, strict=True)),
        "largest error": round(max(true), 4),
        "processor seconds": round(time.process_time() - started, 1),
    }


def _question(domain: mq.Domain, names: tuple[str, ...], rng: np.random.Generator) -> Any:
    box: dict[str, tuple[int, int]] = {}
    for place in rng.choice(len(names), size=int(rng.integers(1, 4)), replace=False):
        attribute = domain[names[place]]
        first = int(rng.integers(attribute.size))
        is_ordered = attribute.kind in (Kind.ORDINAL, Kind.NUMERIC)
        last = int(rng.integers(first, attribute.size)) if is_ordered else first
        box[attribute.name] = (first, last)
    return boxes(domain, [box])
