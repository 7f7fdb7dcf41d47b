"""Reads a release folder: refuses one that is incomplete, changed or of a newer format."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from maquette.core._arguments import checks_arguments
from maquette.core.budget import Budget
from maquette.core.measurement import Receipt, Size
from maquette.domain import Domain, Persons, Relation
from maquette.errors import LedgerError, MaquetteError, ReleaseError
from maquette.models.answers import Answers, SmallDatabase, Unlisted, law_of
from maquette.models.histogram import HistogramModel
from maquette.models.residual import ResidualModel
from maquette.queries import from_json, typical
from maquette.queries.base import Queries
from maquette.queries.classes import CLASSES, RULES
from maquette.queries.combinations import COMBINATIONS
from maquette.queries.quality import QUALITY
from maquette.results import answer_file, binding, document, replacing
from maquette.results.document import UNPAID, build, read
from maquette.results.folder import (
    ANSWERS,
    CODES,
    DOMAIN,
    MANIFEST,
    MODEL,
    ROWS,
    SEAL,
    UNLISTED,
    WORKLOAD,
    file_hash,
)
from maquette.results.release import Release
from maquette.results.statements import (
    Account,
    Certificate,
    ClassCertificate,
    Exactness,
    Guarantee,
    QualityCertificate,
    RowsDistance,
    Spending,
)
from maquette.results.sums import ColumnSum
from maquette.sculpt.model import SculptModel

if TYPE_CHECKING:
    import pyarrow

    from maquette.accounting.ledger import Ledger


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
        return parse(
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
        answers, deviations = answer_file.read(folder / ANSWERS, queries)
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
    answer_file.check_described(release, stored.folder / ANSWERS)
    return checked


def parse(
    data: dict[str, Any],
    *,
    workload: Queries,
    answers: Answers,
    deviations: NDArray[Any] | None,
    database: SmallDatabase | None,
    model: Any,
) -> Release:
    """A release from its document and its arrays."""
    created = datetime.fromisoformat(read(str, data["created"], where="created"))
    return Release(
        workload=workload,
        answers=answers,
        deviations=deviations,
        database=database,
        model=model,
        mechanism=read(str, data["mechanism"], where="mechanism"),
        relation=Relation(data["relation"]),
        persons=read(Persons | None, data.get("persons"), where="persons"),
        budget=Budget(**data["budget"]),
        beta=data["beta"],
        size=_parse_size(data["size"]),
        guarantee=build(Guarantee, data["guarantee"], where="guarantee"),
        certificate=read(Certificate | None, data["certificate"], where="certificate"),
        certificates=_parse_certificates(data.get("certificates", [])),
        sums=_parse_sums(data.get("sums", [])),
        quality=_parse_quality(data.get("quality", [])),
        rows_distance=read(RowsDistance | None, data.get("rows_distance"), where="rows_distance"),
        exactness=read(Exactness, data["exactness"], where="exactness"),
        spending=read(tuple[Spending, ...], data["spending"], where="spending"),
        account=read(Account | None, data["account"], where="account"),
        receipts=read(tuple[Receipt, ...], data["receipts"], where="receipts"),
        parameters=read(dict, data["parameters"], where="parameters"),
        notes=read(tuple[str, ...], data["notes"], where="notes"),
        watermark=read(str | None, data["watermark"], where="watermark"),
        version=read(str, data["software"]["version"], where="software.version"),
        created=created,
    )


def _parse_certificates(data: Any) -> tuple[ClassCertificate, ...]:
    """Those whose rules this version knows; what others cover cannot be said here, so they say nothing."""
    listed = read(tuple[dict, ...], data, where="certificates")
    current = [one for one in listed if one.get("rules") == RULES]
    certificates = read(tuple[ClassCertificate, ...], current, where="certificates")
    for one in certificates:
        is_known = one.name in CLASSES or (one.name in COMBINATIONS and one.of == "rows" and not one.bounds)
        is_bound = 0 < one.beta < 1 and min((one.alpha, *one.bounds)) >= 0 and (one.columns or 1) >= 1
        if not is_known or not is_bound:
            raise ReleaseError(f"expected a certificate of a known class with a bound, got {one.name!r:.80}")
    return certificates


def _parse_sums(data: Any) -> tuple[ColumnSum, ...]:
    """The measured sums of columns."""
    return tuple(
        ColumnSum(
            name=read(str, one["name"], where="sums.name"),
            value=read(int, one["value"], where="sums.value"),
            halves=read(int | None, one["halves"], where="sums.halves"),
            denominator=read(int, one["denominator"], where="sums.denominator"),
            noise=law_of(one["noise"]),
            receipt=read(Receipt, one["receipt"], where="sums.receipt"),
        )
        for one in read(tuple[dict, ...], data, where="sums")
    )


def _parse_quality(data: Any) -> tuple[QualityCertificate, ...]:
    """Those whose law this version knows."""
    listed = read(tuple[dict, ...], data, where="quality")
    current = [one for one in listed if one.get("rules") == typical.RULES]
    quality = read(tuple[QualityCertificate, ...], current, where="quality")
    for one in quality:
        if one.name not in QUALITY or not (0 < one.beta < 1 and one.alpha >= 0 and one.over >= 1):
            raise ReleaseError(
                f"expected a figure of quality of a known kind with a bound, got {one.name!r:.80}"
            )
    return quality


def _parse_size(data: dict[str, Any]) -> Size:
    receipt = read(Receipt | None, data["receipt"], where="size.receipt")
    value, noise = read(int, data["value"], where="size.value"), data["noise"]
    if noise == UNPAID:
        return Size(value, None, receipt, unpaid=True)
    return Size(value, None if noise is None else law_of(noise), receipt)


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
        if file_hash(file) != sha256:
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
