"""The JSON form of queries: written, read back, hashed.

The domain is stored beside the queries, not in them; reading needs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

from maquette.domain import Domain
from maquette.errors import WorkloadError
from maquette.queries.base import Queries
from maquette.queries.fields import Fields
from maquette.queries.marginals import Marginals
from maquette.queries.ranges import Prefixes, Ranges
from maquette.queries.workload import Part, Workload

FORMAT = "maquette-queries"
VERSION = 1


def to_json(queries: Queries) -> str:
    """The text that `from_json` reads."""
    return json.dumps({"format": FORMAT, "version": VERSION, "queries": queries.spec()}, ensure_ascii=False)


def from_json(domain: Domain, text: str) -> Queries:
    """Queries over this domain from their JSON text; `WorkloadError` says what is wrong with it."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise WorkloadError(f"the workload is not JSON: {error}") from None
    fields = Fields("the workload", data, ("format", "version", "queries"))
    if fields.text("format") != FORMAT:
        raise WorkloadError(f'expected "format": "{FORMAT}" in the workload, got {fields.text("format")!r}')
    if fields.whole("version") != VERSION:
        raise WorkloadError(
            f"this release reads version {VERSION} of the workload's form, got {fields.whole('version')}"
        )
    return from_spec(domain, data["queries"])


def from_spec(domain: Domain, spec: object) -> Queries:
    """Queries from the form that `spec()` gave."""
    kind = cast("dict[str, object]", spec).get("kind") if isinstance(spec, dict) else None
    if not isinstance(kind, str):
        raise WorkloadError('expected an object with a "kind" for each class of queries')
    if kind not in _READERS:
        raise WorkloadError(f"unknown kind of queries {kind!r}; known are {', '.join(sorted(_READERS))}")
    return _READERS[kind](domain, cast("object", spec))


def save(queries: Queries, path: str | Path) -> None:
    """Write the JSON form to a file."""
    Path(path).write_text(to_json(queries) + "\n", encoding="utf-8")


def load(domain: Domain, path: str | Path) -> Queries:
    """Read the JSON form from a file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise WorkloadError(f"cannot read the workload file {path}: {error}") from None
    try:
        return from_json(domain, text)
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from None


def canonical_hash(queries: Queries) -> str:
    """SHA-256 of the canonical form; equal for predicates of equal meaning (see `Predicate`)."""
    canonical = json.dumps(queries.canonical(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _marginals(domain: Domain, spec: object) -> Marginals:
    fields = Fields("marginals", spec, ("kind", "margins"))
    return Marginals(domain, tuple(tuple(margin) for margin in fields.lists_of_texts("margins")))


def _prefixes(domain: Domain, spec: object) -> Prefixes:
    return Prefixes(domain, Fields("prefixes", spec, ("kind", "attribute")).text("attribute"))


def _ranges(domain: Domain, spec: object) -> Ranges:
    return Ranges(domain, tuple(Fields("ranges", spec, ("kind", "attributes")).texts("attributes")))


def _union(domain: Domain, spec: object) -> Workload:
    fields = Fields("a union", spec, ("kind", "parts"))
    return Workload(domain, tuple(_part(domain, part) for part in fields.list("parts")))


def _part(domain: Domain, spec: object) -> Part:
    fields = Fields("a part of a union", spec, ("queries", "weight"))
    queries: object = fields.data["queries"]
    if isinstance(queries, dict) and cast("dict[str, object]", queries).get("kind") == Workload.kind:
        raise WorkloadError("a union holds no unions; list all their parts")
    return Part(from_spec(domain, cast("object", queries)), fields.number("weight"))


_READERS: dict[str, Callable[[Domain, object], Queries]] = {
    "marginals": _marginals,
    "prefixes": _prefixes,
    "ranges": _ranges,
    "union": _union,
}
