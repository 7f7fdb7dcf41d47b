"""The file of released answers: numerators, and beside them what each is about, its share and its error.

Only numerators and deviations are read back; the other columns are derived from the release, and compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.queries.base import Queries
from maquette.results import document
from maquette.results.columns import BATCH, key_batches, number_column

if TYPE_CHECKING:
    import pyarrow
    import pyarrow as pa

    from maquette.results.release import Release


def answer_tables(release: Release, *, length: int = BATCH) -> Iterator[pa.Table]:
    """Every listed answer with what it is about, its share of the records and the error stated for it.

    In tables of about `length` rows, so that any number of answers is written in bounded memory.
    """
    import pyarrow as pa

    errors = _stated_errors(release)
    start, waiting, rows = 0, list[pa.RecordBatch](), 0
    for batch in key_batches(release.workload, length=length):
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= length:
            yield _with_answers(release, waiting, start, errors)
            start, waiting, rows = start + rows, [], 0
    if waiting or not start:
        yield _with_answers(release, waiting, start, errors)


def _with_answers(
    release: Release, batches: list[pa.RecordBatch], start: int, errors: list[tuple[int, int, float]]
) -> pa.Table:
    import pyarrow as pa

    stop = start + sum(batch.num_rows for batch in batches)
    table = pa.table({name: number_column(v) for name, v in _numbers(release, start, stop).items()})
    if batches:
        keys = pa.Table.from_batches(batches)
        for name in keys.column_names:
            table = table.append_column(name, keys.column(name))
    shares = release.answers.numerators[start:stop] / release.answers.denominator
    error = np.full(stop - start, np.nan, dtype=np.float32)
    for low, high, alpha in errors:
        error[max(low - start, 0) : max(high - start, 0)] = np.nextafter(np.float32(alpha), np.float32(2))
    table = table.append_column("share", number_column(shares.astype(np.float32)))
    return table.append_column("error", number_column(error, missing=np.isnan(error)))


def _numbers(release: Release, start: int, stop: int) -> dict[str, NDArray[Any]]:
    """The exact numerators, and the deviation of the noise before post-processing where it is known."""
    small = release.answers.denominator < 2**31
    numerators = release.answers.numerators[start:stop]
    columns: dict[str, NDArray[Any]] = {"numerator": numerators.astype(np.int32) if small else numerators}
    if release.deviations is not None:
        columns["deviation"] = float32_up(release.deviations[start:stop])
    return columns


def float32_up(values: NDArray[Any]) -> NDArray[np.float32]:
    """Rounded up, so that a stored deviation never promises less noise than there is."""
    rounded = np.asarray(values, dtype=np.float64).astype(np.float32)
    return np.where(rounded < values, np.nextafter(rounded, np.float32(np.inf)), rounded)


def _stated_errors(release: Release) -> list[tuple[int, int, float]]:
    """Which error is stated for which answers: that of the whole workload, or of a group where that is smaller."""
    bounds = [(0, release.workload.count, release.stated.alpha)]
    if release.certificate is not None:
        named = {group.name: group.alpha for group in release.certificate.groups}
        bounds += [
            (group.start, group.stop, min(named[group.name], release.certificate.alpha))
            for group in release.workload.groups()
            if group.name in named
        ]
    return [(start, stop, alpha) for start, stop, alpha in bounds if alpha < 1]


def write(release: Release, path: Path) -> None:
    """Numerators with what each is about beside them; only numerators and deviations are read back."""
    import pyarrow.parquet

    facts = {"denominator": str(release.answers.denominator), "share": "numerator / denominator"}
    writer = None
    try:
        for table in answer_tables(release):
            if writer is None:
                # noisy numbers hardly repeat, everything else does by whole tables
                repeating: Any = [name for name in table.column_names if name not in ("numerator", "share")]
                writer = pyarrow.parquet.ParquetWriter(
                    path,
                    table.schema.with_metadata(facts),
                    compression="zstd",
                    compression_level=1,
                    use_dictionary=repeating,
                )
            writer.write_table(table.replace_schema_metadata(facts), row_group_size=max(1, table.num_rows))
    finally:
        if writer is not None:
            writer.close()


def check_described(release: Release, path: Path) -> None:
    """Refuse answers beside which something else is written than what they are about: those columns are derived."""
    import pyarrow.parquet

    if not release.listed:
        return
    with pyarrow.parquet.ParquetFile(path) as file:
        if set(file.schema_arrow.names) <= {"numerator", "deviation"}:
            return  # of an earlier version
        written = (file.read_row_group(i) for i in range(file.num_row_groups))
        for table in answer_tables(release):
            plain = table.cast(_plain_schema(table.schema))
            other = next(written, None)
            if (
                other is None
                or other.schema.names != table.schema.names
                or not (other.cast(plain.schema).equals(plain) or _as_before(release.domain, plain, other))
            ):
                raise ReleaseError(f"{path}: what is written beside the answers is not what they are about")


def _as_before(domain: Domain, table: pyarrow.Table, other: pyarrow.Table) -> bool:
    """The same but for closed last cells of whole numbers, which had the name of their first number once."""
    import pyarrow
    import pyarrow.compute as pc

    compute: Any = pc
    for attribute in domain:
        last = attribute.cells - 1
        if attribute.integer and attribute.closes_on_a_number(last):
            for i, name in enumerate(table.column_names):
                column = table.column(name)
                if pyarrow.types.is_string(column.type):
                    renamed = compute.equal(column, attribute.label(last))
                    former = compute.if_else(renamed, f"{attribute.edge(last):.0f}", column)
                    table = table.set_column(i, name, former)
    return other.cast(table.schema).equals(table)


def _plain_schema(schema: pyarrow.Schema) -> pyarrow.Schema:
    """With texts in place of dictionaries."""
    import pyarrow

    plain = [pyarrow.string() if pyarrow.types.is_dictionary(f.type) else f.type for f in schema]
    return pyarrow.schema(zip(schema.names, plain, strict=True))


def read(path: Path, queries: Queries) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Numerators and, where they are stored, standard deviations of the noise before post-processing."""
    import pyarrow.parquet

    names = {"numerator": "i"}
    if "deviation" in pyarrow.parquet.read_schema(path).names:
        names |= {"deviation": "f"}
    columns = document.read_columns(path, names, rows=queries.count, more=True)
    return columns["numerator"].astype(np.int64), columns.get("deviation")
