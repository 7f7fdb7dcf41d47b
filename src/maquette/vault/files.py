"""Parquet and Arrow files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from maquette.errors import SourceError
from maquette.vault.arrow import ArrowType, ipc, pa, pq
from maquette.vault.source import ROWS, Batch, FileStamp, Source, damaged, is_valid_text, not_text


class _TypedFile(Source):
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
            reason = f"it is not a whole {self.format} file; write it again"
        raise SourceError(f"cannot read {self._path}: {reason}")

    @property
    def notices_changes(self) -> bool:
        return True

    def kind(self, column: str) -> ArrowType:
        return self._schema.field(column).type

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        self._stamp.check()
        failure: SourceError | None = None
        try:
            for batch, share in self._read(columns):
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
        return pq.read_schema(self._path)

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[Any, float]]:
        with pq.ParquetFile(self._path, pre_buffer=False) as file:
            total, seen = max(1, file.metadata.num_rows), 0
            for batch in file.iter_batches(ROWS, columns=list(columns)):
                seen += batch.num_rows
                yield batch, seen / total


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
