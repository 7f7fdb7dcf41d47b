"""A first draft of a domain, for the owner alone: it is read off the private rows and says so.

Nothing that this module returns is private in the sense of the guarantee: it must stay with the owner until
a person has replaced what the rows betray (lists, bounds) by public knowledge and marked it reviewed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import DomainError, SourceError
from maquette.vault.arrow import ArrowArray, ArrowType, pa, pc, text_array
from maquette.vault.coding import FALSE_WORDS, TRUE_WORDS, is_text, parse_numbers, spell, widened, words
from maquette.vault.readers import open_source
from maquette.vault.source import Source, fits

MOST_CATEGORIES = 100
BINS = 50
USUAL_TOKENS = ("?", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "nan", "NaN", ".", "-")
WARNING = (
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
    notes = {"draft": WARNING} | ({"left_out": left_out} if left_out else {})
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
