"""Peers measured again: exports a coded table, runs a peer in its own environment, scores the rows that it writes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from benchmarks import tables
from benchmarks._accuracy import DELTA
from maquette.core.conversions import rho_cks
from maquette.domain import Domain
from maquette.models.answers import Answers, SmallDatabase

RUNNER = Path(__file__).parent / "mbi_runner.py"


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a peer."""

    mechanism: str
    table: str
    epsilon: float
    seed: int = 0
    order: int = 3
    size: float = 1.0
    cap: float = 300.0


CASES = (
    *(Case("mst", name, 1.0) for name in ("adult", "msnbc", "salary", "chicago_taxi", "nist_acs")),
    *(Case("aim", name, 1.0) for name in ("adult-reduced", "msnbc")),
)


def measure_all(cases: Iterable[Case], data: Path, python: str) -> Iterator[dict[str, Any]]:
    """One figure per case, as they are done, each with what measures it again."""
    for case in cases:
        print(f"{_describe(case)} ...", file=sys.stderr)
        again = f"python -m benchmarks.peers.again --data DIR --only {_name(case)}"
        yield measure(case, data, python) | {"command": again}


def measure(case: Case, data: Path, python: str) -> dict[str, Any]:
    """Errors of the peer's rows on 2- and 3-way marginals, its processor seconds and memory."""
    made = tables.load(case.table, data)
    table = made.open()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "table.npz", Path(folder) / "rows.npz"
        store(source, made.domain, columns_of(table))
        done = call(case, python, source, target)
        if "failed" in done:
            return {"what": _describe(case)} | asdict(case) | done
        with np.load(target) as held:
            rows = SmallDatabase({n: held[f"column-{i}"] for i, n in enumerate(made.domain.names)})
    scores: dict[str, Any] = {}
    for k in (2, 3):
        queries, words = tables.workload(made.domain, k)
        scores[words] = score(table, rows, queries)
    return {"what": _describe(case), "delta": DELTA} | asdict(case) | scores | done


def columns_of(table: mq.Table) -> dict[str, NDArray[np.int64]]:
    """The coded columns of a public table."""
    batches = list(table._engine._batches(table.domain.names))  # pyright: ignore
    return {
        name: np.concatenate([batch[name] for batch in batches]).astype(np.int64)
        for name in table.domain.names
    }


def store(path: Path, domain: Domain, columns: dict[str, NDArray[Any]]) -> None:
    """Coded columns in a file for another program."""
    held: dict[str, Any] = {f"column-{i}": columns[name] for i, name in enumerate(domain.names)}
    np.savez(path, names=np.array(domain.names), sizes=np.array(domain.shape), **held)


def score(table: mq.Table, rows: SmallDatabase, queries: Any) -> dict[str, float]:
    """Largest error, mean L1 distance of a marginal and mean absolute error of a cell."""
    exact = Answers(table._engine.answer(queries.to_forms()), table._engine.size())
    found = rows.answer(queries)
    largest, totals = 0.0, []
    for place in queries.slices.values():
        errors = np.abs(
            found.numerators[place] / found.denominator - exact.numerators[place] / exact.denominator
        )
        largest = max(largest, float(errors.max()))
        totals.append(float(errors.sum()))
    values = {"max": largest, "L1": float(np.mean(totals)), "abs": sum(totals) / queries.count}
    return {key: float(f"{value:.4g}") for key, value in values.items()}


def call(case: Case, python: str, source: Path, target: Path) -> dict[str, Any]:
    """Run a peer on a stored table; what it says of itself, or why it failed."""
    rho = float(rho_cks(epsilon=case.epsilon, delta=DELTA))
    options = ["--mechanism", case.mechanism, "--rho", repr(rho), "--seed", str(case.seed)]
    options += ["--order", str(case.order), "--size", str(case.size), "--cap", str(case.cap)]
    threads = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    }
    command = [python, str(RUNNER), str(source), str(target), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    return {"rho": rho} | json.loads(done.stdout.splitlines()[-1])


def _name(case: Case) -> str:
    return f"{case.mechanism}:{case.table}"


def _describe(case: Case) -> str:
    told = "" if case.mechanism == "mst" else f", {case.size:g} MB model, for {case.order}-way marginals"
    return f"{case.mechanism.upper()} on mbi{told}: {case.table}, epsilon {case.epsilon:g}, rows"


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.again", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=None, help="MECHANISM:TABLE, such as mst:adult")
    chosen = parser.parse_args(arguments)
    python = os.environ["MAQUETTE_PEER_PYTHON"]
    wanted = [case for case in CASES if chosen.only is None or _name(case) in chosen.only]
    append_each("peers", measure_all(wanted, chosen.data, python))


if __name__ == "__main__":
    main()
