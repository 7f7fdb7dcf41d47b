"""The measured figures as tables for the documentation: `python -m benchmarks.summary` prints them from the results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers import quoted

HEAD = "| table | epsilon | system | max | mean L1 | mean abs | processor s | peak MB |"
RULE = "|---|---|---|---|---|---|---|---|"
CHANGED = {"sculpt": "2026-11-16T10:11", "residual": "2026-11-16T07:07"}
"""When the accuracy of a mechanism or the counting of its privacy last changed; older figures are marked."""


def main() -> None:
    from benchmarks.__main__ import RESULTS

    ours = newest(_figures(RESULTS / "sculpt.jsonl"))
    peers = list(_figures(RESULTS / "peers.jsonl"))
    for k in (2, 3):
        print(f"### {k}-way marginals\n\n{HEAD}\n{RULE}")
        print(*lines(ours, peers, k), sep="\n", end="\n\n")


def newest(figures: Iterable[dict[str, Any]]) -> dict[tuple[str, float, int], dict[str, dict[str, Any]]]:
    """The last figure of every mechanism, by table, epsilon and order."""
    found: dict[tuple[str, float, int], dict[str, dict[str, Any]]] = {}
    for figure in figures:
        if "failed" not in figure:
            place = (figure["table"], figure["epsilon"], figure["k"])
            found.setdefault(place, {})[figure["mechanism"]] = figure
    return found


def lines(
    ours: dict[tuple[str, float, int], dict[str, dict[str, Any]]], peers: list[dict[str, Any]], k: int
) -> Iterator[str]:
    """Rows of the table for one order: ours first, then peers measured again, then quoted ones."""
    for (table, epsilon, order), mechanisms in sorted(ours.items()):
        if order != k:
            continue
        for name, figure in mechanisms.items():
            cost = (figure["processor seconds"], figure["peak MB"])
            for of, errors in _ours(figure):
                yield _line(table, epsilon, f"**{name}**, {of}{_once(figure)}", errors, cost)
        yield from _measured_again(peers, table, epsilon, k)
        yield from _quoted(table, epsilon, k)


def _once(figure: dict[str, Any]) -> str:
    runs = figure.get("runs", 3)
    told = "" if runs == 3 else f", {runs} run" + ("s" if runs > 1 else "")
    changed = CHANGED.get(figure["mechanism"], "")
    return told + (", earlier version" if figure.get("date", changed) < changed else "")


def _ours(figure: dict[str, Any]) -> list[tuple[str, list[float]]]:
    """Errors of rows and of answers; one line where both are the same."""
    found = [
        (of, [figure[f"{of} {metric}"] for metric in ("max", "L1", "abs")])
        for of in ("rows", "answers")
        if f"{of} max" in figure
    ]
    same = len(found) == 2 and found[0][1] == found[1][1]
    return [("rows and answers", found[0][1])] if same else found


def _measured_again(peers: list[dict[str, Any]], table: str, epsilon: float, k: int) -> Iterator[str]:
    for figure in peers:
        if figure["table"] != table or figure["epsilon"] != epsilon or "failed" in figure:
            continue
        scores = next(v for word, v in figure.items() if word.startswith(f"all {k}-way marginals"))
        size = "" if figure["mechanism"] == "mst" else f" {figure['size']:g} MB"
        spent = "" if figure["spent"] > 0.999 else f", stopped at {figure['spent']:.0%} of its budget"
        name = f"{figure['mechanism'].upper()}{size} on mbi {figure['mbi']}, 1 seed{spent}"
        cost = (figure["processor seconds"], figure["peak MB"])
        yield _line(table, epsilon, name, (scores["max"], scores["L1"], scores["abs"]), cost)


def _quoted(table: str, epsilon: float, k: int) -> Iterator[str]:
    for name, scores in quoted.beside(table, k, epsilon).items():
        if name != "source":
            yield _line(table, epsilon, f"{name}, quoted", (scores["max"], scores["L1"], None), (None, None))


def _line(table: str, epsilon: float, system: str, errors: Iterable[Any], cost: Iterable[Any]) -> str:
    cells = [table, f"{epsilon:g}", system, *(_cell(v) for v in errors), *(_cell(v) for v in cost)]
    return f"| {' | '.join(cells)} |"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _figures(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            measured = json.loads(line)
            yield {"date": measured["date"]} | measured["figures"]


if __name__ == "__main__":
    main()
