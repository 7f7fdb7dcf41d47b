"""Release folders as a stranger might write them: seeded mutations of every file, with hashes that fit again."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.edited_folder import edit_table, mend_hashes

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 255, 2**31, 2**63, -(2**70), 10**40, 10**400, 0.5, -0.5, 1e308, 1e-320,
    "", "x", "inf", "nan", "1e999999999", "1/0", "0", "\ud800", "a" * 100_000, "2020-01-01", [], {}, [[]], [None],
    {"x": 1}, [1, 2, 3], ["age"], [["age", "sex"]], "add-remove", "sculpt", "residual", "gaussian",
)  # fmt: skip
JSON = ("release.json", "domain.json", "workload.json")
TABLES = ("answers.parquet", "codes.parquet")


def mutate(folder: Path, rng: random.Random) -> str:
    """Change one thing in a folder; says what."""
    kind = rng.choice([_json, _json, _json, _json, _bytes, _table, _model])
    done = kind(folder, rng)
    try:
        mend_hashes(folder)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError, OSError):
        done += " (hashes left)"
    return done


def _json(folder: Path, rng: random.Random) -> str:
    name = rng.choice(JSON) if rng.random() < 0.5 else "release.json"
    data = json.loads((folder / name).read_text(encoding="utf-8"))
    places = list(_places(data, ()))
    place = rng.choice(places)
    how = rng.random()
    if how < 0.1:
        return _deep(folder / name, rng)
    holder = data
    for step in place[:-1]:
        holder = holder[step]
    if how < 0.25:
        del holder[place[-1]]
        done = "gone"
    elif how < 0.35 and isinstance(holder, list):
        holder.extend([holder[place[-1]]] * rng.choice([1, 3, 1000]))
        done = "repeated"
    else:
        holder[place[-1]] = rng.choice(VALUES)
        done = f"{holder[place[-1]]!r:.30}"
    (folder / name).write_text(json.dumps(data), encoding="utf-8")
    return f"{name} {'.'.join(map(str, place))}: {done}"


def _places(data: Any, before: tuple[Any, ...]) -> Any:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in items:
        if before == () and name == "files":
            continue
        yield (*before, name)
        yield from _places(value, (*before, name))


def _deep(path: Path, rng: random.Random) -> str:
    depth = rng.choice([150, 500, 5_000, 200_000])
    text = path.read_text(encoding="utf-8")
    inside = rng.choice(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth])
    path.write_text(text.replace("{", '{"deep":' + inside + ",", 1), encoding="utf-8")
    return f"{path.name}: {depth} levels"


def _bytes(folder: Path, rng: random.Random) -> str:
    path = rng.choice(sorted(file for file in folder.iterdir() if file.name != "report.html"))
    content = bytearray(path.read_bytes())
    place = rng.randrange(len(content))
    match rng.randrange(4):
        case 0:
            content[place] ^= 1 << rng.randrange(8)
        case 1:
            del content[place:]
        case 2:
            content[place : place + 8] = b"\xff" * 8
        case _:
            content[place:place] = bytes(rng.randrange(1, 64))
    path.write_bytes(content)
    return f"bytes of {path.name} at {place}"


def _table(folder: Path, rng: random.Random) -> str:
    path = rng.choice([p for name in TABLES if (p := folder / name).exists()])
    ways: dict[str, Callable[[pa.Table], pa.Table]] = {
        "as floats": lambda t: pa.table({n: t[n].cast("float64", safe=False) for n in t.column_names}),
        "as texts": lambda t: pa.table({n: t[n].cast("string") for n in t.column_names}),
        "shorter": lambda t: t.slice(1),
        "longer": lambda t: pa.concat_tables([t, t]),
        "empty": lambda t: t.slice(0, 0),
        "nulls": lambda t: pa.table({n: pa.nulls(len(t), t[n].type) for n in t.column_names}),
        "lists": lambda t: pa.table({n: [[1]] * len(t) for n in t.column_names}),
        "one column less": lambda t: t.select(t.column_names[1:]),
        "other names": lambda t: t.rename_columns([f"x{i}" for i in range(len(t.column_names))]),
        "large": lambda t: pa.table({n: np.full(len(t), 2**62) for n in t.column_names}),
        "negative": lambda t: pa.table({n: np.full(len(t), -(2**62)) for n in t.column_names}),
        "not numbers": lambda t: pa.table({n: np.full(len(t), np.nan) for n in t.column_names}),
    }
    way = rng.choice(sorted(ways))
    edit_table(folder, path.name, ways[way])
    return f"{path.name} {way}"


def bomb(folder: Path, rows: int) -> None:
    """A Parquet file of a few hundred bytes that declares this many rows."""
    one = pa.table({"numerator": pa.array(np.zeros(2**20, dtype=np.int32))})
    path = folder / "answers.parquet"
    with pq.ParquetWriter(path, one.schema, compression="zstd") as writer:
        for _ in range(rows // 2**20):
            writer.write_table(one)


def _model(folder: Path, rng: random.Random) -> str:
    path = folder / "model.npz"
    if not path.exists():
        return _bytes(folder, rng)
    with np.load(path) as stored:
        arrays = {name: stored[name].copy() for name in stored}
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    changed: dict[str, Any] = {
        "flat": array.reshape(-1),
        "short": array[:-1],
        "not numbers": np.full(array.shape, np.nan),
        "infinite": np.full(array.shape, np.inf),
        "text": np.full(array.shape, "x"),
        "objects": np.full(array.shape, None, dtype=object),
        "complex": array.astype(complex),
        "bits": array.astype(bool),
        "whole": np.full(array.shape, 2**62),
        "half": array.astype(np.float16),
        "deeper": array[None],
        "one": np.array(1.0),
        "gone": None,
        "huge": b"huge",
        "twice": b"twice",
    }
    way = rng.choice(sorted(changed))
    arrays[name] = changed[way]
    if way == "gone":
        del arrays[name]
    elif isinstance(arrays[name], bytes):
        arrays[name] = array
        _raw(path, arrays, name, way)
        return f"model {name} {way}"
    np.savez(path, **arrays)
    return f"model {name} {way}"


def _raw(path: Path, arrays: dict[str, Any], changed: str, way: str, *, more: bool = True) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                stream,
                {
                    "descr": array.dtype.str,
                    "fortran_order": False,
                    "shape": (2**43, 1) if name == changed and way == "huge" else array.shape,
                },
            )
            archive.writestr(f"{name}.npy", stream.getvalue() + array.tobytes())
        if more:
            archive.writestr("more.txt", b"0" * 10_000_000)
