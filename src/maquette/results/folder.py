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

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.core._arguments import checks_arguments
from maquette.domain import Domain
from maquette.domain.file import to_text
from maquette.errors import LedgerError, MaquetteError, ReleaseError
from maquette.models.answers import Answers, SmallDatabase, Unlisted
from maquette.models.histogram import HistogramModel
from maquette.models.residual import ResidualModel
from maquette.queries import from_json, to_json
from maquette.queries.base import Queries
from maquette.results import binding, document, keys, replacing
from maquette.results.release import Release
from maquette.sculpt.model import SculptModel

if TYPE_CHECKING:
    import pyarrow

    from maquette.accounting.ledger import Ledger


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


def check_place(path: Path, *, replace: bool = False, key: str | None = None) -> None:
    """Refuse a place that cannot take a release folder, before anything is paid for.

    A release that is there stays, unless it may be replaced or is the one that this key repeats.
    """
    replacing.recover(path)
    _check_target(path, replace=replace or (key is not None and _identity_of(path)[0] == key))
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
    same = bool(release.receipts) and _identity_of(path) == (release.parameters.get("key"), _last(release))
    _check_target(path, replace=replace or same)
    try:
        with replacing.draft(path) as draft:
            _write(release, draft, report=report)
            replacing.move(draft, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    return path


@checks_arguments
def load(path: str | Path, *, ledger: Ledger | str | Path | None = None) -> Release:
    """Read a release folder; refuses one that is incomplete, changed or of a newer format.

    The folder is held against the ledger that paid for it: the given one, which has to know it, or a file `*.ledger`
    beside it that holds its receipts. `release.checked` says what came of it. Without a ledger only damage is found:
    whoever edits a folder can also edit the hashes in it.
    """
    folder = Path(path)
    replacing.recover(folder)
    try:
        stored = _stored(folder)
        release = stored.release()
        return dataclasses.replace(release, checked=_checked(stored, release, ledger))
    except ReleaseError:
        raise
    except LedgerError:
        raise
    except MaquetteError as error:
        raise ReleaseError(f"{folder}: {error}") from None
    except Exception as error:  # what a stranger wrote may fail anywhere in the libraries that read it
        raise ReleaseError(
            f"{folder} does not hold a readable release ({type(error).__name__}); fetch it again from its source"
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """What the files of a folder hold, each within its bounds, before it is a release."""

    folder: Path
    manifest: dict[str, Any]
    domain: dict[str, Any]
    workload: Any
    queries: Queries
    answers: NDArray[Any] | None
    deviations: NDArray[Any] | None
    codes: dict[str, NDArray[Any]] | None
    arrays: dict[str, NDArray[Any]]

    def release(self) -> Release:
        denominator = document.read(int, self.manifest["answers"]["denominator"], where="answers.denominator")
        if denominator < 1:
            raise ReleaseError(f"expected answers.denominator above 0, got {denominator}")
        spec = self.manifest["model"]
        return document.parse(
            self.manifest,
            workload=self.queries,
            answers=Unlisted(denominator) if self.answers is None else Answers(self.answers, denominator),
            deviations=self.deviations,
            database=None if self.codes is None else SmallDatabase(self.codes),
            model=None if spec is None else model_from_arrays(self.queries.domain, spec, self.arrays),
        )

    def digest(self) -> str:
        return binding.digest(
            binding.statements(self.manifest),
            domain=self.domain,
            workload=self.workload,
            answers=self.answers,
            deviations=self.deviations,
            codes=self.codes,
            arrays=self.arrays,
            rows=None if self.codes is None else self._rows(),
        )

    def _rows(self) -> pyarrow.Table:
        import pyarrow.parquet

        rows = self.manifest["rows"]
        with pyarrow.parquet.ParquetFile(self.folder / ROWS) as file:
            if file.metadata.num_rows != rows or file.schema_arrow.names != list(self.codes or ()):
                raise ReleaseError(f"{self.folder / ROWS} has other rows than the release declares")
            document.check_room(self.folder / ROWS, 16 * rows * file.metadata.num_columns)
            return file.read()


def _stored(folder: Path) -> _Stored:
    manifest = _manifest(folder)
    _check_files(folder, manifest)
    domain, workload = document.read_json(folder / DOMAIN), document.read_json(folder / WORKLOAD)
    if not isinstance(domain, dict):
        raise ReleaseError(f"{folder / DOMAIN} does not hold a domain")
    queries = from_json(Domain.from_dict(domain), json.dumps(workload))
    answers, deviations = None, None
    if manifest["format"] != UNLISTED:
        answers, deviations = keys.read(folder / ANSWERS, queries)
    return _Stored(
        folder,
        manifest,
        domain,
        workload,
        queries,
        answers,
        deviations,
        _read_codes(folder / CODES, queries.domain, manifest),
        {} if manifest["model"] is None else document.read_arrays(folder / MODEL),
    )


def model_from_arrays(
    domain: Domain, spec: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> HistogramModel | ResidualModel | SculptModel:
    """A stored model: the JSON and the arrays that its `to_arrays` gave."""
    if not isinstance(spec, dict):
        raise ReleaseError("expected the model of a release as an object")
    for model in (HistogramModel, ResidualModel, SculptModel):
        if spec.get("kind") == model.kind:
            return model.from_arrays(domain, spec, arrays)
    raise ReleaseError(f"unknown kind of model {spec.get('kind')!r}; a later version may have written it")


def _checked(stored: _Stored, release: Release, ledger: Ledger | str | Path | None) -> str:
    """What the ledger says of the folder, where one is at hand; then what is derived is computed again."""
    if ledger is None and not binding.has_ledgers(stored.folder):
        return "no ledger at hand"
    from maquette.accounting.ledger import Ledger

    if ledger is None:
        checked = binding.check_beside(stored.folder, release, stored.digest())
    elif isinstance(ledger, Ledger):
        checked = binding.check(ledger, release, stored.digest(), folder=stored.folder)
    else:
        with Ledger.open(ledger) as book:
            checked = binding.check(book, release, stored.digest(), folder=stored.folder)
    keys.check_described(release, stored.folder / ANSWERS)
    return checked


def write_text(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write one text file, whole or not at all."""
    try:
        replacing.write_text(path, text, mode=mode)
    except OSError as error:
        raise _unwritable(path, error) from None


def write_domain(path: Path, domain: Domain) -> None:
    """Write a domain file, whole or not at all; for its owner alone, until it is reviewed."""
    write_text(path, to_text(domain), mode=domain.file_mode)


def _write(release: Release, folder: Path, *, report: bool) -> None:
    release.domain.save(folder / DOMAIN)
    (folder / WORKLOAD).write_text(to_json(release.workload), encoding="utf-8")
    if release.listed:
        keys.write(release, folder / ANSWERS)
    if release.database is not None:
        _write_rows(release, folder)
    model = None
    if release.model is not None:
        model, arrays = release.model.to_arrays()
        np.savez(folder / MODEL, **arrays)  # noise hardly compresses
    manifest = document.plain(document.dump(release) | {"model": model})
    (folder / SEAL).write_text(binding.seal(manifest), encoding="utf-8")
    manifest["files"] = {file.name: _sha256(file) for file in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(document.to_text(manifest), encoding="utf-8")
    if report:
        from maquette.results.report import render

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


def _read_codes(path: Path, domain: Domain, manifest: dict[str, Any]) -> dict[str, NDArray[Any]] | None:
    if manifest["rows"] is None:
        return None
    import pyarrow.parquet

    there = set(pyarrow.parquet.read_schema(path).names)
    names = [name for name in domain.names if name in there]
    columns = document.read_columns(path, dict.fromkeys(names, "u"), rows=manifest["rows"])
    for name, codes in columns.items():
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < domain[name].size:
            raise ReleaseError(f"a code of '{name}' lies outside the declared cells")
    return columns


def _manifest(folder: Path) -> dict[str, Any]:
    if not folder.exists():
        raise ReleaseError(f"no release at {folder}; make one with: maquette release TABLE ... -o {folder}")
    file = folder / MANIFEST
    if not file.is_file():
        raise ReleaseError(f"{folder} is not a release folder: expected a file {MANIFEST} in it")
    manifest = document.read_json(file)
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ReleaseError(f"{file} is not a release: expected a format number, got {version!r}")
    if version > document.FORMAT:
        raise ReleaseError(
            f"{folder} has format {version}, but this version of maquette reads up to {document.FORMAT}; "
            "install a newer maquette"
        )
    return manifest


def _check_files(folder: Path, manifest: dict[str, Any]) -> None:
    listed = manifest.get("files")
    needed = {DOMAIN, WORKLOAD, CODES if manifest["format"] == UNLISTED else ANSWERS}
    if not isinstance(listed, dict) or not needed <= listed.keys():
        raise ReleaseError(f"{folder / MANIFEST} does not list the files of the release")
    for name, sha256 in listed.items():
        file = folder / name
        if Path(name).name != name or not file.is_file():
            raise ReleaseError(f"{folder} lacks the file {name} that its {MANIFEST} lists")
        if file.suffix in (".json", ".sha256"):
            document.check_length(file)  # before its hash: a hole of any length costs nothing to make
        if _sha256(file) != sha256:
            raise ReleaseError(f"{file} was changed after the release was made (its hash differs)")
    _check_seal(folder, manifest)


def _check_seal(folder: Path, manifest: dict[str, Any]) -> None:
    """Refuse a manifest that states something else than it did when it was written; earlier versions wrote no seal."""
    if SEAL not in manifest["files"] and not (folder / SEAL).exists():
        return
    if manifest["files"].get(SEAL) != hashlib.sha256(binding.seal(manifest).encode()).hexdigest():
        raise ReleaseError(
            f"{folder / MANIFEST} was changed after the release was made (it is not what {SEAL} is the hash of); "
            "fetch the release again from its source"
        )


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


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
