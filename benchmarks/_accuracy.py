"""One measured case of accuracy: several releases of one table in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import maquette as mq
from benchmarks import hard, tables
from benchmarks.counting import peak_megabytes
from maquette.audit.evaluate import Errors
from maquette.mechanisms.base import MECHANISMS
from maquette.queries.marginals import Marginals
from maquette.releasing.planning import best_accounting

DELTA = 1e-9


@dataclass(frozen=True, slots=True)
class Case:
    """What is released, and how often."""

    table: str
    k: int
    epsilon: float
    mechanism: str
    runs: int = 3
    rows: int | Literal["small"] | None = None


def measure(case: Case, data: Path | None) -> dict[str, Any]:
    """The figures of a case, from a fresh process on one thread."""
    command = [sys.executable, "-m", "benchmarks._accuracy", json.dumps(asdict(case)), str(data or "")]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | one_thread)
    if done.returncode:
        return {"what": describe(case), "failed": done.stderr.strip().splitlines()[-1:]} | asdict(case)
    return json.loads(done.stdout.splitlines()[-1])


def describe(case: Case) -> str:
    return f"{case.mechanism}, {case.k}-way marginals of {case.table}, epsilon {case.epsilon:g}"


def ledger(queries: Marginals, mechanism: str, *, epsilon: float, delta: float) -> mq.Ledger:
    """A new ledger in memory, counting as the one that a release with this mechanism would make by itself."""
    relation = mq.Relation.ADD_REMOVE
    way = best_accounting(MECHANISMS[mechanism], queries, relation=relation, epsilon=epsilon, delta=delta)
    return mq.Ledger.memory(
        budget=mq.Budget(epsilon, delta, way),
        relation=relation,
        domain_fingerprint=queries.domain.fingerprint,
        name="benchmark",
    )


def release(table: mq.Table, queries: Marginals, case: Case) -> tuple[mq.Release, float]:
    """One release through the public interface, with a ledger of its own, and its processor seconds."""
    started = time.process_time()
    made = mq.release(
        table.for_another_ledger(),
        queries,
        epsilon=case.epsilon,
        delta=DELTA,
        mechanism=case.mechanism,
        ledger=ledger(queries, case.mechanism, epsilon=case.epsilon, delta=DELTA),
        rows=case.rows,
    )
    return made, time.process_time() - started


def figures(case: Case, data: Path | None) -> dict[str, Any]:
    """Mean errors over the runs, of answers and of rows; time and memory of the release alone."""
    warm_up(case)
    made = hard.make(case.table) if case.table in hard.TABLES else tables.load(case.table, data)
    table = made.open()
    queries, words = tables.workload(made.domain, case.k)
    before = peak_megabytes()
    runs: list[dict[str, Any]] = []
    peak = 0
    for run in range(case.runs):
        done, seconds = release(table, queries, case)
        peak = peak_megabytes() if run == 0 else peak  # comparing with the truth takes memory too
        runs.append(_errors(done, table) | {"processor seconds": seconds})
    return (
        {"what": describe(case), "workload": words, "queries": queries.count, "delta": DELTA}
        | asdict(case)
        | summary(runs)
        | {"peak MB": peak, "of which before the release, MB": before}
    )


def warm_up(case: Case) -> None:
    """Compiled loops are loaded before the clock starts."""
    small = tables.chain(400, 4, levels=3)
    queries = mq.marginals(small.domain, k=min(case.k, 3))
    release(small.open(), queries, Case("chain", case.k, case.epsilon, case.mechanism))


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means, and the spread of those that matter."""
    keys = [key for key in runs[0] if all(run[key] is not None for run in runs)]
    means = {key: _short(float(np.mean([run[key] for run in runs]))) for key in keys}
    spread = {
        f"{key}, spread": _short(float(np.std([run[key] for run in runs])))
        for key in keys
        if key.endswith((" max", " L1"))
    }
    return means | spread


def _errors(done: mq.Release, table: mq.Table) -> dict[str, Any]:
    found = mq.evaluate(done, table).groups[0]
    told = _told("answers", found.answers)
    if found.rows is not None:
        told |= _told("rows", found.rows)
    certified = None if done.certificate is None else done.certificate.alpha
    return told | {"certified": certified, "m": None if done.database is None else done.database.m}


def _told(word: str, errors: Errors) -> dict[str, Any]:
    return {f"{word} max": errors.largest, f"{word} L1": errors.l1, f"{word} abs": errors.mean}


def _short(value: float) -> float:
    return float(f"{value:.4g}")


if __name__ == "__main__":
    asked = Case(**json.loads(sys.argv[1]))
    print(json.dumps(figures(asked, Path(sys.argv[2]) if sys.argv[2] else None)))
