"""Tables that are already in memory: data frames, Arrow tables, plain columns and records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from maquette.errors import SourceError
from maquette.vault.arrow import ArrowArray, ArrowType, pa, text_array
from maquette.vault.coding import spell_object
from maquette.vault.source import ROWS, Batch, Source, is_valid_text, not_text


class ArrowTable(Source):
    """An Arrow table, used where it lies."""

    def __init__(self, table: Any, description: str, *, foreign: bool = False) -> None:
        """`foreign`: made elsewhere, so that its text may be none."""
        self.description = description
        self._table = table
        self._foreign = foreign
        self.header = tuple(table.column_names)

    def kind(self, column: str) -> ArrowType:
        return self._table.schema.field(column).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        total, seen = max(1, self._table.num_rows), 0
        for batch in self._table.select(list(columns)).to_batches(max_chunksize=ROWS):
            seen += batch.num_rows
            if self._foreign and not all(is_valid_text(column) for column in batch.columns):
                raise not_text(self.description)
            yield dict(zip(columns, batch.columns, strict=True)), seen / total


class Frame(Source):
    """A pandas, polars or other eager data frame; declared columns become Arrow, without a copy where possible."""

    def __init__(self, frame: nw.DataFrame[Any], description: str) -> None:
        self.description = description
        self._frame = frame
        self.header = tuple(str(name) for name in frame.columns)
        self._arrow: dict[str, ArrowArray] = {}

    def kind(self, column: str) -> ArrowType:
        return self._column(column).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        arrays = {name: self._column(name) for name in columns}
        total = max(1, len(self._frame))
        for start in range(0, len(self._frame), ROWS):
            stop = min(start + ROWS, total)
            yield {name: _whole(array.slice(start, ROWS)) for name, array in arrays.items()}, stop / total

    def _column(self, name: str) -> ArrowArray:
        if name not in self._arrow:
            self._arrow[name] = self._convert(name)
        return self._arrow[name]

    def _convert(self, name: str) -> ArrowArray:
        series: Any = self._frame[self._frame.columns[self.header.index(name)]]
        if series.dtype == nw.Object:  # its values may be anything, so they are compared by their spelling
            return spelled(series.to_list())
        try:
            return series.to_arrow()
        except Exception:
            found = str(series.dtype)
        raise SourceError(
            f"column '{name}' of {self.description} has type {found}, which cannot be read; "
            "convert it to text or numbers"
        )


def from_native(source: Any) -> Source | None:
    """A data frame of any library that narwhals knows; None if it is none."""
    try:
        frame: Any = nw.from_native(source, pass_through=True)
    except DuplicateError:
        frame = None
    if frame is None:
        raise SourceError("the data frame has more than one column of the same name; name the columns apart")
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        return Frame(cast("nw.DataFrame[Any]", frame), "data frame")
    return None


def from_columns(columns: Mapping[Any, Any], description: str) -> Source:
    """A plain mapping of column names to sequences of equal length."""
    arrays = {str(name): _plain_column(values) for name, values in columns.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        raise SourceError(f"the columns of {description} have different lengths; make them one length")
    return ArrowTable(pa.Table.from_arrays(list(arrays.values()), list(arrays)), description)


def from_records(records: Sequence[Mapping[Any, Any]], names: Sequence[str], description: str) -> Source:
    """A plain sequence of mappings; a record without one of the names has a missing value there."""
    return from_columns({name: [record.get(name) for record in records] for name in names}, description)


def spelled(values: Sequence[Any]) -> ArrowArray:
    """Python values as a column of text."""
    return text_array([spell_object(value) for value in values])


def _plain_column(values: Any) -> ArrowArray:
    if _is_numeric_array(values):
        return pa.array(values)
    return spelled(list(values))


def _is_numeric_array(values: Any) -> bool:
    return isinstance(values, np.ndarray) and cast(Any, values).dtype.kind in "uifb"


def _whole(array: ArrowArray) -> ArrowArray:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
