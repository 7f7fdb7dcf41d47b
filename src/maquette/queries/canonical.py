"""Classes compared cell by cell: every cell of a table as a row, and the keys that follow (`condition.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from maquette.queries.base import Margin, Queries
from maquette.queries.condition import Key, array_key


def keys_by_cells(queries: Queries) -> Iterator[Key | None]:
    """Keys from the weights on every cell of the attributes that the queries look at."""
    names = queries.attributes or queries.domain.names[:1]  # constants look at no attribute
    shape = tuple(queries.domain[name].size for name in names)
    for row in queries.columns_of(all_cells(shape, names)):
        yield array_key(queries.domain, names, row.reshape(shape), queries.denominator)


def all_cells(shape: tuple[int, ...], names: Margin) -> dict[str, NDArray[np.int64]]:
    """Every cell of a table once, as coded rows."""
    grids = np.indices(shape).reshape(len(shape), -1)
    return dict(zip(names, grids, strict=True))


def count_distinct(keys: Iterable[Key | None]) -> int:
    return len({key for key in keys if key is not None})
