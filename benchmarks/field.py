"""One table, every system that is installed: ours and peers', by the same scores, in one table and one picture.

    python -m benchmarks field adult --data DIR --epsilon 1 --k 3
    python -m benchmarks field adult --data DIR --seeds 3 --target 'income>50K' --picture field.svg

Every system gets the same coded table at the same (epsilon, delta 1e-9), add/remove-one, in a process of its own on one
thread. `sculpt` is released through the public interface with default options, so its time has the exact noise, the
ledger and the certificate in it; its noise has no seed. Peers run in environments of their own: `MAQUETTE_PEER_PYTHON`
names their Pythons, with `:` between them. What is in none of them is said and left out.

All are scored by the same functions on the rows that they make: the largest error and the mean L1 distance of the
marginals, the worst range x value, random conditions, and how far correlations of ordered columns are off, in the mean.
With `--target` a classifier is trained on rows made of three quarters of the records and tried on the last quarter.
Figures go to benchmarks/results/field.jsonl; `--results FILE` appends elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from benchmarks import tables
from benchmarks._accuracy import DELTA
from benchmarks.families.double import engine_of
from benchmarks.families.ranges import range_errors
from benchmarks.peers import again, beside
from maquette.core.attribute import Kind
from maquette.core.conversions import rho_cks
from maquette.models.answers import SmallDatabase

PEERS = Path(__file__).parent / "peers"
SECONDS = 1_800.0
"""Wall seconds that one run may take."""
AUC = "AUC"
SCORES = ("max", "L1", "range", "conditions", "correlations", AUC, "processor seconds", "peak MB")


@dataclass(frozen=True, slots=True)
class Peer:
    """A system of others: what has to be installed for it, and the script that runs it there."""

    name: str
    needs: tuple[str, ...]
    runner: str
    mechanism: str

    def command(self, python: str, source: Path, target: Path, case: Case) -> list[str]:
        """Its budget is told in zCDP, by the conversion of Canonne, Kamath and Steinke."""
        budget = ["--rho", repr(float(rho_cks(epsilon=case.epsilon, delta=DELTA)))]
        options = ["--seed", str(case.seed), "--order", str(case.k), "--size", str(case.size)]
        script = str(PEERS / self.runner)
        return [python, script, str(source), str(target), "--mechanism", self.mechanism, *budget, *options]


OTHERS = (
    Peer("MST on mbi", ("mbi", "jax", "networkx", "opt_einsum"), "mbi_runner.py", "mst"),
    Peer("AIM on mbi", ("mbi", "jax", "networkx", "opt_einsum"), "mbi_runner.py", "aim"),
)
OURS = "sculpt"


@dataclass(frozen=True, slots=True)
class Case:
    """What every system is asked for."""

    table: str
    k: int = 3
    epsilon: float = 1.0
    seed: int = 0
    size: float = 80.0
    """Of AIM's model, in megabytes."""
    target: str = ""


def run(data: Path | None) -> list[dict[str, Any]]:
    """Adult by every system there is; nothing without the folder."""
    return [] if data is None else list(measure(Case("adult"), data, seeds=1))


def installed(pythons: Sequence[str]) -> dict[Peer, str]:
    """The peers that can run, each with the first Python that has what it needs."""
    able: dict[Peer, str] = {}
    for peer in OTHERS:
        for python in pythons:
            code = f"from importlib.util import find_spec; raise SystemExit(None in map(find_spec, {peer.needs}))"
            if subprocess.run([python, "-c", code], capture_output=True).returncode == 0:
                able[peer] = python
                break
    return able


def pythons() -> list[str]:
    """Of the peers' environments."""
    return [path for path in os.environ.get("MAQUETTE_PEER_PYTHON", "").split(os.pathsep) if path]


