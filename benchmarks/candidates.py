"""SmallDB among candidates against sculpt's own rows: the largest error at m = 50, 200 and 1,000 rows.

    python -m benchmarks candidates --data DIR

The same total epsilon for each: sculpt makes m rows with all of it; or sculpt makes its usual rows with four fifths,
which propose small databases of m rows (`mq.small_databases`), and one exact draw with the last fifth decides. `all
sizes` lets the draw decide the size too. Conjunctions of three of twelve bits, and two-way marginals of Adult.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from maquette.domain import Attribute, Kind
from maquette.models.answers import SmallDatabase

SIZES, RUNS = (50, 200, 1000), 3
EPSILON, DELTA = 1.0, 1e-9
EACH = 4


def run(data: Path | None) -> list[dict[str, Any]]:
    figures = _compare("12 bits", *_bits())
    return figures if data is None else [*figures, *_compare("adult", *_adult(data))]


def _bits() -> tuple[mq.Table, Any, SmallDatabase]:
    rng = np.random.default_rng(12)
    rows = (rng.random((20_000, 12)) < 0.15 + 0.7 * rng.random((20_000, 1))).astype(np.uint8)
    domain = mq.Domain(tuple(Attribute(f"b{i}", Kind.CATEGORICAL, codes=2) for i in range(12)))
    columns = {f"b{i}": rows[:, i] for i in range(12)}
    table = mq.open({name: codes.tolist() for name, codes in columns.items()}, domain=domain)
    return table, mq.conjunctions(domain, 3), SmallDatabase(dict(columns))


def _adult(data: Path) -> tuple[mq.Table, Any, SmallDatabase]:
    names = ("age", "workclass", "education", "marital-status", "sex", "income")
    domain = mq.Domain.load(data / "adult.domain.json")
    chosen = [name for name in names if name in domain.names] or list(domain.names[:6])
    table = mq.open(data / "adult.csv", domain=domain)
    workload = mq.marginals(
        domain, attributes=[(a, b) for i, a in enumerate(chosen) for b in chosen[i + 1 :]]
    )
    coded = table._engine.codes() if hasattr(table._engine, "codes") else None
    truth = SmallDatabase(coded) if coded is not None else _counted(table, workload)
    return table, workload, truth


class _counted:  # noqa: N801 - stands for the rows of the table
    """Exact answers of a table that holds no codes here."""

    def __init__(self, table: mq.Table, workload: Any) -> None:
        self._shares = table._engine.answer(workload) / table._engine.size()

    def answer(self, workload: Any) -> Any:
        return type("Exact", (), {"fractions": self._shares})


def _compare(name: str, table: mq.Table, workload: Any, truth: Any) -> list[dict[str, Any]]:
    exact = truth.answer(workload).fractions
    figures: list[dict[str, Any]] = []
    errors: dict[tuple[str, int | str], list[float]] = {}
    for _ in range(RUNS):
        for size in SIZES:
            own = _release(table, workload, EPSILON, rows=size)
            errors.setdefault(("sculpt's own rows", size), []).append(_largest(own.database, workload, exact))
        earlier = _release(table, workload, 0.8 * EPSILON)
        proposals = {
            size: mq.small_databases(earlier, [size], each=EACH, workload=workload)[:-1] for size in SIZES
        }
        for size in (*SIZES, "all sizes"):
            listed = (
                proposals[size]
                if isinstance(size, int)
                else [one for group in proposals.values() for one in group]
            )
            chosen = mq.choose(
                table, listed, score="database", workload=workload, epsilon=0.2 * EPSILON, ledger="memory"
            )
            errors.setdefault(("candidates", size), []).append(_largest(chosen.candidate, workload, exact))
    for (what, size), values in errors.items():
        figures.append(
            {
                "what": what,
                "table": name,
                "m": size,
                "queries": workload.count,
                "epsilon": EPSILON,
                "largest error, mean": round(float(np.mean(values)), 4),
                "runs": RUNS,
            }
        )
    return figures


def _release(table: mq.Table, workload: Any, epsilon: float, **more: Any) -> mq.Release:
    return mq.release(
        table,
        workload,
        epsilon=epsilon,
        delta=DELTA,
        mechanism="sculpt",
        certificate=0.0,
        ledger="memory",
        **more,
    )


def _largest(database: Any, workload: Any, exact: np.ndarray) -> float:
    return float(np.abs(database.answer(workload).fractions - exact).max())
