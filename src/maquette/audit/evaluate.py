"""A release against the truth, for the person who holds the table. Not private and not for release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from maquette import _check
from maquette.accounting.ledger import Ledger
from maquette.errors import ReleaseError
from maquette.gate.handle import Table, exact_answers, is_table_of
from maquette.results import replacing
from maquette.results.binding import paid_for
from maquette.results.evaluation import Evaluation, compare
from maquette.results.folder import MANIFEST
from maquette.results.release import Release

SAME_TABLE = "known to the ledger as the one the release was made from"
FAR = 40
"""Standard deviations of the released number of records that no table of the release is away from it."""


def evaluate(release: Release, table: Table, *, ledger: Ledger | str | Path | None = None) -> Evaluation:
    """True errors of a release per group of its workload, of its answers and of its rows.

    Another table than the release was made from is refused: by the ledger that paid for it, the given one or the
    table's own, or without a ledger only if its number of records cannot be that of the release.

    Guarantee: none. It looks at the private table without noise and without payment, so that its result is as
        private as the table. It changes neither the ledger nor the release.
    """
    if not release.listed:
        raise ReleaseError(
            "this release lists no answers: its class is too large to be compared query by query"
        )
    if "weight" in release.parameters:
        raise ReleaseError(
            "this release weighs its records; an evaluation counts every record as one and does not apply"
        )
    if table.persons != release.persons:
        raise ReleaseError(
            "the release was made from the records that count of each person; open the table with the same person= and "
            "rows_per_person="
            if release.persons is not None
            else "the release was made from all records; open the table without person="
        )
    truth = exact_answers(table, release.workload)
    is_same = _is_known_table(release, table, ledger)
    if not is_same:
        _check_size(release, truth.records)
    result = compare(release, truth.numerators, denominator=truth.denominator, records=truth.records)
    return replace(result, table=SAME_TABLE) if is_same else result


def _is_known_table(release: Release, table: Table, ledger: Ledger | str | Path | None) -> bool:
    """Is it the table that the release's ledger paid for? Refuses another; False where no ledger is at hand."""
    if ledger is None:
        place = table.ledger_location
        if place is None or not place.exists():
            return False
        with Ledger.open(place) as book:
            return paid_for(book, release) and _is_known_table(release, table, book)
    if not isinstance(ledger, Ledger):
        with Ledger.open(ledger) as book:
            return _is_known_table(release, table, book)
    if not paid_for(ledger, release):
        raise ReleaseError(
            f"ledger '{ledger.name}' did not pay for this release: its receipts are not in it; give the one that did"
        )
    if not is_table_of(table, ledger):
        raise ReleaseError(
            f"this is not the table that the release was made from: ledger '{ledger.name}', which paid for it, "
            "knows another one; give the table and the domain of the release"
        )
    return True


def _check_size(release: Release, records: int) -> None:
    """Refuse a table whose number of records is out of reach of the released one."""
    size = release.size
    if size.unpaid:
        return
    reach = 0.0 if size.noise is None else FAR * size.noise.deviation + 1
    if abs(records - size.value) > reach:
        raise ReleaseError(
            "this is not the table that the release was made from: it has another number of records; give the table of "
            "the release"
        )


def check_page_place(path: Path) -> None:
    """Refuse to put an evaluation where a release is handed on from."""
    for folder in (path, *path.resolve().parents):
        if (folder / MANIFEST).exists():
            raise ReleaseError(
                f"an evaluation is not private and does not belong in the release folder {folder}; "
                "choose a place beside the private table"
            )


def check_default_page_place(path: Path) -> None:
    """Refuse to put a page that nobody named a place for into a folder that is kept from writing."""
    why = _check.kept_from_writing(path.parent)
    if why is not None:
        raise ReleaseError(
            f"the page would be written beside the table, but the folder {path.parent} {why}; name another place with "
            "-o, as private as the table's own, or leave the page out with --no-page"
        )


def write_page(evaluation: Evaluation, path: Path) -> None:
    """Write the page of an evaluation, readable by its owner alone, whole or not at all."""
    check_page_place(path)
    try:
        replacing.write_text(path, evaluation.page(), mode=0o600)
    except OSError as error:
        raise ReleaseError(f"cannot write {path}: {error.strerror or type(error).__name__}") from None
