"""Tables and questions about them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from maquette.web.access import service_of
from maquette.web.api.base import PAID, After, Key, Limit, TableName, Who, responses
from maquette.web.api.values import (
    Answer,
    Column,
    Forecast,
    ForecastQuestion,
    History,
    Question,
    Result,
    SessionResult,
    Standing,
    Statement,
    TableFacts,
    Tables,
)
from maquette.web.service import KEY, OPEN

router = APIRouter()


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
    described = [service.describe(who, name) for name in service.tables_of(who)]
    return Tables(items=[_facts(one, service) for one in described if one["stage"] == OPEN])


@router.get("/tables/{table}", operation_id="get_table")
def get_table(request: Request, who: Who, table: TableName) -> TableFacts:
    """What is public about a table, and what is left to you."""
    service = service_of(request)
    return _facts(service.describe(who, table), service)


@router.post("/tables/{table}/forecast", operation_id="forecast")
def forecast(request: Request, who: Who, table: TableName, question: ForecastQuestion) -> Forecast:
    """What a question would cost at most and what its answer would state. Spends and looks at nothing."""
    return Forecast(**service_of(request).forecast(who, table, question.query))


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
    link = service_of(request).asking_link(who, table)
    link.call("buy_size", who=who.name, role=who.role)
    return Standing(**link.call("standing", who=who.name))


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
