"""The HTTP interface, /api/v1: the same as the pages for programs, described by OpenAPI.

A token goes in the header (`Authorization: Bearer mq_...`). What changes something takes an `Idempotency-Key`: sent
again it does nothing twice and returns the same. Refusals are problem+json.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from maquette.domain.attribute import Kind
from maquette.results.document import plain
from maquette.web import explore
from maquette.web.access import service_of, slow_down
from maquette.web.auth import Person
from maquette.web.requests import ReleaseRequest
from maquette.web.steward import events

STATUSES = {
    400: "The question or the value cannot be.",
    401: "No valid token.",
    403: "Not for this role.",
    404: "Not there, or not yours.",
    413: "More than 64 KiB.",
    422: "Not in the form that is described here, or a key that was used for something else.",
    429: "Too many requests or steps; see Retry-After.",
    503: "The table is being opened again, or the ledger cannot be written.",
}
PAID = {402: "The budget does not cover it. Nothing was read and nothing was spent."}


class Problem(BaseModel):
    """A refusal (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = ""


def _responses(more: dict[int, str] | None = None) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"description": text, "model": Problem, "content": {"application/problem+json": {}}}
        for status, text in (STATUSES | (more or {})).items()
    }


bearer = HTTPBearer(auto_error=False, description="A token of the steward, mq_...")


