"""What error to expect of `sculpt`, fitted to the families: what the planner says before a run.

Every stored figure of `sculpt` in benchmarks/results/families.jsonl is a point: a table's public sizes, a workload, a
price, and the errors of the answers (means over four seeds, and how far the seeds differ). The tuning half is fitted,
least squares on logarithms, apart for tables in bins and for whole marginals. The stated range is that of single
releases of kinds of tables that were not fitted (one kind left out at a time). The judging half is looked at once,
afterwards.

    python -m benchmarks.expected --data DIR     # points that are missing, to benchmarks/results/expected.jsonl
    python -m benchmarks.expected --fit          # writes the constants of sculpt/allocation.py
    python -m benchmarks.expected --check        # true over expected on the judging half
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from benchmarks import calibrate, tables
from benchmarks.families import cells, generators
from maquette.core.budget import Unit
from maquette.domain import Relation
from maquette.mechanisms.base import TYPICAL_ROWS, Task
from maquette.releasing import planning
from maquette.releasing.plan import decided
from maquette.releasing.request import Request
from maquette.sculpt import allocation
from maquette.sculpt.allocation import BinnedRegime, DenseRegime, attribute_sets

Point = dict[str, Any]
MIN_POINTS = 12
"""Below so many a constant stays as it is."""
_SINGLE = [NormalDist().inv_cdf((i + 0.5) / 9) for i in range(9)]
"""Where single releases lie around the mean of some, in deviations: nine that stand for all."""


def collect(data: Path, families: Path, stored: Path) -> Iterator[Point]:
    """Points of the newest figures that are not stored yet, or were before points had a spread."""
    done = {(p["table"], p["cell"], p["code"]) for p in points(stored) if "max spread" in p}
    newest: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
    for line in families.read_text(encoding="utf-8").splitlines():
        figures = json.loads(line)["figures"]
        ours = figures["mechanisms"].get(cells.OURS, {})
        if "answers max" in ours and not cells.Workload.parse(figures["cell"]).pure:
            newest[figures["table"], figures["cell"]] = figures["n"], ours
    missing = {key: found for key, found in newest.items() if (*key, found[1]["code"]) not in done}
    for name in sorted({table for table, _ in missing}, key=lambda table: cells.half_of(table) != "tuning"):
        kind, _, variant = name.partition("-")
        made = generators.make(kind, int(variant)) if kind in generators.KINDS else tables.load(name, data)
        for (table, cell), (n, ours) in missing.items():
            if table == name:
                workload = cells.Workload.parse(cell)
                yield _point(made, name, workload, n, ours) | {
                    "command": "python -m benchmarks.expected --data DIR"
                }


def _point(made: tables.Made, name: str, workload: cells.Workload, n: int, ours: dict[str, Any]) -> Point:
    k = min(workload.k, len(made.domain))
    queries, _ = tables.workload(made.domain, k)
    request = Request(
        queries=queries,
        epsilon=workload.epsilon,
        delta=cells.DELTA,
        mechanism=cells.OURS,
        beta=0.05,
    )
    task = decided(planning.plan_of(request), n=TYPICAL_ROWS).prepared.task
    return {
        "table": name,
        "half": cells.half_of(name),
        "cell": str(workload),
        "k": k,
        "n": n,
        "sizes": list(made.domain.shape),
        "unit": task.unit.value,
        "price": str(task.price),
        "max": ours["answers max"],
        "L1": ours["answers L1"],
        "max spread": ours["answers max spread"],
        "L1 spread": ours["answers L1 spread"],
        "code": ours["code"],
    }


def points(path: Path) -> list[Point]:
    """The stored points, the newest of every cell."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line)["figures"] for line in lines]
    return list({(p["table"], p["cell"]): p for p in found}.values())


def form(point: Point) -> BinnedRegime | DenseRegime:
    """What the planner sees of a point."""
    queries, _ = tables.workload(calibrate.domain_of(point["sizes"]), point["k"])
    task = Task(queries, Relation.ADD_REMOVE, Unit(point["unit"]), Fraction(point["price"]), 0.05)
    return allocation.regime_of(task, attribute_sets(queries), n=point["n"])


