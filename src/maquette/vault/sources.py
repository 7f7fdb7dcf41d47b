"""Tables that are already in memory: data frames, Arrow tables, plain columns and records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from maquette.core.rows.arrow import ArrowArray, ArrowType, ipc, pa, pq, text_array
from maquette.core.rows.coding import spell_object
from maquette.core.rows.source import (
    ROWS,
    Batch,
    FileSource,
    FileStamp,
    Source,
    damaged,
    not_text,
)
from maquette.errors import SourceError
from maquette.vault.foreign import is_valid_text, read_quietly


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
        total, rows_read = max(1, self._table.num_rows), 0
        for batch in self._table.select(list(columns)).to_batches(max_chunksize=ROWS):
            rows_read += batch.num_rows
            if self._foreign and not all(is_valid_text(column) for column in batch.columns):
                raise not_text(self.description)
            yield dict(zip(columns, batch.columns, strict=True)), rows_read / total


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
            return read_quietly(lambda: spelled(series.to_list()), self.description)
        try:
            return series.to_arrow()
        except Exception:
            kind = str(series.dtype)
        raise SourceError(
            f"column '{name}' of {self.description} has type {kind}, which cannot be read; "
            "convert it to text or numbers"
        )


def from_native(source: Any) -> Source | None:
    """A data frame of any library that narwhals knows; None if it is none."""
    try:
        frame: Any = nw.from_native(source, pass_through=True)
    except DuplicateError:
        frame = None
    if frame is None:
        raise SourceError(
            "the data frame has more than one column of the same name; give every column its own name"
        )
    if isinstance(frame, nw.LazyFrame):
        if not frame.implementation.is_polars():  # its rows may lie on other machines, where they should stay
            raise SourceError(
                f"a lazy frame of {frame.implementation.value} is not collected; collect it yourself, or open what it "
                "reads"
            )
        frame = read_quietly(
            frame.collect,
            "the lazy frame, one of whose own steps failed on a row (collect it yourself to see it),",
        )
    if isinstance(frame, nw.DataFrame):
        return Frame(cast("nw.DataFrame[Any]", frame), "data frame")
    return None


def from_columns(columns: Mapping[Any, Any], description: str) -> Source:
    """A plain mapping of column names to sequences of equal length."""
    arrays = read_quietly(
        lambda: {str(name): _plain_column(values) for name, values in columns.items()}, description
    )
    if len({len(array) for array in arrays.values()}) > 1:
        raise SourceError(f"the columns of {description} have different lengths; make them one length")
    return ArrowTable(pa.Table.from_arrays(list(arrays.values()), list(arrays)), description)


def from_records(records: Sequence[Mapping[Any, Any]], names: Sequence[str], description: str) -> Source:
    """A plain sequence of mappings; a record without one of the names has a missing value there."""
    columns = read_quietly(
        lambda: {name: [record.get(name) for record in records] for name in names}, description
    )
    return from_columns(columns, description)


def spelled(values: Sequence[Any]) -> ArrowArray:
    """Python values as a column of text."""
    return text_array([spell_object(value) for value in values])


def _plain_column(values: Any) -> ArrowArray:
    if _is_numeric_array(values):
        return pa.array(values)
    try:
        listed = list(values)
    except TypeError:
        raise SourceError(f"expected a column as a list or an array, got {type(values).__name__}") from None
    return spelled(listed)


def _is_numeric_array(values: Any) -> bool:
    return isinstance(values, np.ndarray) and cast(Any, values).dtype.kind in "uifb"


def _whole(array: ArrowArray) -> ArrowArray:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


# Parquet and Arrow files.


class _TypedFile(FileSource):
    """A file that states its columns and types before its rows."""

    format: str

    def __init__(self, path: Path) -> None:
        self.description = f"file {path.name}"
        self._path = path
        self._stamp = FileStamp(path)
        self._schema = self._find_schema()
        self.header = tuple(self._schema.names)

    def _find_schema(self) -> Any:
        try:
            return self._read_schema()
        except PermissionError:
            reason = "permission denied"
        except (pa.ArrowException, OSError):
            reason = f"it is no {self.format} file, or an incomplete one; write it again"
        raise SourceError(f"cannot read {self._path}: {reason}")

    def kind(self, column: str) -> ArrowType:
        return self._schema.field(column).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        self._stamp.check()
        failure: SourceError | None = None
        try:
            for batch, share in self._read(columns):
                if isinstance(batch, _GroupColumns):
                    yield batch, share
                    continue
                raw = {name: batch.column(name) for name in columns}
                if not all(is_valid_text(column) for column in raw.values()):
                    failure = not_text(self.description)
                    break
                yield raw, share
            self._stamp.check()  # nor did it change while it was read
        except (pa.ArrowException, OSError):
            failure = damaged(self.description)
        if failure is not None:
            raise failure

    @abstractmethod
    def _read_schema(self) -> Any: ...

    @abstractmethod
    def _read(self, columns: Sequence[str]) -> Iterator[tuple[Any, float]]: ...


class ParquetFile(_TypedFile):
    """A Parquet file, read row group by row group."""

    format = "Parquet"

    def _read_schema(self) -> Any:
        schema, footer = pq.read_schema(self._path), pq.read_metadata(self._path)
        self._groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        return schema

    @property
    def likely_rows(self) -> int:
        return sum(group.num_rows for group in self._groups)

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[Any, float]]:
        # text as the dictionaries that the file holds: a value is coded once, not once per row
        texts = [name for name in columns if _is_plain_text(self._schema.field(name).type)]
        with pq.ParquetFile(self._path, pre_buffer=False, read_dictionary=texts) as file:
            total, rows_read = max(1, self.likely_rows), 0
            if all(map(_is_handy, self._groups)):
                for number, group in enumerate(self._groups):
                    rows_read += group.num_rows
                    yield _GroupColumns(file, number, columns, self.description), rows_read / total
                return
            for batch in file.iter_batches(ROWS, columns=list(columns)):
                rows_read += batch.num_rows
                yield batch, rows_read / total


MIN_GROUP_ROWS, MAX_GROUP_ROWS, MAX_GROUP_BYTES = 2**16, 2**21, 2**28
"""Of a row group that is read column by column."""


def _is_handy(group: Any) -> bool:
    """Large enough that its columns are worth a reading each, small enough that one of them has room."""
    return MIN_GROUP_ROWS <= group.num_rows <= MAX_GROUP_ROWS and group.total_byte_size <= MAX_GROUP_BYTES


class _GroupColumns(Mapping[str, ArrowArray]):
    """Columns of a row group, each read when it is asked for and not kept: a third faster than batches of all columns,
    because the values of one column stay in the processor's cache until they are coded."""

    def __init__(self, file: Any, group: int, names: Sequence[str], description: str) -> None:
        self._file = file
        self._group = group
        self._names = tuple(names)
        self._description = description

    def __getitem__(self, name: str) -> ArrowArray:
        failure: SourceError | None = None
        try:
            table = self._file.read_row_group(self._group, columns=[name], use_threads=False)
            chunks = table.column(name)
            column = chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()
            if is_valid_text(column):
                return column
            failure = not_text(self._description)
        except (pa.ArrowException, OSError):
            failure = damaged(self._description)
        raise failure

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _is_plain_text(kind: ArrowType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


class ArrowFile(_TypedFile):
    """An Arrow IPC file (also called Feather) or stream, mapped into memory."""

    format = "Arrow IPC"

    def _read_schema(self) -> Any:
        with pa.memory_map(str(self._path)) as memory:
            return self._opened(memory).schema

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[Any, float]]:
        with pa.memory_map(str(self._path)) as memory:
            reader = self._opened(memory)
            total = max(1, memory.size())
            batches = map(reader.get_batch, range(reader.num_record_batches)) if _is_file(reader) else reader
            for batch in batches:
                for start in range(0, batch.num_rows, ROWS):
                    yield batch.slice(start, ROWS), min(1.0, memory.tell() / total)

    @staticmethod
    def _opened(memory: Any) -> Any:
        try:
            return ipc.open_file(memory)
        except pa.ArrowInvalid:
            memory.seek(0)
            return ipc.open_stream(memory)


def _is_file(reader: Any) -> bool:
    return hasattr(reader, "num_record_batches")
