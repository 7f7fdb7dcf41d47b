"""What a page shows, as Python, as SQL and as a notebook: each asks the same again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maquette.queries.names import quote
from maquette.results.select import is_select

if TYPE_CHECKING:
    from starlette.requests import Request

CONNECT = """import os

import maquette as mq

service = mq.connect({home}, token=os.environ["MAQUETTE_TOKEN"])"""
Code = tuple[tuple[str, str], ...]
"""Pairs of what it is written in, and the text."""


def home_of(request: Request) -> str:
    """The address of the service, as this reader writes it."""
    home = str(request.base_url).rstrip("/")
    service = getattr(request.app.state, "service", None)
    is_secure = service is not None and service.config.is_secure
    return home.replace("http://", "https://", 1) if is_secure else home


def of_question(home: str, table: str, text: str, releases: Sequence[str]) -> Code:
    """A condition or a SELECT to a table, and to the releases of it."""
    call = "sql" if is_select(text) else "ask"
    free = "sql" if is_select(text) else "answer"
    lines = [_connected(home)]
    lines += [f"service.load({_text(name)}).{free}({_text(text)})  # free" for name in releases[:1]]
    lines.append(f"service.session({_text(table)}).{call}({_text(text)})")
    return (("Python", "\n".join(lines)), ("SQL", _sql(table, text)))


def of_release(home: str, name: str, call: str, statement: str) -> Code:
    """A call of a release, and the SELECT that means the same."""
    return (("Python", f"{_connected(home)}\nservice.load({_text(name)}).{call}"), ("SQL", statement))


def of_folder(name: str, call: str, statement: str) -> Code:
    """The same for a release on a public site: its folder is downloaded."""
    folder = f"{name}.maquette"
    return (
        ("Python", f"import maquette as mq\n\nmq.load({_text(folder)}).{call}  # the folder, unpacked"),
        ("SQL", statement),
    )


def notebook(home: str, table: str, past: Sequence[tuple[str, str]]) -> str:
    """A history as a notebook: each question with what it was answered."""
    head = f"# Questions about {table}\n\nWhat was answered before is free."
    cells = [_cell("markdown", head), _cell("code", _connected(home))]
    cells.append(_cell("code", f"session = service.session({_text(table)})"))
    for text, said in past:
        cells += [_cell("markdown", said)] if said else []
        cells.append(_cell("code", f"session.{'sql' if is_select(text) else 'ask'}({_text(text)})"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
    )


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _connected(home: str) -> str:
    return CONNECT.format(home=_text(home))


def _sql(table: str, text: str) -> str:
    if is_select(text):
        return text
    return f"SELECT share() FROM {quote(table)} WHERE {text}"  # noqa: S608  (a text to copy)


def _text(value: str) -> str:
    """A text as Python writes it, in double quotes."""
    return json.dumps(value, ensure_ascii=False)
