"""Before a domain counts: what is publicly known of usual columns, and the review of a draft.

A person goes through a drafted domain column by column and says why each list and bound is public knowledge.

Who confirmed what, and why, is kept in the notes of the domain (`reviews`), which no computation uses. The domain
counts as reviewed once every column is.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from maquette.core import _check
from maquette.core.attribute import Attribute
from maquette.domain.domain import COLUMNS, Domain
from maquette.errors import DomainError

REVIEWS = "reviews"
"""The note that this module writes, beside those of a draft."""
USUAL = "usual"
"""In a draft's note of a column: the usual kind that it is, whose list or bounds need no table."""


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


def usual(domain: Domain) -> dict[str, str]:
    """The columns to confirm that a draft took for a usual kind, each with that kind."""
    notes = notes_of(domain, COLUMNS)
    return {name: str(notes[name][USUAL]) for name in remaining(domain) if USUAL in notes.get(name, {})}


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
    return replace(domain, reviewed=done, notes=domain.notes | {REVIEWS: reviews})


def notes_of(domain: Domain, key: str) -> dict[str, dict[str, Any]]:
    """What a draft notes of each column; of a file by another hand, or an earlier version, what can be read of it."""
    return {
        str(name): dict(entry) if _check.is_dict(entry) else {"why": str(entry)}
        for name, entry in _note(domain, key).items()
    }


def _note(domain: Domain, key: str) -> dict[str, Any]:
    note = domain.notes.get(key, {})
    return dict(note) if _check.is_dict(note) else {}


MISSING_WORDS = ("?", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "nan", "NaN", ".", "-")
"""Texts that mean missing where nobody says which do: public, whatever the table holds."""

# What everybody knows about usual columns, so that a draft need not take it from the private rows.
#
# Two things: ordered scales of words (Likert answers, months, sizes, school leaving certificates), and bounds that
# follow from what a column is called (ages, hours of a day, percentages). Both are public knowledge; a draft that uses
# them says so, and a person still confirms it.

SCALES: tuple[tuple[str, ...], ...] = (
    ("never", "rarely", "sometimes", "often", "always"),
    ("never", "seldom", "sometimes", "often", "always"),
    ("never", "sometimes", "often", "always"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("strongly disagree", "disagree", "neither agree nor disagree", "agree", "strongly agree"),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
    ("very unhappy", "unhappy", "neutral", "happy", "very happy"),
    ("very bad", "bad", "fair", "good", "very good"),
    ("poor", "fair", "good", "very good", "excellent"),
    ("fair", "good", "very good", "premium", "ideal"),
    ("very low", "low", "medium", "high", "very high"),
    ("very low", "low", "moderate", "high", "very high"),
    ("none", "mild", "moderate", "severe"),
    ("extra small", "small", "medium", "large", "extra large"),
    ("xxs", "xs", "s", "m", "l", "xl", "xxl"),
    ("not at all", "a little", "somewhat", "very", "extremely"),
    ("daily", "weekly", "monthly", "yearly", "never"),
    ("first", "second", "third", "fourth", "fifth"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    (
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("spring", "summer", "autumn", "winter"),
    ("spring", "summer", "fall", "winter"),
    ("i1", "si2", "si1", "vs2", "vs1", "vvs2", "vvs1", "if"),
    (
        "preschool",
        "1st-4th",
        "5th-6th",
        "7th-8th",
        "9th",
        "10th",
        "11th",
        "12th",
        "hs-grad",
        "some-college",
        "assoc-voc",
        "assoc-acdm",
        "bachelors",
        "masters",
        "prof-school",
        "doctorate",
    ),
    ("primary", "secondary", "tertiary"),
    ("none", "primary", "lower secondary", "upper secondary", "bachelor", "master", "doctorate"),
)
"""Ordered from low to high, in lower case."""


@dataclass(frozen=True, slots=True)
class UsualNumbers:
    """A kind of numeric column with bounds that nobody needs data for."""

    words: str
    """What such numbers are, in the plural."""
    pattern: str
    """Of names of such columns, in lower case."""
    bounds: tuple[float, float]
    bins: int
    integer: bool

    def serves(self, low: float, high: float) -> bool:
        """Do values from `low` to `high` lie within its bounds, and are its cells not mostly empty with them?"""
        least, most = self.bounds
        return least <= low and high <= most and high - low >= USED * (most - least)


USED = 0.25
"""The share of its range that the values of a usual column have at least. The latitudes of a city, codes of age
groups or three years would lie in a few cells out of a hundred."""

_START, _END = r"(?:^|[_\W\d])", r"(?:$|[_\W\d])"

USUAL_NUMBERS = tuple(
    UsualNumbers(words, f"{_START}(?:{pattern}){_END}", bounds, bins, integer)
    for words, pattern, bounds, bins, integer in (
        ("hours of work in a week", r"hours?[_\W]?(?:per[_\W]?|a[_\W]?)?week(?:ly)?", (0, 100), 50, True),
        ("days of a year", r"yday|doy|day[_\W]?of[_\W]?(?:the[_\W]?)?year", (0.5, 366.5), 61, True),
        ("days of a month", r"mday|day[_\W]?of[_\W]?(?:the[_\W]?)?month", (0.5, 31.5), 31, True),
        ("months", r"month|month[_\W]?of[_\W]?(?:the[_\W]?)?year", (0.5, 12.5), 12, True),
        ("years", r"year|yr|birth[_\W]?year|year[_\W]?of[_\W]?birth|yob", (1900, 2050), 150, True),
        ("ages", r"ages?|age[_\W]?years", (0, 100), 100, True),
        ("percentages", r"percent(?:age)?s?|pct", (0, 100), 50, False),
        ("latitudes", r"lat|latitude", (-90, 90), 180, False),
        ("longitudes", r"lon|lng|(?<!how_)long|longitude", (-180, 180), 180, False),
        ("heights in centimetres", r"height[_\W]?cm", (0, 250), 50, False),
        ("weights in kilograms", r"(?:weight|mass)[_\W]?kg", (0, 250), 50, False),
        ("hours of a day", r"hours?|hour[_\W]?of[_\W]?day", (0, 24), 24, True),
        ("minutes of an hour", r"minutes?", (0, 60), 60, True),
    )
)
"""The first whose pattern a name meets counts."""


def named_numbers(name: str) -> UsualNumbers | None:
    """The kind of numbers that a column of this name should hold."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return next((kind for kind in USUAL_NUMBERS if re.search(kind.pattern, plain)), None)


def usual_scale(texts: Collection[str]) -> tuple[str, ...] | None:
    """The ordered scale that these texts are taken from, whole and in their spelling; None if there is none.

    Two texts may be of many scales by chance: three are asked for, or all of the scale.
    """
    plain = {_plain(text): text for text in texts}
    if len(plain) < len(texts):
        return None
    fitting = [s for s in SCALES if plain.keys() <= set(s) and len(plain) >= min(3, len(s))]
    if not fitting:
        return None
    scale = min(fitting, key=len)
    style = _style(texts)
    return tuple(plain.get(word, style(word)) for word in scale)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip().lower().replace("_", " "))


def _style(texts: Collection[str]) -> Callable[[str], str]:
    """How words that do not occur are spelled: as those that do, where they all agree."""
    for style in (str.lower, str.upper, str.title, str.capitalize):
        if all(style(text) == text for text in texts):
            return style
    return str.lower
