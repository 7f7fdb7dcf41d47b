"""pyarrow comes without types: it enters the vault here, as Any, so that the rest can be checked strictly."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

ArrowArray = Any
"""A `pyarrow.Array`."""
ArrowType = Any
"""A `pyarrow.DataType`."""

pa: Any = importlib.import_module("pyarrow")
pc: Any = importlib.import_module("pyarrow.compute")
ipc: Any = importlib.import_module("pyarrow.ipc")
pq: Any = importlib.import_module("pyarrow.parquet")


def text_array(values: Sequence[str | None]) -> ArrowArray:
    """A column of text from Python strings, whatever they hold.

    `pyarrow.array` would refuse a lone surrogate, that is, raise because of a value; here it becomes bad bytes.
    """
    encoded = [b"" if value is None else value.encode(errors="surrogatepass") for value in values]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in encoded], out=offsets[1:])
    present = np.packbits(np.array([value is not None for value in values], dtype=bool), bitorder="little")
    buffers = [pa.py_buffer(present), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def is_uuid(kind: ArrowType) -> bool:
    """Is this the type of universally unique identifiers, 16 bytes each?"""
    return isinstance(kind, pa.UuidType)


def stored(column: ArrowArray) -> ArrowArray:
    """A column of an extension type as the values that it stands for: what it is stored as, and uuids as their text."""
    if not isinstance(column, pa.ExtensionArray):
        return column
    return _uuid_texts(column.storage) if is_uuid(column.type) else column.storage


def _uuid_texts(raw: ArrowArray) -> ArrowArray:
    """Digits in groups of 8, 4, 4, 4 and 12, in lower case."""
    rows, offset = len(raw), raw.offset
    data = np.frombuffer(raw.buffers()[1] or b"", dtype=np.uint8)[16 * offset : 16 * (offset + rows)]
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    texts = np.full((rows, 36), ord("-"), dtype=np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    texts[:, places] = digits[np.stack([data >> 4, data & 15], axis=1)].reshape(rows, 32)
    offsets = np.arange(0, 36 * rows + 1, 36, dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pc.if_else(raw.is_valid(), pa.Array.from_buffers(pa.large_string(), rows, buffers), None)
