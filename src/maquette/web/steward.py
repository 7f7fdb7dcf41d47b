"""Pages of the steward: plan and release, jobs, ledger, domain, people."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import ValidationError

from maquette.core.budget import Budget, Unit
from maquette.errors import MaquetteError, ParameterError
from maquette.web import charts, planning, state
from maquette.web.access import check_form, is_partial, service_of, signed_in
from maquette.web.api_values import JobProgress
from maquette.web.asking import part
from maquette.web.config import ANALYST
from maquette.web.jobs import RUNNING
from maquette.web.link import Link
from maquette.web.pages import page, redirect
from maquette.web.requests import DiscoveryRequest, ReleaseRequest, invalid

router = APIRouter(include_in_schema=False)
Csrf = Annotated[str, Form()]
TYPICAL = 20_000
"""Records that a plan counts with where their number is not known."""
ENTRY_WORDS = {
    "open": "the ledger was made",
    "bind": "it was bound to the table",
    "answer": "its result was stored",
    "settle": "the rest of it went back",
}
"""Entries of the chain that pay for nothing."""
EVENT_SECONDS = 0.5
MAX_EVENTS = 7200


# --- plan and release -----------------------------------------------------------------------------------------------


def _request(values: Any) -> ReleaseRequest:
    """The release that a form describes."""
    numbers = {name: values.get(name) or None for name in ("epsilon", "delta", "beta")}
    fields: dict[str, Any] = {name: float(text) for name, text in numbers.items() if text}
    fields |= {
        "name": values.get("name", ""),
        "mechanism": values.get("mechanism") or "auto",
        "marginals": [int(one) for one in values.getlist("marginals")],
        "prefixes": [one for one in values.getlist("prefixes") if one],
        "ranges": [one.strip() for one in values.get("ranges", "").splitlines() if one.strip()],
        "where": [one.strip() for one in values.get("where", "").splitlines() if one.strip()],
    }
    return ReleaseRequest.model_validate(fields)


def _read(values: Any) -> ReleaseRequest:
    try:
        return _request(values)
    except ValidationError as error:
        raise invalid(error) from None
    except ValueError:
        raise ParameterError("expected numbers in the fields for numbers") from None


@router.get("/t/{table}/plan", response_class=HTMLResponse)
def plan_page(
    request: Request, table: str, n: Annotated[int | None, Query(ge=1, le=10**12)] = None
) -> Response:
    person, service = signed_in(request), service_of(request)
    link = service.steward_link(person, table)
    ledger, facts, domain = link.call("ledger"), service.describe(person, table), service.domain(table)
    records = n or (facts["records"] or {}).get("value") or TYPICAL
    setting = planning.Setting(
        records, facts["relation"], "gaussian" if facts["unit"] == Unit.HALF_MU_SQUARED else "zcdp"
    )
    total = Budget(ledger["epsilon"], ledger["delta"], setting.accounting)
    values, problem, chosen, choices, whole, offers = request.query_params, None, None, [], None, []
    note = None
    if values:
        try:
            chosen = _read(values)
            choices = planning.choices(domain, chosen, setting, further=ledger["further"])
            whole = planning.compared(domain, chosen, setting)
            offers = planning.offers(whole)
            note = planning.note_of_cost(chosen, total)
        except MaquetteError as error:
            problem = str(error)
    return page(
        request,
        "plan.html.j2",
        table=table,
        domain=domain,
        ledger=ledger,
        n=records,
        chosen=chosen,
        choices=choices,
        ordered=[a.name for a in domain if a.ordered],
        chosen_number=next(
            (i for i, one in enumerate(choices) if chosen and one.epsilon == chosen.epsilon), 0
        ),
        plan=whole,
        curve=charts.curve([(one.epsilon, one.expected, one.statement) for one in choices]),
        offers=offers,
        note=note,
        spans=charts.spans([(one.expected, one.statement) for one in offers]),
        problem=problem,
        key=secrets.token_urlsafe(16),
        part=part,
    )


@router.post("/t/{table}/release")
async def release(request: Request, table: str) -> Response:
    form = await request.form()
    return await anyio.to_thread.run_sync(start_job, request, table, form, lambda _: _read(form))


def start_job(
    request: Request, table: str, form: Any, wish: Callable[[Link], ReleaseRequest | DiscoveryRequest]
) -> Response:
    """Begin what a form describes as a job, if the form is from this session."""
    person, service = check_form(request, str(form.get("csrf", ""))), service_of(request)
    key = str(form.get("key", ""))
    if not 8 <= len(key) <= 100:
        raise ParameterError("expected a key of 8 to 100 characters")
    row = service.start_job(person, table, wish(service.steward_link(person, table)), key=key)
    return redirect(f"/jobs/{row['id']}")


# --- jobs -----------------------------------------------------------------------------------------------------------


@router.get("/jobs", response_class=HTMLResponse)
def jobs(request: Request, after: int = 0) -> Response:
    person, service = signed_in(request), service_of(request)
    rows = service.jobs(person, after=after, limit=50)
    for row in rows:
        row["release"] = service.release_of_job(row["id"])
        row["is_discovery"] = is_discovery(row)
    return page(request, "jobs.html.j2", jobs=rows, after=rows[-1]["number"] if len(rows) == 50 else None)


@router.get("/jobs/{job}", response_class=HTMLResponse)
def job_page(request: Request, job: str) -> Response:
    person, service = signed_in(request), service_of(request)
    row = service.job(person, job)
    is_running = row["state"] == RUNNING
    shown = page(
        request,
        "job.html.j2",
        job=row,
        wishes=_wishes(row),
        is_discovery=is_discovery(row),
        release=service.release_of_job(job),
        is_running=is_running,
    )
    if is_partial(request) and not is_running:
        shown.headers["hx-refresh"] = "true"  # the page that follows its progress has another form now
    return shown


def is_discovery(row: dict[str, Any]) -> bool:
    """Does this job find a domain, rather than make a release?"""
    return json.loads(row["request"]).get("kind") == "discovery"


def _wishes(row: dict[str, Any]) -> dict[str, str]:
    """What a job was asked for, in words."""
    wishes = json.loads(row["request"])
    wishes.pop("kind", None)
    return {name: words_of_value(value) for name, value in wishes.items() if value}


def words_of_value(value: Any) -> str:
    """A value of a request or of the log, in words."""
    if isinstance(value, dict):
        return ", ".join(
            f"{name}: {words_of_value(one)}" for name, one in value.items() if one not in (None, "", [])
        )
    if isinstance(value, list):
        return ", ".join(words_of_value(one) for one in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@router.post("/jobs/{job}/{action}")
def job_action(request: Request, job: str, action: str, csrf: Csrf = "") -> Response:
    service_of(request).change_job(check_form(request, csrf), job, action)
    return redirect(f"/jobs/{job}")


def events(request: Request, person: Any, job: str) -> Response:
    """The states of a job as they change, until it ends (server-sent events)."""
    service = service_of(request)
    service.job(person, job)

    async def stream() -> AsyncIterator[str]:
        last = ""
        for _ in range(MAX_EVENTS):
            row = await anyio.to_thread.run_sync(service.job, person, job)
            data = JobProgress.model_validate(row).model_dump_json()
            if data != last:
                yield f"event: {'progress' if row['state'] == RUNNING else 'end'}\ndata: {data}\n\n"
                last = data
            if row["state"] != RUNNING or await request.is_disconnected():
                return
            await anyio.sleep(EVENT_SECONDS)

    return StreamingResponse(stream(), media_type="text/event-stream")


# --- the ledger -----------------------------------------------------------------------------------------------------


@router.get("/t/{table}/ledger", response_class=HTMLResponse)
def ledger_page(request: Request, table: str, after: int = 0, before: int | None = None) -> Response:
    person, service = signed_in(request), service_of(request)
    link = service.steward_link(person, table)
    return _ledger_page(request, table, link, after=after, before=before)


def _ledger_page(
    request: Request,
    table: str,
    link: Any,
    *,
    after: int = 0,
    before: int | None = None,
    said: str | None = None,
) -> Response:
    ledger = link.call("ledger")
    spent = link.call("spent")
    line = charts.steps(
        [one["spent"] for one in spent],
        top=ledger["total"],
        first=spent[0]["created"][:16] if spent else "",
        last=spent[-1]["created"][:16] if spent else "",
        top_text=f"{ledger['total']:.4g} {ledger['unit']}, the whole ledger",
    )
    return page(
        request,
        "ledger.html.j2",
        table=table,
        ledger=ledger,
        line=line,
        entries=link.call("entries", after=after, limit=50),
        audit=link.call("audit", before=before, limit=50),
        said=said,
        part=part,
        people=_by_person(ledger),
        entry_words=ENTRY_WORDS,
        words=words_of_value,
    )


def _by_person(ledger: dict[str, Any]) -> list[dict[str, Any]]:
    """What each analyst, and the releases together, were charged and still hold."""
    sums: dict[str, dict[str, Any]] = {}
    for one in ledger["holders"]:
        who = (one["who"] or f"{one['tag']}s of the steward").removeprefix(ANALYST)
        line = sums.setdefault(who, {"who": who, "spent": 0.0, "held": 0.0, "count": 0})
        line["spent"] += one["spent"]
        line["held"] += one["held"]
        line["count"] += 1
    return sorted(sums.values(), key=lambda line: -line["spent"])


@router.post("/t/{table}/verify", response_class=HTMLResponse)
def verify(request: Request, table: str, csrf: Csrf = "") -> Response:
    person, service = check_form(request, csrf), service_of(request)
    link = service.steward_link(person, table)
    whole = link.call("verify")
    said = (
        f"The whole ledger and {whole['audit_lines']:,} lines of the log are as they were written, up to receipt "
        f"{whole['receipt']}."
    )
    return _ledger_page(request, table, link, said=said)


@router.post("/t/{table}/settle", response_class=HTMLResponse)
def settle(
    request: Request, table: str, key: Annotated[str, Form(max_length=200)], csrf: Csrf = ""
) -> Response:
    service_of(request).settle(check_form(request, csrf), table, key)
    return redirect(f"/t/{table}/ledger")


# --- people ------------------------------------------------------------------------------------------


@router.get("/people", response_class=HTMLResponse)
def people_page(request: Request) -> Response:
    return _people_page(request)


def _people_page(request: Request, *, token: str | None = None, problem: str | None = None) -> Response:
    person, service = signed_in(request), service_of(request)
    service.require_steward(person)
    return page(
        request,
        "people.html.j2",
        people=service.config.settings.people,
        tokens=service.store.rows(state.token),
        token=token,
        problem=problem,
        days=service.config.settings.token_days,
        now=int(time.time()),
    )


@router.post("/people/tokens", response_class=HTMLResponse)
def new_token(
    request: Request,
    name: Annotated[str, Form(max_length=60)],
    label: Annotated[str, Form(max_length=80)] = "",
    days: Annotated[int, Form(ge=1, le=3650)] = 90,
    csrf: Csrf = "",
) -> Response:
    """A new token, shown on this one page and never again."""
    person, service = check_form(request, csrf), service_of(request)
    service.require_steward(person)
    try:
        token = service.door.new_token(name, label=label, days=days)
    except MaquetteError as error:
        return _people_page(request, problem=str(error))
    service.record_sign_in(person, "made a token")
    return _people_page(request, token=token)


@router.post("/people/tokens/{token}/revoke")
def revoke(request: Request, token: str, csrf: Csrf = "") -> Response:
    person, service = check_form(request, csrf), service_of(request)
    service.require_steward(person)
    service.door.revoke(token)
    service.record_sign_in(person, "revoked a token")
    return redirect("/people")
