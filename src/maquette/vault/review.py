"""A first draft of a domain, for the owner alone: it is read off the private rows and says so.

Nothing that this module returns is private in the sense of the guarantee: it must stay with the owner until
a person has replaced what the rows betray (lists, bounds) by public knowledge and marked it reviewed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

from maquette.domain import MISSING, OTHER, Attribute, Domain, Kind
from maquette.errors import DomainError, SourceError
from maquette.vault.arrow import ArrowArray, ArrowType, pa, pc, text_array
from maquette.vault.coding import (
    FALSE_WORDS,
    TRUE_WORDS,
    coders,
    is_text,
    parse_numbers,
    spell,
    widened,
    words,
)
from maquette.vault.delimited import DelimitedFile
from maquette.vault.readers import open_source
from maquette.vault.source import Source, check_fit, fits

MOST_CATEGORIES = 100
BINS = 50
USUAL_TOKENS = ("?", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "nan", "NaN", ".", "-")
DRAFT_WARNING = (
    "Draft read off the private rows. Lists and bounds betray them: replace each by public knowledge, then set "
    '"reviewed": true. Do not pass this file on before.'
)


def draft_domain(
    source: Any,
    *,
    table: str | None = None,
    query: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
    na_values: Iterable[str] = (),
) -> Domain:
    """Guess kinds, categories and bounds from the rows of a source; the result is marked unreviewed.

    Columns for which no declaration can be guessed are left out, with the reason in the notes under
    `left_out`. `na_values` are texts that mean missing, besides the usual ones.
    """
    found = open_source(source, table=table, query=query, delimiter=delimiter, encoding=encoding)
    names = list(dict.fromkeys(name for name in found.header if name))
    if any(found.header.count(name) > 1 for name in names):
        raise SourceError(f"{found.description} has several columns of one name; name the columns apart")
    tokens = frozenset((*USUAL_TOKENS, *na_values))
    left_out = {name: reason for name in names if (reason := _unfit(found, name))}
    columns = {name: _Column(name, tokens) for name in names if name not in left_out}
    for raw, _ in found.batches(list(columns)) if columns else ():
        for name, values in raw.items():
            columns[name].look(values)
    attributes: list[Attribute] = []
    for name, column in columns.items():
        guess = column.guess()
        if isinstance(guess, Attribute):
            attributes.append(guess)
        else:
            left_out[name] = guess
    if not attributes:
        raise DomainError("no column of the table could be drafted; write the domain by hand")
    seen = tuple(sorted({token for column in columns.values() for token in column.tokens_seen}))
    notes = {"draft": DRAFT_WARNING} | ({"left_out": left_out} if left_out else {})
    return Domain(tuple(attributes), seen, reviewed=False, notes=notes)


def _unfit(source: Source, name: str) -> str | None:
    if name != name.strip():
        return "its name has space around it; rename the column"
    kind: ArrowType = source.kind(name)
    anything = Attribute(name, Kind.CATEGORICAL, categories=("x",))
    return None if fits(anything, kind) else f"its type {kind} cannot be declared"


@dataclass
class _Column:
    """What a draft needs to know of one column: bounded in size, however many rows there are."""

    name: str
    tokens: frozenset[str]
    texts: set[str] = field(default_factory=lambda: set[str]())
    """The first distinct texts, as many as a list of categories may have and one more."""
    missing: bool = False
    numbers: bool = True
    whole: bool = True
    low: float = math.inf
    high: float = -math.inf
    tokens_seen: set[str] = field(default_factory=lambda: set[str]())

    def __post_init__(self) -> None:
        self._gone = words(text_array(["", *self.tokens]))

    def look(self, values: ArrowArray) -> None:
        plain = pc.dictionary_decode(values) if pa.types.is_dictionary(values.type) else values
        distinct = pc.unique(widened(plain))
        spelled = words(distinct if is_text(distinct.type) else spell(distinct))
        self.missing |= spelled.null_count > 0
        for token in pc.filter(spelled, pc.is_in(spelled, value_set=self._gone)).to_pylist():
            self.missing = True
            self.tokens_seen |= {token} - {""}
        present = pc.drop_null(spelled)
        present = pc.filter(present, pc.invert(pc.is_in(present, value_set=self._gone)))
        self._measure(present)
        for text in present.slice(0, 2 * MOST_CATEGORIES).to_pylist():
            if len(self.texts) <= MOST_CATEGORIES:
                self.texts.add(text)

    def _measure(self, present: ArrowArray) -> None:
        values = parse_numbers(present, otherwise=np.nan)
        self.numbers &= not np.isnan(values).any()
        finite = values[np.isfinite(values)]
        if len(finite):
            self.whole &= bool((np.floor(finite) == finite).all())
            self.low = min(self.low, float(finite.min()))
            self.high = max(self.high, float(finite.max()))

    def guess(self) -> Attribute | str:
        """A declaration, or why there is none."""
        if not self.texts:
            return "it holds no value; declare it by hand or leave it out"
        lower = {text.lower() for text in self.texts}
        if lower <= {"0", "1"} or lower <= {*TRUE_WORDS, *FALSE_WORDS}:
            return Attribute(self.name, Kind.BOOLEAN, codes=2, nullable=self.missing)
        if self.numbers and math.isfinite(self.low):
            return self._numeric()
        if len(self.texts) <= MOST_CATEGORIES:
            categories = tuple(sorted(self.texts))
            return Attribute(
                self.name, Kind.CATEGORICAL, categories=categories, nullable=self.missing, overflow=True
            )
        return (
            f"more than {MOST_CATEGORIES} different texts: an identifier, free text, or numbers among which some "
            "texts mean missing (name these as na_values); declare it by hand"
        )

    def _numeric(self) -> Attribute:
        low, high = round_bounds(self.low, self.high)
        whole = self.whole and high - low < 2**50
        bins = int(high - low) if whole and high - low <= 2 * BINS else BINS
        return Attribute(
            self.name, Kind.NUMERIC, bounds=(low, high), bins=bins, integer=whole, nullable=self.missing
        )


def round_bounds(low: float, high: float) -> tuple[float, float]:
    """Round numbers around an interval: two digits of its width."""
    width = Decimal(str(max(high - low, abs(high) / 1000, 1e-9)))
    step = Decimal(10) ** (width.adjusted() - 1)
    if low.is_integer() and high.is_integer():
        step = max(step, Decimal(1))
    below = (Decimal(str(low)) / step).to_integral_value(ROUND_FLOOR) * step
    above = ((Decimal(str(high)) / step).to_integral_value(ROUND_CEILING) + 1) * step
    return _plain(below), _plain(above)


def _plain(value: Decimal) -> float:
    return int(value) if value == value.to_integral_value() else float(value)


# How well a domain fits a table, for the owner alone: exact counts of the private rows, unpaid and not
# private.

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


def fit_report(
    source: Any,
    domain: Domain,
    *,
    table: str | None = None,
    query: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> FitReport:
    """Count, per column, the records that no declared cell holds. Text in another encoding is refused by its place."""
    found = open_source(
        source, table=table, query=query, delimiter=delimiter, encoding=encoding, names=domain.names
    )
    check_fit(found, domain)
    try:
        return _count(found, domain)
    except SourceError as error:
        place = _bad_place(found)
        if place is None:
            raise
        reason = f"{error}. {place}"
    raise SourceError(reason)


def _count(source: Source, domain: Domain) -> FitReport:
    # with an overflow and a null cell every value that no declared cell holds shows
    open_ended = Domain(tuple(_open_ended(a) for a in domain), domain.na_values)
    coding = coders(open_ended)
    records = 0
    counts = {name: np.zeros(2, dtype=np.int64) for name in domain.names}
    for raw, _ in source.batches(domain.names):
        for a in open_ended:
            codes = coding[a.name].code(raw[a.name])
            counts[a.name] += [np.count_nonzero(codes == cell) for cell in (a.overflow_cell, a.null_cell)]
        records += len(raw[domain.names[0]])
    return FitReport(records, tuple(_fit(a, records, *counts[a.name].tolist()) for a in domain))


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
