"""Pages of analysts: tables, asking with a forecast before consent, history."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import HTMLResponse

from maquette.core.budget import UNITS, percent_of
from maquette.errors import MaquetteError, ParameterError
from maquette.results.select import is_select
from maquette.web import as_code, conditions, plain
from maquette.web.access import check_form, service_of, signed_in
from maquette.web.explore import MAX_TEXT, in_words, plain_cell
from maquette.web.pages import page, redirect, status_of, words_of

if TYPE_CHECKING:
    from maquette.results.statements import Answer
    from maquette.web.auth import Person
    from maquette.web.service import Service

router = APIRouter(include_in_schema=False)
Condition = Annotated[str, Query(max_length=MAX_TEXT)]
FORECASTS = {
    "free": "needs no new look at the table",
    "cached": "was answered before, and is free",
    "size": "needs the number of records first",
    "test": "is answered from what is known already if that passes a test, and measured otherwise",
    "measure": "is measured",
}
ANSWERED = ("free", "cached", "paid")
"""Kinds of lines of a history that are questions."""
RECENT = 3
"""Questions from which the page begins."""
REFUSALS = {
    "questions": "all questions of your session are used up",
    "epochs": "no further test can be opened in your session",
    "budget": "your budget does not cover it",
    "error": "its error would be 50 points or more, which says nothing",
}


def part(amount: float, total: float, *, up: bool = False) -> str:
    """An amount as a part of a budget, in percent."""
    return percent_of(round(amount * UNITS), max(round(total * UNITS), 1), up=up)


@router.get("/", response_class=HTMLResponse)
def tables(request: Request) -> Response:
    person, service = signed_in(request), service_of(request)
    shown = [service.describe(person, name) for name in service.tables_of(person)]
    for one in shown:
        one["columns"] = [attribute["name"] for attribute in (one["domain"] or {}).get("attributes", [])]
    return page(request, "tables.html.j2", tables=shown, part=part)


@router.get("/t/{table}", response_class=HTMLResponse)
def table_page(request: Request, table: str) -> Response:
    person, service = signed_in(request), service_of(request)
    facts = service.describe(person, table)
    domain = service.domain(table)
    columns = [(a.name, str(a.kind), a.values_in_words, a.overflow_cell, a.null_cell) for a in domain]
    return page(request, "table.html.j2", table=table, facts=facts, columns=columns, part=part)


@router.get("/t/{table}/ask", response_class=HTMLResponse)
def ask_page(request: Request, table: str, q: Condition = "") -> Response:
    """One box; for a question in it what is free, and beside that the forecast of a paid answer."""
    person, service = signed_in(request), service_of(request)
    service.asking_link(person, table)
    problem, forecast = None, None
    if "build" in request.query_params:
        try:
            text = conditions.condition(service.domain(table), _chosen(request))
            return redirect(f"/t/{table}/ask?{urlencode({'q': text})}")
        except MaquetteError as error:
            problem = words_of(error)
    elif q:
        try:
            forecast = service.forecast(person, table, q)
        except MaquetteError as error:
            problem = words_of(error)
    return _ask_page(request, table, q, problem=problem, forecast=forecast)


def _chosen(request: Request) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        chosen.setdefault(name, []).append(value)
    return chosen


def _ask_page(
    request: Request,
    table: str,
    q: str,
    *,
    problem: str | None = None,
    forecast: dict[str, Any] | None = None,
    answer: dict[str, Any] | None = None,
    rows: dict[str, Any] | None = None,
    status: int | None = None,
) -> Response:
    person, service = signed_in(request), service_of(request)
    names, domain = person.settings.tables[table].attributes, service.domain(table)
    is_read = bool(q and (forecast or answer or rows))
    free = service.published_answers(person, table, q) if is_read and not is_select(q) else []
    recent = [] if is_read else _recent(service.history(person, table, newest=True)["items"])
    return page(
        request,
        "ask.html.j2",
        status=status,
        table=table,
        q=q,
        fields=conditions.fields(domain, names),
        words=conditions.words(domain, names),
        begin=recent or conditions.suggested(domain, names),
        is_recent=bool(recent),
        problem=problem,
        forecast=forecast,
        answer=answer,
        rows=rows,
        shown=None if rows is None else in_words(rows["columns"], rows["rows"], domain),
        free=free,
        free_table=service.published_table(person, table, q) if is_read and is_select(q) else None,
        gain=gain(forecast, free),
        steps=conditions.next_steps(domain, q, table, names) if is_read else [],
        query=urlencode({"q": q}),
        key=secrets.token_urlsafe(16),
        code=as_code.of_question(as_code.home_of(request), table, q, [name for name, _ in free])
        if is_read
        else (),
        facts=service.describe(person, table),
        part=part,
        forecasts=FORECASTS,
        refusals=REFUSALS,
    )


def _recent(past: Sequence[dict[str, Any]]) -> list[str]:
    """The last questions that differ; what the ledger notes beside them is none."""
    texts = [one["what"] for one in reversed(past) if one["kind"] in ANSWERED]
    return list(dict.fromkeys(texts))[:RECENT]


def gain(forecast: dict[str, Any] | None, free: Sequence[tuple[str, Answer]]) -> float | None:
    """How many times smaller the error of a paid answer would be; None where one of both is not known."""
    if not forecast or not forecast["error"] or not free or free[0][1].error is None:
        return None
    return free[0][1].error / forecast["error"]


@router.post("/t/{table}/ask", response_class=HTMLResponse)
def ask(
    request: Request,
    table: str,
    q: Annotated[str, Form(max_length=MAX_TEXT)],
    key: Annotated[str, Form(min_length=8, max_length=100)],
    csrf: Annotated[str, Form()] = "",
    at_most: Annotated[float | None, Form(ge=0)] = None,
    anyway: Annotated[str, Form()] = "",
) -> Response:
    """The answer. Sent twice with the same key, it is the same answer and costs nothing more."""
    person, service = check_form(request, csrf), service_of(request)
    service.asking_link(person, table)
    try:
        if is_select(q):
            rows = service.sql(person, table, q, key=key, at_most=at_most, allow_useless=bool(anyway))
            return _ask_page(request, table, q, rows=rows)
        answer = service.ask(person, table, q, key=key, at_most=at_most, allow_useless=bool(anyway))
    except MaquetteError as error:
        return _ask_page(request, table, q, problem=words_of(error), status=status_of(error))
    return _ask_page(request, table, q, answer=answer)


@router.post("/t/{table}/size")
def buy_size(
    request: Request,
    table: str,
    q: Annotated[str, Form(max_length=MAX_TEXT)] = "",
    csrf: Annotated[str, Form()] = "",
) -> Response:
    """Buy the number of records alone, which every forecast needs."""
    person, service = check_form(request, csrf), service_of(request)
    service.buy_size(person, table)
    return redirect(f"/t/{table}/ask?{urlencode({'q': q})}")


@router.get("/t/{table}/history", response_class=HTMLResponse)
def history(request: Request, table: str, after: int = 0) -> Response:
    """The questions that were kept, and all that were asked."""
    person, service = signed_in(request), service_of(request)
    return page(
        request,
        "history.html.j2",
        table=table,
        past=service.history(person, table, after=after, limit=50),
        saved=service.saved(person, table),
        facts=service.describe(person, table),
        part=part,
    )


@router.post("/t/{table}/saved")
def keep(
    request: Request,
    table: str,
    q: Annotated[str, Form(min_length=1, max_length=MAX_TEXT)],
    action: Annotated[Literal["keep", "forget"], Form()] = "keep",
    csrf: Annotated[str, Form()] = "",
) -> Response:
    """Keep a question on the page of those that were asked, or no longer."""
    person, service = check_form(request, csrf), service_of(request)
    if action == "keep":
        service.keep(person, table, q)
    else:
        service.forget(person, table, q)
    return redirect(f"/t/{table}/history")


@router.get("/t/{table}/select.csv")
def select_file(request: Request, table: str, q: Condition) -> Response:
    """The result of a SELECT that was paid for, as a file: it takes nothing more."""
    person, service = signed_in(request), service_of(request)
    if service.forecast(person, table, q).get("new_questions", 1):
        raise ParameterError("this is no SELECT that was answered before; ask it first")
    result = service.sql(person, table, q, key=None, at_most=0.0)
    return _csv(f"{table}-select.csv", result["columns"], result["rows"])


@router.get("/t/{table}/history.csv")
def history_file(request: Request, table: str) -> Response:
    """Everything that was asked, as a file."""
    person, service = signed_in(request), service_of(request)
    names = ("sequence", "when", "what", "value", "error", "kind", "cost")
    lines = [[one[name] for name in names] for one in _whole_history(service, person, table)]
    return _csv(f"{table}-history.csv", names, lines)


@router.get("/t/{table}/history.ipynb")
def history_notebook(request: Request, table: str) -> Response:
    """Everything that was asked, as a notebook that asks it again: what was answered before is free."""
    person, service = signed_in(request), service_of(request)
    past = [one for one in _whole_history(service, person, table) if one["kind"] in ANSWERED]
    text = as_code.notebook(as_code.home_of(request), table, [(one["what"], said_of(one)) for one in past])
    headers = {"content-disposition": f'attachment; filename="{table}-history.ipynb"'}
    return Response(text, media_type="application/x-ipynb+json", headers=headers)


def said_of(one: dict[str, Any]) -> str:
    """The answer of a line of the history, in words."""
    return "" if one["value"] is None else str(plain.share(one["value"], one["error"]))


def _whole_history(service: Service, person: Person, table: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        past = service.history(person, table, after=after, limit=500)
        lines += past["items"]
        after = past["next"]
    return lines


def _csv(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Response:
    """A table as a file."""
    stream = io.StringIO()
    writer = csv.writer(
        stream, quoting=csv.QUOTE_NONNUMERIC
    )  # else a formula may stand behind another separator
    writer.writerows([[plain_cell(one) for one in row] for row in (columns, *rows)])
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(stream.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)
