"""A release against the truth, for the person who holds the table. Not private and not for release."""

from __future__ import annotations

from pathlib import Path

from maquette import _check
from maquette.errors import ReleaseError
from maquette.gate.owner import Table
from maquette.gate.truth import exact_answers
from maquette.release import replacing
from maquette.release.evaluation import Evaluation, compare
from maquette.release.release import Release
from maquette.release.store import MANIFEST


def evaluate(release: Release, table: Table) -> Evaluation:
    """True errors of a release per group of its workload, of its answers and of its rows.

    Guarantee: none. It looks at the private table without noise and without payment, so that its result is as
        private as the table. It touches neither the ledger nor the release.
    """
    if not release.listed:
        raise ReleaseError(
            "this release lists no answers: its class is too large to be compared query by query"
        )
    if "weight" in release.parameters:
        raise ReleaseError(
            "records weigh in this release; an evaluation counts each as one and cannot judge it"
        )
    truth = exact_answers(table, release.workload)
    return compare(release, truth.numerators, denominator=truth.denominator, records=truth.records)


def check_page_place(path: Path) -> None:
    """Refuse to put an evaluation where a release is handed on from."""
    for folder in (path, *path.resolve().parents):
        if (folder / MANIFEST).exists():
            raise ReleaseError(
                f"an evaluation is not private and does not belong into the release folder {folder}; "
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
