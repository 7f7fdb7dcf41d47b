"""Release folders near a ledger: each holds receipts, and a ledger without one of them has lost what was paid for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import LedgerError, ParameterError

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger, Receipt

MOST_FOLDERS = 200
LARGEST_DOCUMENT = 16 << 20


def check_folders(book: Ledger, location: str, *places: Path) -> int:
    """Refuse a ledger that lacks a receipt of its releases beside it or beside `places`; how many there are."""
    near = [place.absolute().parent for place in places]
    if "://" not in location:
        near.append(Path(location).absolute().parent)
    found = 0
    for folder, receipt in _receipts(dict.fromkeys(near), opened=book.opened):
        found += 1
        if not book.holds(receipt):
            raise LedgerError(
                f"the ledger {book.location} lacks entry {receipt.seq}, whose receipt is in {folder}: it was cut back "
                "or replaced by an older copy after that release; put back the newest copy of the ledger"
            )
    return found


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
        yield from [place for place in named if place.is_file()][:MOST_FOLDERS]


def _read(document: Path) -> Any:
    try:
        with document.open("rb") as file:
            raw = file.read(LARGEST_DOCUMENT + 1)
        return json.loads(raw) if len(raw) <= LARGEST_DOCUMENT else None
    except (OSError, ValueError, RecursionError):
        return None
