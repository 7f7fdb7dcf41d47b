"""What ties a release to the ledger that paid for it: a digest of everything the folder states, kept in the chain.

The digest covers the document (`release.json` without the hashes of its files), the domain, the workload, every answer
and deviation, the rows in codes and in real values, and the model; that is, released values only. It is over their
values and not over the bytes of files, so that a release may be saved again and moved. The report is not covered: it is
made of the rest, and can be made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.core.budget import Cost
from maquette.errors import LedgerError, ReleaseError
from maquette.queries import to_json
from maquette.results import document
from maquette.results.answer_file import float32_up

if TYPE_CHECKING:
    import pyarrow

    from maquette.accounting.ledger import Ledger
    from maquette.results.release import Release


SCHEME = 1
TAG = "binding"
MAX_BESIDE = 16
"""How many ledgers beside a folder are looked into."""
_AT_ONCE = 2**20

State = Literal["bound", "not bound", "no ledger at hand"]


def digest(
    document: Mapping[str, Any],
    *,
    domain: Any,
    workload: Any,
    answers: NDArray[Any] | None,
    deviations: NDArray[Any] | None,
    codes: Mapping[str, NDArray[Any]] | None,
    arrays: Mapping[str, NDArray[Any]],
    rows: pyarrow.Table | None,
) -> str:
    """SHA-256 of a release: its JSON parts and, in one form whatever file they were in, its arrays."""
    listed = {"numerator": answers, "deviation": deviations}
    numbers: dict[str, Mapping[str, NDArray[Any]]] = {
        "answers": {name: values for name, values in listed.items() if values is not None},
        "codes": codes or {},
        "model": arrays,
    }
    content = {
        "scheme": SCHEME,
        "document": document,
        "domain": domain,
        "workload": workload,
        "numbers": {
            part: {name: _of_array(values) for name, values in arrays.items()}
            for part, arrays in numbers.items()
        },
        "rows": None if rows is None else {name: _of_column(rows[name]) for name in rows.column_names},
    }
    return _of_json(content)


def statements(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest states: all of it but the hashes of its files."""
    return {name: value for name, value in manifest.items() if name != "files"}


def seal(manifest: Mapping[str, Any]) -> str:
    """A line that changes with whatever a manifest states; it finds an edit of one field where no ledger is at hand."""
    return _of_json(statements(manifest)) + "\n"


def content_digest(release: Release) -> str:
    """The digest that binds a release to its ledger; the same for the folder it is saved in."""
    spec, arrays = (None, {}) if release.model is None else release.model.to_arrays()
    return digest(
        document.plain(document.dump(release) | {"model": spec}),
        domain=release.domain.to_dict(),
        workload=json.loads(to_json(release.workload)),
        answers=release.answers.numerators if release.listed else None,
        deviations=None if release.deviations is None else float32_up(release.deviations),
        codes=None if release.database is None else codes_of(release),
        arrays=arrays,
        rows=None if release.database is None else release.rows,
    )


def codes_of(release: Release) -> dict[str, NDArray[Any]]:
    """The codes of the rows in the order of the domain; only measured attributes have a column."""
    assert release.database is not None
    columns = release.database.columns
    return {name: columns[name] for name in release.domain.names if name in columns}


def bind(book: Ledger, release: Release, *, key: str) -> None:
    """Put the digest of a finished release into the ledger that paid for it; again only if it is another one."""
    release_digest = content_digest(release)
    book.record(
        _key(release_digest),
        request=release_digest,
        tag=TAG,
        cost=Cost(0),
        body={"ask": TAG, "release": key, "digest": release_digest, "scheme": SCHEME},
        payload=release_digest.encode(),
    )


