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
