"""Releases: answers, tables, SQL and rows of what is published. Costs nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from maquette.results.document import plain
from maquette.web import explore
from maquette.web.access import service_of
from maquette.web.api.base import Limit, ReleaseName, Who
from maquette.web.api.values import ReleaseAnswer, ReleaseFacts, Releases, Result
from maquette.web.auth import Person
from maquette.web.pages import Missing

router = APIRouter()


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
    """Releases of your tables that are published, by name."""
    service = service_of(request)
    names = [name for name in service.visible_releases(who) if name > after]
    items = [_release_facts(name, service.catalog.release(name)) for name in names[:limit]]
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
