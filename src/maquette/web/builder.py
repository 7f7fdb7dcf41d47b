"""Conditions from a form: which cells of which columns, put into the words of a condition. Public inputs only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maquette.domain import Attribute, Domain
from maquette.errors import ParameterError
from maquette.queries.names import quote, runs_text

MAX_CHECKS = 16
"""Cells of a column that are shown as boxes to tick; longer ones are lists."""
MAX_LIST = 400
"""Cells of a column that a form offers at all."""
MAX_CONDITIONS = 50
"""Conditions on one column that a text box offers."""
MAX_WORDS = 2000


@dataclass(frozen=True, slots=True)
class Field:
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


def fields(domain: Domain, names: Sequence[str] | None = None) -> list[Field]:
    """The columns that a form offers."""
    return [_field(number, a) for number, a in enumerate(domain) if names is None or a.name in names]


def _field(number: int, attribute: Attribute) -> Field:
    form = "boxes" if attribute.size <= MAX_CHECKS else "range" if attribute.ordered else "list"
    labels = tuple(attribute.label(code) for code in range(min(attribute.size, MAX_LIST)))
    return Field(number, attribute.name, labels, form)


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
    if len(parts) == 1:
        return parts[0]
    return " AND ".join(f"({part})" if " OR " in part else part for part in parts)


def _codes(field: Field, attribute: Attribute, values: Mapping[str, Sequence[str]]) -> list[int]:
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
