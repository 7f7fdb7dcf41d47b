"""release.json, versions 1 and 2: the statements of a release as plain JSON, and back."""

from __future__ import annotations

import json
import math
import types
import zipfile
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray

from maquette.core.budget import Budget
from maquette.core.measurement import Size
from maquette.errors import ReleaseError
from maquette.results import sums
from maquette.results.statements import (
    Account,
)

if TYPE_CHECKING:
    import pyarrow

    from maquette.results.release import Release

# Frozen values out of JSON that anybody may have written: every field of the type that it is declared with.

T = TypeVar("T")

_INFINITE = ("inf", "-inf")
"""How a JSON text spells the floats that JSON has no number for."""
_LARGEST = 10**300
"""Whole numbers up to here are exact in Python and fit a float."""


def build(kind: type[T], data: object, *, where: str) -> T:
    """A dataclass from a JSON object; ReleaseError names the field that is not as declared."""
    if not isinstance(data, dict):
        raise ReleaseError(f"expected {where} as an object, got {type(data).__name__}")
    hints = get_type_hints(kind)
    declared = {one.name: one for one in fields(kind)}  # pyright: ignore[reportArgumentType]
    if unknown := sorted(set(data) - set(declared)):
        raise ReleaseError(f"{where} has an unknown field {unknown[0]!r}")
    values: dict[str, Any] = {}
    for name, one in declared.items():
        if name in data:
            values[name] = read(hints[name], data[name], where=f"{where}.{name}")
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ReleaseError(f"{where} lacks the field '{name}'")
    return kind(**values)


def read(kind: Any, value: Any, *, where: str) -> Any:
    """A value of a declared type: text, numbers (not NaN), optional ones, words of a list, tuples and dataclasses."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = get_args(kind)
        if value is None and type(None) in options:
            return None
        return read(next(o for o in options if o is not type(None)), value, where=where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ReleaseError(f"expected {where} as a list, got {type(value).__name__}")
        return tuple(read(get_args(kind)[0], item, where=where) for item in value)
    if origin is Literal:
        fits = value in get_args(kind) if isinstance(value, str) else False
    elif kind is float:
        value = float(value) if value in _INFINITE else value
        fits = _is_number(value) and not math.isnan(value)
        fits = fits and (value == 0 or math.isinf(value) or 1 / _LARGEST < abs(value) < _LARGEST)
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
    elif kind in (str, bool, dict):
        fits = isinstance(value, kind)
    else:
        return build(kind, value, where=where)
    if not fits:
        raise ReleaseError(
            f"expected {where} as {getattr(kind, '__name__', 'one of its words')}, got {value!r:.80}"
        )
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


FORMAT = 2
"""The newest that can be read. A release with listed answers is written in format 1, one without in format 2."""


def dump(release: Release) -> dict[str, Any]:
    """Everything but the arrays. There is no seed to store: noise comes from the operating system."""
    return {
        "format": 1 if release.listed else 2,
        "software": {"name": "maquette", "version": release.version},
        "created": release.created.isoformat(),
        "watermark": release.watermark,
        "mechanism": release.mechanism,
        "relation": str(release.relation),
        "budget": _budget(release.budget),
        "exactness": release.exactness,
        "beta": release.beta,
        "queries": release.workload.describe(),
        "attributes": {"measured": list(release.measured), "not measured": list(release.unmeasured)},
        "answers": {"count": release.workload.count, "denominator": release.answers.denominator},
        "rows": None if release.database is None else release.database.m,
        "size": _size(release.size),
        "guarantee": {k: v for k, v in asdict(release.guarantee).items() if v is not None},
        "certificate": None if release.certificate is None else asdict(release.certificate),
        "spending": [asdict(payment) for payment in release.spending],
        "account": None if release.account is None else _account(release.account),
        "receipts": [asdict(receipt) for receipt in release.receipts],
        "parameters": release.parameters,
        "notes": list(release.notes),
    } | _later_parts(release)


def _later_parts(release: Release) -> dict[str, Any]:
    """What earlier versions do not know: distance of the rows, certificates of classes, sums, persons."""
    parts: dict[str, Any] = {}
    if release.rows_distance is not None:
        parts["rows_distance"] = asdict(release.rows_distance)
    stored = [asdict(certificate) for certificate in release.certificates]
    for one in stored:
        if not one["bounds"]:  # as earlier versions stored them
            del one["bounds"]
        if one["columns"] is None:
            del one["columns"]
    if stored:
        parts["certificates"] = stored
    if release.sums:
        parts["sums"] = [sums.to_json(column) for column in release.sums]
    if release.quality:
        parts["quality"] = [asdict(one) for one in release.quality]
    if release.persons is not None:
        parts["persons"] = asdict(release.persons)
    return parts


def _budget(budget: Budget) -> dict[str, Any]:
    """Releases of earlier versions do not say how a delta was counted: by zCDP."""
    accounting = {} if budget.pure else {"accounting": budget.accounting}
    return {"epsilon": budget.epsilon, "delta": budget.delta} | accounting


def to_text(document: dict[str, Any]) -> str:
    """JSON that every reader understands: no NaN, no infinity, exact numbers as texts."""
    return json.dumps(plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """A value in JSON's own types."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case np.ndarray():
            return plain(value.tolist())
        case np.generic():
            return plain(value.item())
        case float() if not math.isfinite(value):
            return str(value)
        case Fraction():
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"a release cannot store a {type(value).__name__}")