def token_holder(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Person:
    """Whose token a request carries. Cookies do not count here, so that no other site can use them."""
    person = None if credentials is None else service_of(request).door.by_token(credentials.credentials)
    if person is None:
        raise HTTPException(
            401, "expected a valid token: Authorization: Bearer mq_...", {"www-authenticate": "Bearer"}
        )
    slow_down(request, person)
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
Text = Annotated[str, Field(min_length=1, max_length=explore.MAX_TEXT)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Question(_Body):
    """A condition on one record."""

    query: Text
    at_most: float | None = Field(
        default=None, ge=0, le=1e6, description="The most that it may take, in `unit`."
    )
    allow_useless: bool = Field(default=False, description="Also answer with an error of 50 points or more.")


class ForecastQuestion(_Body):
    query: Text


class Column(BaseModel):
    name: str
    kind: Kind
    cells: int


class Standing(BaseModel):
    left: float
    total: float
    unit: str
    questions: int


class TableFacts(BaseModel):
    """What is public about a table, and what is left to whoever asks."""

    name: str
    about: str
    relation: str
    columns: list[Column]
    records: int | None = Field(description="Noisy unless public; null while nobody has bought it.")
    records_public: bool = False
    standing: Standing | None = Field(description="Null for people without a budget of their own.")
    domain: dict[str, Any] = Field(description="The declared domain, as a domain file holds it.")


class Tables(BaseModel):
    items: list[TableFacts]


class Forecast(BaseModel):
    query: str
    kind: str
    cost: float
    error: float | None
    left: float
    total: float
    unit: str
    size_cost: float
    refusal: str | None
    beta: float


class Answer(BaseModel):
    query: str
    value: float
    error: float
    low: float
    high: float
    beta: float
    holds_for: str
    kind: Literal["free", "cached", "paid"]
    cost: float
    left: float
    total: float
    unit: str
    receipt: str | None
    notes: list[str]


class PastQuestion(BaseModel):
    sequence: int
    when: str
    what: str
    value: float | None
    error: float | None
    kind: str
    cost: float


class History(BaseModel):
    items: list[PastQuestion]
    next: int | None


class ReleaseFacts(BaseModel):
    name: str
    headline: str
    facts: dict[str, str]
    columns: list[str]
    answers: int
    rows: int | None


class Releases(BaseModel):
    items: list[ReleaseFacts]


class ReleaseAnswer(BaseModel):
    query: str
    value: float
    count: float
    error: float | None
    low: float | None
    high: float | None
    confidence: float | None
    source: str
    statement: str | None
    notes: list[str]


class Result(BaseModel):
    """A table of figures with their errors."""

    columns: list[str]
    rows: list[list[Any]]
    notes: list[str]


class Job(BaseModel):
    id: str
    number: int
    table: str
    person: str
    state: Literal["running", "done", "failed", "cancelled"]
    stage: str
    share: float = Field(description="How far it is, from 0 to 1.")
    why: str
    published: bool
    release: str | None


class Jobs(BaseModel):
    items: list[Job]
    next: int | None


class LedgerFacts(BaseModel):
    name: str
    epsilon: float
    delta: float
    unit: str
    total: float
    spent: float
    reserved: float
    left: float
    receipt: str


class Entries(BaseModel):
    items: list[dict[str, Any]]
    next: int | None


router = APIRouter(prefix="/api/v1", responses=_responses())


# --- tables and questions -------------------------------------------------------------------------------------------


def _facts(described: dict[str, Any], service: Any) -> TableFacts:
    domain = service.domain(described["name"])
    records = described["records"]
    return TableFacts(
        name=described["name"],
        about=described["about"],
        relation=described["relation"],
        columns=[Column(name=a.name, kind=a.kind, cells=a.size) for a in domain],
        records=None if records is None else records["value"],
        records_public=bool(records and records["is_public"]),
        standing=described["standing"],
        domain=described["domain"],
    )


@router.get("/tables", operation_id="list_tables")
def list_tables(request: Request, who: Who) -> Tables:
    """The tables that you may see."""
    service = service_of(request)
    return Tables(items=[_facts(service.describe(who, name), service) for name in service.tables_of(who)])


@router.get("/tables/{table}", operation_id="get_table")
def get_table(request: Request, who: Who, table: TableName) -> TableFacts:
    """What is public about a table, and what is left to you."""
    service = service_of(request)
    return _facts(service.describe(who, table), service)


@router.post("/tables/{table}/forecast", operation_id="forecast")
def forecast(request: Request, who: Who, table: TableName, question: ForecastQuestion) -> Forecast:
    """What a question would cost at most and what its answer would state. Spends and looks at nothing."""
    return Forecast(**service_of(request).forecast(who, table, question.query))


@router.post("/tables/{table}/questions", operation_id="ask", responses=_responses(PAID))
def ask(request: Request, who: Who, table: TableName, question: Question, key: Key) -> Answer:
    """Answer a question out of your budget. What was answered before is free."""
    answer = service_of(request).ask(
        who, table, question.query, key=key, at_most=question.at_most, allow_useless=question.allow_useless
    )
    return Answer(**answer)


@router.post("/tables/{table}/size", operation_id="buy_size", responses=_responses(PAID))
def buy_size(request: Request, who: Who, table: TableName) -> Standing:
    """Buy the number of records, which the first question needs; once it is there this costs nothing."""
    link = service_of(request).asking_link(who, table)
    link.call("buy_size", who=who.name, role=who.role)
    return Standing(**link.call("standing", who=who.name))


@router.get("/tables/{table}/questions", operation_id="history")
def history(request: Request, who: Who, table: TableName, after: After = 0, limit: Limit = 50) -> History:
    """What you asked, in order."""
    return History(**service_of(request).history(who, table, after=after, limit=limit))


# --- releases -------------------------------------------------------------------------------------------------------


def _release(request: Request, who: Person, name: str) -> Any:
    service = service_of(request)
    if name not in service.visible_releases(who):
        from maquette.web.service import Missing

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
    )


@router.get("/releases", operation_id="list_releases")
def list_releases(request: Request, who: Who) -> Releases:
    """Releases of your tables that are published."""
    service = service_of(request)
    names = service.visible_releases(who)
    return Releases(items=[_release_facts(name, service.catalog.release(name)) for name in names])


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
    answer = _release(request, who, name).answer(q)
    return ReleaseAnswer(
        query=answer.query,
        value=answer.value,
        count=answer.count,
        error=answer.error,
        low=answer.low,
        high=answer.high,
        confidence=answer.confidence,
        source=answer.source,
        statement=answer.statement,
        notes=list(answer.notes),
    )


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
    return _result(explore.view(_release(request, who, name), by, figure=figure, where=where).table)


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


# --- jobs and the ledger --------------------------------------------------------------------------------------------


def _job(request: Request, row: dict[str, Any]) -> Job:
    return Job(
        id=row["id"],
        number=row["number"],
        table=row["table"],
        person=row["person"],
        state=row["state"],
        stage=row["stage"],
        share=row["share"] / 1000,
        why=row["why"],
        published=bool(row["published"]),
        release=service_of(request).release_of_job(row["id"]),
    )


@router.post(
    "/tables/{table}/releases", operation_id="start_release", status_code=202, responses=_responses(PAID)
)
def start_release(request: Request, who: Who, table: TableName, wish: ReleaseRequest, key: Key) -> Job:
    """Begin a release as a job. Stewards only."""
    return _job(request, service_of(request).start_job(who, table, wish, key=key))


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
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
def follow_job(request: Request, who: Who, job: JobName) -> Response:
    """Server-sent events: `progress` with the state, and `end`."""
    return events(request, who, job)


@router.post("/jobs/{job}/{action}", operation_id="change_job")
def change_job(
    request: Request, who: Who, job: JobName, action: Literal["cancel", "resume", "publish", "hide"]
) -> Job:
    """Cancel or resume a job; publish its release to the analysts of the table, or hide it."""
    service = service_of(request)
    match action:
        case "cancel":
            row = service.cancel(who, job)
        case "resume":
            row = service.resume(who, job)
        case _:
            row = service.publish(who, job, is_public=action == "publish")
    return _job(request, row)


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


# --- for whoever runs it --------------------------------------------------------------------------------------------

operations = APIRouter(include_in_schema=False)


@operations.get("/metrics")
def metrics(request: Request, who: Who) -> Response:
    """Counters for Prometheus, with the token of a steward."""
    service = service_of(request)
    service.require_steward(who)
    return Response(service.metrics(), media_type="text/plain; version=0.0.4")
