"""What a ledger spent over time, as a plot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.cli import console
from maquette.errors import LedgerError, ParameterError

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger, Receipt


ASIDE, LOOKED = "spent and reserved", "spent on looks at the table"


def draw(book: Ledger, path: Path) -> None:
    """Write the plot in the form that the file's name asks for."""
    console.write_plot(specification(book), path, title=f"Ledger '{book.name}'")


def points(book: Ledger) -> list[dict[str, Any]]:
    """The two running sums after every entry that changes one of them."""
    from maquette.accounting.budget import UNITS

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
                aside += entry.units
                tops.add(entry.key)
            looked += 0 if entry.envelope else entry.units
        elif entry.kind == "settle" and entry.key in tops:
            aside -= entry.units
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
    from maquette.accounting.budget import UNITS

    total = book.balance().total_units / UNITS
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


# Release folders near a ledger: each holds receipts, and a ledger without one of them has lost what was
# paid for.

MAX_FOLDERS = 200
LARGEST_DOCUMENT = 16 << 20


def check_folders(book: Ledger, location: str, *places: Path) -> int:
    """Refuse a ledger that lacks a receipt of its releases beside it or beside `places`; how many there are."""
    near = [place.absolute().parent for place in places]
    if "://" not in location:
        near.append(Path(location).absolute().parent)
    count = 0
    for folder, receipt in _receipts(dict.fromkeys(near), opened=book.opened):
        count += 1
        if not book.holds(receipt):
            raise LedgerError(
                f"the ledger {book.location} lacks entry {receipt.sequence}, whose receipt is in {folder}: it was cut "
                "back or replaced by an older copy after that release; put back the newest copy of the ledger"
            )
    return count


def _receipts(near: Iterable[Path], *, opened: str) -> Iterator[tuple[Path, Receipt]]:
    """The newest receipt of every release folder that belongs to this ledger."""
    from maquette.accounting.ledger import Receipt

    for document in _documents(near):
        data = _read(document)
        try:
            if data["account"]["opened"] != opened:
                continue
            newest = max(data["receipts"], key=lambda one: int(one["sequence"]))
            yield document.parent, Receipt.parse(f"{newest['sequence']}:{newest['head']}")
        except (LookupError, TypeError, ValueError, ParameterError):
            continue  # of an earlier version, or none of ours: it says nothing about this ledger


def _documents(near: Iterable[Path]) -> Iterator[Path]:
    for folder in near:
        try:
            inside = sorted(folder.iterdir())
        except OSError:
            continue
        named = (place / "release.json" for place in inside)
        yield from [place for place in named if place.is_file()][:MAX_FOLDERS]


def _read(document: Path) -> Any:
    try:
        with document.open("rb") as file:
            raw = file.read(LARGEST_DOCUMENT + 1)
        return json.loads(raw) if len(raw) <= LARGEST_DOCUMENT else None
    except (OSError, ValueError, RecursionError):
        return None
