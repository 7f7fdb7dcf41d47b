"""What a prompt knows of a domain: completions of columns and values, and hints for questions that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maquette.domain import Attribute, Domain

WORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "IS NULL")
MAX_VALUES = 200
"""Values of one column that are offered."""

_OPEN_QUOTE = re.compile(r"^(?:[^']|'(?:[^']|'')*'(?!'))*('(?:[^']|'')*)$")
_COMPARED = re.compile(
    r"""(?:"([^"]+)"|([^\W\d]\w*))\s*(?:(?:=|<>|!=)|\bIN\s*\((?:\s*(?:'(?:[^']|'')*'|[\w.]+)\s*,)*)\s*$""",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"unknown attribute '(.+?)';")
_NO_CATEGORY = re.compile(r"'(.+?)' is no category of '(.+?)'")


def completions(domain: Domain, commands: Sequence[str], before: str) -> tuple[int, list[str]]:
    """Where the word before the cursor starts, and what it may become."""
    quoted = _OPEN_QUOTE.match(before)
    start = quoted.start(1) if quoted else len(before) - len(re.split(r"[\s(,=<>!]", before)[-1])
    word = before[start:]
    if before.lstrip().startswith(":") and " " not in before.strip():
        return start, [f":{name}" for name in commands if f":{name}".startswith(word)]
    values = _values_of(domain, before[:start])
    choices = values if quoted or values else [*map(_named, domain.names), *WORDS]
    return start, [choice for choice in choices if choice.lower().startswith(word.lower())]


def _values_of(domain: Domain, before: str) -> list[str]:
    """The values of the column that is compared at the end of a text."""
    compared = _COMPARED.search(before)
    if compared is None:
        return []
    name = (compared[1] or compared[2]).lower()
    attribute = next((a for a in domain if a.name.lower() == name), None)
    return [] if attribute is None else _literals(attribute)


def _literals(attribute: Attribute) -> list[str]:
    values = (attribute.categories or ())[:MAX_VALUES]
    return ["'" + v.replace("'", "''") + "'" if isinstance(v, str) else str(v) for v in values]


def _named(name: str) -> str:
    """A column as a predicate writes it."""
    return name if re.fullmatch(r"[^\W\d]\w*", name) else f'"{name}"'


def hint(domain: Domain, message: str) -> str | None:
    """What somebody probably meant whose question was refused with this message."""
    unknown, category = _UNKNOWN.search(message), _NO_CATEGORY.search(message)
    if unknown is not None:
        return _hint_for_name(domain, unknown[1])
    if category is not None:
        attribute = next((a for a in domain if a.name == category[2]), None)
        values = [str(v) for v in attribute.categories or ()] if attribute is not None else []
        return _did_you_mean(category[1], values)
    return None


def _hint_for_name(domain: Domain, word: str) -> str | None:
    """A word that is no column: text without its quotes, or a column misspelled."""
    for attribute in domain:
        for value in attribute.categories or ():
            if isinstance(value, str) and value.lower() == word.lower():
                return f"put text in quotes: {_named(attribute.name)} = '{value}'"
    return _did_you_mean(word, list(domain.names))


def _did_you_mean(word: str, choices: Sequence[str]) -> str | None:
    lowered = {choice.lower(): choice for choice in reversed(choices)}
    close = get_close_matches(word.lower(), list(lowered), n=1)
    return f"did you mean '{lowered[close[0]]}'?" if close else None


def with_hint(domain: Domain, message: str) -> str:
    """A refusal, with what was probably meant where that can be guessed."""
    extra = hint(domain, message)
    return message if extra is None else f"{message}; {extra}"


class LineEditor:
    """Line editing, history and completion by the readline of the platform; plain input where there is none."""

    def __init__(self, domain: Domain, commands: Sequence[str], past: Sequence[str]) -> None:
        self._domain, self._commands = domain, commands
        self._choices: list[str] = []
        try:
            import readline
        except ImportError:  # as on Windows
            return
        self._readline = readline
        for line in past:
            readline.add_history(line)
        readline.set_completer_delims(" \t\n(,=<>!")
        readline.set_completer(self.complete)
        readline.parse_and_bind("tab: complete")

    def complete(self, _word: str, state: int) -> str | None:
        """The choice number `state`, from the place where readline's word begins."""
        if state == 0:
            begin, line = self._readline.get_begidx(), self._readline.get_line_buffer()
            start, choices = completions(self._domain, self._commands, line[: self._readline.get_endidx()])
            self._choices = [choice[max(begin - start, 0) :] for choice in choices]
        return self._choices[state] if state < len(self._choices) else None