def check(book: Ledger, release: Release, release_digest: str, *, folder: Path) -> State:
    """Hold a folder against the ledger that is said to have paid for it; ReleaseError if it is not as it was bound."""
    if is_bound(book, release_digest):
        return "bound"
    key = release.parameters.get("key")
    if not paid_for(book, release) or not isinstance(key, str):
        raise ReleaseError(
            f"ledger '{book.name}' did not pay for the release {folder}: its receipts are not in it; give the ledger "
            "that did"
        )
    if _bound_otherwise(book, key):
        raise ReleaseError(
            f"{folder} is not what ledger '{book.name}' recorded: its statements, answers or rows were changed after "
            "the release was made; fetch it again from its source"
        )
    return "not bound"


def check_beside(folder: Path, release: Release, release_digest: str) -> State:
    """The same with whichever ledger beside the folder paid for it, if there is one."""
    from maquette.accounting.ledger import Ledger

    state: State = "no ledger at hand"
    for place in _beside(folder):
        try:
            with Ledger.open(place) as book:
                if is_bound(book, release_digest):
                    return "bound"
                if paid_for(book, release):
                    state = check(book, release, release_digest, folder=folder)
        except LedgerError:
            continue  # one that cannot be read says nothing about this folder
    return state


def paid_for(book: Ledger, release: Release) -> bool:
    """Does the chain hold the last receipt of the release, which stands for everything before it?"""
    last = max(release.receipts, key=lambda receipt: receipt.sequence, default=None)
    if last is None:
        return False
    entry = next(book.entries(after=last.sequence - 1), None)
    return entry is not None and (entry.seq, entry.head) == (last.sequence, last.head)


def payer_beside(folder: Path, release: Release) -> Path | None:
    """The ledger beside a folder that paid for its release, if there is one."""
    from maquette.accounting.ledger import Ledger

    for place in _beside(folder):
        try:
            with Ledger.open(place) as book:
                if paid_for(book, release):
                    return place
        except LedgerError:
            continue
    return None


def has_ledgers(folder: Path) -> bool:
    """Is there a ledger beside a folder?"""
    return bool(_beside(folder))


def _beside(folder: Path) -> list[Path]:
    try:
        ledgers = (place for place in folder.absolute().parent.glob("*.ledger") if place.is_file())
        return sorted(ledgers)[:MAX_BESIDE]
    except OSError:
        return []


def is_bound(book: Ledger, release_digest: str) -> bool:
    """Does the ledger say that it paid for just this release?"""
    entry = book.find(_key(release_digest))
    return entry is not None and entry.tag == TAG and entry.request == release_digest


def _bound_otherwise(book: Ledger, key: str) -> bool:
    return any(
        entry.tag == TAG and entry.body.get("release") == key for entry in book.entries(kind="reserve")
    )


def _key(release_digest: str) -> str:
    return f"{TAG}-{release_digest}"


def _of_json(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _of_array(values: NDArray[Any]) -> list[Any]:
    """Shape and values, whole numbers in 64 bits whatever they are stored in; some at a time."""
    kind = {"i": "<i8", "u": "<u8", "b": "|b1"}.get(values.dtype.kind, values.dtype.newbyteorder("<").str)
    flat, hashed = values.reshape(-1), hashlib.sha256()
    for start in range(0, len(flat), _AT_ONCE):
        hashed.update(flat[start : start + _AT_ONCE].astype(kind).tobytes())
    return [str(kind), list(values.shape), hashed.hexdigest()]


def _of_column(column: pyarrow.ChunkedArray) -> str:
    """Distinct values in the order of their first place, and the place of each; nulls are nowhere."""
    coded = column.combine_chunks().dictionary_encode()
    indices = coded.indices  # by its buffer: to fill nulls in Arrow would load pandas
    places = np.frombuffer(indices.buffers()[1], np.int32, len(indices), 4 * indices.offset).astype("<i8")
    places[np.from_dlpack(indices.is_null().cast("uint8")) == 1] = -1
    values = json.dumps(coded.dictionary.to_pylist(), default=str).encode()
    return hashlib.sha256(b"%d %s %s" % (len(values), values, places.tobytes())).hexdigest()
