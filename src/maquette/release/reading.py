"""Files of a release folder, read as if a stranger had written them: bounded before anything is made of them.

Text by its size and depth, tables and arrays by what their headers declare, against what their files hold, what the
release says and the memory that is free.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from maquette.errors import ReleaseError

MAX_TEXT = 2**28
"""Bytes of a JSON file: workloads of real weights are the longest."""
MAX_DEPTH = 200
"""How deep a JSON file may be nested; every reader of it stays far below Python's limit on recursion."""
MAX_ARRAYS = 2**20
"""Arrays of a model."""
_PER_BYTE = 20
"""Bytes of memory that a byte of JSON takes at most, roughly."""


def read_json(path: Path) -> Any:
    """The value of a JSON file: no NaN, no infinity, nested no deeper than `MAX_DEPTH`."""
    try:
        size = path.stat().st_size
        if size > MAX_TEXT:
            raise ReleaseError(f"{path} holds {size:,} bytes, more than the {MAX_TEXT:,} of any release")
        check_room(path, size * _PER_BYTE)
        text = path.read_text(encoding="utf-8")
        value = json.loads(text, parse_constant=_no_number)
        if (
            "\\ud" in text.lower()
        ):  # half of a pair of escapes is no character, and could not be written again
            json.dumps(value, ensure_ascii=False).encode()
    except (OSError, ValueError, RecursionError):
        raise ReleaseError(
            f"{path} cannot be read as JSON; fetch the release again from its source"
        ) from None
    if _deeper(value, MAX_DEPTH):
        raise ReleaseError(f"{path} is nested deeper than {MAX_DEPTH} levels, which no release is")
    return value


def read_columns(path: Path, names: Mapping[str, str], *, rows: int) -> dict[str, NDArray[Any]]:
    """Columns of numbers of a Parquet file, by name and kind ("i": whole, "u": whole and not negative, "f": real).

    The file declares exactly these columns and this many rows, none of them empty, before any is read.
    """
    import pyarrow
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        if schema.names != list(names):
            raise ReleaseError(f"{path} has other columns than the release declares")
        if file.metadata.num_rows != rows:
            raise ReleaseError(
                f"{path} has {file.metadata.num_rows:,} rows where the release declares {rows:,}"
            )
        for name, kind in names.items():
            found = schema.field(name).type
            whole = pyarrow.types.is_integer(found)
            if not (pyarrow.types.is_floating(found) if kind == "f" else whole):
                raise ReleaseError(
                    f"column '{name}' of {path} holds no {'reals' if kind == 'f' else 'codes'}"
                )
        width = sum(field.type.bit_width for field in schema) // 8 + 8 * len(names)
        check_room(path, rows * width)
        table = file.read()
    if table.num_rows != rows or any(column.null_count for column in table.columns):
        raise ReleaseError(f"{path} holds fewer values than it declares")
    return {name: table[name].to_numpy() for name in names}


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file; headers are held against the sizes of their members, before any array is made."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        if len(names) > MAX_ARRAYS or len(set(names)) < len(names):
            raise ReleaseError(f"{path} holds too many arrays, or one of them twice")
        if any(not name.endswith(".npy") for name in names):
            raise ReleaseError(f"{path} holds something else than arrays")
        check_room(path, 2 * sum(member.file_size for member in members))
        found: dict[str, NDArray[Any]] = {}
        for member in members:
            with archive.open(member) as stream:
                found[member.filename.removesuffix(".npy")] = _array(path, stream, member.file_size)
    return found


def check_room(path: Path, needed: int) -> None:
    """Refuse to read what declares more than the memory that is free."""
    import psutil

    free = psutil.virtual_memory().available
    if needed > free:
        raise ReleaseError(
            f"{path} declares {needed / 1e9:,.1f} GB of values, and {free / 1e9:,.1f} GB of memory are free"
        )


def _array(path: Path, stream: IO[bytes], size: int) -> NDArray[Any]:
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ReleaseError(f"{path} holds an array of an unknown form")
    shape, by_column, kind = readers[version](stream)
    if kind.kind not in "biuf" or any(not isinstance(n, int) or n < 0 for n in shape):
        raise ReleaseError(f"{path} holds an array that is not of numbers")
    declared = math.prod(shape) * kind.itemsize
    if declared != size - stream.tell():
        raise ReleaseError(f"{path} holds an array that declares another size than it has")
    values = np.frombuffer(stream.read(declared), dtype=kind)
    return values.reshape(shape, order="F" if by_column else "C")


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)


def _deeper(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            item
            for one in layer
            if isinstance(one, (dict, list))
            for item in (one.values() if isinstance(one, dict) else one)
        ]
        if not layer:
            return False
    return True
