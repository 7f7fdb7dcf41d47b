"""Names and cells as users write them.

Attribute names are looked up, refused with the declared names, quoted. Cells are put into the words of SQL that `where`
reads back as exactly the same cells.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from maquette.core import _check
from maquette.core.attribute import Scalar
from maquette.core.universe import Universe
from maquette.domain import Attribute, Domain, Kind
from maquette.errors import WorkloadError
from maquette.queries.condition import (
    ALWAYS,
    NEVER,
    Condition,
    Every,
    Leaf,
    Runs,
    codes,
    complement,
    count,
    meet,
    whole,
)
from maquette.queries.rows import Margin

_SQL_WORDS = (
    "ALL ALTER AND ANY AS BETWEEN CALL CASE CAST CREATE CROSS CURRENT_CATALOG CURRENT_DATE CURRENT_TIME "
    "CURRENT_TIMESTAMP CURRENT_USER DESCRIBE DISTINCT DROP ELSE END ESCAPE EXCEPT EXECUTE EXISTS EXPLAIN "
    "FALSE FETCH FOR FROM GLOB GRANT GROUP HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS "
    "ISNULL JOIN LATERAL LIKE LOCALTIME LOCALTIMESTAMP NOT NOTNULL NULL ON OPTIMIZE OR ORDER OUTER "
    "PARTITIONED_BY PREPARE QUALIFY REGEXP RENAME RETURNING REVOKE RLIKE ROLLBACK SELECT SESSION_USER "
    "SHOW SOME STRAIGHT_JOIN SYMMETRIC TABLESAMPLE THEN TRUE UNCACHE UNION USING VACUUM WHEN WHERE WITH "
    "XOR "
)
RESERVED = frozenset(_SQL_WORDS.split())
"""Words that mean something else in SQL: attributes of these names are written in double quotes."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def attribute(domain: Universe, name: str) -> Attribute:
    """The attribute of exactly this name."""
    if name not in domain:
        raise unknown(domain, name)
    return domain[name]


def ordered(domain: Domain, name: str, *, purpose: str) -> Attribute:
    """The attribute of exactly this name, if its cells have an order."""
    candidate = attribute(domain, name)
    if not candidate.ordered:
        usable = [a.name for a in domain if a.ordered]
        raise WorkloadError(
            f"{purpose} need an ordered attribute, but '{name}' is {candidate.kind}; "
            f"ordered are: {', '.join(usable) or 'none'}"
        )
    return candidate


def margin(domain: Universe, names: Iterable[str]) -> Margin:
    """These attributes in domain order, each named once."""
    if isinstance(names, str):
        raise WorkloadError(f"expected a list of attribute names, got the text {names!r}")
    members = _check.listed(attributes=names)
    for name in members:
        attribute(domain, name)
    if len(set(members)) < len(members):
        twice = next(name for name in members if members.count(name) > 1)
        raise WorkloadError(f"attribute '{twice}' is named twice in ({', '.join(members)})")
    return tuple(sorted(members, key=domain.names.index))


