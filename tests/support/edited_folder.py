"""Edits of a release folder by somebody who knows its format: whatever they change, the hashes fit again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def mend_hashes(folder: Path) -> None:
    """Write the hashes of the files as they are now into release.json."""
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
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
