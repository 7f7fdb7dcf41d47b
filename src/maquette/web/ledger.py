"""The ledger of a table in the service: the account that a steward sees, a witness of how far it was, copies."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maquette.accounting.charges import shares_in_words
from maquette.accounting.ledger import Ledger
from maquette.core.budget import Cost
from maquette.core.events import Receipt
from maquette.errors import LedgerError, ParameterError
from maquette.results import wording
from maquette.web.config import Config

MAX_PAGE = 500
"""Items of a page, at most."""


class Account:
    """Views of one ledger. They read the chain and nothing else."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def ledger(self) -> dict[str, Any]:
        """The state of the account, and who holds what of it."""
        budget, account = self._ledger.budget, wording.account(self._ledger)
        return {
            "name": self._ledger.name,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "further": account.pop("affordable_epsilon"),
            **({"pure_epsilon": budget.pure_epsilon} if budget.pure_epsilon else {}),
            **account,
            "holders": self._holders(),
        }

    def _holders(self) -> list[dict[str, Any]]:
        """Analysts, sessions and releases: what each was charged and still holds."""
        open_now = {one.entry.key: one.left for one in self._ledger.open_envelopes()}
        children: dict[str, Cost] = {}
        tops: dict[str, dict[str, Any]] = {}
        for entry in self._ledger.entries(kind="reserve"):
            if entry.envelope:
                who = entry.body.get("analyst")
                tops[entry.key] = {"key": entry.key, "tag": entry.tag, "who": who, "created": entry.created}
            holder = entry.parent if entry.parent in tops else entry.key
            children[holder] = children.get(holder, Cost(0)) + (Cost(0) if entry.envelope else entry.cost)
        return [
            top
            | {
                "spent": self._amount(children.get(key, Cost(0))),
                "held": self._amount(open_now.get(key, Cost(0))),
                "is_open": key in open_now,
                "percent": shares_in_words(children.get(key, Cost(0)), self._ledger.budget.whole),
            }
            for key, top in tops.items()
        ]

    def spent(self, most: int = 400) -> list[dict[str, Any]]:
        """The sum that looks were charged, after each of them; at most so many points, evenly chosen."""
        total, points = Cost(0), list[dict[str, Any]]()
        for entry in self._ledger.entries(kind="reserve"):
            if self._amount(entry.cost) and not entry.envelope:
                total += entry.cost
                points.append({"created": entry.created, "spent": self._amount(total)})
        step = max(len(points) // most, 1)
        return points[::step] + (points[-1:] if points and (len(points) - 1) % step else [])

    def _amount(self, cost: Cost) -> float:
        return wording.amounts_of(cost, self._ledger)["amount"]

    def entries(self, after: int = 0, limit: int = 50) -> dict[str, Any]:
        """The chain in order; one page of it. Stored answers stay in the ledger."""
        page: list[dict[str, Any]] = []
        size = min(limit, MAX_PAGE)
        for entry in self._ledger.entries(after=after):
            if len(page) == size:
                return {"items": page, "next": page[-1]["sequence"]}
            page.append(
                {
                    "sequence": entry.seq,
                    "created": entry.created,
                    "kind": entry.kind,
                    "what": wording.payment(entry.body.get("ask"), entry.tag)
                    if entry.kind == "reserve"
                    else entry.kind,
                    "question": entry.body.get("text"),
                    "key": entry.key,
                    "parent": entry.parent,
                    **wording.amounts_of(entry.cost, self._ledger),
                    "head": entry.head,
                }
            )
        return {"items": page, "next": None}


# How far a ledger was, remembered in another place: a restored old copy of the ledger is noticed and
# refused.


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
                "recover, which charges in full what is lost and continues, then move that file away"
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


# Copies of everything that a service must not lose, taken while it runs: ledgers, domains, the log,
# tokens and jobs, releases.
#
# A copy of a ledger is whole and verified. Put back later it is an *old* copy: a service on it would
# spend once more what was spent since. The witness of the configuration, kept in another place, notices
# that.


@dataclass(frozen=True, slots=True)
class Copy:
    """One thing that was copied, in words."""

    what: str
    detail: str


def backup(config: Config, folder: Path) -> list[Copy]:
    """Copy into a new folder. Ledgers in PostgreSQL are left to the tools of the database, and named."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(f"{folder} is a file or not empty; a backup goes into a folder of its own")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    copies = [_ledger(config, name, folder) for name in config.settings.tables]
    copies += [
        _domain(config, name, folder) for name in config.settings.tables if config.domain(name).exists()
    ]
    if config.settings.database is None and (config.state / "service.db").exists():
        _copy_database(config.state / "service.db", folder / "service.db")
        copies.append(Copy("tokens and jobs", "service.db"))
    for place in sorted({config.table_folder(name) for name in config.settings.tables}):
        for name, what in (
            ("audit", "the log"),
            ("releases", "releases"),
            ("proposals", "domains that were found"),
        ):
            if (place / name).is_dir():
                shutil.copytree(place / name, folder / name, dirs_exist_ok=True)
                copies.append(Copy(what, f"{name}/"))
    if config.path is not None:
        shutil.copy2(config.path, folder / config.path.name)
        copies.append(Copy("the configuration", config.path.name))
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copies


def _ledger(config: Config, name: str, folder: Path) -> Copy:
    location = config.ledger(name)
    if "://" in location:
        return Copy(f"ledger of {name}", "in PostgreSQL: use pg_dump")
    source, target = Path(location), folder / f"{name}.ledger"
    if not source.exists():
        return Copy(f"ledger of {name}", "not made yet")
    receipt = source.with_name(source.name + RECEIPT)
    if receipt.exists():  # first: a ledger may be ahead of its receipt, never behind it
        shutil.copy2(receipt, target.with_name(target.name + RECEIPT))
    _copy_database(source, target)
    with Ledger.open(target) as ledger:
        end = ledger.verify()
    return Copy(f"ledger of {name}", f"verified up to entry {end.sequence}")


def _domain(config: Config, name: str, folder: Path) -> Copy:
    """The declared columns with their reviews, which the service writes; without them a ledger opens no table."""
    target = folder / "domains" / f"{name}.domain.json"
    target.parent.mkdir(exist_ok=True)
    shutil.copy2(config.domain(name), target)
    return Copy(f"domain of {name}", f"domains/{target.name}")


def _copy_database(source: Path, target: Path) -> None:
    """A whole copy of an SQLite file that others write to meanwhile."""
    try:
        origin, copy = sqlite3.connect(f"file:{source}?mode=ro", uri=True), sqlite3.connect(target)
        with origin, copy:
            origin.backup(copy)
        origin.close()
        copy.close()
        target.chmod(0o600)
    except sqlite3.Error as error:
        raise LedgerError(f"cannot copy {source.name} ({type(error).__name__})") from None