def groups_of(seen: Sequence[Point]) -> dict[str, list[tuple[Point, str, tuple[float, ...]]]]:
    """Every point under the constants that it is fitted with, with the error and the terms."""
    groups: dict[str, list[tuple[Point, str, tuple[float, ...]]]] = {}
    for point in seen:
        regime = form(point)
        if isinstance(regime, BinnedRegime):
            named = (("LARGEST", "max", regime.terms), ("MEAN_L1", "L1", regime.terms))
        else:
            named = (
                ("DENSE_LARGEST", "max", regime.largest_terms),
                ("DENSE_MEAN_L1", "L1", regime.mean_terms),
            )
        for name, what, terms in named:
            groups.setdefault(name, []).append((point, what, terms))
    return groups


def fit(seen: Sequence[Point]) -> dict[str, Any]:
    """The constants, and between which multiples of the error nine of ten releases of other kinds of tables lay."""
    found: dict[str, Any] = {"SIMULATIONS": len(seen)}
    for name, group in groups_of(seen).items():
        if name == "DENSE_LARGEST":
            found["OF_WHOLE_MARGINALS"] = len(group)
        if len(group) < MIN_POINTS:
            continue
        kinds = [point["table"].partition("-")[0] for point, _, _ in group]
        without = {
            kind: _solve([one for one, other in zip(group, kinds, strict=True) if other != kind])
            for kind in set(kinds)
        }
        ratios = [
            error / allocation.power_law(without[kind], terms)
            for kind, (point, what, terms) in zip(kinds, group, strict=True)
            for error in _single_releases(point, what)
        ]
        found[name] = _solve(group)
        found[f"{name}_WITHIN"] = [round(float(q), 2) for q in np.quantile(ratios, _levels(len(without)))]
    return found


def _levels(kinds: int) -> tuple[float, float]:
    """Which quantiles of what was left out hold nine of ten releases of one more kind of table.

    Where that kind is as likely as any other to be the farthest, k kinds hold a share q of releases for q k / (k + 1)
    of it (conformal prediction): with few kinds, more than nine of ten of them have to lie inside.
    """
    share = min(1.0, 0.9 * (kinds + 1) / kinds)
    return (1 - share) / 2, (1 + share) / 2


def _single_releases(point: Point, what: str) -> list[float]:
    """Errors of single releases, which differ by more than means of several do."""
    return [max(0.0, point[what] * (1 + point[f"{what} spread"] * z)) for z in _SINGLE]


def _solve(group: Sequence[tuple[Point, str, tuple[float, ...]]]) -> list[float]:
    rows = np.array([terms for _, _, terms in group])
    errors = np.log([max(point[what], 1e-9) for point, what, _ in group])
    return [round(float(x), 4) for x in np.linalg.lstsq(rows, errors, rcond=1e-6)[0]]


def check(seen: Sequence[Point]) -> dict[str, Any]:
    """True over expected errors of releases: the middle, nine of ten, and how many lie within what is stated."""
    found: dict[str, Any] = {}
    for name, group in groups_of(seen).items():
        exponents, within = getattr(allocation, name), getattr(allocation, f"{name}_WITHIN")
        ratios = np.array(
            [
                error / allocation.power_law(exponents, terms)
                for point, what, terms in group
                for error in _single_releases(point, what)
            ]
        )
        low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
        found[name] = {
            "points": len(group),
            "median": round(float(middle), 2),
            "nine of ten": [round(float(low), 2), round(float(high), 2)],
            "stated": list(within),
            "inside": round(float(np.mean((ratios >= within[0]) & (ratios <= within[1]))), 2),
        }
    return found


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import RESULTS, append_each

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.expected",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, help="a folder of tables, such as adult.csv")
    parser.add_argument("--fit", action="store_true", help="write the constants from the tuning half")
    parser.add_argument("--check", action="store_true", help="true over expected errors of the judging half")
    chosen = parser.parse_args(arguments)
    place = RESULTS / "expected.jsonl"
    halves = {half: [p for p in points(place) if p["half"] == half] for half in cells.HALVES}
    if chosen.fit:
        found = fit(halves["tuning"])
        source = calibrate.CONSTANTS.read_text(encoding="utf-8")
        calibrate.CONSTANTS.write_text(calibrate.rewritten(source, found), encoding="utf-8")
        print(json.dumps(found))
    elif chosen.check:
        print(json.dumps({half: check(seen) for half, seen in halves.items()}))
    else:
        append_each("expected", collect(chosen.data, RESULTS / "families.jsonl", place))


if __name__ == "__main__":
    main()
