"""The release folder: written whole or not at all, checked by hash when read, never with a seed inside.

release.json      what was done and what is stated; the format version and the hashes of the other files
domain.json       the declared universe
workload.json     the queries
answers.parquet   one numerator per query (and the noise before post-processing, where known); not in format 2, where
                  a class too large to list is answered from the rows
rows.parquet      the small database in real values      } only if there is one
codes.parquet     the same in codes                       }
model.npz         a model that answers further queries   } only if there is one
report.html       for people; may be made anew
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import MaquetteError, ReleaseError
from maquette.models.answers import Answers, SmallDatabase, Unlisted
from maquette.queries.base import Queries
from maquette.release import document
from maquette.release.release import Release

MANIFEST = "release.json"
DOMAIN = "domain.json"
WORKLOAD = "workload.json"
ANSWERS = "answers.parquet"
ROWS = "rows.parquet"
CODES = "codes.parquet"
MODEL = "model.npz"
REPORT = "report.html"
UNLISTED = 2
"""The format of a release without listed answers."""


def check_place(path: Path) -> None:
    """Refuse a place that cannot take a release folder, before anything is paid for."""
    _check_target(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".part", dir=path.parent):
            pass
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ReleaseError(
            f"cannot write {path}: {why}; nothing was opened and nothing was spent, choose another place"
        ) from None


def save(release: Release, path: Path, *, report: bool = True) -> Path:
    """Write the folder beside its place, then move it there; an older release folder is replaced."""
    _check_target(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        _write(release, draft, report=report)
        draft.chmod(0o777 & ~_umask())
        _move(draft, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return path


def load(path: str | Path) -> Release:
    """Read a release folder; refuses one that is incomplete, changed or of a newer format."""
    folder = Path(path)
    manifest = _manifest(folder)
    _check_files(folder, manifest)
    try:
        return _read(folder, manifest)
    except MaquetteError as error:
        raise ReleaseError(f"{folder}: {error}") from None
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ReleaseError(
            f"{folder} does not hold a readable release ({type(error).__name__}); fetch it again from its source"
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write one text file, whole or not at all."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _write(release: Release, folder: Path, *, report: bool) -> None:
    from maquette.queries import to_json

    release.domain.save(folder / DOMAIN)
    (folder / WORKLOAD).write_text(to_json(release.workload), encoding="utf-8")
    if release.listed:
        _write_answers(release, folder / ANSWERS)
    if release.database is not None:
        _write_rows(release, folder)
    model = None
    if release.model is not None:
        model, arrays = release.model.to_arrays()
        np.savez(folder / MODEL, **arrays)  # noise hardly compresses
    files = {file.name: _sha256(file) for file in sorted(folder.iterdir())}
    manifest = document.dump(release) | {"model": model, "files": files}
    (folder / MANIFEST).write_text(document.to_text(manifest), encoding="utf-8")
    if report:
        (folder / REPORT).write_text(release.report(), encoding="utf-8")
    for file in folder.iterdir():
        _sync(file)


def _write_answers(release: Release, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    numerators = release.answers.numerators
    small = release.answers.denominator < 2**31
    columns: dict[str, NDArray[Any]] = {"numerator": numerators.astype(np.int32) if small else numerators}
    if release.deviations is not None:
        columns["deviation"] = _float32_up(release.deviations)
    # noisy numerators hardly repeat, deviations repeat by whole margins
    repeating: Any = ["deviation"]
    pyarrow.parquet.write_table(
        pyarrow.table(columns), path, compression="zstd", compression_level=1, use_dictionary=repeating
    )


def _write_rows(release: Release, folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    assert release.database is not None
    pyarrow.parquet.write_table(release.rows, folder / ROWS, compression="zstd")
    codes = pyarrow.table({name: release.database.columns[name] for name in release.domain.names})
    pyarrow.parquet.write_table(codes, folder / CODES, compression="zstd")


def _read(folder: Path, manifest: dict[str, Any]) -> Release:
    from maquette.queries import from_json

    domain = Domain.load(folder / DOMAIN)
    workload = from_json(domain, (folder / WORKLOAD).read_text(encoding="utf-8"))
    answers, deviations = _answers(folder, manifest)
    return document.parse(
        manifest,
        workload=workload,
        answers=answers,
        deviations=deviations,
        database=_read_rows(folder / CODES, domain),
        model=_read_model(folder / MODEL, manifest["model"], workload),
    )


def _answers(folder: Path, manifest: dict[str, Any]) -> tuple[Answers, NDArray[Any] | None]:
    denominator = manifest["answers"]["denominator"]
    if manifest["format"] == UNLISTED:
        return Unlisted(denominator), None
    return _read_answers(folder / ANSWERS, denominator)


def _read_answers(path: Path, denominator: int) -> tuple[Answers, NDArray[Any] | None]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    numerators = table["numerator"].to_numpy().astype(np.int64)
    deviations = table["deviation"].to_numpy() if "deviation" in table.column_names else None
    return Answers(numerators, denominator), deviations


def _read_rows(path: Path, domain: Domain) -> SmallDatabase | None:
    import pyarrow.parquet

    if not path.exists():
        return None
    table = pyarrow.parquet.read_table(path)
    columns = {name: table[name].to_numpy() for name in domain.names}
    for name, codes in columns.items():
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < domain[name].size:
            raise ReleaseError(f"a code of '{name}' lies outside the declared cells")
    return SmallDatabase(columns)


def _read_model(path: Path, spec: dict[str, Any] | None, workload: Queries) -> Any:
    if spec is None:
        return None
    from maquette.models import from_arrays

    with np.load(path, allow_pickle=False) as arrays:
        return from_arrays(workload.domain, spec, dict(arrays))


def _manifest(folder: Path) -> dict[str, Any]:
    if not folder.exists():
        raise ReleaseError(f"no release at {folder}; make one with: maquette release TABLE ... -o {folder}")
    file = folder / MANIFEST
    if not file.is_file():
        raise ReleaseError(f"{folder} is not a release folder: expected a file {MANIFEST} in it")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        raise ReleaseError(
            f"{file} cannot be read as JSON; fetch the release again from its source"
        ) from None
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ReleaseError(f"{file} is not a release: expected a format number, got {found!r}")
    if found > document.FORMAT:
        raise ReleaseError(
            f"{folder} has format {found}, but this version of maquette reads up to {document.FORMAT}; "
            "install a newer maquette"
        )
    return manifest


def _check_files(folder: Path, manifest: dict[str, Any]) -> None:
    listed = manifest.get("files")
    needed = {DOMAIN, WORKLOAD, CODES if manifest["format"] == UNLISTED else ANSWERS}
    if not isinstance(listed, dict) or not needed <= listed.keys():
        raise ReleaseError(f"{folder / MANIFEST} does not list the files of the release")
    for name, expected in listed.items():
        file = folder / name
        if Path(name).name != name or not file.is_file():
            raise ReleaseError(f"{folder} lacks the file {name} that its {MANIFEST} lists")
        if _sha256(file) != expected:
            raise ReleaseError(f"{file} was changed after the release was made (its hash differs)")


def _check_target(path: Path) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not path.is_dir() or not (path / MANIFEST).is_file():
        raise ReleaseError(
            f"{path} exists and is not a release folder; nothing was written there, choose another place"
        )


def _move(draft: Path, path: Path) -> None:
    if not path.exists():
        draft.rename(path)
        return
    old = draft.with_name(f"{draft.name}.old")
    path.rename(old)
    try:
        draft.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _unwritable(path: Path, error: OSError) -> ReleaseError:
    why = error.strerror or type(error).__name__
    return ReleaseError(
        f"cannot write {path}: {why}; nothing was left there. Choose another place or make room: "
        "the same release with the same ledger costs nothing again"
    )


def _float32_up(values: NDArray[Any]) -> NDArray[np.float32]:
    """Rounded up, so that a stored deviation never promises less noise than there is."""
    rounded = np.asarray(values, dtype=np.float64).astype(np.float32)
    return np.where(rounded < values, np.nextafter(rounded, np.float32(np.inf)), rounded)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    with _opened(path) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
