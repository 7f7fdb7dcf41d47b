"""SmallDB among candidates against sculpt's own rows: the largest error at m = 50, 200 and 1,000 rows.

    python -m benchmarks candidates --data DIR

The same total epsilon for each: sculpt makes m rows with all of it; or sculpt makes its usual rows with four fifths,
which propose small databases of m rows (`mq.small_databases`), and one exact draw with the last fifth decides. `all
sizes` lets the draw decide the size too. Conjunctions of three of twelve bits, and pairs of six attributes of Adult.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks._online import ledger_for
from maquette.domain import Attribute, Kind

SIZES, RUNS = (50, 200, 1000), 2
EPSILON, DELTA = 1.0, 1e-9
EACH = 4


def run(data: Path | None) -> list[dict[str, Any]]:
    figures = _compare("12 bits", *_bits())
    return figures if data is None else [*figures, *_compare("adult", *_adult(data))]


def _bits() -> tuple[mq.Table, Any]:
    rng = np.random.default_rng(12)
    rows = (rng.random((20_000, 12)) < 0.15 + 0.7 * rng.random((20_000, 1))).astype(np.uint8)
    domain = mq.Domain(tuple(Attribute(f"b{i}", Kind.CATEGORICAL, codes=2) for i in range(12)))
    return mq.open({f"b{i}": rows[:, i].tolist() for i in range(12)}, domain=domain), mq.conjunctions(
        domain, 3
    )


def _adult(data: Path) -> tuple[mq.Table, Any]:
    domain = mq.Domain.load(data / "adult.domain.json")
    small = sorted(domain, key=lambda attribute: attribute.size)[:6]
    names = [attribute.name for attribute in domain if attribute in small]
    pairs = list(itertools.combinations(names, 2))
    return mq.open(data / "adult.csv", domain=domain), mq.marginals(domain, attributes=pairs)


def _compare(name: str, table: mq.Table, workload: Any) -> list[dict[str, Any]]:
    exact = table._engine.answer(workload.to_forms()) / table._engine.size()
    errors: dict[tuple[str, int | str], list[float]] = {}
    for _ in range(RUNS):
        for size in SIZES:
            own = _release(table, workload, EPSILON, rows=size)
            errors.setdefault(("sculpt's own rows", size), []).append(_largest(own.database, workload, exact))
        earlier = _release(table, workload, 0.8 * EPSILON)
        proposals = {m: mq.small_databases(earlier, [m], each=EACH, workload=workload) for m in SIZES}
        together = [one for listed in proposals.values() for one in listed]
        for size, listed in (*proposals.items(), ("all sizes", together)):
            chosen = mq.choose(
                table.for_another_ledger(),
                listed,
                score="database",
                workload=workload,
                epsilon=0.2 * EPSILON,
                ledger=ledger_for(table, mq.Budget(0.2 * EPSILON)),
                relation="replace-one",
            )
            errors.setdefault(("candidates", size), []).append(_largest(chosen.candidate, workload, exact))
    return [
        {
            "what": what,
            "table": name,
            "m": size,
            "queries": workload.count,
            "epsilon": EPSILON,
            "largest error, mean": round(float(np.mean(values)), 4),
            "runs": RUNS,
        }
        for (what, size), values in errors.items()
    ]


def _release(table: mq.Table, workload: Any, epsilon: float, **more: Any) -> mq.Release:
    return mq.release(
        table.for_another_ledger(),
        workload,
        epsilon=epsilon,
        delta=DELTA,
        mechanism="sculpt",
        certificate=0.0,
        relation="replace-one",
        ledger=ledger_for(table, mq.Budget(epsilon, DELTA)),
        **more,
    )


def _largest(database: Any, workload: Any, exact: np.ndarray) -> float:
    return float(np.abs(database.answer(workload).fractions - exact).max())
