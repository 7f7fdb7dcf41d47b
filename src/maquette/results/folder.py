"""The release folder: written whole or not at all, checked by hash when read, never with a seed inside.

release.json      what was done and what is stated; the format version and the hashes of the other files
release.sha256    the hash of what release.json states; folders of earlier versions have none
domain.json       the declared universe
workload.json     the queries
answers.parquet   one row per query: numerator (and the noise before post-processing, where known), which table and
                  values or which query text it is about, its share and stated error; not in format 2, where a class
                  too large to list is answered from the rows
rows.parquet      the small database in real values      } only if there is one
codes.parquet     the same in codes                       }
model.npz         a model that answers further queries   } only if there is one
report.html       for people; may be made anew
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.domain import Domain
from maquette.domain.entries import to_text
from maquette.errors import ReleaseError
from maquette.queries import to_json
from maquette.results import answer_file, binding, document, replacing
from maquette.results.report import render

if TYPE_CHECKING:
    from maquette.results.release import Release


MANIFEST = "release.json"
SEAL = "release.sha256"
DOMAIN = "domain.json"
WORKLOAD = "workload.json"
ANSWERS = "answers.parquet"
ROWS = "rows.parquet"
CODES = "codes.parquet"
MODEL = "model.npz"
REPORT = "report.html"
UNLISTED = 2
"""The format of a release without listed answers."""


def check_place(path: Path, *, replace: bool = False, keys: Collection[str] = ()) -> None:
    """Refuse a place that cannot take a release folder, before anything is paid for.

    A release that is there stays, unless it may be replaced or is one that these keys repeat.
    """
    replacing.recover(path)
    _check_target(path, replace=replace or _identity_of(path)[0] in keys)
    check_writable(path)


def check_writable(path: Path) -> None:
    """Refuse a place that no folder can be written to, before anything is paid for."""
    try:
        with replacing.draft(path):
            pass
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ReleaseError(
            f"cannot write {path}: {why}; nothing was opened and nothing was spent, choose another place"
        ) from None


def save(release: Release, path: Path, *, report: bool = True, replace: bool = False) -> Path:
    """Write the folder beside its place, then move it there in one step.

    Another release that is there stays, unless `replace`; the same release is written again.
    """
    replacing.recover(path)
    _check_target(path, replace=replace or is_there(release, path))
    try:
        with replacing.draft(path) as draft:
            _write(release, draft, report=report)
            replacing.move(draft, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    return path


def is_there(release: Release, path: Path) -> bool:
    """Does a folder hold this very release?"""
    return bool(release.receipts) and _identity_of(path) == (release.parameters.get("key"), _last(release))


def write_text(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write one text file, whole or not at all."""
    try:
        replacing.write_text(path, text, mode=mode)
    except OSError as error:
        raise _unwritable(path, error) from None


def write_domain(path: Path, domain: Domain) -> None:
    """Write a domain file, whole or not at all; for its owner alone, until it is reviewed."""
    write_text(path, to_text(domain.to_dict()), mode=domain.file_mode)


def _write(release: Release, folder: Path, *, report: bool) -> None:
    release.domain.save(folder / DOMAIN)
    (folder / WORKLOAD).write_text(to_json(release.workload), encoding="utf-8")
    if release.listed:
        answer_file.write(release, folder / ANSWERS)
    if release.database is not None:
        _write_rows(release, folder)
    model = None
    if release.model is not None:
        model, arrays = release.model.to_arrays()
        np.savez(folder / MODEL, **arrays)  # noise hardly compresses
    manifest = document.plain(document.dump(release) | {"model": model})
    (folder / SEAL).write_text(binding.seal(manifest), encoding="utf-8")
    manifest["files"] = {file.name: file_hash(file) for file in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(document.to_text(manifest), encoding="utf-8")
    if report:
        (folder / REPORT).write_text(render(release, files_beside(folder)), encoding="utf-8")
    for file in folder.iterdir():
        replacing.sync(file)


FILES = {
    ROWS: "the synthetic rows, as Parquet",
    ANSWERS: "every released answer with what it is about and its error, as Parquet",
    DOMAIN: "the columns and the values that they can have",
    WORKLOAD: "the queries",
    MANIFEST: "everything that is stated on this page, for programs",
}
"""Files of a release folder that a reader may want, with what they hold."""


def files_beside(folder: Path) -> list[tuple[str, str]]:
    """Those that are there; none outside of a release folder."""
    if not (folder / MANIFEST).is_file():
        return []
    return [(name, title) for name, title in FILES.items() if (folder / name).is_file()]


def _write_rows(release: Release, folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    assert release.database is not None
    pyarrow.parquet.write_table(release.rows, folder / ROWS, compression="zstd")
    codes = pyarrow.table(binding.codes_of(release))
    pyarrow.parquet.write_table(codes, folder / CODES, compression="zstd")


def _check_target(path: Path, *, replace: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not path.is_dir() or not (path / MANIFEST).is_file():
        raise ReleaseError(
            f"{path} exists and is not a release folder; nothing was written there, choose another place"
        )
    if not replace:
        raise ReleaseError(
            f"{path} holds another release, which is not overwritten; choose another place, or replace it with "
            "replace=True (--replace on the command line)"
        )


def _identity_of(path: Path) -> tuple[Any, Any]:
    """The key and the last receipt of the release in a folder, as far as it can be read."""
    try:
        manifest = document.read_json(path / MANIFEST)
        return manifest["parameters"]["key"], manifest["receipts"][-1]
    except (ReleaseError, LookupError, TypeError):
        return None, None


def _last(release: Release) -> dict[str, Any]:
    return asdict(release.receipts[-1])


def _unwritable(path: Path, error: OSError) -> ReleaseError:
    why = error.strerror or type(error).__name__
    return ReleaseError(
        f"cannot write {path}: {why}; nothing was left there. Choose another place or make room: "
        "the same release with the same ledger costs nothing again"
    )


def file_hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
