"""Attribute names as users write them: looked up, refused with the declared names, quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from maquette.domain import Attribute, Domain
from maquette.errors import WorkloadError
from maquette.queries.base import Margin

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


def attribute(domain: Domain, name: str) -> Attribute:
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


def margin(domain: Domain, names: Iterable[str]) -> Margin:
    """These attributes in domain order, each named once."""
    if isinstance(names, str):
        raise WorkloadError(f"expected a list of attribute names, got the text {names!r}")
    members = list(names)
    for name in members:
        attribute(domain, name)
    if len(set(members)) < len(members):
        twice = next(name for name in members if members.count(name) > 1)
        raise WorkloadError(f"attribute '{twice}' is named twice in ({', '.join(members)})")
    return tuple(sorted(members, key=domain.names.index))


def margins(domain: Domain, sets: Iterable[Iterable[Any]]) -> tuple[Margin, ...]:
    """Many sets of attributes, each in domain order."""
    place = {name: i for i, name in enumerate(domain.names)}
    return tuple(_tidy(domain, place, members) for members in sets)


def _tidy(domain: Domain, place: dict[str, int], members: Iterable[Any]) -> Margin:
    if isinstance(members, tuple) and all(isinstance(name, str) and name in place for name in members):
        places = [place[name] for name in members]
        if all(a < b for a, b in pairwise(places)):
            return members
    return margin(domain, members)


def find(domain: Domain, word: str) -> Attribute:
    """The attribute that a word means: exactly, else ignoring case, else with _ for any other sign, if unique."""
    if word in domain:
        return domain[word]
    for spelling in (str.casefold, _loose):
        fitting = [a for a in domain if spelling(a.name) == spelling(word)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            names = ", ".join(quote(a.name) for a in fitting)
            raise WorkloadError(f"'{word}' could be any of {names}; write the name exactly, in double quotes")
    raise unknown(domain, word)


def unknown(domain: Domain, name: str) -> WorkloadError:
    return WorkloadError(f"unknown attribute '{name}'; the domain has {', '.join(domain.names)}")


def quote(name: str) -> str:
    """The name as SQL writes it: in double quotes unless it is a plain word."""
    if _PLAIN.match(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def _loose(name: str) -> str:
    return re.sub(r"\W", "_", name.casefold())
