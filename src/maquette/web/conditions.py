"""Conditions: made from a form, taken apart into columns, said in words, made narrower by a click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maquette.domain import Attribute, Domain, Kind
from maquette.errors import MaquetteError, ParameterError
from maquette.queries import where
from maquette.queries.names import quote, runs_text
from maquette.results.select import is_select
from maquette.web import plain

MAX_CHECKS = 16
"""Cells of a column that are shown as boxes to tick; longer ones are lists."""
MAX_LIST = 400
"""Cells of a column that a form offers at all."""
MAX_CONDITIONS = 50
"""Conditions on one column that a text box offers."""
MAX_WORDS = 2000


@dataclass(frozen=True, slots=True)
class FormField:
    """One column of the form."""

    number: int
    name: str
    labels: tuple[str, ...]
    form: str
    """boxes, list, or range (two ends out of the cells)."""

    @property
    def boxes(self) -> str:
        return f"c{self.number}"

    @property
    def first(self) -> str:
        return f"f{self.number}"

    @property
    def last(self) -> str:
        return f"t{self.number}"


def fields(domain: Domain, names: Sequence[str] | None = None) -> list[FormField]:
    """The columns that a form offers."""
    return [_field(number, a) for number, a in enumerate(domain) if names is None or a.name in names]


def _field(number: int, attribute: Attribute) -> FormField:
    form = "boxes" if attribute.size <= MAX_CHECKS else "range" if attribute.ordered else "list"
    labels = tuple(plain.cell(attribute, code) for code in range(min(attribute.size, MAX_LIST)))
    return FormField(number, attribute.name, labels, form)


def condition(domain: Domain, values: Mapping[str, Sequence[str]]) -> str:
    """The condition that a form describes; an empty text where nothing was chosen."""
    parts: list[str] = []
    for field, attribute in zip(fields(domain), domain, strict=True):
        codes = _codes(field, attribute, values)
        if not codes or len(codes) == attribute.size:
            continue
        text = runs_text(attribute, _runs(codes))
        if text is None:
            raise ParameterError(
                f"too many cells of '{attribute.name}' to put into words; choose a range of them"
            )
        parts.append(text)
    return _all_of(parts)


def _all_of(parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return " AND ".join(f"({part})" if " OR " in part else part for part in parts)


def _codes(field: FormField, attribute: Attribute, values: Mapping[str, Sequence[str]]) -> list[int]:
    """The cells of one column that were chosen."""
    chosen = {_code(text, attribute) for text in values.get(field.boxes, ()) if text}
    first, last = (next(iter(values.get(name, ())), "") for name in (field.first, field.last))
    if first or last:
        low = _code(first, attribute) if first else 0
        high = _code(last, attribute) if last else attribute.cells - 1
        if low > high:
            raise ParameterError(f"the range of '{attribute.name}' ends before it begins")
        chosen |= set(range(low, high + 1))
    return sorted(chosen)


def _code(text: str, attribute: Attribute) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) < attribute.size):
        raise ParameterError(f"there is no such cell of '{attribute.name}'")
    return int(text)


def _runs(codes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    runs: list[tuple[int, int]] = []
    for code in codes:
        if runs and code == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], code)
        else:
            runs.append((code, code))
    return tuple(runs)


def words(domain: Domain, names: Sequence[str] | None = None) -> list[str]:
    """What a text box offers while somebody types: columns, and conditions on one cell each."""
    texts: list[str] = []
    for attribute in domain:
        if names is not None and attribute.name not in names:
            continue
        conditions = [
            text
            for code in range(min(attribute.size, MAX_CONDITIONS))
            if attribute.size > 1 and (text := runs_text(attribute, ((code, code),))) is not None
        ]
        texts += [quote(attribute.name), *conditions]
    return texts[:MAX_WORDS]


SUGGESTED = 3
"""Questions that a page begins with."""


def suggested(domain: Domain, names: Sequence[str] | None = None) -> list[str]:
    """A question about each of the first columns: about its middle cell, or the upper half of a number."""
    texts: list[str] = []
    for attribute in domain:
        if (names is not None and attribute.name not in names) or attribute.cells < 2:
            continue
        middle = attribute.cells // 2
        last = attribute.cells - 1 if attribute.ordered else middle
        text = runs_text(attribute, ((middle, last),))
        texts += [] if text is None else [text]
    return texts[:SUGGESTED]


@dataclass(frozen=True, slots=True)
class Part:
    """What a condition says about one column."""

    column: str
    words: str
    """Such as: age 60 to 69."""
    sql: str
    rest: str
    """The condition without it."""


def parts(domain: Domain, text: str) -> list[Part]:
    """A condition column by column; empty where it is none, or connects columns in another way than by AND."""
    try:
        box = where(domain, text).box() if text else None
    except MaquetteError:
        return []
    if box is None:
        return []
    sql = {name: runs_text(domain[name], _runs(codes)) for name, codes in box.items()}
    said = {name: part for name, part in sql.items() if part is not None}
    if len(said) < len(sql):
        return []
    return [
        Part(
            name,
            f"{name} {in_words(domain[name], box[name])}",
            said[name],
            _all_of([other for column, other in said.items() if column != name]),
        )
        for name in said
    ]


def in_words(attribute: Attribute, codes: Sequence[int]) -> str:
    """Cells of one column: 20 to 39, north or west, anything but north."""
    others = [code for code in range(attribute.size) if code not in set(codes)]
    if not attribute.ordered and len(others) < len(codes):
        return f"anything but {_listed(attribute, others)}"
    return _listed(attribute, codes)


def _listed(attribute: Attribute, codes: Sequence[int]) -> str:
    if attribute.ordered:
        declared = [code for code in codes if code < attribute.cells]
        texts = [_range(attribute, *run) for run in _runs(declared)]
        texts += [attribute.label(code) for code in codes if code >= attribute.cells]
    else:
        texts = [attribute.label(code) for code in codes]
    return " or ".join(texts)


def _range(attribute: Attribute, first: int, last: int) -> str:
    """A range of cells, open where it reaches an end of the declared ones."""
    top = attribute.cells - 1
    if attribute.kind is Kind.NUMERIC and (first, last) != (0, top):
        if last == top and first:
            return f"{plain.run(attribute, first, first).split(' to ')[0]} or more"
        if first == 0 and last > 0:
            end = plain.run(attribute, 0, last).split(" to ")[1]
            return end if end.startswith("under ") else f"up to {end}"
    return plain.run(attribute, first, last)


def narrowed(domain: Domain, text: str, name: str, code: int) -> str | None:
    """A condition and one cell of a column; of that column what it said before no longer counts."""
    cell = runs_text(domain[name], ((code, code),))
    if cell is None:
        return None
    columns = parts(domain, text)
    if text and not columns:
        return f"({text}) AND {cell}"
    return _all_of([*(part.sql for part in columns if part.column != name), cell])


MAX_STEPS = 4
"""Columns by which a page offers to break an answer down."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """What may be asked after an answer."""

    words: str
    query: str
    """A condition or a SELECT."""
    column: str
    where: str
    """The same for a table of a release: its column and its condition."""


def next_steps(domain: Domain, text: str, table: str, names: Sequence[str] | None = None) -> list[NextStep]:
    """Break down by columns that are not in a condition, and compare with the other cells of one that is."""
    try:
        used = () if is_select(text) else where(domain, text).attributes
    except MaquetteError:
        return []
    if not used:
        return []
    columns = parts(domain, text)
    allowed = [one for one in domain if (names is None or one.name in names) and one.size <= MAX_CHECKS]
    steps = [
        _grouped("compare", part.column, part.rest, table)
        for part in columns
        if domain[part.column] in allowed
    ]
    steps += [_grouped("break down", one.name, text, table) for one in allowed if one.name not in used]
    return steps[: MAX_STEPS + len(columns)]


def _grouped(verb: str, column: str, condition: str, table: str) -> NextStep:
    only = f" where {condition}" if condition else ""
    name = quote(column)
    return NextStep(
        f"{verb} by {column}",
        f"select {name}, share() from {quote(table)}{only} group by {name}",  # noqa: S608  (a text for a box)
        column,
        condition,
    )
