"""`sculpt` and its peers side by side in one run: errors of their rows, processor seconds, memory, and a classifier.

Every system gets the same coded table at the same (epsilon, delta), in a process of its own on one thread. `sculpt` is
released through the public interface with default options, so that its time has the exact noise, the ledger and the
certificate in it; MST and AIM are those of `mbi_runner.py`, in an environment with `mbi` and `scikit-learn`:

    MAQUETTE_PEER_PYTHON=.../bin/python python -m benchmarks.peers.beside --data DIR

Figures go to benchmarks/results/beside.jsonl. A case with a `target` is about use: each system gets three quarters of
the records, a classifier (gradient boosting, default settings) is trained on its rows and ranks the last quarter of the
real records; its AUC stands beside that of the real three quarters.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import maquette as mq
from benchmarks import _accuracy, tables
from benchmarks._accuracy import DELTA
from benchmarks.counting import peak_megabytes
from benchmarks.families import generators
from benchmarks.peers import again
from maquette.models.answers import SmallDatabase

CLASSIFIER = Path(__file__).parent / "classifier_runner.py"
REAL = "real"
SPLIT = 0.75
"""Of the records, for training where there is a target."""


CAP = 600.0


@dataclass(frozen=True, slots=True)
class Case:
    """One system on one table."""

    system: str
    table: str
    k: int = 3
    """The order of the marginals that it is asked for; MST has no workload."""
    epsilon: float = 1.0
    seed: int = 0
    size: float = 80.0
    """Of AIM's model, in megabytes."""
    cap: float = CAP
    """Processor seconds after which AIM stops."""
    target: str = ""
    """A column to predict from the others; all records are released where there is none."""


TABLES = ("adult", "nist_acs", "mixture-1", "missing-3", "tied-1", "spikes-1")
TARGETS = {"adult": "income>50K", "nist_acs": "MSP", "binary-1": "x0"}
CASES = (
    *(Case(s, t, k) for t in TABLES for s, k in (("sculpt", 2), ("sculpt", 3), ("mst", 2))),
    *(Case(s, t, 2, target=c) for t, c in TARGETS.items() for s in (REAL, "sculpt", "mst")),
    *(Case("aim", t, 2) for t in ("adult", "mixture-1")),
)


def measure_all(cases: Iterable[Case], data: Path, python: str) -> Iterator[dict[str, Any]]:
    """One figure per case, as they are done, each with what measures it again."""
    for case in cases:
        print(f"{name_of(case)} ...", file=sys.stderr, flush=True)
        command = f"python -m benchmarks.peers.beside --data DIR --only {shlex.quote(name_of(case))}"
        if case.cap != CAP:
            command += f" --cap {case.cap:g}"
        yield measure(case, data, python) | {"command": command}


def name_of(case: Case) -> str:
    use = f":{case.target}" if case.target else ""
    return f"{case.system}:{case.table}:{case.k}{use}"


def load(name: str, data: Path) -> tables.Made:
    """A table of the folder, or a generated one of the families."""
    kind, _, variant = name.partition("-")
    return generators.make(kind, int(variant)) if kind in generators.KINDS else tables.load(name, data)


def measure(case: Case, data: Path, python: str) -> dict[str, Any]:
    """What one system made of a table: errors over two- and three-way marginals, or the AUC."""
    made = load(case.table, data)
    table = made.open()
    columns = again.columns_of(table)
    n = len(next(iter(columns.values())))
    shuffled = np.random.default_rng(17).permutation(n)
    train = shuffled[: round(SPLIT * n)] if case.target else np.arange(n)
    told = {"delta": DELTA, "records": len(train)} | asdict(case)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "table.npz", Path(folder) / "rows.npz"
        again.store(source, made.domain, {name: codes[train] for name, codes in columns.items()})
        if case.system == REAL:
            target, done = source, {}
        elif case.system == "sculpt":
            done = _process([sys.executable, "-m", "benchmarks.peers.beside", "--ours", json.dumps(asdict(case)),
                             str(source), str(target)])  # fmt: skip
        else:
            options = again.Case(
                case.system, case.table, case.epsilon, case.seed, case.k, case.size, case.cap
            )
            done = again.call(options, python, source, target)
        if "failed" in done:
            return told | done
        if case.target:
            rest = {name: codes[shuffled[len(train) :]] for name, codes in columns.items()}
            again.store(Path(folder) / "rest.npz", made.domain, rest)
            place = str(made.domain.index(case.target))
            return (
                told
                | done
                | _process([python, str(CLASSIFIER), str(target), str(Path(folder) / "rest.npz"), place])
            )
        with np.load(target) as held:
            rows = SmallDatabase({n: held[f"column-{i}"] for i, n in enumerate(made.domain.names)})
    for k in (2, 3):
        queries, words = tables.workload(made.domain, k)
        told[words] = again.score(table, rows, queries)
    return told | done


def ours(case: Case, source: Path, target: Path) -> dict[str, Any]:
    """One release by `sculpt` of coded columns, with its processor seconds and the most memory it took."""
    held = np.load(source)
    names = [str(name) for name in held["names"]]
    made = tables.coded(
        {name: held[f"column-{i}"] for i, name in enumerate(names)},
        dict(zip(names, held["sizes"].tolist(), strict=True)),
    )
    queries, _ = tables.workload(made.domain, case.k)
    asked = _accuracy.Case(case.table, case.k, case.epsilon, "sculpt")
    _accuracy.warm_up(asked)
    started = time.process_time()
    done, _ = _accuracy.release(made.open(), queries, asked)
    seconds, peak = time.process_time() - started, peak_megabytes()
    assert done.database is not None
    again.store(target, made.domain, dict(done.database.columns))
    return {"processor seconds": round(seconds, 1), "peak MB": peak, "maquette": mq.__version__}


def _process(command: list[str]) -> dict[str, Any]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | one_thread)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.beside",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, help="a folder of tables, such as adult.csv")
    parser.add_argument("--only", nargs="+", default=None, help="SYSTEM:TABLE:K, such as mst:adult:2")
    parser.add_argument("--cap", type=float, default=CAP, help="processor seconds after which AIM stops")
    parser.add_argument("--results", type=Path, help="append to this file instead of benchmarks/results")
    parser.add_argument("--ours", nargs=3, metavar=("CASE", "TABLE", "ROWS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.ours:
        case, source, target = chosen.ours
        print(json.dumps(ours(Case(**json.loads(case)), Path(source), Path(target))))
        return
    cases = [replace(c, cap=chosen.cap) for c in CASES if chosen.only is None or name_of(c) in chosen.only]
    append_each(
        "beside", measure_all(cases, chosen.data, os.environ["MAQUETTE_PEER_PYTHON"]), place=chosen.results
    )


if __name__ == "__main__":
    main()
