"""How well a domain fits a table, for the owner alone: exact counts of the private rows, unpaid and not private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np

from maquette.domain import MISSING, OTHER, Attribute, Domain, Kind
from maquette.errors import SourceError
from maquette.vault.coding import coders
from maquette.vault.delimited import DelimitedFile
from maquette.vault.readers import ReadOptions, open_fitting
from maquette.vault.source import Source
from maquette.vault.spark import SparkEngine, SparkTable

FIT_WARNING = (
    "NOT PRIVATE, NOT FOR RELEASE: exact counts of the private table, without noise and without payment. "
    "For the owner's eyes only; keep this as you keep the table."
)


@dataclass(frozen=True, slots=True)
class ColumnFit:
    """Where the values of one column fell that no declared cell holds. NOT PRIVATE."""

    name: str
    records: int
    undeclared: int
    """Not among the categories or codes, or outside the bounds."""
    undeclared_go: str
    """Where those are counted: in the overflow cell, clamped to the edge cells, as missing, or in the first cell."""
    missing: int
    """Missing, and in a numeric column also text that is no number."""
    missing_go: str

    @property
    def clamped(self) -> int:
        """Values outside the bounds that are counted in an edge cell, because there is no overflow cell."""
        return self.undeclared if self.undeclared_go == CLAMPED else 0

    @property
    def overflow(self) -> int:
        """Records in the overflow cell."""
        return (self.undeclared_go == OTHER) * self.undeclared + (self.missing_go == OTHER) * self.missing

    @property
    def null(self) -> int:
        """Records in the null cell."""
        return (self.undeclared_go == MISSING) * self.undeclared + (self.missing_go == MISSING) * self.missing


CLAMPED = "clamped to the edge cells"


@dataclass(frozen=True, slots=True)
class FitReport:
    """What a table's owner should look at before a release. NOT PRIVATE: exact and unpaid."""

    records: int
    columns: tuple[ColumnFit, ...]
    warning: str = FIT_WARNING

    def to_dict(self) -> dict[str, Any]:
        columns = [
            asdict(c) | {"overflow": c.overflow, "null": c.null, "clamped": c.clamped} for c in self.columns
        ]
        return {"not_private": True, "warning": self.warning, "records": self.records, "columns": columns}

    def __str__(self) -> str:
        return "\n".join([self.warning, f"{self.records:,} records", *self._lines()])

    def _lines(self) -> Iterator[str]:
        for c in self.columns:
            outside = f"{_share(c.undeclared, c.records)} not declared: {c.undeclared_go}"
            yield f"  {c.name}: {outside}; {_share(c.missing, c.records)} missing: {c.missing_go}"


def fit_report(source: Any, domain: Domain, **options: Unpack[ReadOptions]) -> FitReport:
    """Count, per column, the records that no declared cell holds. Text in another encoding is refused by its place."""
    opened = open_fitting(source, domain, **options)
    try:
        return _count(opened, domain)
    except SourceError as error:
        place = _bad_place(opened)
        if place is None:
            raise
        reason = f"{error}. {place}"
    raise SourceError(reason)


def _count(source: Source, domain: Domain) -> FitReport:
    # with an overflow and a null cell every value that no declared cell holds shows
    open_ended = Domain(tuple(_open_ended(a) for a in domain), domain.na_values)
    if isinstance(source, SparkTable):
        return _count_there(SparkEngine(open_ended, source, progress=None), domain)
    coding = coders(open_ended)
    records = 0
    counts = {name: np.zeros(2, dtype=np.int64) for name in domain.names}
    for raw, _ in source.batches(domain.names):
        for a in open_ended:
            codes = coding[a.name].code(raw[a.name])
            counts[a.name] += [np.count_nonzero(codes == cell) for cell in (a.overflow_cell, a.null_cell)]
        records += len(raw[domain.names[0]])
    return FitReport(records, tuple(_fit(a, records, *counts[a.name].tolist()) for a in domain))


def _count_there(engine: SparkEngine, domain: Domain) -> FitReport:
    """The same where the rows are not to be had: from the distinct codes of every column."""
    records = engine.size()
    fits: list[ColumnFit] = []
    for a, wide in zip(domain, engine.domain, strict=True):
        codes, counts = engine.distinct(a.name)
        cells = (wide.overflow_cell, wide.null_cell)
        fits.append(_fit(a, records, *(int(counts[codes == cell].sum()) for cell in cells)))
    return FitReport(records, tuple(fits))


def _open_ended(a: Attribute) -> Attribute:
    return a if a.cells + 2 > 2**64 else replace(a, overflow=True, nullable=True)


def _fit(a: Attribute, records: int, undeclared: int, missing: int) -> ColumnFit:
    outside = CLAMPED if a.kind is Kind.NUMERIC and not a.overflow else _cell(a, a.unknown_code)
    return ColumnFit(a.name, records, undeclared, outside, missing, _cell(a, a.missing_code))


def _cell(a: Attribute, code: int) -> str:
    return a.label(code) if code >= a.cells else f"counted in the first cell, {a.label(code)}"


def _share(count: int, records: int) -> str:
    return f"{count:,} ({100 * count / max(1, records):.2f} %)"


def _bad_place(source: Source) -> str | None:
    """Where a text file stops being text: the owner's own look, like the rest of this module."""
    for part in source.parts:
        place = part.bad_place() if isinstance(part, DelimitedFile) else None
        if place is not None:
            return f"NOT PRIVATE: {part.description}, byte {place[0]:,}, line {place[1]:,}"
    return None
