"""Small pieces of HTML for notebooks. Every text is escaped: names and values come from files that others wrote."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

_LEFT = " style='text-align:left'"


def facts(title: str, lines: Mapping[str, str], *, head: str = "") -> str:
    """A title with a sentence, and names with values under it."""
    rows = "".join(
        f"<tr><th{_LEFT}>{escape(name)}</th><td{_LEFT}>{escape(text)}</td></tr>"
        for name, text in lines.items()
    )
    return f"<p><b>{escape(title)}</b> {escape(head)}</p><table>{rows}</table>"


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, head: str = "") -> str:
    """A title with a sentence, and a table under it."""
    top = "".join(f"<th{_LEFT}>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{_LEFT}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<p><b>{escape(title)}</b> {escape(head)}</p>"
        f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    )


_SHOWN: dict[int, tuple[weakref.ref[Any], Callable[[], str]]] = {}
"""Values of other libraries that show themselves in a notebook as we say, by identity."""


def show_as(value: Any, html: Callable[[], str]) -> None:
    """Let this one value show itself like this in a notebook that runs; others of its type stay as they are."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return
    place = id(value)
    _SHOWN[place] = (weakref.ref(value, lambda _, forget=_SHOWN.pop: forget(place, None)), html)
    formatter = shell.display_formatter.formatters["text/html"]
    before = formatter.for_type(type(value))
    if not isinstance(before, _Shown):
        formatter.for_type(type(value), _Shown(before))


@dataclass(frozen=True)
class _Shown:
    """How values of a type show themselves: those that are entry as we say, all others as before."""

    before: Callable[[Any], str | None] | None

    def __call__(self, value: Any) -> str | None:
        entry = _SHOWN.get(id(value))
        if entry is not None and entry[0]() is value:
            return entry[1]()
        return None if self.before is None else self.before(value)
