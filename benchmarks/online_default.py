"""What a session does whose caller gives no alpha: the error that it states, and how many questions it answers.

    python -m benchmarks online_default --data DIR

Random conjunctions of up to three of a few attributes, ranges of ordered ones, 20,000 records, epsilon 1, asked until
the first refusal or 2,000 questions. In pure epsilon and with a delta, replace-one. Then few cells, with a delta and an
alpha: 50,000 made-up records over 128 cells, where one table over all attributes answers everything that is asked.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks._online import ledger_for
from maquette.domain import Attribute, Kind
from maquette.errors import BudgetExceeded
from maquette.queries import boxes

RECORDS, ASKED = 20_000, 2_000
TABLES = {
    "adult": ("sex", "race", "education-num", "marital-status", "workclass"),
    "diamonds": ("cut", "color", "clarity", "depth"),
}
BUDGETS = (mq.Budget(1.0), mq.Budget(1.0, 1e-9))
FEW = mq.Domain(
    (
        Attribute("age", Kind.ORDINAL, codes=8),
        Attribute("job", Kind.CATEGORICAL, codes=4),
        Attribute("region", Kind.CATEGORICAL, codes=4),
    )
)
FEW_RECORDS, FEW_ASKED, FEW_ALPHA = 50_000, 2_500, 0.015


def run(data: Path | None) -> list[dict[str, Any]]:
    few = [_few_cells(mechanism) for mechanism in ("pmw", "direct")]
    if data is None:
        return few
    return [*(_until_refused(data, name, budget) for name in TABLES for budget in BUDGETS), *few]


def _few_cells(mechanism: str) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    weights = rng.dirichlet(np.full(128, 0.5))
    cells = np.unravel_index(rng.choice(128, size=FEW_RECORDS, p=weights), (8, 4, 4))
    table = mq.open(dict(zip(FEW.names, (c.tolist() for c in cells), strict=True)), domain=FEW)
    budget = mq.Budget(1.0, 1e-9)
    session = mq.session(
        table.for_another_ledger(),
        epsilon=budget.epsilon,
        delta=budget.delta,
        alpha=FEW_ALPHA,
        mechanism=mechanism,
        ledger=ledger_for(table, budget),
        relation="replace-one",
    )
    figures = _asked(session, table, FEW.names, FEW_ASKED, FEW_RECORDS)
    left = session.left / session.total
    return {"what": f"few cells, {mechanism}", "alpha": FEW_ALPHA, "left": round(left, 3)} | figures


def _until_refused(data: Path, name: str, budget: mq.Budget) -> dict[str, Any]:
    import pandas as pd

    domain = mq.Domain.load(data / f"{name}.domain.json")
    frame = pd.read_csv(data / f"{name}.csv").sample(RECORDS, random_state=3)
    table = mq.open(frame, domain=domain)
    session = mq.session(
        table.for_another_ledger(),
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation="replace-one",
        ledger=ledger_for(table, budget),
        attributes=TABLES[name],
    )
    about = {"what": "no alpha", "table": name, "epsilon": budget.epsilon, "delta": budget.delta}
    return about | _asked(session, table, TABLES[name], ASKED, RECORDS)


def _asked(session: Any, table: Any, names: tuple[str, ...], most: int, records: int) -> dict[str, Any]:
    """Random conjunctions until the first refusal."""
    rng, kinds, true, stated = np.random.default_rng(11), [], [0.0], [0.0]
    started = time.process_time()
    for _ in range(most):
        question = _question(table.domain, names, rng)
        try:
            answer = session.ask(question)
        except BudgetExceeded:
            break
        kinds.append(answer.kind)
        stated.append(answer.error)
        true.append(abs(answer.value - int(table._engine.answer(question.to_forms())[0]) / records))
    return {
        "largest stated error": round(max(stated), 4),
        "median stated error": round(float(np.median(stated[1:])), 4),
        "answered": len(kinds),
        "of": most,
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
