"""Time, memory and error of `sculpt` against records, attributes, marginals and rows, on a generated table.

2-way marginals of columns with 10 values that lean on each other, epsilon 1, delta 1e-9; one size is moved at a time.
Processor seconds of the release alone on one thread, the table being open; a process per point.
`python -m benchmarks.scaling --plot DIR` draws the newest figures to one SVG per axis.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import maquette as mq
from benchmarks import _accuracy, tables
from benchmarks.counting import peak_megabytes
from maquette.mechanisms.base import MECHANISMS


@dataclass(frozen=True, slots=True)
class Point:
    """One size of everything."""

    axis: str
    n: int = 50_000
    d: int = 14
    pairs: int = 91
    rows: int | None = 50_000
    mechanism: str = "sculpt"

    @property
    def x(self) -> int:
        """Where it stands on its axis."""
        return {"records": self.n, "attributes": self.d, "marginals": self.pairs, "rows": self.rows or 0}[
            self.axis
        ]


AXES = {
    "records": [Point("records", n=n) for n in (10**4, 10**5, 10**6, 10**7)],
    "attributes": [Point("attributes", d=d, pairs=d * (d - 1) // 2) for d in (8, 16, 32, 64)],
    "marginals": [Point("marginals", d=26, pairs=p) for p in (10, 40, 160, 325)],
    "rows": [Point("rows", rows=m) for m in (500, 2_000, 10_000, 50_000, 100_000)],
}


def run(data: Path | None) -> list[dict[str, Any]]:
    """Every axis; nothing before the mechanism is there."""
    del data
    return list(measure_all()) if "sculpt" in MECHANISMS else []


def measure_all(axes: list[str] | None = None, mechanism: str = "sculpt") -> Iterator[dict[str, Any]]:
    for axis in axes or AXES:
        for point in AXES[axis]:
            print(f"{axis} = {point.x:,} ...", file=sys.stderr)
            yield _in_fresh_process(replace(point, mechanism=mechanism))


def command(point: Point) -> str:
    """What measures one point again; it prints and appends nothing."""
    return f"python -m benchmarks.scaling --point '{json.dumps(asdict(point))}'"


def _in_fresh_process(point: Point) -> dict[str, Any]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    words = [sys.executable, "-m", "benchmarks.scaling", "--point", json.dumps(asdict(point))]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | one_thread)
    again = {"command": command(point)}
    if done.returncode:
        return asdict(point) | {"x": point.x, "failed": done.stderr.strip().splitlines()[-1:]} | again
    return json.loads(done.stdout.splitlines()[-1]) | again


def figures(point: Point) -> dict[str, Any]:
    """One release at this size."""
    case = _accuracy.Case("chain", 2, 1.0, point.mechanism, 1, point.rows)
    _accuracy.warm_up(case)
    made = tables.chain(point.n, point.d)
    table = made.open()
    queries = tables.first_pairs(made.domain, point.pairs)
    before = peak_megabytes()
    done, seconds = _accuracy.release(table, queries, case)
    peak = peak_megabytes()
    found = mq.evaluate(done, table).groups[0]
    best = found.answers if found.rows is None else found.rows
    return asdict(point) | {
        "x": point.x,
        "queries": queries.count,
        "processor seconds": round(seconds, 2),
        "peak MB": peak,
        "of which before the release, MB": before,
        "max": float(f"{best.largest:.4g}"),
        "L1": float(f"{best.l1:.4g}"),
    }


def newest(lines: list[str]) -> dict[str, dict[int, dict[str, Any]]]:
    """The last figure of every point, by axis."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for line in lines:
        figure = json.loads(line)["figures"]
        if "failed" not in figure:
            found.setdefault(figure["axis"], {})[figure["x"]] = figure
    return found


def draw(axis: str, points: dict[int, dict[str, Any]]) -> str:
    """Two panels: seconds and megabytes; for rows, seconds and error."""
    import vl_convert

    second = ("L1", "mean L1 distance of a marginal") if axis == "rows" else ("peak MB", "peak memory, MB")
    panels = [_panel(axis, points, *what) for what in (("processor seconds", "processor seconds"), second)]
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "hconcat": panels,
        "config": {"font": "Arial, Helvetica, sans-serif", "view": {"stroke": None}},
    }
    return vl_convert.vegalite_to_svg(spec)


def _panel(axis: str, points: dict[int, dict[str, Any]], field: str, title: str) -> dict[str, Any]:
    values = [{"x": x, "y": max(figure[field], 1e-6)} for x, figure in sorted(points.items())]
    return {
        "data": {"values": values},
        "width": 320,
        "height": 220,
        "mark": {"type": "line", "point": True, "color": "#1f5f8b"},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": axis, "scale": {"type": "log"}},
            "y": {
                "field": "y",
                "type": "quantitative",
                "title": title,
                "scale": {"type": "log", "nice": True},
            },
        },
    }


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import RESULTS, append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--point", help="one point in JSON; prints its figures and appends nothing")
    parser.add_argument("--axis", nargs="+", choices=list(AXES), default=None)
    parser.add_argument("--mechanism", default="sculpt")
    parser.add_argument("--plot", type=Path, help="draw the figures measured so far into this folder")
    chosen = parser.parse_args(arguments)
    place = RESULTS / "scaling.jsonl"
    if chosen.point:
        print(json.dumps(figures(Point(**json.loads(chosen.point)))))
    elif chosen.plot:
        for axis, points in newest(place.read_text(encoding="utf-8").splitlines()).items():
            (chosen.plot / f"scaling-{axis}.svg").write_text(draw(axis, points), encoding="utf-8")
    else:
        append_each("scaling", measure_all(chosen.axis, chosen.mechanism))


if __name__ == "__main__":
    main()
