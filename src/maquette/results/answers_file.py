"""The file of released answers: numerators, and beside them what each is about, its share and its error.

Only numerators and deviations are read back; the other columns are derived from the release, and compared with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ReleaseError
from maquette.queries.base import Queries
from maquette.results import document
from maquette.results.keys import answer_tables
from maquette.results.release import Release

if TYPE_CHECKING:
    import pyarrow


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
