"""Several files that are read as one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from maquette.core.rows.arrow import ArrowType, pa
from maquette.core.rows.source import Batch, Source


class Joined(Source):
    """Several files with the same columns, one after the other."""

    def __init__(self, description: str, parts: Sequence[Source]) -> None:
        self.description = description
        self.header = tuple(name for name in parts[0].header if all(name in part.header for part in parts))
        self._parts = tuple(parts)

    @property
    def parts(self) -> Sequence[Source]:
        return self._parts

    @property
    def notices_changes(self) -> bool:
        return all(part.notices_changes for part in self._parts)

    def is_unchanged(self) -> bool:
        return all(part.is_unchanged() for part in self._parts)

    @property
    def likely_rows(self) -> int:
        return sum(part.likely_rows for part in self._parts)

    def kind(self, column: str) -> ArrowType:
        return self._parts[0].kind(column)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        for index, part in enumerate(self._parts):
            for raw, share in part.batches(columns):
                yield raw, (index + share) / len(self._parts)


class Partition(Source):
    """A file of a Hive folder, with the columns that its place names: year=2013/month=5/part.parquet."""

    def __init__(self, file: Source, values: Mapping[str, str | None]) -> None:
        self.description = file.description
        self._file = file
        self._values = {name: value for name, value in values.items() if name not in file.header}
        self.header = (*file.header, *self._values)

    @property
    def notices_changes(self) -> bool:
        return self._file.notices_changes

    def is_unchanged(self) -> bool:
        return self._file.is_unchanged()

    @property
    def likely_rows(self) -> int:
        return self._file.likely_rows

    def kind(self, column: str) -> ArrowType:
        return pa.string() if column in self._values else self._file.kind(column)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        own = [name for name in columns if name not in self._values]
        for raw, share in self._file.batches(own or self._file.header[:1]):
            rows = len(next(iter(raw.values())))
            named = {
                name: pa.array([value] * rows, pa.string())
                for name, value in self._values.items()
                if name in columns
            }
            yield {name: named[name] if name in named else raw[name] for name in columns}, share
