"""A Spark data frame, counted where it is: our coder and counter travel to the partitions, only sums come back.

By the DataFrame API alone, so that it works through Spark Connect as well. Nothing that Spark says about a failed job
is repeated: its words may quote a record.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import secrets
import warnings
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import reduce
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from maquette.core.answering import PartCounts
from maquette.core.forms import Margin
from maquette.core.neighbours import Persons
from maquette.core.rows.arrow import ArrowType, pa
from maquette.core.rows.commitment import LANES, is_in_order, lane_keys, packed_words
from maquette.core.rows.counting import Coded, Integers, RecordsTask, TableCache, Task
from maquette.core.rows.engine import MAX_RECORDS, MIN_CELLS_PER_PASS, Engine, merged
from maquette.core.rows.loading import Steps
from maquette.core.rows.source import Batch, Source, changed
from maquette.core.universe import Universe
from maquette.errors import SourceError
from maquette.vault import remote
from maquette.vault.remote import BoundBlocks, KeyRecords, keyed_schema

PREFIXES = ("spark:", "sc://")
"""How a place in Spark begins: `spark:PATH`, `spark:` with a table or query, `spark://host:port`, `sc://host:port`."""
MAX_CELLS_OF_ROWS = 2**20
"""Cells of the table that a class of queries on rows is answered from, so that the next question finds it counted."""
_TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal": pa.decimal128(38, 18),
    "string": pa.string(),
    "char": pa.string(),
    "varchar": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
"""Types that can hold values of an attribute, as the workers see them; all others are refused."""


def is_frame(source: object) -> bool:
    """Is this a Spark data frame, of a session of this process or through Connect?"""
    return any(
        kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"
        for kind in type(source).__mro__
    )


def is_place(place: str) -> bool:
    """Does this name a table of a Spark cluster?"""
    return place.startswith(PREFIXES)


def public_name(source: object) -> str:
    """What a frame or place is called in public words: the last part of a path, or Spark."""
    return (
        _path(source).rstrip("/").rpartition("/")[2] if isinstance(source, str) and _path(source) else "spark"
    )


def from_place(place: str, *, table: str | None, query: str | None) -> SparkTable:
    """A table of the catalogue, a query, or Parquet files that the cluster reads."""
    path = _path(place)
    if [table is not None, query is not None, path != ""].count(True) != 1:
        raise SourceError("a table in Spark needs exactly one of a path (spark:PATH), table= and query=")
    session = _session(place)
    try:
        if table is not None:
            return SparkTable(session.table(table), f"Spark table {table}")
        if query is not None:
            return SparkTable(session.sql(query), "Spark query")
        return SparkTable(session.read.parquet(path), f"Spark files {public_name(place)}")
    except Exception:
        name = table or ("the query" if query else public_name(place))
    raise SourceError(
        f"{name} cannot be opened by Spark; try it in a Spark session with the same settings first"
    )


def _path(place: str) -> str:
    """The path in spark:PATH; none in the address of a master or a Connect server."""
    return "" if place.startswith(("spark://", "sc://")) else place.removeprefix("spark:")


class SparkTable(Source):
    """A frame as a source: its public structure. Its rows are not to be had here."""

    def __init__(self, frame: Any, description: str = "Spark data frame") -> None:
        self.description = description
        self.frame = frame
        self.header = tuple(frame.columns)
        self._types = [field.dataType.typeName() for field in frame.schema.fields]

    def kind(self, column: str) -> ArrowType:
        return _TYPES.get(self._types[self.header.index(column)], pa.list_(pa.null()))

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        raise SourceError(
            f"{self.description}: the rows of a cluster are not collected on this machine; what needs them here can be "
            "asked of a sample that you take and collect yourself"
        )


class SparkEngine(Engine):
    """Coded blocks kept in the cluster; every pass over them sees the records of the first one, or gives no result."""

    __slots__ = ("_blocks", "_commitments", "_description", "_digest", "_positions", "_versions")

    def __init__(
        self,
        domain: Universe,
        source: SparkTable,
        *,
        progress: Callable[[float], None] | None,
        persons: Persons | None = None,
    ) -> None:
        super().__init__(domain)
        tell = Steps(progress)
        tell(0.0)
        self._description = source.description
        self._versions = remote.versions()
        self._positions = {name: f"c{i}" for i, name in enumerate(domain.columns)}
        self._commitments: dict[bytes, str] = {}
        self._tables = TableCache(domain)
        names = [f"x{i}" for i in range(len(source.header))]
        columns = [f"{names[source.header.index(name)]} AS d{i}" for i, name in enumerate(domain.names)]
        if persons is not None:
            columns.append(f"{names[source.header.index(persons.column)]} AS person")
        with without_pandas():
            raw = source.frame.toDF(*names).selectExpr(*columns)  # by position: Spark knows no case
            self._blocks = self._coded(raw, persons).persist(storage())
        weakref.finalize(self, unpersist, self._blocks)
        self._digest: list[int] | None = None
        self._run(remote.FoldBlocks(domain, _NoTask(domain), self._versions), ())
        tell(1.0)

    def _coded(self, raw: Any, persons: Persons | None) -> Any:
        """Blocks of coded records; with persons, of those that count, after a shuffle that brings each together."""
        domain, versions = self.domain, self._versions
        records = RecordsTask(domain, lane_keys(secrets.token_bytes(32)))
        if persons is None:
            return raw.mapInArrow(remote.CodeBlocks(domain, records, versions), remote.block_schema(domain))
        keyed = raw.mapInArrow(KeyRecords(domain, versions), keyed_schema(packed_words(domain)))
        bound = BoundBlocks(domain, records, persons.rows, versions)
        return keyed.repartition("person").mapInArrow(bound, remote.block_schema(domain))

    @property
    def cells_per_pass(self) -> int:
        return MIN_CELLS_PER_PASS

    def fold(self, task: Task) -> list[NDArray[Any]]:
        sums = task.zeros()
        parts = self._run(remote.FoldBlocks(self.domain, task, self._versions), task.names)
        for part, cells, values in parts:
            np.add.at(sums[part], cells, values.view(sums[part].dtype))
        return sums

    def distinct(self, name: str) -> tuple[NDArray[np.uint64], Integers]:
        parts = self._run(remote.CountBlocks(self.domain, name, self._versions), (name,))
        return merged((codes.view(np.uint64), counts) for _, codes, counts in parts)

    def in_order(self) -> NoReturn:
        raise SourceError(
            f"{self._description} has no order of rows, and this ledger was bound to one by an earlier version; go on "
            "with it where the table was opened before"
        )

    def commitment(self, salt: bytes, *, like: str | None = None) -> str:
        """Computed once for a salt: every pass compares the records with those of the opening anyway."""
        if is_in_order(like):
            return super().commitment(salt, like=like)
        if salt not in self._commitments:
            self._commitments[salt] = super().commitment(salt)
        return self._commitments[salt]

    def _counts(
        self, margins: Sequence[Margin], parts: tuple[PartCounts, ...]
    ) -> tuple[dict[Margin, Integers], list[Sequence[Integers]]]:
        """A pass is dear: tables are kept, and what needs few columns of the records is answered from a table too."""
        small = [part.names for part in parts if self._is_small(part)]
        others = tuple(part for part in parts if not self._is_small(part))
        tables, sums = super()._counts([*margins, *small], others)
        on_rows = iter(sums)
        by_part = [
            sums_of_cells(part, tables[part.names]) if self._is_small(part) else next(on_rows)
            for part in parts
        ]
        return tables, by_part

    def _is_small(self, part: PartCounts) -> bool:
        return self.domain.cells(part.names) <= MAX_CELLS_OF_ROWS

    def _run(self, job: Callable[..., Any], names: Sequence[str]) -> list[remote.Triple]:
        """The sums of all partitions, after the records that they are of were compared with those of the opening."""
        columns = ["records", "other", *(self._positions[name] for name in names)]
        with without_pandas():
            work = self._blocks.select(*columns).mapInArrow(job, remote.RESULT_SCHEMA)
            table = collected(work, self._description, self._versions)
        part, cell, value = (table.column(i).to_numpy() for i in range(3))
        digest = np.zeros(LANES + 1, dtype=np.uint64)
        for number in range(LANES + 1):
            of_lane = (part == remote.RECORDS) & (cell == number)
            digest[number] = reduce(lambda a, b: (a + b) % 2**64, map(int, value[of_lane].view(np.uint64)), 0)
        self._check(cell[part == remote.OTHER_VERSION], digest.tolist())
        order = np.argsort(part, kind="stable")
        part, cell, value = part[order], cell[order], value[order]
        numbers = np.unique(part[part >= 0])
        starts, ends = np.searchsorted(part, numbers), np.searchsorted(part, numbers, side="right")
        return [(int(part[i]), cell[i:j], value[i:j]) for i, j in zip(starts, ends, strict=True)]

    def _check(self, other: NDArray[Any], digest: list[int]) -> None:
        if len(other):
            raise other_version(int(other[0]), self._versions)
        if digest[LANES] > MAX_RECORDS:
            raise SourceError(
                f"expected a table of at most {MAX_RECORDS:,} records; split it or take a sample"
            )
        if self._digest is None:
            self._digest = digest
        if digest != self._digest:
            raise changed(self._description)


def sums_of_cells(part: PartCounts, table: Integers) -> Sequence[Integers]:
    """Sums over records, from the table over their attributes: a cell weighs as many records as it holds."""
    cells = np.nonzero(table)
    rows = {name: codes.astype(np.uint32) for name, codes in zip(part.names, cells, strict=True)}
    sums = part.zeros()
    part.add(sums, rows, table[cells])
    return sums


class _NoTask(Task):
    """Reads nothing but the digests."""

    def __init__(self, domain: Universe) -> None:
        self.domain = domain

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    def zeros(self) -> list[NDArray[Any]]:
        return []

    def add(self, sums: Sequence[NDArray[Any]], batch: Coded) -> None:
        """There is nothing to add."""


def other_version(package: int, versions: Sequence[str]) -> SourceError:
    return SourceError(
        f"the workers of the cluster have another version of {remote.PACKAGES[package]} than this machine "
        f"({versions[package]}), so that values could be coded in two ways; install the same one"
    )


def collected(frame: Any, description: str, versions: Sequence[str]) -> Any:
    """What a job gives back; what Spark says of one that failed is read here, and not repeated."""
    reason = ""
    try:
        return frame.toArrow()
    except Exception as error:
        reason = "\n".join(_texts(error))
    other = re.search(remote.OTHER_PACKAGE + "([0-9])", reason)
    if other is not None:
        raise other_version(int(other[1]), versions)
    if "No module named" in reason and "maquette" in reason:
        raise SourceError(
            "the workers of the cluster have no maquette; install the same version there, or ship it by spark.archives"
        )
    raise SourceError(
        f"{description}: the job failed in the cluster. What Spark said may quote records, so it is not repeated here: "
        "see the logs of the cluster (a view's casts must not fail: use try_cast)"
    )


def _texts(error: BaseException | None) -> Iterator[str]:
    """What an error says, and those that it came from: a connection that breaks meanwhile hides what the job said."""
    while error is not None:
        with contextlib.suppress(Exception):  # the text may be read over that connection
            yield str(error)
        error = error.__cause__ or error.__context__


@contextlib.contextmanager
def without_pandas() -> Generator[None]:
    """PySpark warns of versions of pandas, which no job of ours uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*pandas.*", category=FutureWarning)
        yield


def _session(place: str) -> Any:
    try:
        builder = importlib.import_module("pyspark.sql").SparkSession.builder
    except ModuleNotFoundError:
        builder = None
    if builder is None:
        raise SourceError(
            "tables in Spark need the extra maquette-dp[spark]: pip install 'maquette-dp[spark]'"
        )
    try:
        with without_pandas():
            if place.startswith("sc://"):
                return builder.remote(place).getOrCreate()
            return (builder.master(place) if place.startswith("spark://") else builder).getOrCreate()
    except Exception:
        reason = "no session can be opened; try pyspark with the same address and settings"
    raise SourceError(f"Spark: {reason}")


def storage() -> Any:
    return importlib.import_module("pyspark").StorageLevel.MEMORY_AND_DISK


def unpersist(blocks: Any) -> None:
    with contextlib.suppress(Exception):  # the session may have ended before
        blocks.unpersist()
