"""Release folders near a ledger: each holds receipts, and a ledger without one of them has lost what was paid for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from maquette.core.errors import ParameterError
from maquette.core.ledger.entry import Receipt

MAX_FOLDERS = 200
LARGEST_DOCUMENT = 16 << 20


def receipts_in(near: Iterable[Path], *, opened: str) -> Iterator[tuple[Path, Receipt]]:
    """The newest receipt of every release folder in these places that belongs to the ledger with this opening."""
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
