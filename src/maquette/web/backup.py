"""Copies of everything that a service must not lose, taken while it runs: ledgers, domains, the log, tokens and jobs,
releases.

A copy of a ledger is whole and verified. Put back later it is an *old* copy: a service on it would spend once more
what was spent since. The witness of the configuration, kept in another place, notices that.
"""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from maquette.accounting.ledger import Ledger
from maquette.errors import LedgerError, ParameterError
from maquette.web.config import Config

RECEIPT = ".receipt"


@dataclass(frozen=True, slots=True)
class Copy:
    """One thing that was copied, in words."""

    what: str
    detail: str


def backup(config: Config, folder: Path) -> list[Copy]:
    """Copy into a new folder. Ledgers in PostgreSQL are left to the tools of the database, and named."""
    if folder.exists() and any(folder.iterdir()):
        raise ParameterError(f"{folder} is not empty; a backup goes into a folder of its own")
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
