"""The HTTP interface, /api/v1: the same as the pages for programs, described by OpenAPI.

A token goes in the header (`Authorization: Bearer mq_...`). What changes something takes an `Idempotency-Key`: sent
again it does nothing twice and returns the same. Refusals are problem+json.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from maquette.results.document import plain
from maquette.results.select import is_select
from maquette.web import explore
from maquette.web.access import service_of
from maquette.web.api_values import (
    Answer,
    Column,
    Entries,
    Forecast,
    ForecastQuestion,
    History,
    Job,
    JobProgress,
    Jobs,
    LedgerFacts,
    Problem,
    PublishedAnswer,
    Question,
    ReleaseAnswer,
    ReleaseFacts,
    Releases,
    Result,
    SessionResult,
    Standing,
    Statement,
    TableFacts,
    Tables,
)
from maquette.web.auth import Person
from maquette.web.pages import Missing
from maquette.web.requests import ReleaseRequest
from maquette.web.service import KEY, OPEN
from maquette.web.steward import events

STATUSES = {
    400: "The question, or a value in it, is not possible; the text says why.",
    401: "No valid token.",
    403: "Your role may not do this.",
    404: "It does not exist, or it is not yours.",
    413: "The request is larger than 64 KiB.",
    422: "The request does not have the form that is described here, or its key was used for something else.",
    429: "Too many requests or steps; see Retry-After.",
    503: "The table is being opened again, or the ledger cannot be written.",
}
PAID = {402: "The budget does not cover it. Nothing was read and nothing was spent."}


def responses(more: dict[int, str] | None = None) -> dict[int | str, dict[str, Any]]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": text, "model": Problem, "content": content}
        for status, text in (STATUSES | (more or {})).items()
    }


router = APIRouter(prefix="/api/v1", responses=responses())
bearer = HTTPBearer(auto_error=False, description="A token of the steward, mq_...")


def token_holder(
    request: Request, _credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Person:
    """Whose token a request carries, which was looked at when the request was counted."""
    person: Person | None = request.state.token_holder
    if person is None:
        raise HTTPException(
            401, "expected a valid token: Authorization: Bearer mq_...", {"www-authenticate": "Bearer"}
        )
    return person


Who = Annotated[Person, Depends(token_holder)]
TableName = Annotated[str, Path(max_length=40, pattern="^[a-z0-9_.-]+$", description="The name of a table.")]
ReleaseName = Annotated[
    str, Path(max_length=80, pattern="^[a-z0-9-]+$", description="The name of a release.")
]
JobName = Annotated[str, Path(max_length=40, pattern="^[0-9a-f]+$", description="The id of a job.")]
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=8,
        max_length=100,
        pattern="^[A-Za-z0-9_.:-]+$",
        description="One for each wish; sent again with the same wish it costs nothing and returns the same.",
    ),
]
After = Annotated[int, Query(ge=0, le=2**53, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=500, description="Items of a page.")]


# Tables and questions about them.


def _facts(described: dict[str, Any], service: Any) -> TableFacts:
    domain = service.domain(described["name"])
    records = described["records"]
    return TableFacts.model_validate(
        described
        | {
            "columns": [Column(name=a.name, kind=a.kind, cells=a.size) for a in domain],
            "records": None if records is None else records["value"],
            "records_public": bool(records and records["is_public"]),
        }
    )


@router.get("/tables", operation_id="list_tables")
def list_tables(request: Request, who: Who) -> Tables:
    """The tables that you may see."""
    service = service_of(request)
    described = [service.describe(who, name) for name in service.tables_of(who)]
    return Tables(items=[_facts(one, service) for one in described if one["stage"] == OPEN])


@router.get("/tables/{table}", operation_id="get_table")
def get_table(request: Request, who: Who, table: TableName) -> TableFacts:
    """What is public about a table, and what is left to you."""
    service = service_of(request)
    return _facts(service.describe(who, table), service)


@router.post("/tables/{table}/forecast", operation_id="forecast")
def forecast(request: Request, who: Who, table: TableName, question: ForecastQuestion) -> Forecast:
    """What a question would cost at most and what its answer would state. Spends and looks at nothing.

    Beside it, under `published`, what releases of the table answer for nothing.
    """
    service = service_of(request)
    forecast = service.forecast(who, table, question.query)
    answers = [] if is_select(question.query) else service.published_answers(who, table, question.query)
    return Forecast(**forecast, published=[_published(*one) for one in answers])


def _published(name: str, answer: Any) -> PublishedAnswer:
    fields = ReleaseAnswer.model_validate(answer, from_attributes=True)
    return PublishedAnswer(release=name, **fields.model_dump())


@router.post(
    "/tables/{table}/questions", operation_id="ask", response_model=Answer, responses=responses(PAID)
)
async def ask(request: Request, who: Who, table: TableName, question: Question, key: Key) -> Response:
    """Answer a question out of your budget. What was answered before is free."""
    answer = await service_of(request).ask_async(
        who, table, question.query, key=key, at_most=question.at_most, allow_useless=question.allow_useless
    )
    return Response(Answer(**answer).model_dump_json(), media_type="application/json")


@router.post("/tables/{table}/sql", operation_id="session_sql", responses=responses(PAID))
def session_sql(
    request: Request, who: Who, table: TableName, statement: Statement, key: Key
) -> SessionResult:
    """Counts and shares by groups out of your budget: all cells or none. What was answered before is free."""
    result = service_of(request).sql(
        who,
        table,
        statement.statement,
        key=key,
        at_most=statement.at_most,
        allow_useless=statement.allow_useless,
    )
    return SessionResult(**result)


@router.post("/tables/{table}/size", operation_id="buy_size", responses=responses(PAID))
def buy_size(request: Request, who: Who, table: TableName) -> Standing:
    """Buy the number of records, which the first question needs; once it is there this costs nothing."""
    service = service_of(request)
    service.buy_size(who, table)
    return Standing(**service.asking_link(who, table).call("standing", who=who.name))


@router.get("/tables/{table}/synthetic", operation_id="session_rows")
def session_rows(
    request: Request, who: Who, table: TableName, m: Annotated[int, Query(ge=1, le=10_000)] = 1000
) -> Result:
    """Rows drawn from what your questions taught so far: free, as good as those questions made them."""
    rows = service_of(request).asking_link(who, table).call("synthetic", who=who.name, m=m)
    return Result(**rows, notes=[])


@router.get("/tables/{table}/questions", operation_id="history")
def history(request: Request, who: Who, table: TableName, after: After = 0, limit: Limit = 50) -> History:
    """What you asked, in order."""
    page = service_of(request).history(who, table, after=after, limit=limit)
    for one in page["items"]:
        one["key"] = None if one["key"] is None else one["key"].removeprefix(KEY)
    return History(**page)


# Releases: answers, tables, SQL and rows of what is published. Costs nothing.


def _release(request: Request, who: Person, name: str) -> Any:
    service = service_of(request)
    if name not in service.visible_releases(who):
        raise Missing(f"there is no release called '{name}' for you")
    return service.catalog.release(name)


def _release_facts(name: str, release: Any) -> ReleaseFacts:
    rows = None if release.database is None else release.database.m
    return ReleaseFacts(
        name=name,
        headline=release.headline,
        facts=release.facts(),
        columns=list(release.measured),
        answers=min(release.workload.count, 2**53),
        rows=rows,
        domain=release.domain.to_dict(),
    )


@router.get("/releases", operation_id="list_releases")
def list_releases(
    request: Request,
    who: Who,
    after: Annotated[
        str, Query(max_length=80, pattern="^[a-z0-9-]*$", description="`next` of the page before.")
    ] = "",
    limit: Limit = 50,
) -> Releases:
    """Releases of your tables that are published, by name; without those that are damaged."""
    service = service_of(request)
    names = [name for name in service.visible_releases(who) if name > after]
    whole, _ = service.catalog.readable(names[:limit])
    items = [_release_facts(name, release) for name, release in whole]
    return Releases(items=items, next=names[limit - 1] if len(names) > limit else None)


@router.get("/releases/{name}", operation_id="get_release")
def get_release(request: Request, who: Who, name: ReleaseName) -> ReleaseFacts:
    return _release_facts(name, _release(request, who, name))


@router.get("/releases/{name}/answer", operation_id="answer_release")
def answer_release(
    request: Request,
    who: Who,
    name: ReleaseName,
    q: Annotated[str, Query(min_length=1, max_length=explore.MAX_TEXT)],
) -> ReleaseAnswer:
    """The share of the records that meet a condition. Costs nothing."""
    return ReleaseAnswer.model_validate(_release(request, who, name).answer(q), from_attributes=True)


def _result(table: Any) -> Result:
    names = table.column_names
    lines = plain(table.arrow.slice(0, 10_000).to_pylist())
    more = [f"the first 10,000 of {len(table):,} rows"] if len(table) > 10_000 else []
    return Result(
        columns=names, rows=[[line[name] for name in names] for line in lines], notes=[*table.notes, *more]
    )


@router.get("/releases/{name}/table", operation_id="table_of_release")
def table_of_release(
    request: Request,
    who: Who,
    name: ReleaseName,
    by: Annotated[list[str], Query(max_length=explore.MAX_COLUMNS)] = [],  # noqa: B006
    figure: Annotated[str, Query(max_length=200)] = "",
    where: Annotated[str, Query(max_length=explore.MAX_TEXT)] = "",
) -> Result:
    """Figures by the cells of some columns. Costs nothing."""
    _release(request, who, name)
    return _result(service_of(request).catalog.view(name, by, figure=figure, where=where).table)


@router.get("/releases/{name}/sql", operation_id="sql_of_release")
def sql_of_release(
    request: Request,
    who: Who,
    name: ReleaseName,
    q: Annotated[str, Query(min_length=1, max_length=explore.MAX_TEXT)],
) -> Result:
    """One SELECT over a release. Costs nothing."""
    return _result(explore.sql(_release(request, who, name), q))


@router.get(
    "/releases/{name}/rows.parquet",
    operation_id="rows_of_release",
    response_class=Response,
    responses={
        200: {"content": {explore.MEDIA["parquet"]: {"schema": {"type": "string", "format": "binary"}}}}
    },
)
def rows_of_release(request: Request, who: Who, name: ReleaseName) -> Response:
    """The synthetic rows."""
    table = explore.whole_table(_release(request, who, name), "rows")
    return Response(explore.file(table, "parquet"), media_type=explore.MEDIA["parquet"])


@router.get(
    "/releases/{name}/release.zip",
    operation_id="folder_of_release",
    response_class=Response,
    responses={200: {"content": {explore.MEDIA["zip"]: {"schema": {"type": "string", "format": "binary"}}}}},
)
def folder_of_release(request: Request, who: Who, name: ReleaseName) -> Response:
    """The whole release folder: unpacked, `maquette.load` reads it."""
    _release(request, who, name)
    return explore.packed(service_of(request).catalog.folder(name), name)


# Releases as jobs. Stewards only.


def _job(request: Request, row: dict[str, Any]) -> Job:
    release = service_of(request).release_of_job(row["id"])
    return Job.model_validate(row | {"share": row["share"] / 1000, "release": release})


@router.post(
    "/tables/{table}/releases", operation_id="start_release", status_code=202, responses=responses(PAID)
)
def start_release(request: Request, who: Who, table: TableName, wish: ReleaseRequest, key: Key) -> Job:
    """Begin a release as a job. Stewards only."""
    return _job(request, service_of(request).start_job(who, table, wish, key=key))


EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "enum": ["progress", "end"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": JobProgress.model_json_schema(),
        },
    },
}
"""One server-sent event, as OpenAPI 3.2 describes the items of a stream."""


@router.get("/jobs", operation_id="list_jobs")
def list_jobs(request: Request, who: Who, after: After = 0, limit: Limit = 50) -> Jobs:
    """Jobs, the newest first. Stewards only."""
    rows = service_of(request).jobs(who, after=after, limit=limit)
    last = rows[-1]["number"] if len(rows) == limit else None
    return Jobs(items=[_job(request, row) for row in rows], next=last)


@router.get("/jobs/{job}", operation_id="get_job")
def get_job(request: Request, who: Who, job: JobName) -> Job:
    return _job(request, service_of(request).job(who, job))


@router.get(
    "/jobs/{job}/events",
    operation_id="follow_job",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"itemSchema": EVENT}}}},
)
def follow_job(request: Request, who: Who, job: JobName) -> Response:
    """Server-sent events: `progress` with the state, and `end`."""
    return events(request, who, job)


@router.post("/jobs/{job}/{action}", operation_id="change_job")
def change_job(
    request: Request, who: Who, job: JobName, action: Literal["cancel", "resume", "publish", "hide"]
) -> Job:
    """Cancel or resume a job; publish its release to the analysts of the table, or hide it."""
    return _job(request, service_of(request).change_job(who, job, action))


# The ledger of a table and the log of who did what. Stewards only.


@router.get("/tables/{table}/ledger", operation_id="get_ledger")
def get_ledger(request: Request, who: Who, table: TableName) -> LedgerFacts:
    """The account of a table. Stewards only."""
    return LedgerFacts(**service_of(request).steward_link(who, table).call("ledger"))


@router.get("/tables/{table}/ledger/entries", operation_id="list_entries")
def list_entries(
    request: Request, who: Who, table: TableName, after: After = 0, limit: Limit = 50
) -> Entries:
    """The chain in order. Stewards only."""
    return Entries(**service_of(request).steward_link(who, table).call("entries", after=after, limit=limit))


@router.get("/tables/{table}/audit", operation_id="list_audit")
def list_audit(
    request: Request,
    who: Who,
    table: TableName,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    limit: Limit = 50,
) -> Entries:
    """The log of who did what, the newest first. Stewards only."""
    return Entries(**service_of(request).steward_link(who, table).call("audit", before=before, limit=limit))


@router.post("/tables/{table}/ledger/verify", operation_id="verify_ledger")
def verify_ledger(request: Request, who: Who, table: TableName) -> dict[str, Any]:
    """Read the whole ledger and the whole log again. Stewards only."""
    return service_of(request).steward_link(who, table).call("verify")


operations = APIRouter(include_in_schema=False)


@operations.get("/metrics")
def metrics(request: Request, who: Who) -> Response:
    """Counters for Prometheus, with the token of a steward."""
    service = service_of(request)
    service.require_steward(who)
    return Response(service.metrics(), media_type="text/plain; version=0.0.4")
