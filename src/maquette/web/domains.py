"""Pages of the steward about the domain of a table: review column by column, private discovery, the fit report."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError

from maquette.domain import Attribute, Domain
from maquette.domain.remarks import Finding, check
from maquette.domain.review import COLUMNS, REVIEWS
from maquette.errors import MaquetteError
from maquette.web import state
from maquette.web.access import check_form, service_of, signed_in
from maquette.web.jobs import RUNNING
from maquette.web.link import Link
from maquette.web.pages import page, redirect, status_of, words_of
from maquette.web.requests import DiscoveryRequest, invalid
from maquette.web.service import OPEN
from maquette.web.steward import Csrf, is_discovery, start_job

router = APIRouter(include_in_schema=False)
KINDS = (
    ("", "find out"),
    ("number", "numbers"),
    ("text", "texts"),
    ("date", "days or moments"),
    ("drop", "leave it out"),
)
"""What a steward may say about a column before its domain is found."""
MAX_TEXT = 20_000
Name = Annotated[str, Form(max_length=500)]


@router.get("/t/{table}/domain", response_class=HTMLResponse)
def domain_page(request: Request, table: str, fit: bool = False) -> Response:
    """What is declared, and what there is to do about it."""
    person, service = signed_in(request), service_of(request)
    link = service.steward_link(person, table)
    report = link.call("fit", who=person.name) if fit else None
    forecast, problem = None, None
    if "epsilon" in request.query_params:
        try:
            wish = _wish(request.query_params, link)
            forecast = link.call("forecast_discovery", request=wish.model_dump())
        except MaquetteError as error:
            problem = words_of(error)
    return _domain_page(request, table, report=report, forecast=forecast, problem=problem)


def _domain_page(
    request: Request,
    table: str,
    *,
    report: dict[str, Any] | None = None,
    forecast: dict[str, Any] | None = None,
    problem: str | None = None,
    status: int | None = None,
) -> Response:
    person, service = signed_in(request), service_of(request)
    facts = service.steward_link(person, table).call("describe")
    domain = None if facts["domain"] is None else Domain.from_dict(facts["domain"])
    findings = [] if domain is None else check(domain)
    return page(
        request,
        "domain.html.j2",
        status=status,
        table=table,
        facts=facts,
        stage=facts["stage"],
        is_open=facts["stage"] == OPEN,
        domain=domain,
        columns=[] if domain is None else [_column(domain, a, findings) for a in domain],
        findings=[one for one in findings if one.attribute is None],
        dropped=_dropped(domain),
        report=report,
        kinds=KINDS,
        values=request.query_params,
        forecast=forecast,
        running=_running(request, table),
        problem=problem,
        key=secrets.token_urlsafe(16),
    )


def _column(domain: Domain, attribute: Attribute, findings: Sequence[Finding]) -> dict[str, Any]:
    """One column as the page shows it."""
    note = (domain.notes.get(COLUMNS) or {}).get(attribute.name) or {}
    return {
        "name": attribute.name,
        "kind": str(attribute.kind),
        "values": attribute.values_in_words,
        "cells": attribute.size,
        "entry": json.dumps(attribute.entry(), ensure_ascii=False),
        "review": (domain.notes.get(REVIEWS) or {}).get(attribute.name),
        "origin": note.get("from") or note.get("what"),
        "receipts": note.get("receipts", []),
        "risk": note.get("risk"),
        "findings": [one for one in findings if one.attribute == attribute.name],
    }


def _dropped(domain: Domain | None) -> list[tuple[str, str]]:
    """Columns that a discovery left out, and why."""
    notes = {} if domain is None else domain.notes.get(COLUMNS) or {}
    return [(name, str(note.get("what"))) for name, note in notes.items() if note.get("how") == "dropped"]


def _running(request: Request, table: str) -> dict[str, Any] | None:
    rows = service_of(request).store.rows(state.job, state=RUNNING, table=table)
    return next((row for row in rows if is_discovery(row)), None)


def _wish(values: Any, link: Link) -> DiscoveryRequest:
    """The discovery that a form describes: the number of a column stands for its name."""
    header = link.call("describe").get("header", [])
    columns = {name: values.get(f"k{i}") for i, name in enumerate(header) if values.get(f"k{i}")}
    try:
        return DiscoveryRequest.model_validate(
            {
                "epsilon": values.get("epsilon", ""),
                "delta": values.get("delta") or 0.0,
                "columns": columns,
            }
        )
    except ValidationError as error:
        raise invalid(error) from None


@router.post("/t/{table}/domain/confirm", response_class=HTMLResponse)
def confirm(
    request: Request,
    table: str,
    column: Name,
    why: Annotated[str, Form(max_length=2000)] = "",
    csrf: Csrf = "",
) -> Response:
    """Who says that the values of a column are public knowledge, and why."""
    return _change(request, table, csrf, "confirm", name=column, why=why)


@router.post("/t/{table}/domain/drop", response_class=HTMLResponse)
def drop(request: Request, table: str, column: Name, csrf: Csrf = "") -> Response:
    return _change(request, table, csrf, "drop", name=column)


@router.post("/t/{table}/domain/edit", response_class=HTMLResponse)
def edit(
    request: Request,
    table: str,
    column: Name,
    entry: Annotated[str, Form(max_length=MAX_TEXT)],
    csrf: Csrf = "",
) -> Response:
    return _change(request, table, csrf, "edit", name=column, entry=entry)


@router.post("/t/{table}/domain/accept", response_class=HTMLResponse)
def accept(request: Request, table: str, csrf: Csrf = "") -> Response:
    """Use the domain that was found."""
    return _change(request, table, csrf, "accept")


def _change(request: Request, table: str, csrf: str, call: str, **arguments: Any) -> Response:
    person, service = check_form(request, csrf), service_of(request)
    try:
        service.change_domain(person, table, call, **arguments)
    except MaquetteError as error:
        service.steward_link(person, table)
        return _domain_page(request, table, problem=words_of(error), status=status_of(error))
    return redirect(f"/t/{table}/domain")


@router.post("/t/{table}/discover")
async def discover(request: Request, table: str) -> Response:
    """Pay for a discovery, as a job."""
    form = await request.form()
    return await anyio.to_thread.run_sync(start_job, request, table, form, lambda link: _wish(form, link))
