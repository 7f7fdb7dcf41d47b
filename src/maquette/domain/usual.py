"""What everybody knows about usual columns, so that a draft need not take it from the private rows.

Two things: ordered scales of words (Likert answers, months, sizes, school leaving certificates), and bounds that follow
from what a column is called (ages, hours of a day, percentages). Both are public knowledge; a draft that uses them says
so, and a person still confirms it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

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


_START, _END = r"(?:^|[_\W\d])", r"(?:$|[_\W\d])"

USUAL_NUMBERS = tuple(
    UsualNumbers(words, f"{_START}(?:{pattern}){_END}", bounds, bins, integer)
    for words, pattern, bounds, bins, integer in (
        ("hours of work in a week", r"hours?[_\W]?(?:per[_\W]?|a[_\W]?)?week(?:ly)?", (0, 100), 50, True),
        ("years", r"year|yr|birth[_\W]?year|year[_\W]?of[_\W]?birth|yob", (1900, 2050), 150, True),
        ("ages", r"ages?|age[_\W]?years", (0, 100), 100, True),
        ("percentages", r"percent(?:age)?s?|pct", (0, 100), 50, False),
        ("latitudes", r"lat|latitude", (-90, 90), 180, False),
        ("longitudes", r"lon|lng|longitude", (-180, 180), 180, False),
        ("heights in centimetres", r"height[_\W]?cm", (0, 250), 50, False),
        ("weights in kilograms", r"(?:weight|mass)[_\W]?kg", (0, 250), 50, False),
        ("hours of a day", r"hours?|hour[_\W]?of[_\W]?day", (0, 24), 24, True),
        ("minutes of an hour", r"minutes?", (0, 60), 60, True),
    )
)
"""The first whose pattern a name meets counts."""


def usual_numbers(name: str, *, low: float, high: float) -> UsualNumbers | None:
    """The kind of numbers that a column of this name holds, if its values `low` to `high` are such numbers."""
    for kind in USUAL_NUMBERS:
        if re.search(kind.pattern, name.lower()):
            return kind if kind.bounds[0] <= low and high <= kind.bounds[1] else None
    return None


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
