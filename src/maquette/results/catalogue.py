"""What catalogues and programs read of an export: its files, its promise of privacy, its stated errors.

Two standards say the same: Frictionless (`datapackage.json`), and Croissant (`croissant.json`, JSON-LD over the terms
of schema.org), in which a promise has no term of its own and stands among the additional properties of the dataset.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.core.neighbours import neighbours
from maquette.results import wording

if TYPE_CHECKING:
    from maquette.results.release import Release

PACKAGE = "datapackage.json"
CROISSANT = "croissant.json"
PLAIN_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in PLAIN_TERMS.split()},
}
"""The short names of the standard, all of them, as readers of Croissant expect."""
MEDIA = {
    "csv": "text/csv",
    "parquet": "application/x-parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
TYPES = {"boolean": "sc:Boolean", "integer": "sc:Integer", "number": "sc:Float", "string": "sc:Text"}


@dataclass(frozen=True, slots=True)
class File:
    """One file of an export: where it is, what it holds, and its columns."""

    path: str
    title: str
    fields: tuple[tuple[str, str], ...]
    """Names and types in the words of Frictionless."""

    @property
    def form(self) -> str:
        """The ending of its name."""
        return self.path.rpartition(".")[2]

    @property
    def name(self) -> str:
        """Its path in letters that every standard takes, without the ending."""
        return re.sub(r"[^a-z0-9._-]", "-", self.path.rpartition(".")[0].lower())


def privacy(release: Release) -> dict[str, Any]:
    """What is promised, what is stated of the errors, and how both were made."""
    budget = release.budget
    said = {
        "statement": f"{wording.budget(budget.epsilon, budget.delta)}-differential privacy, "
        f"{neighbours(release.relation, release.persons)}, {release.exactness}",
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": str(release.relation),
        "mechanism": release.mechanism,
        "records": release.size.value,
        "records_are": "public" if release.size.public else "noisy",
        "stated_error": release.stated.alpha if release.stated.alpha < 1 else None,
        "certified_error": None if release.certificate is None else release.certificate.alpha,
        "certified_errors_of_classes": {one.says: one.alpha for one in release.certificates},
        "probability_of_exceeding_it": release.stated.beta,
        "software": f"maquette {release.version}",
        "notes": list(release.notes),
    }
    if release.watermark is not None:
        said["NOT PRIVATE"] = release.watermark
    return said


def _head(release: Release) -> dict[str, str]:
    key = str(release.parameters.get("key", "release"))
    return {
        "name": re.sub(r"[^a-z0-9._-]", "-", key.lower())[:100] or "release",
        "title": f"A differentially private release of {release.workload.describe()}",
        "description": release.headline,
        "created": release.created.isoformat(),
    }


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def data_package(release: Release, files: Sequence[File]) -> str:
    """The metadata by the Frictionless standard."""
    resources = [
        {
            "name": file.name,
            "path": file.path,
            "format": file.form,
            "description": file.title,
            **(
                {"schema": {"fields": [{"name": n, "type": t} for n, t in file.fields]}}
                if file.fields
                else {}
            ),
        }
        for file in files
    ]
    head = {"profile": "tabular-data-package", **_head(release)}
    return _text(head | {"resources": resources, "privacy": privacy(release)})


def croissant(release: Release, files: Sequence[File], folder: Path) -> str:
    """The metadata by the Croissant standard, version 1.0; `folder` holds the files, whose hashes it has."""
    head = _head(release)
    data = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": head["name"],
        "alternateName": head["title"],
        "description": head["description"],
        "datePublished": head["created"],
        "version": "1.0.0",
        "measurementTechnique": "differential privacy",
        "additionalProperty": list(_properties(privacy(release))),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file.path,
                "name": file.path,
                "description": file.title,
                "contentUrl": file.path,
                "encodingFormat": MEDIA[file.form],
                "sha256": _hash(folder / file.path),
            }
            for file in files
        ],
        "recordSet": [_records(file) for file in files if file.fields],
    }
    return _text(data)


def _properties(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every field of the promise as a named value; what is not there is left out."""
    for name, value in said.items():
        if isinstance(value, dict):
            yield from _properties({f"{name}: {key}": inner for key, inner in value.items()})
        elif value is not None and value != []:
            yield {"@type": "sc:PropertyValue", "name": name, "value": value}


def _records(file: File) -> dict[str, Any]:
    name = f"{file.name}-{file.form}"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": file.title,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column}",
                "name": column,
                "dataType": TYPES[kind],
                "source": {"fileObject": {"@id": file.path}, "extract": {"column": column}},
            }
            for column, kind in file.fields
        ],
    }


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
