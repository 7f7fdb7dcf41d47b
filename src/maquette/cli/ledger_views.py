"""What a ledger spent over time, as a plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.cli import console

if TYPE_CHECKING:
    from maquette.accounting.ledger import Entry, Ledger


ASIDE, LOOKED = "spent and reserved", "spent on looks at the table"


def draw(book: Ledger, path: Path) -> None:
    """Write the plot in the form that the file's name asks for."""
    console.write_plot(specification(book), path, title=f"Ledger '{book.name}'")


def points(book: Ledger) -> list[dict[str, Any]]:
    """The two running sums after every entry that changes one of them, in the unit that the ledger is shown in."""
    from maquette.core.budget import UNITS

    is_pure = not book.budget.total_units

    def units(entry: Entry) -> int:
        return entry.pure if is_pure else entry.units

    aside = looked = 0
    tops: set[str] = set()
    steps: list[dict[str, Any]] = []
    for entry in book.entries():
        if entry.kind == "open":
            steps += _both(entry.created, entry.seq, 0, 0, UNITS)
            continue
        before = aside, looked
        if entry.kind == "reserve":
            if entry.parent is None:
                aside += units(entry)
                tops.add(entry.key)
            looked += 0 if entry.envelope else units(entry)
        elif entry.kind == "settle" and entry.key in tops:
            aside -= units(entry)
        if (aside, looked) != before:
            steps += _both(entry.created, entry.seq, aside, looked, UNITS)
    return steps


def _both(when: str, seq: int, aside: int, looked: int, units: int) -> list[dict[str, Any]]:
    return [
        {"when": when, "entry": seq, "what": ASIDE, "amount": aside / units},
        {"when": when, "entry": seq, "what": LOOKED, "amount": looked / units},
    ]


def specification(book: Ledger) -> dict[str, Any]:
    """Two stairs and the total that they never pass."""
    from maquette.core.budget import UNITS

    whole = book.budget.whole
    total = (whole.units or whole.pure) / UNITS
    values = [one | {"percent": 100 * one["amount"] / total} for one in points(book)]
    stairs = {
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "when", "type": "temporal", "title": "time (UTC)"},
            "y": {"field": "percent", "type": "quantitative", "title": "percent of the ledger"},
            "color": {
                "field": "what",
                "type": "nominal",
                "title": None,
                "scale": {"domain": [ASIDE, LOOKED]},
            },
        },
    }
    rule = {
        "data": {"values": [{"total": 100}]},
        "mark": {"type": "rule", "strokeDash": [4, 4]},
        "encoding": {"y": {"field": "total", "type": "quantitative"}},
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": f"Ledger '{book.name}'", "subtitle": str(book.budget)},
        "width": 640,
        "height": 280,
        "data": {"values": values},
        "layer": [stairs, rule],
    }
