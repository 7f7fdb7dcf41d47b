"""Do the rows of a release lie as near to the truth as its answers? On tables with tied columns, and real ones.

max is the largest error of a cell as a fraction, L1 the mean over marginals of the L1 distance, of the answers and of
the rows; `ratio` is rows over answers, in the means over the runs. A process per case.

`python -m benchmarks.rows --table tied-bits --k 3 --epsilon 10 --runs 4` runs a part and appends each line as it comes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import _accuracy, hard

REAL = ("adult", "nist_acs", "titanic")
EPSILONS = (1.0, 10.0)
ORDERS = (2, 3)
RUNS = 3


def run(data: Path | None) -> list[dict[str, Any]]:
    """Everything; without a folder only the generated tables."""
    return list(cases(data))


def cases(
    data: Path | None,
    *,
    names: tuple[str, ...] | None = None,
    epsilons: tuple[float, ...] = EPSILONS,
    orders: tuple[int, ...] = ORDERS,
    runs: int = RUNS,
) -> Iterator[dict[str, Any]]:
    """One figure per case, as they are done."""
    for name in names or (*hard.TABLES, *(REAL if data is not None else ())):
        for epsilon in epsilons:
            for k in orders:
                case = _accuracy.Case(name, k, epsilon, "sculpt", runs)
                print(f"{_accuracy.describe(case)} ...", file=sys.stderr)
                found = _accuracy.measure(case, None if name in hard.TABLES else data)
                yield found | ratios(found) | {"command": command(case)}


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """Errors of rows over errors of answers."""
    if "rows max" not in found:
        return {}
    kinds = ("max", "L1")
    return {
        f"{kind} ratio": float(f"{found[f'rows {kind}'] / found[f'answers {kind}']:.3g}") for kind in kinds
    }


def command(case: _accuracy.Case) -> str:
    """What measures one case again."""
    folder = "" if case.table in hard.TABLES else " --data DIR"
    return (
        f"python -m benchmarks.rows{folder} --table {case.table} --epsilon {case.epsilon:g} --k {case.k} "
        f"--runs {case.runs}"
    )


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--table", nargs="+", choices=(*hard.TABLES, *REAL), default=None)
    parser.add_argument("--epsilon", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--k", nargs="+", type=int, default=ORDERS)
    parser.add_argument("--runs", type=int, default=RUNS)
    chosen = parser.parse_args(arguments)
    found = cases(
        chosen.data,
        names=None if chosen.table is None else tuple(chosen.table),
        epsilons=tuple(chosen.epsilon),
        orders=tuple(chosen.k),
        runs=chosen.runs,
    )
    append_each("rows", found)


if __name__ == "__main__":
    main()
