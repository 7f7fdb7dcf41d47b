"""Edits of a release folder by somebody who knows its format: whatever they change, the hashes fit again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Place = tuple[str | int, ...]


def places(value: object, path: Place = ()) -> Iterator[Place]:
    """Every place of a JSON document, of a list the first two."""
    if path:
        yield path
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    for key, item in inner:
        yield from places(item, (*path, key))


def value_at(document: Any, place: Place) -> Any:
    for key in place:
        document = document[key]
    return document


def write_at(folder: Path, place: Place, value: object) -> None:
    """Another value at one place of release.json, and nothing else."""
    data = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    value_at(data, place[:-1])[place[-1]] = value
    (folder / "release.json").write_text(json.dumps(data), encoding="utf-8")


def mend_hashes(folder: Path) -> None:
    """Write the hashes of the files as they are now into release.json, and that of its statements into its seal."""
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    if (folder / "release.sha256").exists():
        stated = {name: value for name, value in manifest.items() if name != "files"}
        text = json.dumps(stated, sort_keys=True, separators=(",", ":"))
        seal = hashlib.sha256(text.encode()).hexdigest() + "\n"
        (folder / "release.sha256").write_text(seal, encoding="utf-8")
    for name in manifest["files"]:
        manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "release.json").write_text(json.dumps(manifest), encoding="utf-8")


def edit_json(folder: Path, name: str, change: Callable[[Any], None]) -> None:
    data = json.loads((folder / name).read_text(encoding="utf-8"))
    change(data)
    (folder / name).write_text(json.dumps(data), encoding="utf-8")
    mend_hashes(folder)


def edit_table(folder: Path, name: str, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    pq.write_table(change(pq.read_table(folder / name)), folder / name, **options)
    mend_hashes(folder)


def edit_arrays(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    with np.load(folder / "model.npz") as stored:
        arrays = {name: stored[name].copy() for name in stored}
    change(arrays)
    np.savez(folder / "model.npz", **arrays)
    mend_hashes(folder)