def find(domain: Domain, word: str) -> Attribute:
    """The attribute that a word means: exactly, else ignoring case, else with _ for any other sign, if unique."""
    if word in domain:
        return domain[word]
    for spelling in (_folded, _loose):
        fitting = [a for a in domain if spelling(a.name) == spelling(word)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            names = ", ".join(quote(a.name) for a in fitting)
            raise WorkloadError(f"'{word}' could be any of {names}; write the name exactly, in double quotes")
    raise unknown(domain, word)


def unknown(domain: Universe, name: str) -> WorkloadError:
    """A word that is no attribute: text without its quotes, or an attribute misspelled."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return WorkloadError(f"expected the name of an attribute, got {_check.shown(name)}")
    said = f"unknown attribute '{name}'; the domain has {', '.join(domain.names)}"
    for a in domain:
        for value in a.categories or ():
            if isinstance(value, str) and _folded(value) == _folded(name):
                return WorkloadError(f"{said}; put text in quotes: {quote(a.name)} = {spell(value)}")
    return WorkloadError(said + did_you_mean(name, domain.names))


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The end of a refusal: what somebody probably meant, if that can be guessed."""
    folded = {_folded(choice): choice for choice in reversed(list(choices))}
    close = get_close_matches(_folded(word), list(folded), n=1)
    return f"; did you mean '{folded[close[0]]}'?" if close else ""


def quote(name: str) -> str:
    """The name as SQL writes it: in double quotes unless it is a plain word."""
    if _PLAIN.match(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def _folded(name: str) -> str:
    """Without case, and with letters and their accents in one form."""
    return unicodedata.normalize("NFC", name.casefold())


def _loose(name: str) -> str:
    return re.sub(r"\W", "_", _folded(name))


MAX_LITERALS = 128
"""Literals in one list; `where` accepts no more."""
MAX_NAMED_CELLS = 4096
"""Cells of an attribute without order that are named one by one."""


def condition_text(domain: Domain, condition: Condition) -> str | None:
    """The records that satisfy a simplified condition; None if too many cells would have to be named."""
    if condition in (ALWAYS, NEVER):
        return "TRUE" if condition == ALWAYS else "FALSE"
    if isinstance(condition, Leaf):
        return runs_text(domain[condition.attribute], condition.runs)
    parts = [condition_text(domain, part) for part in condition.parts]
    said = [part for part in parts if part is not None]
    if len(said) < len(parts):
        return None
    return " AND ".join(said) if isinstance(condition, Every) else _any(said)


def runs_text(attribute: Attribute, runs: Runs) -> str | None:
    """The records in some cells of an attribute, not in none and not in all of them."""
    last = attribute.cells - 1
    declared = tuple((low, min(high, last)) for low, high in runs if low <= last)
    added = codes(tuple((max(low, last + 1), high) for low, high in runs if high > last))
    if attribute.kind is Kind.NUMERIC or (attribute.ordered and not attribute.overflow):
        parts = [run_text(attribute, low, high) for low, high in declared]
        return _any([*parts, *(code_text(attribute, code) for code in added)])
    others = meet(complement(declared, attribute.cells), whole(attribute.cells))
    except_for = attribute.overflow_cell is None or attribute.overflow_cell in added
    if except_for and count(others) < count(declared) and count(others) <= MAX_NAMED_CELLS:
        return _all_but(attribute, codes(others), null=attribute.null_cell in added)
    named = max(count(declared), attribute.cells if attribute.overflow_cell in added else 0)
    if named > MAX_NAMED_CELLS:
        return None
    parts = [_one_of(attribute, codes(declared))] if declared else []
    return _any([*parts, *(code_text(attribute, code) for code in added)])


def _all_but(attribute: Attribute, others: Sequence[int], *, null: bool) -> str:
    """Every value but some declared ones, undeclared ones included; NULL where it is asked for or shares their cell."""
    name = quote(attribute.name)
    lists = _lists([literal(attribute, code) for code in others])
    said = " AND ".join(f"{name} NOT IN ({', '.join(some)})" for some in lists) or f"{name} IS NOT NULL"
    return f"({said} OR {name} IS NULL)" if null or (attribute.overflow and not attribute.nullable) else said


def code_text(attribute: Attribute, code: int) -> str:
    """The records in one cell."""
    name = quote(attribute.name)
    if code == attribute.null_cell:
        return f"{name} IS NULL"
    if code == attribute.overflow_cell:
        outside = _sql_outside(attribute)
        return outside if attribute.nullable else f"({outside} OR {name} IS NULL)"
    if attribute.kind is Kind.NUMERIC:
        return run_text(attribute, code, code)
    return f"{name} = {literal(attribute, code)}"


def run_text(attribute: Attribute, low: int, high: int) -> str:
    """The records in the declared cells low .. high of an ordered attribute."""
    name, last = quote(attribute.name), attribute.cells - 1
    if attribute.kind is Kind.NUMERIC:
        return _bins_text(attribute, low, high)
    if attribute.overflow_cell is not None and high - low < MAX_NAMED_CELLS:
        return _one_of(attribute, range(low, high + 1))  # between two values may lie one that is not declared
    if low == high:
        return f"{name} = {literal(attribute, low)}"
    if high == last:
        return f"{name} >= {literal(attribute, low)}"
    if low == 0:
        return f"{name} <= {literal(attribute, high)}"
    return f"{name} BETWEEN {literal(attribute, low)} AND {literal(attribute, high)}"


def _bins_text(attribute: Attribute, low: int, high: int) -> str:
    """Without an overflow cell the outer cells hold everything beyond the bounds, and so must the words."""
    name, last = quote(attribute.name), attribute.cells - 1
    clamped = attribute.overflow_cell is None
    starts, ends = clamped and low == 0, clamped and high == last
    if starts and ends:
        return f"{name} IS NOT NULL"
    if low == high and attribute.integer and not starts and not ends:
        first, final = whole_numbers(attribute, low)
        if first == final:
            return f"{name} = {first}"
    above = f"{name} >= {number(attribute.edge(low))}"
    below = f"{name} {'<=' if high == last else '<'} {number(attribute.edge(high + 1))}"
    return above if ends else below if starts else f"{above} AND {below}"


def _sql_outside(attribute: Attribute) -> str:
    """The values that are not declared."""
    name = quote(attribute.name)
    if attribute.kind is Kind.NUMERIC:
        low, high = number(attribute.edge(0)), number(attribute.edge(attribute.cells))
        return f"{name} NOT BETWEEN {low} AND {high}"
    if attribute.cells > MAX_NAMED_CELLS:
        return f"{name} = (other)"  # too many to say in a predicate
    listed = _lists([literal(attribute, code) for code in range(attribute.cells)])
    return " AND ".join(f"{name} NOT IN ({', '.join(some)})" for some in listed)


def _one_of(attribute: Attribute, some: Sequence[int]) -> str:
    name = quote(attribute.name)
    if len(some) == 1:
        return f"{name} = {literal(attribute, some[0])}"
    lists = _lists([literal(attribute, code) for code in some])
    return _any([f"{name} IN ({', '.join(listed)})" for listed in lists])


def _lists(literals: Sequence[str]) -> list[Sequence[str]]:
    return [literals[start : start + MAX_LITERALS] for start in range(0, len(literals), MAX_LITERALS)]


def _any(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def literal(attribute: Attribute, code: int) -> str:
    """A declared cell's value: its category, its number, or the left border of its bin."""
    if attribute.categories is not None:
        return spell(attribute.categories[code])
    return str(code) if attribute.codes is not None else number(attribute.edge(code))


def spell(value: Scalar) -> str:
    """A value as an SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return number(value)


def number(value: float) -> str:
    """A number in its shortest exact form."""
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def whole_numbers(attribute: Attribute, code: int) -> tuple[int, int]:
    """The first and the last whole number in a bin; of a bin one wide that is not declared integer its left border."""
    first, last = math.ceil(attribute.edge(code)), math.ceil(attribute.edge(code + 1)) - 1
    if attribute.one_wide:
        return first, first
    return first, math.floor(attribute.edge(code + 1)) if code == attribute.cells - 1 else last