def measure(case: Case, data: Path | None, *, seeds: int) -> Iterator[dict[str, Any]]:
    """One figure per system and seed, as they are done."""
    able = installed(pythons())
    for peer in OTHERS:
        if peer not in able:
            print(f"{peer.name}: not installed ({', '.join(peer.needs)})", file=sys.stderr)
    for seed in range(seeds):
        one = replace(case, seed=seed)
        for peer in (None, *able):
            name = OURS if peer is None else peer.name
            print(f"{name}: {case.table}, seed {seed} ...", file=sys.stderr, flush=True)
            figure = measure_one(one, data, peer, "" if peer is None else able[peer])
            yield (
                {"system": name, "delta": DELTA}
                | asdict(one)
                | figure
                | {"command": _again(case, data, seeds)}
            )


def _again(case: Case, data: Path | None, seeds: int) -> str:
    """What measures it again."""
    words = ["python -m benchmarks field", case.table, *(["--data DIR"] if data else [])]
    words += [f"--epsilon {case.epsilon:g} --k {case.k} --seeds {seeds} --size {case.size:g}"]
    return " ".join([*words, *([f"--target {shlex.quote(case.target)}"] if case.target else [])])


def measure_one(case: Case, data: Path | None, peer: Peer | None, python: str) -> dict[str, Any]:
    """The scores of one run, or why there are none."""
    made = load(case.table, data)
    columns = again.columns_of(made.open())
    n = len(next(iter(columns.values())))
    shuffled = np.random.default_rng(17).permutation(n)
    train = np.sort(shuffled[: round(beside.SPLIT * n)]) if case.target else np.arange(n)
    records = {name: codes[train] for name, codes in columns.items()}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "table.npz", Path(folder) / "rows.npz"
        again.store(source, made.domain, records)
        done = _process(_command(case, peer, python, source, target))
        if "failed" in done:
            return done
        with np.load(target) as held:
            rows = {name: held[f"column-{i}"] for i, name in enumerate(made.domain.names)}
        scores = score(tables.coded(records, _sizes(made)) if case.target else made, rows, case.k)
        if case.target:
            rest = Path(folder) / "rest.npz"
            again.store(rest, made.domain, {name: c[shuffled[len(train) :]] for name, c in columns.items()})
            scores |= _classifier(target, rest, made.domain.index(case.target))
    return scores | done


def _command(case: Case, peer: Peer | None, python: str, source: Path, target: Path) -> list[str]:
    if peer is not None:
        return peer.command(python, source, target, case)
    asked = beside.Case(OURS, case.table, case.k, case.epsilon)
    told = json.dumps(asdict(asked))
    return [sys.executable, "-m", "benchmarks.peers.beside", "--ours", told, str(source), str(target)]


def _classifier(rows: Path, rest: Path, place: int) -> dict[str, Any]:
    """The AUC by the first Python that has scikit-learn."""
    for python in (sys.executable, *pythons()):
        if subprocess.run([python, "-c", "import sklearn"], capture_output=True).returncode == 0:
            return _process([python, str(beside.CLASSIFIER), str(rows), str(rest), str(place)])
    print("AUC: no Python with scikit-learn", file=sys.stderr)
    return {}


