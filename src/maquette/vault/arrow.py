"""pyarrow comes without types: it enters the vault here, as Any, so that the rest can be checked strictly."""

from __future__ import annotations

import importlib
from typing import Any

ArrowArray = Any
"""A `pyarrow.Array`."""
ArrowType = Any
"""A `pyarrow.DataType`."""

pa: Any = importlib.import_module("pyarrow")
pc: Any = importlib.import_module("pyarrow.compute")
ipc: Any = importlib.import_module("pyarrow.ipc")
pq: Any = importlib.import_module("pyarrow.parquet")
