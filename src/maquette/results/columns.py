"""What every answer of a workload is about, in columns: so that a file of answers can be read by itself.

An answer of a marginal has the attributes of its table and the value of each, spelled out; any other query has its
text. Columns of few different values are dictionaries whose indices are computed by arithmetic, so that tens of
millions of answers are described in seconds and in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.queries.base import Queries
from maquette.queries.marginals import Marginals
from maquette.queries.rows import Margin

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 2**20
"""Answers described at once."""
TABLE, QUERY = "table", "query"


def value_column(place: int) -> str:
    """The name of the column that holds the value of a table's attribute at this place, from 1 on."""
    return f"value_{place}"


def key_columns(workload: Queries) -> tuple[str, ...]:
    """The names of the columns that describe the answers of a workload."""
    orders = [len(m) for part in workload.classes if isinstance(part, Marginals) for m in part.margins]
    others = any(not isinstance(part, Marginals) for part in workload.classes)
    values = tuple(value_column(i) for i in range(1, max(orders, default=0) + 1))
    return ((TABLE, *values) if orders else ()) + ((QUERY,) if others else ())


def key_batches(workload: Queries, *, length: int = BATCH) -> Iterator[pa.RecordBatch]:
    """Batches of the key columns, in the order of the answers; each has at most `length` rows."""
    import pyarrow as pa

    names = key_columns(workload)
    for part in workload.classes:
        if isinstance(part, Marginals):
            for margin, place in part.slices.items():
                for start in range(0, place.stop - place.start, length):
                    stop = min(start + length, place.stop - place.start)
                    columns = _cells(workload.domain, margin, start, stop)
                    yield _batch(names, columns, stop - start)
        else:
            for start in range(0, part.count, length):
                texts = [part.text(i) for i in range(start, min(start + length, part.count))]
                yield _batch(names, {QUERY: pa.array(texts, pa.string())}, len(texts))


def _cells(domain: Domain, margin: Margin, start: int, stop: int) -> dict[str, pa.Array]:
    """Cells start .. stop-1 of one table in the order of its answers: the last attribute runs fastest."""
    shape = tuple(domain[name].size for name in margin)
    codes = np.unravel_index(np.arange(start, stop), shape)
    columns = {TABLE: word_column(np.zeros(stop - start, dtype=np.int8), [", ".join(margin)])}
    for i, (name, code) in enumerate(zip(margin, codes, strict=True), start=1):
        columns[value_column(i)] = _labels(domain, name, code)
    return columns


def _labels(domain: Domain, name: str, codes: NDArray[Any]) -> pa.Array:
    """The labels of these codes; only those that occur are put into words."""
    attribute = domain[name]
    if attribute.size <= BATCH:
        return word_column(codes.astype(np.int32), label_list(domain, name))
    there, places = np.unique(codes, return_inverse=True)
    return word_column(places.astype(np.int32), [attribute.label(int(code)) for code in there])


def label_list(domain: Domain, name: str) -> list[str]:
    """Every cell of an attribute in words, in the order of its codes."""
    attribute = domain[name]
    return [attribute.label(code) for code in range(attribute.size)]


def word_column(indices: NDArray[Any], words: list[str]) -> pa.Array:
    """Words by their places in a list."""
    import pyarrow as pa

    texts = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    values = pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))
    return pa.DictionaryArray.from_arrays(number_column(indices), values)


def number_column(values: NDArray[Any], *, missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers, or true and false, as an Arrow array; pyarrow.array would load pandas to look at them first."""
    import pyarrow as pa

    validity = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    if values.dtype == np.bool_:
        data = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [validity, pa.py_buffer(data)])
    data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(data.dtype), len(data), [validity, pa.py_buffer(data)])


def _batch(names: tuple[str, ...], columns: dict[str, pa.Array], length: int) -> pa.RecordBatch:
    """The columns in their order; those that do not apply are empty. All dictionaries have the same index type."""
    import pyarrow as pa

    form = pa.dictionary(pa.int32(), pa.string())
    arrays = []
    for name in names:
        kind = pa.string() if name == QUERY else form
        column = columns.get(name)
        arrays.append(pa.nulls(length, kind) if column is None else column.cast(kind))
    return pa.record_batch(arrays, names=list(names))
