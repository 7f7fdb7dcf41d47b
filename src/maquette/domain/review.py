"""A person goes through a drafted domain column by column and says why each list and bound is public knowledge.

Who confirmed what, and why, is kept in the notes of the domain (`reviews`), which no computation uses. The domain
counts as reviewed once every column is.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

from maquette import _check
from maquette.domain.attribute import Attribute
from maquette.domain.domain import Domain
from maquette.errors import DomainError

REVIEWS, COLUMNS = "reviews", "columns"
"""The notes that this module reads and writes."""


def remaining(domain: Domain) -> tuple[str, ...]:
    """The columns that nobody has confirmed yet."""
    if domain.reviewed:
        return ()
    reviews = _note(domain, REVIEWS)
    return tuple(name for name in domain.names if name not in reviews)


def confirm(domain: Domain, name: str, *, by: str, why: str, on: datetime.date | None = None) -> Domain:
    """The domain with this column confirmed; reviewed as a whole once no other column is left."""
    for word, text in (("who confirms it", by), ("why its values are public knowledge", why)):
        if not text.strip():
            raise DomainError(f"confirming '{name}' needs to say {word}")
    domain[name]  # refuses an unknown name
    entry = {"by": by.strip(), "why": why.strip(), "on": (on or datetime.date.today()).isoformat()}
    return _with_reviews(domain, _note(domain, REVIEWS) | {name: entry})


def drop(domain: Domain, name: str) -> Domain:
    """The domain without this column."""
    domain[name]
    rest = tuple(a for a in domain if a.name != name)
    if not rest:
        raise DomainError(f"'{name}' is the only column that is left; a domain needs at least one")
    used = [c for c in domain.constraints if name in c.names]
    if used:
        raise DomainError(f"'{name}' is part of {len(used)} constraints; take those out first")
    notes = {
        key: {n: v for n, v in note.items() if n != name} if key in (REVIEWS, COLUMNS) else note
        for key, note in domain.notes.items()
    }
    smaller = replace(domain, attributes=rest, notes=notes)
    return _with_reviews(smaller, _note(smaller, REVIEWS))


def edit(domain: Domain, name: str, attribute: Attribute) -> Domain:
    """The domain with another declaration of this column, which then is not confirmed any more."""
    if attribute.name != name:
        raise DomainError(
            f"the column is called '{name}', not '{attribute.name}'; renaming it is not a review"
        )
    attributes = tuple(attribute if a.name == name else a for a in domain)
    columns = {n: v for n, v in _note(domain, COLUMNS).items() if n != name}
    reviews = {n: v for n, v in _note(domain, REVIEWS).items() if n != name}
    changed = replace(domain, attributes=attributes, notes=domain.notes | {COLUMNS: columns})
    return replace(changed, reviewed=False, notes=changed.notes | {REVIEWS: reviews})


def _with_reviews(domain: Domain, reviews: dict[str, Any]) -> Domain:
    done = domain.reviewed or all(name in reviews for name in domain.names)
    notes = {key: note for key, note in domain.notes.items() if not (done and key in ("draft", COLUMNS))}
    return replace(domain, reviewed=done, notes=notes | {REVIEWS: reviews})


def _note(domain: Domain, key: str) -> dict[str, Any]:
    note = domain.notes.get(key, {})
    return dict(note) if _check.is_dict(note) else {}
