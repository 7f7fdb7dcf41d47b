"""From whatever the owner has to an engine: choose the reader, check public structure, code the rows."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypedDict, TypeGuard, Unpack, cast
from urllib.parse import unquote

from maquette.core import _check
from maquette.core.rows.arrow import pa
from maquette.core.rows.delimited import DelimitedFile
from maquette.core.rows.engine import Engine
from maquette.core.rows.linked import family
from maquette.core.rows.loading import load
from maquette.core.rows.persons import PersonRows, check_person
from maquette.core.rows.source import Source
from maquette.core.table import Family
from maquette.domain import Domain, Persons
from maquette.errors import ParameterError, SourceError
from maquette.schema import Schema
from maquette.vault import duckdb_tables, postgres, spark, workbooks
from maquette.vault.header import SourceCheck, check_fit
from maquette.vault.joined import Joined, Partition
from maquette.vault.sources import ArrowFile, ArrowTable, ParquetFile, from_columns, from_native, from_records

ReadShare = Callable[[float], None]

PLAIN = (".csv", ".tsv", ".txt")
TEXT = (*PLAIN, *(f"{name}{packed}" for packed in (".gz", ".zst") for name in PLAIN))
PARQUET = (".parquet", ".pq")
DATABASE = (".duckdb", ".db")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
FILES: dict[str, Callable[[Path], Source]] = {
    ".parquet": ParquetFile,
    ".pq": ParquetFile,
    ".arrow": ArrowFile,
    ".feather": ArrowFile,
    ".ipc": ArrowFile,
}
"""Files that state their own columns, by the ending of their name: a new kind of file is one line here, or an entry
point `maquette.sources` of another package, named by the ending without its point."""


class ReadOptions(TypedDict, total=False):
    """How a source is read: which table or query of a database, and how a text file is written."""

    table: str | None
    query: str | None
    delimiter: str
    encoding: str


def open_engine(
    source: Any,
    domain: Domain,
    *,
    persons: Persons | None = None,
    memory_limit: int | None = None,
    progress: ReadShare | None = None,
    **options: Unpack[ReadOptions],
) -> Engine:
    """Open a private table for exact counting.

    Only public structure can fail: the file, its header, the types of its columns. `memory_limit` (bytes, a
    quarter of the free memory by default) decides whether the coded columns are kept or read anew on every
    pass. `progress` is called with the share that has been read, always 21 times; it is for the owner's eyes.
    With `persons` at most so many records of each person count.
    """
    if memory_limit is not None:
        _check.whole(memory_limit=memory_limit, least=0)
    opened = open_fitting(source, domain, persons=persons, **options)
    if isinstance(opened, spark.SparkTable):
        return spark.SparkEngine(domain, opened, progress=progress, persons=persons)
    return load(opened, domain, memory_limit=memory_limit, progress=progress)


def open_family(schema: Schema, source: Any, **options: Unpack[ReadOptions]) -> Family:
    """Open several private tables that point to each other, in memory: one database, or a source for each table.

    Only public structure can fail: files, headers, the types of columns, the keys. Reading is joined here, by the core,
    whatever the sources are: a stray quote in a record of one table reaches no other record.
    """
    sources: dict[str, Source] = {}
    for link in schema.links:
        keys = [key for key in (link.key, link.refers) if key is not None]
        names = [*dict.fromkeys((*link.domain.names, *keys))]
        if isinstance(source, Mapping):
            opened = open_source(cast(Mapping[str, Any], source)[link.name], names=names, **options)
        else:
            opened = open_source(source, names=names, **(options | {"table": link.name}))
        if isinstance(opened, spark.SparkTable):
            raise SourceError(
                f"table '{link.name}' is in Spark, where several tables are not joined yet; write it as Parquet files"
            )
        check_fit(opened, link.domain)
        sources[link.name] = opened
    return family(schema.links, schema.views, sources)


def open_fitting(
    source: Any, domain: Domain, *, persons: Persons | None = None, **options: Unpack[ReadOptions]
) -> Source:
    """The reader for a source that has the columns of a domain (and of persons); refused otherwise."""
    more = [] if persons is None else [persons.column]
    opened = open_source(source, names=[*dict.fromkeys((*domain.names, *more))], **options)
    check_fit(opened, domain)
    if persons is None:
        return opened
    if isinstance(opened, spark.SparkTable):  # bounded in the cluster
        check_person(opened, persons)
        return opened
    return PersonRows.of_domain(opened, domain, persons)


def check_source(source: Any, **options: Unpack[ReadOptions]) -> SourceCheck:
    """What can be said of a source without reading a record."""
    opened = open_source(source, names=(), **options)
    checked = SourceCheck(opened.description, len(opened.header), tuple(opened.warnings()))
    opened.close()
    return checked


def open_source(source: Any, *, names: Sequence[str] | None = None, **options: Unpack[ReadOptions]) -> Source:
    """The reader for a source, by its Python type or its file name; `names` are needed for plain records."""
    table, query = options.get("table"), options.get("query")
    text = _Text(options.get("delimiter", ","), options.get("encoding", "utf-8"))
    if isinstance(source, (str, Path)):
        if (why := _check.no_path(str(source))) is not None:  # not repeated: it may hold a password
            raise SourceError(f"cannot read a table from a place of this name: {why}")
        return _open_path(str(source), table=table, query=query, text=text)
    if is_files(source) and table is None and query is None:
        return _join("", [_existing(Path(place)) for place in source], text)
    text.check_unused()
    if duckdb_tables.is_connection(source):
        return duckdb_tables.from_connection(source, "connection", table=table, query=query)
    if postgres.is_connection(source):
        return postgres.AdbcTable(source, table=table, query=query)
    if table is not None or query is not None:
        raise ParameterError(
            "table= and query= are for databases (DuckDB, SQLite, PostgreSQL, connections); table= also names a sheet"
        )
    if duckdb_tables.is_relation(source):
        return duckdb_tables.Relation(source, "relation")
    return _open_memory(source, names)


@dataclass(frozen=True, slots=True)
class _Text:
    """How text files are written."""

    delimiter: str
    encoding: str

    def check_unused(self) -> None:
        if self.encoding != "utf-8":
            raise ParameterError("encoding= is for text files (CSV); other sources know their own")


def _open_path(place: str, *, table: str | None, query: str | None, text: _Text) -> Source:
    if postgres.is_address(place):
        text.check_unused()
        return postgres.from_address(place, table=table, query=query)
    if spark.is_place(place):
        text.check_unused()
        return spark.from_place(place, table=table, query=query)
    if "://" in place:  # not repeated: it may hold a password
        raise SourceError(
            f"cannot read a table from an address that begins with {place.partition('://')[0]}://; "
            "expected postgresql://, sc://, spark:// or a path"
        )
    if any(sign in place for sign in "*?[") and not Path(place).exists():
        return _join(place, sorted(Path(p) for p in glob.glob(place, recursive=True)), text)
    path = Path(place)
    if path.is_dir():
        return _join(place, _in_folder(path), text, root=path)
    _existing(path)
    name = path.name.lower()
    if name.endswith((*DATABASE, *workbooks.SQLITE, *workbooks.WORKBOOKS)):
        text.check_unused()
    if name.endswith((*DATABASE, *workbooks.SQLITE)) and workbooks.is_sqlite(path):
        return workbooks.SqliteTable(path, table=table, query=query)
    if name.endswith(workbooks.WORKBOOKS) and query is None:
        return workbooks.Worksheet(path, table=table)
    if name.endswith(DATABASE):
        return duckdb_tables.from_file(path, table=table, query=query)
    if table is not None or query is not None:
        raise ParameterError(
            "table= and query= are for databases (DuckDB, SQLite, PostgreSQL, connections); table= also names a sheet"
        )
    return _open_file(path, text)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise SourceError(f"no file at {path}; check the path")
    return path


def is_files(source: object) -> TypeGuard[Sequence[str | Path]]:
    """Is this a list of paths? Texts count if there are files of these names: others may be values, and stay unsaid."""
    if not isinstance(source, (list, tuple)):
        return False
    places = cast(Sequence[object], source)
    return bool(places) and all(
        isinstance(place, Path)
        or (isinstance(place, str) and _check.no_path(place) is None and Path(place).is_file())
        for place in places
    )


def _in_folder(folder: Path) -> list[Path]:
    """The Parquet files of a folder, without those that other programs hide (_temporary, .crc)."""
    files = (p for p in folder.rglob("*") if p.name.lower().endswith(PARQUET))
    return sorted(
        p for p in files if not any(part.startswith(("_", ".")) for part in p.relative_to(folder).parts)
    )


def _join(place: str, paths: Sequence[Path], text: _Text, *, root: Path | None = None) -> Source:
    if not paths:
        raise SourceError(f"no table file in {place}; expected Parquet files or a pattern that matches some")
    description = f"files {place}" if place else f"{len(paths)} files"
    return Joined(description, [_with_partition(_open_file(path, text), path, root) for path in paths])


def _with_partition(file: Source, path: Path, root: Path | None) -> Source:
    """With the columns that the folders above a file name, as Hive and Spark write them."""
    folders = () if root is None else path.relative_to(root).parts[:-1]
    pairs = [part.partition("=") for part in folders if "=" in part]
    values = {unquote(name): None if value == _NO_VALUE else unquote(value) for name, _, value in pairs}
    return Partition(file, values) if values else file


def _open_file(path: Path, text: _Text) -> Source:
    name = path.name.lower()
    if name.endswith(TEXT):
        delimiter = "\t" if ".tsv" in name and text.delimiter == "," else text.delimiter
        return DelimitedFile(path, delimiter, text.encoding)
    text.check_unused()
    for ending, read in FILES.items():
        if name.endswith(ending):
            return read(path)
    for point in entry_points(group="maquette.sources"):
        if name.endswith(f".{point.name}"):
            return cast(Callable[[Path], Source], point.load())(path)
    endings = ", ".join((*TEXT, *FILES, *DATABASE, *workbooks.SQLITE, *workbooks.WORKBOOKS))
    raise SourceError(f"cannot tell what {path} is from its name; it should end in one of {endings}")


def _open_memory(source: Any, names: Sequence[str] | None) -> Source:
    if spark.is_frame(source):
        return spark.SparkTable(source)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        return ArrowTable(source, "Arrow table", foreign=True)
    if isinstance(source, Mapping):
        return from_columns(cast(Mapping[Any, Any], source), "table of columns")
    if isinstance(source, (list, tuple)):
        return _open_records(cast(Sequence[Any], source), names)
    frame = from_native(source)
    if frame is not None:
        return frame
    raise SourceError(
        f"cannot read a table from {type(source).__name__}; expected a path, a data frame (pandas, polars, "
        "pyarrow, Spark), a DuckDB relation or connection, a dict of columns or a list of records"
    )


def _open_records(records: Sequence[Any], names: Sequence[str] | None) -> Source:
    if not all(isinstance(record, Mapping) for record in records):
        raise SourceError("a list must hold one mapping per record, or paths of files that are there")
    if names is None:
        names = list(dict.fromkeys(str(name) for record in records for name in record))
    return from_records(cast(Sequence[Mapping[Any, Any]], records), names, "list of records")


def ledger_beside(source: object) -> Path | None:
    """Where the ledger of a file is kept if no other place is named; None for what is no single file."""
    if (
        not isinstance(source, (str, Path))
        or any(sign in str(source) for sign in "*?[")
        or _is_address(source)
    ):
        return None
    return Path(f"{source}.ledger")


def public_name(source: object, table: str | None) -> str:
    """What a source is called in public words: its file name or its type, and the table inside it."""
    if spark.is_frame(source) or (isinstance(source, str) and spark.is_place(source)):
        public = spark.public_name(source)
    elif _is_address(source):  # the rest of an address may hold a password
        public = postgres.database_name(source)
    elif is_files(source):
        public = f"{len(source)} files"
    else:
        public = _file_name(source) if isinstance(source, (str, Path)) else type(source).__name__
    return public if table is None else f"{public}:{table}"


def _is_address(source: object) -> TypeGuard[str]:
    return isinstance(source, str) and ("://" in source or spark.is_place(source))


def _file_name(path: str | Path) -> str:
    """The last part of a path; "." and ".." have none of their own and take that of the folder they mean."""
    name = Path(path).name
    return name if name not in ("", "..") else Path(path).resolve().name or "/"
