"""Small pieces of HTML for notebooks. Every text is escaped: names and values come from files that others wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

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
