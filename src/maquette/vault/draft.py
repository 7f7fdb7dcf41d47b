"""A first draft of a domain, for the owner alone: it is read off the private rows and says so.

Nothing that this module returns is private in the sense of the guarantee: it must stay with the owner until a
person has replaced what the rows give away (lists, bounds) by public knowledge and marked it reviewed. Where the kind
of a column is public knowledge (`domain/review.py`), the draft takes its list or its bounds from there.

What one record could change has a risk in the notes of its column. The rest follows from the header, the declared
types and public knowledge: every column is nullable, the usual words mean missing, and numbers are whole where the
type of the column says so, or what such a column is called.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Unpack

import numpy as np

from maquette.core.rows.arrow import ArrowArray, ArrowType, pa, pc, stored, text_array
from maquette.core.rows.coding import (
    FALSE_WORDS,
    TRUE_WORDS,
    is_text,
    parse_numbers,
    spell,
    widened,
    words,
)
from maquette.core.rows.source import Source, fits
from maquette.domain import Attribute, Domain, Kind
from maquette.domain.domain import COLUMNS, LEFT_OUT
from maquette.domain.review import MISSING_WORDS, USUAL, named_numbers, usual_scale
from maquette.errors import DomainError, SourceError
from maquette.vault.readers import ReadOptions, open_source

MAX_CATEGORIES = 100
MAX_CODES = 20
"""A column of whole numbers with at most so many different ones holds codes, not quantities."""
BINS = 50
DRAFT_WARNING = (
    "This draft was made from the private rows, and its lists and bounds reveal them. Replace each by public "
    "knowledge, column by column, before you give this file to anybody: maquette domain review leads through it"
)


def draft_domain(source: Any, *, na_values: Iterable[str] = (), **options: Unpack[ReadOptions]) -> Domain:
    """Guess kinds, categories and bounds from the rows of a source; the result is marked unreviewed.

    The notes say for every column where its declaration comes from and what is risky about it (`columns`), and why a
    column for which none can be guessed is left out (`left_out`). `na_values` are texts that mean missing, besides the
    usual ones.
    """
    opened = open_source(source, **options)
    names = list(dict.fromkeys(name for name in opened.header if name))
    if any(opened.header.count(name) > 1 for name in names):
        raise SourceError(
            f"{opened.description} has several columns of one name; give every column its own name"
        )
    _check_header(opened, names)
    tokens = tuple(dict.fromkeys((*MISSING_WORDS, *na_values)))
    drafts = {name: draft for name in names if (draft := _by_type(opened, name))}
    columns = {
        name: _Column(name, tokens, _is_whole(opened.kind(name))) for name in names if name not in drafts
    }
    for raw, _ in opened.batches(list(columns)) if columns else ():
        for name, values in raw.items():
            columns[name].look(values)
    drafts |= {name: column.guess() for name, column in columns.items()}
    attributes = tuple(drafts[name].attribute for name in names)
    notes: dict[str, Any] = {"draft": DRAFT_WARNING}
    for key, is_declared in ((COLUMNS, True), (LEFT_OUT, False)):
        notes[key] = {name: drafts[name].note() for name in names if drafts[name].is_declared is is_declared}
    declared = tuple(attribute for attribute in attributes if attribute is not None)
    if not declared:
        raise DomainError("no column of the table could be drafted; write the domain by hand")
    return Domain(declared, tokens, reviewed=False, notes={key: note for key, note in notes.items() if note})


def _check_header(opened: Source, names: list[str]) -> None:
    """Refuse a file whose first line is not made of names, before anything is guessed from it."""
    if opened.hint:
        raise SourceError(f"{opened.description} cannot be drafted: {opened.hint}")
    if names and all(_is_number(name) for name in names):  # not repeated: this line may be a record
        raise SourceError(
            f"{opened.description} cannot be drafted: all its column names are numbers, so its first line seems to be "
            "a record; write the names of the columns above it"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ColumnDraft:
    """The declaration that was guessed for a column, where it comes from, and what is risky about it."""

    attribute: Attribute | None
    """None if it is left out."""
    source: str
    """Where the declaration comes from, or why there is none."""
    risk: str | None = None
    """What the rows, and so perhaps one record, have decided; None if that is nothing."""
    usual: str | None = None
    """The usual kind of column that it is, whose list or bounds are known without any table; None for others."""

    @property
    def is_declared(self) -> bool:
        return self.attribute is not None

    def note(self) -> dict[str, str]:
        """The form in the notes of the domain."""
        word = "from" if self.is_declared else "why"
        more = {"risk": self.risk, USUAL: self.usual}
        return {word: self.source} | {key: text for key, text in more.items() if text is not None}


def _by_type(source: Source, name: str) -> ColumnDraft | None:
    """The draft of a column whose name or type says all; None if its rows have to be seen."""
    if name != name.strip():
        return ColumnDraft(None, "its name has space around it; rename the column")
    kind: ArrowType = source.kind(name)
    if not fits(Attribute(name, Kind.CATEGORICAL, categories=("x",)), kind):
        return ColumnDraft(None, f"its type {kind} cannot be declared")
    if pa.types.is_boolean(kind):
        return ColumnDraft(
            Attribute(name, Kind.BOOLEAN, codes=2, nullable=True), "its type", usual="yes or no, by its type"
        )
    return None


def _is_whole(kind: ArrowType) -> bool | None:
    """Does a column of this type hold whole numbers? None if its type does not say."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind):
        return True
    return False if pa.types.is_floating(kind) or pa.types.is_decimal(kind) else None


