"""Reads a release folder, whether of one table or of several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maquette.core._arguments import checks_arguments
from maquette.linked import files
from maquette.linked.release import LinkedRelease
from maquette.results import loading, replacing
from maquette.results.release import Release

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger


@checks_arguments
def load(path: str | Path, *, ledger: Ledger | str | Path | None = None) -> Release | LinkedRelease:
    """Read a release folder; refuses one that is incomplete, changed or of a newer format.

    The folder is held against the ledger that paid for it: the given one, which has to know it, or a file `*.ledger`
    beside it that holds its receipts. `release.checked` says what came of it. Without a ledger only damage is found:
    whoever edits a folder can also edit the hashes in it. A folder of several tables is read with all its releases
    (`docs/several-tables.md`).
    """
    folder = Path(path)
    replacing.recover(folder)
    if files.is_folder(folder):
        return LinkedRelease.load(folder, ledger=ledger)
    return loading.load(folder, ledger=ledger)
