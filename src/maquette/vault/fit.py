"""How well a domain fits a table, for the owner alone: exact counts of the private rows, unpaid and not private.

Whoever holds the table asks for it by a command of its own. Nothing of it may reach a release, a ledger, a log or the
exit code of anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

from maquette.core.rows.delimited import DelimitedFile
from maquette.core.rows.engine import Engine
from maquette.core.rows.loading import load
from maquette.core.rows.source import Source
from maquette.domain import MISSING, OTHER, Attribute, Domain, Kind
from maquette.errors import SourceError
from maquette.vault.readers import ReadOptions, open_fitting
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
    no_numbers: int = 0
    """Those of the missing that are text where a number is declared."""

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

    @property
    def remark(self) -> str | None:
        """What is wrong with the column as a whole, if no record has a declared value."""
        if not self.records or self.undeclared + self.missing < self.records:
            return None
        if self.missing == self.records and not self.no_numbers:
            return f"{self.name}: every value is missing"
        if self.missing == self.records:
            blank = self.missing - self.no_numbers
            others = f" ({blank:,} are missing)" if blank else ""
            return f"{self.name}: no value is a number{others}; is it declared as what it is?"
        return f"{self.name}: no value is declared; are its list or bounds, its kind and the encoding right?"


CLAMPED = "clamped to the edge cells"


@dataclass(frozen=True, slots=True)
class FitReport:
    """What a table's owner should look at before a release. NOT PRIVATE: exact and unpaid."""

    records: int
    columns: tuple[ColumnFit, ...]
    broken: tuple[tuple[str, int], ...] = ()
    """Each constraint of the domain in words, and how many records break it."""
    over_lines: int = 0
    """Records of text files that go on over a line end."""
    warning: str = FIT_WARNING

    def to_dict(self) -> dict[str, Any]:
        """The counts of the columns, which a service may show where its configuration allows that."""
        columns: list[dict[str, Any]] = []
        for c in self.columns:
            entry = asdict(c) | {"overflow": c.overflow, "null": c.null, "clamped": c.clamped}
            columns.append({name: value for name, value in entry.items() if name != "no_numbers"})
        return {"not_private": True, "warning": self.warning, "records": self.records, "columns": columns}

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the owner should know of the table as a whole. For the command that shows this report, and no other."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        if not self.records:
            yield "the table has no records: whatever is released from it is noise alone"
        yield from (remark for c in self.columns if (remark := c.remark))
        for said, count in self.broken:
            if count:
                yield (
                    f"{_share(count, self.records)} of the records break the constraint {said}: released rows and "
                    "answers keep to it, and are off by as much"
                )
        if self.over_lines:
            yield (
                f"{self.over_lines:,} records go on over a line end: quoted fields with line ends in them, or lines "
                "that a stray quote has joined into one record"
            )

    def __str__(self) -> str:
        remarks = [f"  {remark}" for remark in self.remarks]
        return "\n".join([self.warning, f"{self.records:,} records", *self._lines(), *remarks])

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
    def engine_for(declared: Domain) -> Engine:
        if isinstance(source, SparkTable):
            return SparkEngine(declared, source, progress=None)
        return load(source, declared, memory_limit=None, progress=None)

    over_lines = sum(part.records_over_lines() for part in source.parts if isinstance(part, DelimitedFile))
    return count_fit(domain, engine_for, over_lines=over_lines)


def count_fit(domain: Domain, engine_for: Callable[[Domain], Engine], *, over_lines: int = 0) -> FitReport:
    """The report, from exact counts of the same records coded by three declarations."""
    # with an overflow and a null cell every value that no declared cell holds shows
    open_ended = engine_for(Domain(tuple(_open_ended(a) for a in domain), domain.na_values))
    records = open_ended.size()
    numeric = tuple(_as_text(a) for a in domain if a.kind is Kind.NUMERIC)
    as_texts = engine_for(Domain(numeric, domain.na_values)) if numeric else None
    fits: list[ColumnFit] = []
    for a in domain:
        undeclared, missing = _records(open_ended, a.name)
        blank = missing if as_texts is None or a.kind is not Kind.NUMERIC else _records(as_texts, a.name)[1]
        fits.append(_fit(a, records, undeclared, missing, no_numbers=max(0, missing - blank)))
    broken: list[tuple[str, int]] = []
    if domain.rules:
        tables = engine_for(domain).margins([rule.names for rule in domain.rules])
        broken = [
            (rule.said, int(tables[rule.names].ravel()[~rule.allowed.ravel()].sum())) for rule in domain.rules
        ]
    return FitReport(records, tuple(fits), tuple(broken), over_lines)


def _records(engine: Engine, name: str) -> tuple[int, int]:
    """How many records are in the overflow cell and in the null cell of an attribute."""
    a, (codes, counts) = engine.domain[name], engine.distinct(name)
    overflow, null = (int(counts[codes == cell].sum()) for cell in (a.overflow_cell, a.null_cell))
    return overflow, null


def _as_text(a: Attribute) -> Attribute:
    """A declaration by which a column of numbers shows what is missing, and not what is no number."""
    return Attribute(a.name, Kind.CATEGORICAL, categories=("number",), nullable=True, overflow=True)


def _open_ended(a: Attribute) -> Attribute:
    return a if a.cells + 2 > 2**64 else replace(a, overflow=True, nullable=True)


def _fit(a: Attribute, records: int, undeclared: int, missing: int, *, no_numbers: int) -> ColumnFit:
    outside = CLAMPED if a.kind is Kind.NUMERIC and not a.overflow else _cell(a, a.unknown_code)
    return ColumnFit(a.name, records, undeclared, outside, missing, _cell(a, a.missing_code), no_numbers)


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
