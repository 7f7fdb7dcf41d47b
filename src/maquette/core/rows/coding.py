"""From raw values to codes: a total function of one value at a time, whatever the value is.

Nothing here raises because of a value, and no value changes the code of another. Columns whose values are listed as
categories are coded through their distinct values in normal form (`maquette.core.values`), so that the rules of
spelling run once per spelling and not once per row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.core import _lazy_numba as numba
from maquette.core.attribute import Attribute, Kind
from maquette.core.errors import DomainError, SourceError
from maquette.core.grid import column_of
from maquette.core.rows.arrow import ArrowArray, ArrowType, pa, pc, stored, text_array
from maquette.core.universe import Universe
from maquette.core.values import EXACT, cell_of, key, plain_number, spell_float, spelling, trim

Floats = NDArray[np.float64]
Codes = NDArray[Any]

MIN_LOOKED_UP = 2**12
"""Whole numbers that are worth a table of their codes."""

TRUE_WORDS = ("true", "t", "yes", "y")
FALSE_WORDS = ("false", "f", "no", "n")


def coders(domain: Universe) -> dict[str, Coder]:
    """One coder per column of the coded records, in their order."""
    own = {a.name: (_HugeCoder if _is_huge(a) else Coder)(a, domain.na_values) for a in domain}
    return own | {column_of(a.name): FineCoder(a, domain.na_values) for a in domain if a.grid is not None}


def check_even(columns: Iterable[Sized]) -> None:
    """A record has a value in every column: columns of other lengths would join the values of several."""
    if len({len(column) for column in columns}) > 1:
        raise SourceError("the reader of this source gave columns of different lengths; it cannot be counted")


def coded(coding: Mapping[str, Coder], raw: Mapping[str, ArrowArray]) -> dict[str, Codes]:
    """A batch of records in codes: as many of every column as there are records, each inside its attribute."""
    codes = {name: coder.code(raw[coder.attribute.name]) for name, coder in coding.items()}
    check_even([*(raw[coder.attribute.name] for coder in coding.values()), *codes.values()])
    return {name: _inside(codes[name], coder.size) for name, coder in coding.items()}


def _inside(codes: Codes, size: int) -> Codes:
    """Every code below the size, by itself: no other record decides what becomes of it."""
    if size > np.iinfo(codes.dtype).max or not len(codes) or int(codes.max()) < size:
        return codes
    return np.minimum(codes, codes.dtype.type(size - 1))


def code_type(size: int) -> np.dtype[Any]:
    """The smallest unsigned type that holds so many codes."""
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        if size - 1 <= np.iinfo(kind).max:
            return np.dtype(kind)
    raise DomainError("an attribute has more than 2^64 cells; declare coarser cells")


class Coder:
    """Codes columns of one attribute.

    Numbers inside are 64-bit floating point: NaN is a missing value, and infinity stands for a text that is
    no number wherever such a text is an unknown value.
    """

    def __init__(self, attribute: Attribute, na_values: Iterable[str], *, size: int | None = None) -> None:
        self.attribute = attribute
        self.size = attribute.size if size is None else size
        """How many codes there are."""
        self.dtype = code_type(self.size)
        self._missing_code = attribute.missing_code
        self._missing_words = words(text_array(["", *na_values]))
        tokens = parse_numbers(self._missing_words, otherwise=np.nan)
        self._missing_numbers = tokens[~np.isnan(tokens)]
        self._rule = number_rule(attribute)
        self._listed = None if self._rule else _Listed(attribute, self._missing_words.to_pylist())
        self._tables: dict[Any, tuple[int, Codes, bool]] = {}

    def code(self, column: ArrowArray) -> Codes:
        """The code of every value of a column."""
        column = stored(column)
        if isinstance(column, pa.DictionaryArray):
            if len(column.dictionary) > len(column):  # of a whole file, say, of which these are a few rows
                return self.code(column.dictionary_decode())
            return self._look_up(column.indices, self.code(column.dictionary))
        if is_text(column.type):
            encoded = pc.dictionary_encode(_as_binary(column))
            return self._look_up(encoded.indices, self._code_words(words(encoded.dictionary)))
        if pa.types.is_null(column.type):
            return np.full(len(column), self._missing_code, dtype=self.dtype)
        column = widened(column)
        if pa.types.is_integer(column.type) and len(column) >= MIN_LOOKED_UP:
            return self._code_whole_numbers(column)
        return self._code_typed(column)

    def _code_whole_numbers(self, column: ArrowArray) -> Codes:
        """Whole numbers of a narrow range: every number of the range is coded once, then looked up."""
        table = self._tables.get(column.type)
        codes = None if table is None else self._looked_up(column, *table)
        if codes is None:
            table = self._whole_numbers_around(column)
            codes = None if table is None else self._looked_up(column, *table)
        return self._code_typed(column) if codes is None else codes

    def _looked_up(self, column: ArrowArray, low: int, table: Codes, is_shift: bool) -> Codes | None:
        """Codes by a table of those of the numbers from the lowest on; None if it does not hold all of them."""
        column, valid = (
            (pc.fill_null(column, low), column.is_valid()) if column.null_count else (column, None)
        )
        values = column.to_numpy(zero_copy_only=False)
        codes = np.empty(len(values), dtype=self.dtype)
        if not look_up(values, values.dtype.type(low), table, codes, is_shift):
            return None
        if valid is not None:
            codes[~_flags(valid)] = self._missing_code
        return codes

    def _whole_numbers_around(self, column: ArrowArray) -> tuple[int, Codes, bool] | None:
        """The codes of all numbers between the least and the largest, of earlier columns too; None if too many."""
        ends = pc.min_max(column).as_py()
        low, high = ends["min"] or 0, ends["max"] or 0
        if column.type in self._tables:
            start, codes, _ = self._tables[column.type]
            low, high = min(low, start), max(high, start + len(codes) - 1)
        if high - low >= len(column) // 4:
            return None
        numbers = pa.array(np.arange(low, high + 1, dtype=column.type.to_pandas_dtype()))
        codes = self._code_typed(numbers)
        self._tables[column.type] = low, codes, _is_a_shift(codes)
        return self._tables[column.type]

    def _code_typed(self, column: ArrowArray) -> Codes:
        """The code of every value of a column that is no text."""
        if self._listed is None:
            return self._code_numbers(column)
        if pa.types.is_boolean(column.type) and self._listed.numbers:
            column = column.cast(pa.int8())
        return self._look_up(*_distinct(column, lambda values: self._code_words(words(spell(values)))))

    def _look_up(self, positions: ArrowArray, table: Codes) -> Codes:
        """Codes by position in `table`; no position is a missing value."""
        table = np.append(table, np.array([self._missing_code], dtype=self.dtype))
        return table[pc.fill_null(positions.cast(pa.int64()), len(table) - 1).to_numpy(zero_copy_only=False)]

    def _code_words(self, texts: ArrowArray) -> Codes:
        """Codes of trimmed texts."""
        if self._listed is not None:
            return np.array([self._listed.cell(text) for text in texts.to_pylist()], dtype=self.dtype)
        missing = _flags(pc.is_in(texts, value_set=self._missing_words))
        otherwise = np.nan if self.attribute.kind is Kind.NUMERIC else np.inf
        values = parse_numbers(
            _truth_digits(texts) if is_truth(self.attribute) else texts, otherwise=otherwise
        )
        return self._apply(np.where(missing, np.nan, values))

    def _code_numbers(self, column: ArrowArray) -> Codes:
        if pa.types.is_decimal(column.type):  # by its digits, as a text that spells it is read
            column = column.cast(pa.string())
        values = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan)
        return self._apply(values.to_numpy(zero_copy_only=False))

    def _apply(self, values: Floats) -> Codes:
        assert self._rule is not None
        if len(self._missing_numbers):
            values = np.where(np.isin(values, self._missing_numbers), np.nan, values)
        return self._rule(values).astype(self.dtype)


@numba.njit(cache=True, nogil=True, plain=True)
def look_up(values: Any, low: Any, table: Any, codes: Any, is_shift: bool) -> bool:
    """Codes of whole numbers by their distance from the lowest; False if one is not in the table.

    Blocks that stay in the innermost cache: a branch for every value would keep both loops from running on vectors.
    """
    first = table[0]
    for start in range(0, len(values), 2048):
        part, cells = values[start : start + 2048], codes[start : start + 2048]
        if _any_outside(part, low, np.uint64(len(table))):
            return False
        if is_shift:
            for i in range(len(part)):
                cells[i] = np.uint64(part[i] - low) + np.uint64(first)
        else:
            for i in range(len(part)):
                cells[i] = table[np.uint64(part[i] - low)]
    return True


@numba.njit(cache=True, nogil=True, plain=True)
def _any_outside(values: Any, low: Any, size: Any) -> bool:
    outside = False
    for i in range(len(values)):
        outside |= np.uint64(values[i] - low) >= size  # a number below the lowest is beyond all of them
    return outside


def _is_a_shift(table: Codes) -> bool:
    """Is the code of every number that of the one before plus one, as where a file holds the codes themselves?"""
    return bool((np.diff(table.astype(np.int64)) == 1).all()) if table.dtype.itemsize < 8 else False


class FineCoder(Coder):
    """Codes a numeric attribute in its fine cells."""

    def __init__(self, attribute: Attribute, na_values: Iterable[str]) -> None:
        assert attribute.grid is not None
        super().__init__(attribute, na_values, size=attribute.grid.size)
        self._missing_code = attribute.grid.undeclared_code
        self._rule = attribute.fine_code


class _Listed:
    """Finds the cell of a text among categories: spelled the same, else of the same value. Numbers by value alone."""

    def __init__(self, attribute: Attribute, missing: Iterable[str]) -> None:
        self.numbers = compares_numbers(attribute)
        self._truth = self.numbers and is_truth(attribute)
        self._attribute = attribute
        self._missing = frozenset(missing)
        keys = {self._key(word) for word in missing if word}
        self._missing_keys: set[str] = {k for k in keys if k is not None} | (
            {"nan"} if self.numbers else set()
        )
        spelled: list[str] = words(text_array([spelling(c) for c in attribute.categories or ()])).to_pylist()
        # of two categories that are spelled alike the first counts; of two spellings of one value the normal one
        self._exact: dict[str, int] = {}
        self._alike: dict[str, int] = {}
        for cell, word in sorted(enumerate(spelled), key=lambda item: self._key(item[1]) != item[1]):
            self._exact.setdefault(word, cell)
            self._alike.setdefault(self._key(word) or word, cell)
        if self.numbers:
            self._exact = {}

    def cell(self, word: str | None) -> int:
        if word is None or word in self._missing:
            return self._attribute.missing_code
        if self._attribute.calendar is not None:
            word = cell_of(word, self._attribute.calendar) or word
        if word in self._exact:
            return self._exact[word]
        read = self._key(word)
        if read is None:
            return self._attribute.unknown_code
        if read in self._missing_keys:
            return self._attribute.missing_code
        return self._alike.get(read, self._attribute.unknown_code)

    def _key(self, word: str) -> str | None:
        if not self.numbers:
            return key(word)
        if self._truth and word.lower() in TRUE_WORDS:
            return "1"
        if self._truth and word.lower() in FALSE_WORDS:
            return "0"
        return "nan" if word.lower().lstrip("+-") == "nan" else plain_number(word)


class _HugeCoder(Coder):
    """Whole numbers beyond the exact range of floating point: compared as unsigned 64-bit integers."""

    def _code_words(self, texts: ArrowArray) -> Codes:
        codes = self._placed(parse_whole_numbers(texts))
        return np.where(_flags(pc.is_in(texts, value_set=self._missing_words)), self._missing, codes)

    def _code_numbers(self, column: ArrowArray) -> Codes:
        if pa.types.is_floating(column.type):
            return self._code_floats(column)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        return self._look_up(*_distinct(column, lambda values: self._code_words(words(spell(values)))))

    def _code_floats(self, column: ArrowArray) -> Codes:
        values = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)
        whole = (values >= 0) & (values < 2.0**64) & (np.floor(values) == values)
        codes = self._placed(pa.array(np.where(whole, values, 0).astype(np.uint64), mask=~whole))
        missing = np.isnan(values) | np.isin(values, self._missing_numbers)
        return np.where(missing, self._missing, codes)

    @property
    def _missing(self) -> Any:
        return self.dtype.type(self.attribute.missing_code)

    def _placed(self, values: ArrowArray) -> Codes:
        """Codes of whole numbers; none, or one that is not declared, is unknown."""
        numbers: Codes = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(self.dtype)
        declared = _flags(values.is_valid()) & (numbers <= np.uint64(self.attribute.cells - 1))
        numbers[~declared] = self.attribute.unknown_code
        return numbers


def _distinct(column: ArrowArray, code: Callable[[ArrowArray], Codes]) -> tuple[ArrowArray, Codes]:
    encoded = pc.dictionary_encode(column)
    return encoded.indices, code(encoded.dictionary)


def number_rule(attribute: Attribute) -> Callable[[Floats], NDArray[np.int64]] | None:
    """How an attribute without a list of categories finds the cell of a number; None if it has a list."""
    if attribute.kind is Kind.NUMERIC:
        return attribute.bin_index
    if attribute.codes is not None:
        return functools.partial(_whole_cell, attribute)
    return None


def compares_numbers(attribute: Attribute) -> bool:
    """Are values compared as numbers, so that other texts are no values of the attribute?"""
    values = attribute.categories
    if values is None or is_truth(attribute):
        return True
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def is_truth(attribute: Attribute) -> bool:
    """Does this attribute hold truth values, so that "yes" and "no" are numbers to it?"""
    if attribute.kind is Kind.BOOLEAN and attribute.codes is not None:
        return True
    values = attribute.categories or ()
    kinds = (bool, int, float) if attribute.kind is Kind.BOOLEAN else (bool,)
    return bool(values) and all(isinstance(v, kinds) and float(v) in (0.0, 1.0) for v in values)


def _is_huge(attribute: Attribute) -> bool:
    return attribute.codes is not None and attribute.codes > EXACT


def _whole_cell(attribute: Attribute, values: Floats) -> NDArray[np.int64]:
    declared = (values >= 0) & (values < attribute.cells) & (np.floor(values) == values)
    codes = np.where(declared, values, attribute.unknown_code).astype(np.int64)
    return np.where(np.isnan(values), attribute.missing_code, codes)


def is_text(kind: ArrowType) -> bool:
    """Columns whose values are text (or the raw bytes of a text file)."""
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
    )


def words(texts: ArrowArray) -> ArrowArray:
    """Texts as they are compared: composed (NFC) and without space around; bad bytes become U+FFFD."""
    return pc.utf8_trim_whitespace(pc.utf8_normalize(_as_string(texts), form="NFC"))


def _as_binary(texts: ArrowArray) -> ArrowArray:
    return texts.cast(pa.binary()) if not pa.types.is_binary(texts.type) else texts


def _as_string(texts: ArrowArray) -> ArrowArray:
    raw = _as_binary(texts)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [t if t is None else t.decode(errors="replace") for t in raw.to_pylist()]
        return text_array(decoded).cast(pa.string())


def widened(column: ArrowArray) -> ArrowArray:
    """Columns of narrow types as the wider type that every later step knows; the values stay the same.

    A fraction of 32 or 16 bits becomes the 64-bit number of its shortest decimal, as a file would write it: 0.1 stays
    0.1. Missing values become NaN there.
    """
    kind = column.type
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if not (pa.types.is_float16(kind) or pa.types.is_float32(kind)):
        return column
    narrow = column.to_numpy(zero_copy_only=False)
    texts = (
        column.cast(pa.string())
        if pa.types.is_float32(kind)
        else pa.array([str(v) for v in narrow], pa.string())
    )
    shortest = pc.fill_null(texts.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)
    wide = narrow.astype(np.float64)
    return pa.array(np.where(np.floor(wide) == wide, wide, shortest))


def spell(values: ArrowArray) -> ArrowArray:
    """Values of a typed column in normal form; NaN is missing."""
    kind = values.type
    if pa.types.is_floating(kind):
        return text_array([None if v is None or v != v else spell_float(v) for v in values.to_pylist()])
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        values = values.cast(pa.timestamp(kind.unit, "UTC"))
    texts = values.cast(pa.string())
    if pa.types.is_decimal(kind):
        return text_array([None if t is None else plain_number(t) for t in texts.to_pylist()])
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return text_array([None if t is None else trim(t) for t in texts.to_pylist()])
    return texts


def spell_object(value: object) -> str | None:
    """Any Python value in normal form; None and NaN are missing. A value that cannot be spelled is missing too."""
    try:
        return None if value is None or value != value else spelling(value)
    except Exception:
        return None


def parse_numbers(texts: ArrowArray, *, otherwise: float) -> Floats:
    """The number that each trimmed text spells in decimal notation (or inf, nan), or `otherwise`."""
    spelled = pc.if_else(pc.match_substring_regex(texts, pattern=_NUMBER), texts, None)
    try:
        values = pc.utf8_ltrim(spelled, characters="+").cast(pa.float64())
    except pa.ArrowInvalid:  # beyond the range of floating point: the same numbers, some of them infinite
        values = pa.array([None if t is None else float(t) for t in spelled.to_pylist()], pa.float64())
    return pc.fill_null(values, otherwise).to_numpy(zero_copy_only=False)


_NUMBER = r"(?i)^[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)$"


def parse_whole_numbers(texts: ArrowArray) -> ArrowArray:
    """The whole number below 2^64 that each trimmed text spells, else null."""
    if pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py():
        plain = [t if t is None or "e" not in t.lower() else plain_number(t) for t in texts.to_pylist()]
        texts = words(text_array(plain))
    digits = pc.replace_substring_regex(texts, pattern=_WHOLE, replacement="\\1")
    digits = pc.if_else(pc.match_substring_regex(texts, pattern=_WHOLE), digits, None)
    fits = pc.less_equal(pc.utf8_length(digits), 20)
    whole = pc.if_else(fits, digits, None).cast(pa.decimal128(38, 0))
    return pc.if_else(pc.less(whole, pa.scalar(2**64, pa.decimal128(38, 0))), whole, None).cast(pa.uint64())


_WHOLE = r"^[+]?0*([0-9]+)([.]0*)?$"


def _truth_digits(texts: ArrowArray) -> ArrowArray:
    lower = pc.utf8_lower(texts)
    ones = pc.is_in(lower, value_set=words(text_array(TRUE_WORDS)))
    noughts = pc.is_in(lower, value_set=words(text_array(FALSE_WORDS)))
    return pc.if_else(ones, "1", pc.if_else(noughts, "0", texts))


def _flags(values: ArrowArray) -> NDArray[np.bool_]:
    return values.to_numpy(zero_copy_only=False).astype(bool)