UNPAID = {"law": "laplace", "epsilon": "0", "scale": None}
"""The form of a private number of records that nothing was paid for: noise without a finite scale."""


def _account(account: Account) -> dict[str, Any]:
    own = {} if account.delta is None else {"delta": account.delta}
    return {name: value for name, value in asdict(account).items() if name != "delta"} | own


def _size(size: Size) -> dict[str, Any]:
    noise = None if size.noise is None else size.noise.to_dict()
    return {
        "value": size.value,
        "noise": UNPAID if size.unpaid else noise,
        "receipt": None if size.receipt is None else asdict(size.receipt),
    }


# Files of a release folder, read as if a stranger had written them: bounded before anything is made of them.
#
# Text by its size and depth, tables and arrays by what their headers declare, against what their files
# hold, what the release says and the memory that is free.

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
        check_room(path, check_length(path) * _PER_BYTE)
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


def check_length(path: Path) -> int:
    """The bytes of a JSON file; ReleaseError where they are more than any release has."""
    size = path.stat().st_size
    if size > MAX_TEXT:
        raise ReleaseError(f"{path} holds {size:,} bytes, more than the {MAX_TEXT:,} of any release")
    return size


def read_columns(
    path: Path, names: Mapping[str, str], *, rows: int, more: bool = False
) -> dict[str, NDArray[Any]]:
    """Columns of numbers of a Parquet file, by name and kind ("i": whole, "u": whole and not negative, "f": real).

    The file declares exactly these columns (with `more`, begins with them) and this many rows, none of them empty,
    before any is read. Further columns are not read.
    """
    import pyarrow
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        if (schema.names[: len(names)] if more else schema.names) != list(names):
            raise ReleaseError(f"{path} has other columns than the release declares")
        if file.metadata.num_rows != rows:
            raise ReleaseError(
                f"{path} has {file.metadata.num_rows:,} rows where the release declares {rows:,}"
            )
        for name, kind in names.items():
            stored_type = schema.field(name).type
            whole = pyarrow.types.is_integer(stored_type)
            if not (pyarrow.types.is_floating(stored_type) if kind == "f" else whole):
                raise ReleaseError(
                    f"column '{name}' of {path} holds no {'reals' if kind == 'f' else 'codes'}"
                )
        width = sum(schema.field(name).type.bit_width for name in names) // 8 + 8 * len(names)
        check_room(path, rows * width)
        table = file.read(columns=list(names))
    if table.num_rows != rows or any(column.null_count for column in table.columns):
        raise ReleaseError(f"{path} holds fewer values than it declares")
    return {name: plain_array(table[name]) for name in names}


def plain_array(column: pyarrow.ChunkedArray) -> NDArray[Any]:
    """A column of numbers without nulls. Arrow's own way would load pandas, which takes longer than all the rest."""
    return np.from_dlpack(column.combine_chunks())


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
        arrays: dict[str, NDArray[Any]] = {}
        for member in members:
            with archive.open(member) as stream:
                arrays[member.filename.removesuffix(".npy")] = _array(path, stream, member.file_size)
    return arrays


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
