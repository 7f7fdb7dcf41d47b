"""Accuracy of `sculpt` beside `residual` in the same run, at equal privacy, through the public interface.

The tables are public, so true answers may be compared. max is the largest error of a cell as a fraction, L1 the mean
over marginals of the L1 distance, abs the mean absolute error of a cell; of the answers and of the rows. Three runs
each, a process per case. Figures of other systems are quoted from `peers/quoted.py`, measured before, not in this run.

`python -m benchmarks.sculpt --data DIR --table adult --epsilon 1 --k 2` runs a part and appends each line as it comes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import _accuracy, tables
from benchmarks.peers import quoted
from maquette.mechanisms.base import MECHANISMS

EPSILONS = (0.1, 1.0, 10.0)
ORDERS = (2, 3)
WANTED = ("sculpt", "residual")


def run(data: Path | None) -> list[dict[str, Any]]:
    """Everything; without a folder only the generated table."""
    return list(cases(data))


def cases(
    data: Path | None,
    *,
    names: tuple[str, ...] = tables.NAMES,
    epsilons: tuple[float, ...] = EPSILONS,
    orders: tuple[int, ...] = ORDERS,
    mechanisms: tuple[str, ...] = WANTED,
    runs: int = 3,
) -> Iterator[dict[str, Any]]:
    """One figure per case, as they are done."""
    for name in names if data is not None else ("xor",):
        for epsilon in epsilons:
            for k in orders:
                for mechanism in [m for m in mechanisms if m in MECHANISMS]:
                    case = _accuracy.Case(name, k, epsilon, mechanism, runs)
                    print(f"{_accuracy.describe(case)} ...", file=sys.stderr)
                    yield _accuracy.measure(case, data) | {
                        "quoted": quoted.beside(name, k, epsilon),
                        "command": command(case),
                    }


def command(case: _accuracy.Case) -> str:
    """What measures one case again."""
    folder = "" if case.table == "xor" else " --data DIR"
    return (
        f"python -m benchmarks.sculpt{folder} --table {case.table} --epsilon {case.epsilon:g} --k {case.k} "
        f"--mechanism {case.mechanism} --runs {case.runs}"
    )


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks.sculpt", description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--table", nargs="+", choices=tables.NAMES, default=tables.NAMES)
    parser.add_argument("--epsilon", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--k", nargs="+", type=int, default=ORDERS)
    parser.add_argument("--mechanism", nargs="+", default=WANTED)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args(arguments)
    found = cases(
        chosen.data,
        names=tuple(chosen.table),
        epsilons=tuple(chosen.epsilon),
        orders=tuple(chosen.k),
        mechanisms=tuple(chosen.mechanism),
        runs=chosen.runs,
    )
    append_each("sculpt", found)


if __name__ == "__main__":
    main()