def _process(command: list[str]) -> dict[str, Any]:
    """What a program said last, as JSON; or its last line of error."""
    threads: dict[str, str] = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
    )
    threads["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | threads, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"failed": [f"more than {SECONDS:g} seconds"]}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.splitlines()[-1])


def load(name: str, data: Path | None) -> tables.Made:
    """A table of a folder, or a generated one, by its name."""
    return beside.load(name, data or Path())


def _sizes(made: tables.Made) -> dict[str, int]:
    return {attribute.name: attribute.size for attribute in made.domain}


def score(made: tables.Made, rows: dict[str, NDArray[Any]], k: int) -> dict[str, float]:
    """The same scores for everybody's rows."""
    table = made.open()
    database = SmallDatabase({name: codes.astype(np.int64) for name, codes in rows.items()})
    queries, _ = tables.workload(made.domain, k)
    errors = again.score(table, database, queries)
    ranges = range_errors(engine_of(table), database)
    off = _correlations(made.domain, rows) - _correlations(made.domain, again.columns_of(table))
    return {
        "max": errors["max"],
        "L1": errors["L1"],
        "range": ranges["rows range"],
        "conditions": ranges["rows conditions"],
        "correlations": float(np.abs(off).mean()) if len(off) else 0.0,
    }


def _correlations(domain: mq.Domain, columns: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Of all pairs of ordered columns, by their codes; 0 where a column is constant."""
    ordered = [a.name for a in domain if a.kind in (Kind.NUMERIC, Kind.ORDINAL) and a.size > 1]
    pairs = list(combinations(range(len(ordered)), 2))
    if not pairs:
        return np.zeros(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.asarray(np.corrcoef([columns[name].astype(np.float64) for name in ordered]))
    return np.nan_to_num(np.array([found[pair] for pair in pairs]))


def lines(figures: Iterable[dict[str, Any]]) -> Iterator[str]:
    """One line for every system: the mean over seeds, and the spread where there are several."""
    by_system: dict[str, list[dict[str, Any]]] = {}
    for figure in figures:
        by_system.setdefault(figure["system"], []).append(figure)
    shown = [s for s in SCORES if s != AUC or any(AUC in f for of in by_system.values() for f in of)]
    yield "| system | seeds | " + " | ".join(shown) + " |"
    yield "|---|---|" + "---|" * len(shown)
    for system, of in by_system.items():
        scored = [figure for figure in of if "failed" not in figure]
        if not scored:
            yield f"| {system} | 0 | failed: {' '.join(of[-1]['failed'])} |" + " |" * (len(shown) - 1)
            continue
        cells = [_cell([f[score] for f in scored if score in f]) for score in shown]
        yield f"| {system} | {len(scored)} | " + " | ".join(cells) + " |"


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "-"
    mean = f"{np.mean(values):.3g}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.1g}"


def draw(figures: Sequence[dict[str, Any]]) -> str:
    """A panel for each error, a bar for each system, a point for each seed."""
    import vl_convert

    errors = [s for s in SCORES if s not in (AUC, "processor seconds", "peak MB")]
    values = [
        {"system": figure["system"], "score": error, "value": figure[error]}
        for figure in figures
        if "failed" not in figure
        for error in errors
    ]
    y = {"field": "system", "type": "nominal", "sort": None, "title": None}
    panels = [
        {
            "title": error,
            "width": 180,
            "transform": [{"filter": f"datum.score == '{error}'"}],
            "layer": [
                {
                    "mark": "bar",
                    "encoding": {"y": y, "x": {"aggregate": "mean", "field": "value", "title": None}},
                },
                {
                    "mark": {"type": "point", "color": "black"},
                    "encoding": {"y": y, "x": {"field": "value", "type": "quantitative"}},
                },
            ],
        }
        for error in errors
    ]
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "data": {"values": values},
        "concat": panels,
        "columns": 2,
        "config": {"font": "Arial, Helvetica, sans-serif", "view": {"stroke": None}},
    }
    return vl_convert.vegalite_to_svg(spec)


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks field",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", metavar="TABLE", help="a table of the folder, or a generated one (tree-0)")
    parser.add_argument("--data", type=Path, help="a folder of tables, such as adult.csv")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--k", type=int, default=3, help="the order of the marginals")
    parser.add_argument("--seeds", type=int, default=1, help="runs of every system")
    parser.add_argument("--size", type=float, default=80.0, help="of AIM's model, in megabytes")
    parser.add_argument("--target", default="", help="a column to predict from the others")
    parser.add_argument("--picture", type=Path, help="draw all errors into this SVG")
    parser.add_argument("--results", type=Path, help="append to this file instead of benchmarks/results")
    chosen = parser.parse_args(arguments)
    case = Case(chosen.table, chosen.k, chosen.epsilon, 0, chosen.size, chosen.target)
    figures: list[dict[str, Any]] = []

    def kept() -> Iterator[dict[str, Any]]:
        for figure in measure(case, chosen.data, seeds=chosen.seeds):
            figures.append(figure)
            yield figure

    append_each("field", kept(), place=chosen.results)
    print(*lines(figures), sep="\n")
    if chosen.picture:
        chosen.picture.write_text(draw(figures), encoding="utf-8")