FROM_ROWS = "was seen in the rows, and one record more or less could change it: compare the documentation"


@dataclass
class _Column:
    """What a draft needs to know of one column: bounded in size, however many rows there are."""

    name: str
    tokens: tuple[str, ...]
    is_whole: bool | None
    """Whether its numbers are whole, by its declared type; None if that does not say."""
    texts: set[str] = field(default_factory=lambda: set[str]())
    """The first distinct texts, as many as a list of categories may have and one more."""
    numbers: bool = True
    whole: bool = True
    """Whether the numbers that occur are whole: decides between codes and quantities, which has a risk."""
    low: float = math.inf
    high: float = -math.inf

    def __post_init__(self) -> None:
        self._gone = words(text_array(["", *self.tokens]))

    def look(self, values: ArrowArray) -> None:
        plain = stored(pc.dictionary_decode(values) if pa.types.is_dictionary(values.type) else values)
        distinct = pc.unique(widened(plain))
        spelled = words(distinct if is_text(distinct.type) else spell(distinct))
        present = pc.drop_null(spelled)
        present = pc.filter(present, pc.invert(pc.is_in(present, value_set=self._gone)))
        self._measure(present)
        for text in present.slice(0, 2 * MAX_CATEGORIES).to_pylist():
            if len(self.texts) <= MAX_CATEGORIES:
                self.texts.add(text)

    def _measure(self, present: ArrowArray) -> None:
        values = parse_numbers(present, otherwise=np.nan)
        self.numbers &= not np.isnan(values).any()
        finite = values[np.isfinite(values)]
        if len(finite):
            self.whole &= bool((np.floor(finite) == finite).all())
            self.low = min(self.low, float(finite.min()))
            self.high = max(self.high, float(finite.max()))

    def guess(self) -> ColumnDraft:
        """A declaration, or why there is none. Whichever it is, the rows have decided it."""
        if not self.texts:
            return ColumnDraft(
                None,
                "it holds no value; declare it by hand or leave it out",
                f"that it holds none {FROM_ROWS}",
            )
        lower = {text.lower() for text in self.texts}
        if lower <= {"0", "1"} or lower <= {*TRUE_WORDS, *FALSE_WORDS}:
            declaration = self._declare(Kind.BOOLEAN, codes=2)
            return ColumnDraft(
                declaration,
                "values that say yes or no",
                f"that it has no other values {FROM_ROWS}",
                usual="yes or no",
            )
        if self.numbers and math.isfinite(self.low):
            return self._numbers()
        scale = usual_scale(self.texts)
        if scale is not None:
            declaration = self._declare(Kind.ORDINAL, categories=scale, overflow=True)
            return ColumnDraft(
                declaration,
                "a usual scale of answers, complete and in its order",
                f"that it is this scale, in this spelling, {FROM_ROWS}",
                usual="a usual scale, whole and in its order",
            )
        if len(self.texts) <= MAX_CATEGORIES:
            return self._list(tuple(sorted(self.texts)))
        return ColumnDraft(
            None,
            f"more than {MAX_CATEGORIES} different texts: an identifier, free text, or numbers among which some "
            "texts mean missing (name these as na_values); declare it by hand",
            f"that it has so many {FROM_ROWS}",
        )

    def _numbers(self) -> ColumnDraft:
        """A usual kind of number, a few codes, or a quantity."""
        usual = named_numbers(self.name)
        if usual is not None and usual.serves(self.low, self.high):
            declaration = self._declare(
                Kind.NUMERIC,
                bounds=usual.bounds,
                bins=usual.bins,
                integer=usual.integer and self.is_whole is not False,
            )
            return ColumnDraft(
                declaration,
                f"{usual.words}, whose bounds are known without the table",
                f"that its values are {usual.words} {FROM_ROWS}",
                usual=f"{usual.words}, with bounds that everybody knows",
            )
        if self.whole and len(self.texts) <= MAX_CODES:
            return self._list(tuple(sorted({int(float(text)) for text in self.texts})))
        low, high = round_bounds(self.low, self.high)
        if 0 < low <= high / 2:
            low = 0
        bins = int(high - low) if self.whole and high - low <= 2 * BINS else BINS
        integer = self.is_whole is True and bins <= high - low < 2**50
        declaration = self._declare(Kind.NUMERIC, bounds=(low, high), bins=bins, integer=integer)
        named = (
            "" if usual is None else f"; if it holds {usual.words}, a map, a law or a calendar may give some"
        )
        return ColumnDraft(
            declaration,
            "the smallest and the largest value of the table, rounded",
            "its bounds follow the most extreme people in the table: use bounds that the documentation gives"
            + named,
        )

    def _list(self, values: tuple[str, ...] | tuple[int, ...]) -> ColumnDraft:
        """A list of the values that occur: two are boolean, consecutive codes are in order."""
        numbers = [value for value in values if isinstance(value, int)]
        in_order = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        kind = Kind.BOOLEAN if len(values) == 2 else Kind.ORDINAL if in_order else Kind.CATEGORICAL
        return ColumnDraft(
            self._declare(kind, categories=values, overflow=True),
            "the values that occur in the table",
            "a rare category can identify a person, and so can its absence: use the list in the codebook"
            + ("; is the order of the codes an order of values?" if in_order else ""),
        )

    def _declare(self, kind: Kind, **fields: Any) -> Attribute:
        return Attribute(self.name, kind, nullable=True, **fields)


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
