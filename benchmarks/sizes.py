"""Error of `sculpt` against the number of rows: all 2-way and 3-way marginals of adult, epsilon 1, delta 1e-9.

True errors of the released rows, since the table is public; "small" is the size that `rows="small"` takes. A process
per point. `python -m benchmarks.sizes --plot FILE` draws the newest figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks import _accuracy

ROWS: tuple[int | Literal["small"], ...] = (500, 2_000, 5_000, 20_000, 48_842, 97_684, "small")
"""Up to twice the records of adult."""
RUNS = 1


def run(data: Path | None) -> list[dict[str, Any]]:
    """Nothing without the folder that has adult."""
    return [] if data is None else list(points(data))


def points(
    data: Path, *, orders: Sequence[int] = (2, 3), sizes: Sequence[int | Literal["small"]] = ROWS
) -> Iterator[dict[str, Any]]:
    """One figure per order and size, as they are done."""
    for k in orders:
        for rows in sizes:
            print(f"{k}-way marginals, {rows} rows ...", file=sys.stderr)
            found = _accuracy.measure(_accuracy.Case("adult", k, 1.0, "sculpt", RUNS, rows), data)
            yield found | {"command": f"python -m benchmarks.sizes --data DIR --k {k} --rows {rows}"}


def newest(lines: list[str]) -> dict[tuple[int, int | str], dict[str, Any]]:
    """The last figure of every point, by order and asked size."""
    found: dict[tuple[int, int | str], dict[str, Any]] = {}
    for line in lines:
        figure = json.loads(line)["figures"]
        if "failed" not in figure:
            found[figure["k"], figure["rows"]] = figure
    return found


def draw(found: dict[tuple[int, int | str], dict[str, Any]]) -> str:
    """Two panels against the rows: largest error and mean L1 distance; a cross where "small" lies."""
    import vl_convert

    values = [
        {
            "marginals": f"{k}-way",
            "rows": figure["m"],
            "small": rows == "small",
            "largest error": figure["rows max"],
            "mean L1 distance": figure["rows L1"],
        }
        for (k, rows), figure in sorted(found.items(), key=lambda item: item[1]["m"])
    ]
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "data": {"values": values},
        "hconcat": [_panel(field) for field in ("largest error", "mean L1 distance")],
        "config": {"font": "Arial, Helvetica, sans-serif", "view": {"stroke": None}},
    }
    return vl_convert.vegalite_to_svg(spec)


def _panel(field: str) -> dict[str, Any]:
    encoding = {
        "x": {"field": "rows", "type": "quantitative", "title": "rows", "scale": {"type": "log"}},
        "y": {"field": field, "type": "quantitative", "title": field, "scale": {"type": "log", "nice": True}},
        "color": {"field": "marginals", "type": "nominal"},
    }
    return {
        "width": 320,
        "height": 220,
        "layer": [
            {
                "transform": [{"filter": "!datum.small"}],
                "mark": {"type": "line", "point": True},
                "encoding": encoding,
            },
            {
                "transform": [{"filter": "datum.small"}],
                "mark": {"type": "point", "shape": "cross", "size": 160, "filled": True},
                "encoding": encoding,
            },
        ],
    }


def main(arguments: list[str] | None = None) -> None:
    from benchmarks.__main__ import RESULTS, append_each

    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--k", nargs="+", type=int, default=(2, 3))
    parser.add_argument("--rows", nargs="+", type=_size, default=ROWS, help="numbers, or small")
    parser.add_argument("--plot", type=Path, help="draw the figures measured so far into this SVG")
    chosen = parser.parse_args(arguments)
    place = RESULTS / "sizes.jsonl"
    if chosen.plot:
        chosen.plot.write_text(draw(newest(place.read_text(encoding="utf-8").splitlines())), encoding="utf-8")
        return
    if chosen.data is None:
        parser.error("adult is needed: --data DIR")
    append_each("sizes", points(chosen.data, orders=chosen.k, sizes=chosen.rows))


def _size(word: str) -> int | Literal["small"]:
    return "small" if word == "small" else int(word)


if __name__ == "__main__":
    main()
