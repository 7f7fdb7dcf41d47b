"""What every answer of a workload is about, in columns: so that a file of answers can be read by itself.

An answer of a marginal has the attributes of its table and the value of each, spelled out; any other query has its
text. Columns of few different values are dictionaries whose indices are computed by arithmetic, so that tens of
millions of answers are described in seconds and in bounded memory.

The file of released answers: numerators, and beside them what each is about, its share and its error.

Only numerators and deviations are read back; the other columns are derived from the release, and compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.domain import Domain
from maquette.errors import ReleaseError, WorkloadError
from maquette.queries import condition
from maquette.queries.base import Margin, Queries
from maquette.queries.condition import Condition, Every, Leaf, Runs
from maquette.queries.marginals import Marginals
from maquette.queries.names import attribute as attribute_of
from maquette.queries.predicates import Predicate, where
from maquette.results import document
from maquette.results.release import Release

if TYPE_CHECKING:
    import pyarrow
    import pyarrow as pa

    from maquette.results.release import Release

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


# Groups of records: those that meet a condition, by the cells of some attributes. Public, whoever answers them.

MAX_GROUPS = 2_000_000
"""Cells of a table that is put into a frame."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The records that meet a condition, by the cells of some attributes."""

    domain: Domain
    by: tuple[str, ...]
    predicate: Predicate | None

    @classmethod
    def over(cls, domain: Domain, by: Sequence[str], text: str | None, *, undeclared: bool = False) -> Groups:
        """Checked: attributes of the domain, a condition that is exact on cells, not too many groups.

        With `undeclared` a condition may name values that are not declared, and no record need meet it.
        """
        names = tuple(attribute_of(domain, name).name for name in by)
        if len(set(names)) < len(names):
            raise WorkloadError("an attribute is named twice among those to group by")
        if domain.cells(names) > MAX_GROUPS:
            raise WorkloadError(
                f"a table over {', '.join(names)} has {domain.cells(names):,} cells, more than the {MAX_GROUPS:,} that "
                "are put into a frame; group by fewer attributes, or export the release"
            )
        predicate = None if text is None else where(domain, text, undeclared=undeclared)
        if predicate is not None:
            if not predicate.exact:
                raise WorkloadError(f"{predicate.cuts[0]}; compare with borders of cells in a table")
            if predicate.condition == condition.NEVER and not undeclared:
                raise WorkloadError(f"no record can meet the condition {text!r}")
        return cls(domain, names, predicate)

    @cached_property
    def condition(self) -> Condition:
        return condition.ALWAYS if self.predicate is None else self.predicate.condition

    @cached_property
    def leaves(self) -> dict[str, Runs] | None:
        """The condition as one set of cells for each attribute; None if it is no conjunction."""
        factors = condition.product(self.condition)
        return None if factors is None else {leaf.attribute: leaf.runs for leaf in factors}

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The groups, one row each, as codes of `by`: all cells that the condition leaves."""
        shape = [self.domain[name].size for name in self.by]
        cells = np.indices(shape).reshape(len(shape), -1).T if shape else np.zeros((1, 0), dtype=np.int64)
        return np.asarray(cells[self.left], dtype=np.int64)

    @cached_property
    def left(self) -> NDArray[np.bool_]:
        """Which cells of the table over `by` can hold a record that meets the condition."""
        left = np.ones([self.domain[name].size for name in self.by], dtype=bool)
        for axis, name in enumerate(self.by):
            if self.leaves is not None and name in self.leaves:
                mask = condition.mask(self.leaves[name], self.domain[name].size)
                left &= mask.reshape([-1 if i == axis else 1 for i in range(len(self.by))])
        return left.ravel()

    def leaves_of(self, group: Sequence[int]) -> list[Leaf]:
        """The cells of one group as sets."""
        return [Leaf(name, ((code, code),)) for name, code in zip(self.by, group, strict=True)]

    def joined(self, leaves: Sequence[Condition]) -> Condition:
        """The condition together with some sets."""
        return condition.simplify(self.domain, Every((self.condition, *leaves)))


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
