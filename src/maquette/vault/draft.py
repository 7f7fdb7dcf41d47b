"""A first draft of a domain, for the owner alone: it is read off the private rows and says so.

Nothing that this module returns is private in the sense of the guarantee: it must stay with the owner until a
person has replaced what the rows give away (lists, bounds) by public knowledge and marked it reviewed. Where the kind
of a column is public knowledge (`domain/review.py`), the draft takes its list or its bounds from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Unpack

import numpy as np

from maquette.domain import Attribute, Domain, Kind
from maquette.domain.review import usual_numbers, usual_scale
from maquette.errors import DomainError, SourceError
from maquette.vault.arrow import ArrowArray, ArrowType, pa, pc, text_array
from maquette.vault.coding import (
    FALSE_WORDS,
    TRUE_WORDS,
    is_text,
    parse_numbers,
    spell,
    widened,
    words,
)
from maquette.vault.readers import ReadOptions, open_source
from maquette.vault.source import Source, fits

MAX_CATEGORIES = 100
MAX_CODES = 20
"""A column of whole numbers with at most so many different ones holds codes, not quantities."""
BINS = 50
USUAL_TOKENS = ("?", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "nan", "NaN", ".", "-")
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
    tokens = frozenset((*USUAL_TOKENS, *na_values))
    left_out = {name: reason for name in names if (reason := _unfit(opened, name))}
    columns = {name: _Column(name, tokens) for name in names if name not in left_out}
    for raw, _ in opened.batches(list(columns)) if columns else ():
        for name, values in raw.items():
            columns[name].look(values)
    guesses = {name: column.guess() for name, column in columns.items()}
    left_out |= {name: guess for name, guess in guesses.items() if isinstance(guess, str)}
    drafts = [guess for guess in guesses.values() if isinstance(guess, ColumnDraft)]
    if not drafts:
        raise DomainError("no column of the table could be drafted; write the domain by hand")
    tokens_used = sorted({token for column in columns.values() for token in column.tokens_used})
    notes: dict[str, Any] = {"draft": DRAFT_WARNING, "columns": {d.attribute.name: d.note() for d in drafts}}
    if left_out:
        notes["left_out"] = left_out
    return Domain(tuple(d.attribute for d in drafts), tuple(tokens_used), reviewed=False, notes=notes)


@dataclass(frozen=True, slots=True)
class ColumnDraft:
    """The declaration that was guessed for a column, where it comes from, and what is risky about it."""

    attribute: Attribute
    source: str
    risk: str | None = None

    def note(self) -> dict[str, str]:
        """The form in the notes of the domain."""
        return {"from": self.source} | ({} if self.risk is None else {"risk": self.risk})


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
    tokens_used: set[str] = field(default_factory=lambda: set[str]())

    def __post_init__(self) -> None:
        self._gone = words(text_array(["", *self.tokens]))

    def look(self, values: ArrowArray) -> None:
        plain = pc.dictionary_decode(values) if pa.types.is_dictionary(values.type) else values
        distinct = pc.unique(widened(plain))
        spelled = words(distinct if is_text(distinct.type) else spell(distinct))
        self.missing |= spelled.null_count > 0
        for token in pc.filter(spelled, pc.is_in(spelled, value_set=self._gone)).to_pylist():
            self.missing = True
            self.tokens_used |= {token} - {""}
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

    def guess(self) -> ColumnDraft | str:
        """A declaration, or why there is none."""
        if not self.texts:
            return "it holds no value; declare it by hand or leave it out"
        lower = {text.lower() for text in self.texts}
        if lower <= {"0", "1"} or lower <= {*TRUE_WORDS, *FALSE_WORDS}:
            return ColumnDraft(self._declare(Kind.BOOLEAN, codes=2), "values that say yes or no")
        if self.numbers and math.isfinite(self.low):
            return self._numbers()
        scale = usual_scale(self.texts)
        if scale is not None:
            declaration = self._declare(Kind.ORDINAL, categories=scale, overflow=True)
            return ColumnDraft(declaration, "a usual scale of answers, complete and in its order")
        if len(self.texts) <= MAX_CATEGORIES:
            return self._list(tuple(sorted(self.texts)))
        return (
            f"more than {MAX_CATEGORIES} different texts: an identifier, free text, or numbers among which some "
            "texts mean missing (name these as na_values); declare it by hand"
        )

    def _numbers(self) -> ColumnDraft:
        """A usual kind of number, a few codes, or a quantity."""
        usual = usual_numbers(self.name, low=self.low, high=self.high)
        if usual is not None:
            declaration = self._declare(
                Kind.NUMERIC, bounds=usual.bounds, bins=usual.bins, integer=usual.integer and self.whole
            )
            return ColumnDraft(declaration, f"{usual.words}, whose bounds are known without the table")
        if self.whole and len(self.texts) <= MAX_CODES:
            return self._list(tuple(sorted({int(float(text)) for text in self.texts})))
        low, high = round_bounds(self.low, self.high)
        if 0 < low <= high / 2:
            low = 0
        whole = self.whole and high - low < 2**50
        bins = int(high - low) if whole and high - low <= 2 * BINS else BINS
        declaration = self._declare(Kind.NUMERIC, bounds=(low, high), bins=bins, integer=whole)
        return ColumnDraft(
            declaration,
            "the smallest and the largest value of the table, rounded",
            "its bounds follow the most extreme people in the table: put in bounds that the documentation gives",
        )

    def _list(self, values: tuple[str, ...] | tuple[int, ...]) -> ColumnDraft:
        """A list of the values that occur: two are boolean, consecutive codes are in order."""
        numbers = [value for value in values if isinstance(value, int)]
        in_order = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        kind = Kind.BOOLEAN if len(values) == 2 else Kind.ORDINAL if in_order else Kind.CATEGORICAL
        return ColumnDraft(
            self._declare(kind, categories=values, overflow=True),
            "the values that occur in the table",
            "a rare value in its list points at a person, and so does one that is not there: put in the list of the "
            "documentation" + ("; is the order of the codes an order of values?" if in_order else ""),
        )

    def _declare(self, kind: Kind, **fields: Any) -> Attribute:
        return Attribute(self.name, kind, nullable=self.missing, **fields)


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
