"""How far a ledger was, remembered in another place: a restored old copy of the ledger is noticed and refused."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from maquette.errors import LedgerError, ParameterError
from maquette.receipt import Receipt

if TYPE_CHECKING:
    from maquette.accounting.ledger import Ledger

RECEIPT = ".receipt"
"""How the file beside a ledger, and the copy of it, end."""
SECONDS = 1.0
"""How often the end of the chain is written down."""


class Witness:
    """A file with the newest receipt of a ledger; it only ever goes forward."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._written: Receipt | None = None

    def check(self, ledger: Ledger) -> None:
        """Refuse a ledger that is behind, or another one than before."""
        receipt = self.read()
        if receipt is not None and not ledger.holds(receipt):
            raise LedgerError(
                f"the ledger is not the one that {self._path} remembers: entry {receipt.sequence} is missing or "
                "differs. It is an old copy, or another ledger; put the newest copy back, or run maquette ledger "
                "recover, which goes on with what is lost charged in full, then move that file away"
            )

    def read(self) -> Receipt | None:
        try:
            return Receipt.parse(self._path.read_text("ascii").strip())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, ParameterError):
            raise LedgerError(
                f"the witness {self._path} cannot be read; put it back, or move it away"
            ) from None

    def write(self, receipt: Receipt, *, beside: Path | None = None) -> None:
        """Replace the file whole, on the disk when this returns; with a copy of the receipt beside the ledger.

        That copy says what was spent: put back beside an old ledger, `maquette ledger recover` charges what is lost.
        """
        if receipt == self._written:
            return
        if beside is not None and beside.is_file():
            self._replace(self._path.with_name(self._path.name + RECEIPT), beside.read_bytes())
        self._replace(self._path, f"{receipt}\n".encode())
        self._written = receipt

    def _replace(self, path: Path, data: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".witness")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)

    def follow(self, ledger: Ledger) -> None:
        """Write down the end of the chain every second, in a thread of its own."""

        def run() -> None:
            while not self._stop.wait(SECONDS):
                self._try(ledger)

        self._try(ledger)
        threading.Thread(target=run, daemon=True).start()

    def _try(self, ledger: Ledger) -> None:
        try:
            location = ledger.location
            beside = None if "://" in location else Path(location + RECEIPT)
            self.write(ledger.receipt(), beside=beside)
        except (OSError, LedgerError):
            return  # the ledger itself goes on; the next second tries again

    def stop(self, ledger: Ledger) -> None:
        self._stop.set()
        self._try(ledger)
