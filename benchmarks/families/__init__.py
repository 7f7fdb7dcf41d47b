"""`sculpt` beside everything it could lose to, on tables that nobody tuned it for: a harness against overfitting.

78 generated tables (`generators.py`) and those of a folder, in two fixed halves: even variants and the tables that
constants were chosen on before are for tuning, odd variants and the other tables for judging. A change is chosen on the
tuning half and reports its judging half once, at the end. A cell is a table with a workload: `2@1` is all two-way
marginals at epsilon 1 and delta 1e-9, `2@1-pure` without a delta. Every cell is measured with four seeds through a fast
double of the gate at the same prices (`double.py`), rows and answers, largest error and mean L1. The score is the
geometric mean of the ratios to the best of our other mechanisms and of stored peers.

    python -m benchmarks families --data DIR --half tuning           # what is missing with the code as it is
    python -m benchmarks families --quick --half tuning              # 12 generated tables, about two minutes
    python -m benchmarks families --only tree-0 adult --cells 2@1 3@1 --data DIR
    python -m benchmarks families --report --half tuning             # the score of what is stored
    python -m benchmarks families --report --against first           # ratios to the oldest stored code

Figures of `sculpt` are stored by a digest of its code (sculpt, mechanisms and models) and are not measured again with
the same code, so that a run goes on where it was broken off; those of the references are measured once, and again with
`--again`. `--results FILE` appends elsewhere, such as to a scratch file; what benchmarks/results has is read as well.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.families import cells, score
from benchmarks.families.cells import SEEDS, WORKLOADS, Workload, mechanisms_of

SECONDS = 120.0
"""Processor seconds that one mechanism may take for all seeds of a cell."""


def run(data: Path | None) -> list[dict[str, Any]]:
    """Everything that is missing, of both halves."""
    from benchmarks.__main__ import RESULTS

    stored = score.Stored.read([RESULTS / "families.jsonl"])
    chosen = [name for half in cells.HALVES for name in cells.names(half, real=data is not None)]
    return list(missing(chosen, WORKLOADS, data, stored))


def missing(
    names: Sequence[str],
    workloads: Sequence[Workload],
    data: Path | None,
    stored: score.Stored,
    *,
    mechanisms: Sequence[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    seconds: float = SECONDS,
    again: bool = False,
) -> Iterator[dict[str, Any]]:
    """One figure per cell of which something is not stored yet, as they are done."""
    code = cells.code()
    for name in names:
        table: cells.Loaded | None = None
        for workload in workloads:
            key = (name, str(workload))
            able = mechanisms or mechanisms_of(workload)
            todo = [m for m in able if again or not stored.has(key, m, code, seeds=len(seeds))]
            if not todo:
                continue
            table = table or cells.load(name, data)
            print(f"{name} {workload}: {', '.join(todo)} ...", file=sys.stderr, flush=True)
            found = {
                m: {"code": code} | cells.measure(table, workload, m, seeds=seeds, seconds=seconds)
                for m in todo
            }
            figure = _figure(table, workload, found)
            stored.add(figure)
            yield figure


def _figure(table: cells.Loaded, workload: Workload, found: dict[str, Any]) -> dict[str, Any]:
    queries, words, _ = table.workload(workload.k)
    folder = "" if table.name.partition("-")[0] in cells.generators.KINDS else " --data DIR"
    return {
        "table": table.name,
        "half": cells.half_of(table.name),
        "cell": str(workload),
        "n": table.n,
        "columns": len(table.counts.domain),
        "queries": queries.count,
        "workload": words,
        "mechanisms": found,
        "command": f"python -m benchmarks families --only {table.name} --cells {workload}{folder}",
    }


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import RESULTS, append_each

    chosen = _parsed(arguments)
    place = chosen.results or RESULTS / "families.jsonl"
    stored = score.Stored.read(dict.fromkeys([RESULTS / "families.jsonl", place]))
    names, workloads = _selected(chosen)
    if not chosen.report:
        found = missing(
            names,
            workloads,
            chosen.data,
            stored,
            mechanisms=chosen.mechanisms,
            seeds=range(chosen.seeds),
            seconds=chosen.seconds,
            again=chosen.again,
        )
        append_each("families", found, place=place)
    keys = [(name, str(workload)) for name in names for workload in workloads]
    others = score.peers(RESULTS / "peers.jsonl")
    ratios = score.ratios(stored, others, code=chosen.code, against=chosen.against, keys=keys)
    print(*score.lines(ratios), sep="\n")


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks families",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=None, help="a folder of tables, such as adult.csv")
    parser.add_argument("--half", choices=cells.HALVES, help="one half; both if absent")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="TABLE",
        help="tables by name or pattern, such as 'tree-*', or further: tree-6",
    )
    parser.add_argument("--cells", nargs="+", type=Workload.parse, help="such as 2@1, 3@0.1 or 2@1-pure")
    parser.add_argument("--quick", action="store_true", help="12 generated tables of middle size")
    parser.add_argument("--mechanisms", nargs="+", help="these alone")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="at least four to conclude anything")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="processor seconds of a mechanism in a cell"
    )
    parser.add_argument("--again", action="store_true", help="measure what is stored, too")
    parser.add_argument("--results", type=Path, help="append to this file instead of benchmarks/results")
    parser.add_argument("--report", action="store_true", help="measure nothing, print what is stored")
    parser.add_argument("--code", help="score this version of sculpt, by the start of its digest")
    parser.add_argument("--against", help="compare with an older version of sculpt, or with the 'first'")
    return parser.parse_args(arguments)


def _selected(chosen: argparse.Namespace) -> tuple[list[str], Sequence[Workload]]:
    halves = [chosen.half] if chosen.half else list(cells.HALVES)
    real = chosen.data is not None or chosen.report
    names = [
        name
        for half in halves
        for name in (cells.quick_names(half) if chosen.quick else cells.names(half, real=real))
        if chosen.only is None or any(fnmatch.fnmatch(name, pattern) for pattern in chosen.only)
    ]
    if cells.HALVES[0] in halves:
        names += filter(cells.is_further, chosen.only or ())
    return names, chosen.cells or (cells.QUICK if chosen.quick else WORKLOADS)
