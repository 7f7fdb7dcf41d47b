"""A stand-in for a Spark data frame: partitions in this process, with the few methods that the engine uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from maquette.vault.spark import _TYPES

_WORDS = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary(), "string": pa.string()}


@dataclass(frozen=True)
class _Type:
    name: str

    def typeName(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Field:
    dataType: _Type  # noqa: N815


@dataclass(frozen=True)
class _Schema:
    fields: list[_Field]


class LocalFrame:
    """Partitions, each an Arrow table that is made anew on every look unless the frame was persisted."""

    def __init__(self, columns: list[str], partitions: Callable[[], list[pa.Table]]) -> None:
        self.columns = columns
        self._partitions = partitions

    @classmethod
    def of(cls, parts: list[pa.Table]) -> LocalFrame:
        return cls(parts[0].column_names, lambda: parts)

    @property
    def schema(self) -> _Schema:
        names = {kind: name for name, kind in _TYPES.items()}
        return _Schema([_Field(_Type(names[kind])) for kind in self._partitions()[0].schema.types])

    def toDF(self, *names: str) -> LocalFrame:
        return LocalFrame(
            list(names), lambda: [part.rename_columns(list(names)) for part in self._partitions()]
        )

    def select(self, *names: str) -> LocalFrame:
        return LocalFrame(list(names), lambda: [part.select(list(names)) for part in self._partitions()])

    def selectExpr(self, *expressions: str) -> LocalFrame:
        pairs = [expression.split(" AS ") for expression in expressions]
        names = [new for _, new in pairs]

        def partitions() -> list[pa.Table]:
            return [pa.table([part[old] for old, _ in pairs], names=names) for part in self._partitions()]

        return LocalFrame(names, partitions)

    def repartition(self, name: str) -> LocalFrame:
        """Three partitions by the value of a column, the rows of each in another order than they came."""

        def partitions() -> list[pa.Table]:
            whole = pa.concat_tables(self._partitions())
            places = whole[name].to_numpy().view("u8") % 3
            rows = [[i for i in range(len(places) - 1, -1, -1) if places[i] == part] for part in range(3)]
            return [whole.take(pa.array(chosen, pa.int64())) for chosen in rows]

        return LocalFrame(self.columns, partitions)

    def mapInArrow(self, work: Callable[[Iterable[Any]], Iterable[Any]], schema: str) -> LocalFrame:
        fields = [tuple(word.split()) for word in schema.split(", ")]
        types = pa.schema([(name, _WORDS[kind]) for name, kind in fields])

        def partitions() -> list[pa.Table]:
            # batches of three rows: a cluster cuts partitions as it likes
            results = [work(iter(part.to_batches(max_chunksize=3))) for part in self._partitions()]
            return [pa.Table.from_batches(result, types) for result in results]

        return LocalFrame([name for name, _ in fields], partitions)

    def persist(self, level: object) -> LocalFrame:
        made = self._partitions()
        return LocalFrame(self.columns, lambda: made)

    def unpersist(self) -> None:
        pass

    def toArrow(self) -> pa.Table:
        return pa.concat_tables(self._partitions())
